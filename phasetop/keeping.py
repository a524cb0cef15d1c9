"""How a session's files get the names under which they stay, and how they are compressed when the session is over.

A name is a hard link, so that the writer and those who watch lose nothing. Where there are no hard links the file is
renamed: open descriptors go with it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from phasetop import places
from phasetop.parts import SUFFIX, ZIPPED, part_beside, split_stem, stem_of

_CHUNK_BYTES: Final = 1 << 20


def parts_of(path: Path) -> list[Path]:
    """The uncompressed files of the session of ``path`` that lie beside it, in order."""
    name = split_stem(stem_of(path.name))[0]
    there = [each for each in path.parent.glob(f"*{SUFFIX}") if split_stem(stem_of(each.name))[0] == name]
    return sorted(there, key=lambda each: split_stem(stem_of(each.name))[1])


def part_names(path: Path) -> list[Path]:
    """What lies beside ``path``, compressed or not, under the name of a further part of its session.

    Raises:
        OSError: its folder cannot be read.
    """
    name = split_stem(stem_of(path.name))[0]
    endings = (SUFFIX, SUFFIX + ZIPPED)
    there = [each for each in path.parent.iterdir() if each.name.endswith(endings)]
    return sorted(each for each in there if (found := split_stem(stem_of(each.name)))[0] == name and found[1] > 1)


def first_of(path: Path) -> Path:
    """The first part of the session of ``path`` that is there: the oldest go where `--max-size` says so."""
    return path if path.exists() else next(iter(parts_of(path)), path)


def keep(path: Path, stem: str) -> tuple[Path, Path]:
    """Give all files of the session of ``path`` names in the recordings folder: ``stem``, or that with a number.

    Returns:
        The name of its first part there, and where ``path`` is now.

    Raises:
        OSError: it cannot be named.
    """
    places.make_private(places.recordings_folder())
    taken = {split_stem(stem_of(files[0].name))[0] for files in places.kept_files()}
    for target in places.numbered(places.recordings_folder(), stem):
        if stem_of(target.name) in taken:
            continue
        try:
            return target, link_parts(path, target)
        except FileExistsError:  # somebody took it just now
            continue
    raise FileExistsError("there are too many recordings of that name")


def link_parts(path: Path, target: Path) -> Path:
    """Give each file of the session of ``path`` its name beside ``target``, if it has not got it; returns where ``path`` is.

    Raises:
        FileExistsError: another file has the name.
        OSError: it cannot be given.
    """
    for each in parts_of(path):
        name = part_beside(target, split_stem(stem_of(each.name))[1])
        if name.exists() and name.samefile(each):
            continue
        try:
            os.link(each, name)
        except FileExistsError:
            raise
        except OSError:
            if name.exists():
                raise FileExistsError(f"{name.name} exists") from None
            each.rename(name)
            path = name if each == path else path
    return path


def leave_live_folder(path: Path, kept: Path | None) -> None:
    """Take the names of the session of ``path`` out of its folder; a part of a kept one that has no other gets it first.

    Raises:
        OSError: a part could not be kept; its name stays.
    """
    if kept is not None:
        link_parts(path, kept)
    for each in parts_of(path):
        each.unlink(missing_ok=True)


def compress_parts(kept: Path) -> Path:
    """Compress all files of a recording that is whole; returns the name of its first part now.

    Raises:
        OSError: one could not be compressed; it stays as it was.
    """
    for each in parts_of(kept):
        zipped = compress(each)
        kept = zipped if each == kept else kept
    return kept


def compress(path: Path) -> Path:
    """Put ``path``.gz in the place of ``path`` (0600), which goes when the other is safe on disk; returns it.

    Raises:
        FileExistsError: there is a file of that name.
        OSError: it cannot be written; the file stays as it was.
    """
    import gzip

    target = path.with_name(path.name + ZIPPED)
    if target.exists():
        raise FileExistsError(f"{target.name} exists")
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "wb") as out:
            with path.open("rb") as source, gzip.GzipFile(path.name, "wb", 6, out, mtime=0) as packed:
                while chunk := source.read(_CHUNK_BYTES):
                    packed.write(chunk)
            out.flush()
            os.fsync(out.fileno())
        state = path.stat()
        os.utime(partial, ns=(state.st_atime_ns, state.st_mtime_ns))
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)
    path.unlink()
    return target
