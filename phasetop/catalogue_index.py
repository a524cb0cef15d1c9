"""The entries of session files, read once: what a finished file tells is kept in an index in the state folder.

A file that changed (size, time or inode) is read again; one that is being written is read each time and never kept. The
index is a cache: without it, or where it cannot be written, everything is read.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

import msgspec
from msgspec import Struct, field

import phasetop
from phasetop import codec, places
from phasetop.catalogue import Entry, read_entry
from phasetop.faults import FormatError
from phasetop.unzipped import BROKEN, Unzipped, is_zipped

NAME: Final = "sessions.index"
MOST_BYTES: Final = 1 << 28
MOST_TIMES: Final = 64
"""A compressed file is unpacked for the list up to this size, or to so many times its own; a recording has 4 to 20 times."""
_CHUNK_BYTES: Final = 1 << 22
MEANING: Final = 1
"""Raised when the same file tells another entry, or other sums, than before: a test knows what some files tell."""


class _Known(Struct):
    """One file as it was read: its stamp, what it told (or why it is none), and sums that cost more to make."""

    stamp: str
    entry: Entry | None = None
    why: str | None = None
    totals: Any = None


class _File(Struct):
    """The index as it is stored; that of a phasetop which would read other things in the same files counts for nothing."""

    key: str = ""
    files: dict[str, _Known] = field(default_factory=dict)


class Index:
    """Reads entries through the cache; `save` at the end."""

    def __init__(self) -> None:
        self._path = places.state_folder() / NAME
        self._known: dict[str, _Known] = {}
        self._used: set[str] = set()
        self._changed = False
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
            stored = msgspec.json.decode(self._path.read_bytes(), type=_File)
            if stored.key == key_of_entries():
                self._known = stored.files

    def entry(self, path: Path) -> Entry:
        """What a file tells.

        Raises:
            FormatError: it is no session's.
            OSError: it cannot be read.
        """
        key, stamp = _key(path), stamp_of(path)
        self._used.add(key)
        known = self._known.get(key)
        if known is not None and known.stamp == stamp:
            if known.entry is None:
                raise FormatError(known.why or "this is no phasetop recording")
            return known.entry
        try:
            found = _Known(stamp, read_file(path))
        except FormatError as error:
            found = _Known(stamp, None, str(error))
        if stamp == stamp_of(path) and not places.is_live(path):
            self._known[key], self._changed = found, True
        if found.entry is None:
            raise FormatError(found.why or "")
        return found.entry

    def totals(self, paths: list[Path], shape: str) -> Any:
        """What was kept as the sums of a session, if its files are still those and the sums of this shape; else None."""
        known = self._known.get(_key(paths[0]))
        if known is None or known.totals is None or known.totals.get("stamp") != "|".join((shape, *map(stamp_of, paths))):
            return None
        return known.totals.get("rows")

    def keep_totals(self, paths: list[Path], rows: Any, shape: str) -> None:
        """Keep the sums of a finished session; ``shape``: of a row."""
        known = self._known.get(_key(paths[0]))
        if known is not None:
            known.totals = {"stamp": "|".join((shape, *map(stamp_of, paths))), "rows": rows}
            self._changed = True

    def save(self) -> None:
        """Write the index, without the files that were not asked for; a state folder that takes nothing is no error."""
        kept = {key: known for key, known in self._known.items() if key in self._used}
        if not self._changed and len(kept) == len(self._known):
            return
        fresh = self._path.with_name(f"{NAME}.{os.getpid()}")
        with suppress(OSError):
            places.make_private(self._path.parent)
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(msgspec.json.encode(_File(key_of_entries(), kept)))
            fresh.replace(self._path)


def shape_of(*kinds: type[Struct]) -> str:
    """The fields of structs and their types, in a word: stored ones of another shape are none of these."""
    return f"{zlib.crc32(repr([(kind.__name__, list(kind.__annotations__.items())) for kind in kinds]).encode()):08x}"


def key_of_entries() -> str:
    """What stored entries depend on: the program's version, what they hold, and what it means."""
    return f"{phasetop.__version__} {MEANING} {shape_of(Entry, _Known)}"


def _key(path: Path) -> str:
    """A file's name as JSON can hold it: names are bytes, and need not be text."""
    return codec.valid_text(str(path))


def stamp_of(path: Path) -> str:
    """What changes when a file does: size, time of writing, inode. Raises `OSError`."""
    state = path.stat()
    return f"{state.st_size}:{state.st_mtime_ns}:{state.st_ino}"


def read_file(path: Path) -> Entry:
    """What a file tells, read now.

    Raises:
        FormatError: it is no session's, its compression is broken at its beginning, or it is too large to look through.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        if not is_zipped(file):
            return read_entry(whole_lines(file))
        return read_entry(whole_lines(Unzipped(file), max(MOST_BYTES, MOST_TIMES * path.stat().st_size)))


def whole_lines(source: IO[bytes] | Unzipped, most_bytes: int | None = None) -> Iterator[bytes]:
    """Blocks of whole lines; what is torn at the end, and a line longer than any can be, is left out.

    Raises:
        FormatError: there are more than ``most_bytes``.
    """
    tail, size = b"", 0
    with suppress(*BROKEN):
        while chunk := source.read(_CHUNK_BYTES):
            size += len(chunk)
            if most_bytes is not None and size > most_bytes:
                raise FormatError(f"unpacks to more than {most_bytes >> 20} MiB: too large to look through")
            end = chunk.rfind(b"\n") + 1
            if not end:
                tail = (tail + chunk)[: codec.MAX_READ_BYTES + 1]
                continue
            yield tail + chunk[:end]
            tail = chunk[end:]
