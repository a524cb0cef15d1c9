"""The sessions of this machine's folders: the kept ones, and those of the live folder that run or were cut off."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from phasetop import places
from phasetop.catalogue import Entry, Row, row_of
from phasetop.catalogue_index import Index
from phasetop.codec import valid_text
from phasetop.faults import FormatError
from phasetop.output import utc
from phasetop.parts import beside, files_of, number_of, split_stem, stem_of

ID_SHOWN = 8
"""So much of a session's id is shown where it has no name."""


class Listed(Struct, frozen=True):
    """One session.

    Attributes:
        name: what it is called: a recording's name, the beginning of an unnamed one's id.
        files: its parts; one that is there packed and not packed with both.
        row: what they tell.
        bytes: their size.
        live: it is being written.
        kept: it lies in the recordings folder.
        back: ``@back`` means it; None for the live folder's.

    """

    name: str
    files: tuple[Path, ...]
    row: Row
    bytes: int
    live: bool
    kept: bool
    back: int | None = None

    @property
    def elsewhere(self) -> tuple[Path, ...]:
        """Where its files lie that are only linked to from here: those of a run that records where its user wants it."""
        return tuple(path.resolve() for path in self.files if path.is_symlink())

    def json(self) -> dict[str, Any]:
        """The session as `sessions --json` prints it."""
        row = self.row
        return {
            "name": valid_text(self.name),
            "file": valid_text(str(self.files[0])),
            "started": utc(row.began_ns),
            "duration_s": row.duration_s,
            "model": row.models[0] if row.models else None,
            "models": list(row.models),
            "requests": row.requests,
            "bytes": self.bytes,
            "live": self.live,
            "complete": row.complete,
            "redacted": row.redacted,
            "kept": self.kept,
            "kind": row.kind,
            "parts": row.parts,
            "session_id": row.session,
        }


class Unreadable(Struct, frozen=True):
    """A file of the folders that is no session, and why."""

    file: Path
    why: str


def sessions(index: Index) -> tuple[list[Listed], list[Unreadable]]:
    """Every session, those that run first, then newest first; and the files that are none.

    What only looked around (the start screen, `models`) is none.
    """
    found: list[Listed] = []
    bad: list[Unreadable] = []
    kept_inodes: set[tuple[int, int]] = set()
    for i, files in enumerate(places.kept_files(), 1):
        one = _listed(files, index, bad, back=i)
        if one is not None:
            found.append(one)
            kept_inodes.update(map(_inode, one.files))
    unnamed: list[Listed] = []
    for files in places.live_files():
        fresh = [path for path in files if _inode(path) not in kept_inodes]
        one = _listed(fresh, index, bad, back=None) if fresh else None
        if one is not None and not (one.row.kind == "observe" and not one.row.requests):
            unnamed.append(one)
    everything = sorted([*unnamed, *found], key=lambda one: (not one.live, -_written(one)))
    return everything, bad


def listed(path: Path, index: Index) -> Listed:
    """The session of one file and of the further parts beside it, wherever it lies.

    Raises:
        FormatError: it is no session's.
        OSError: it cannot be read.
    """
    files = files_of(path)
    bad: list[Unreadable] = []
    one = _listed(files, index, bad, back=None)
    if one is None:
        index.entry(files[0])  # says why
        raise FormatError(bad[0].why if bad else "this is no phasetop recording")
    part = number_of(path)
    if one.kept and any(beside(path, each) for each in range(1, part)):  # these are not all of the session of that name
        one = replace(one, name=stem_of(path.name) if path.parent == places.recordings_folder() else one.name)
    return one


def _listed(files: Sequence[Path], index: Index, bad: list[Unreadable], *, back: int | None) -> Listed | None:
    """The session of these files; None where the first is none's. Parts of another session are left out."""
    entries: list[Entry] = []
    used: list[Path] = []
    size_bytes = 0
    for path in files:
        try:
            entry = index.entry(path)
            state = path.stat()
        except FormatError as error:
            bad.append(Unreadable(path, str(error)))
            continue
        except FileNotFoundError:  # it went meanwhile
            continue
        except OSError as error:
            bad.append(Unreadable(path, (error.strerror or str(error)).lower()))
            continue
        if entries and entry.session != entries[0].session:
            bad.append(Unreadable(path, "another session, under a name that a part of this one has"))
            continue
        used.append(path)
        size_bytes += state.st_size
        if not entries or entry.part != entries[-1].part:  # else it is the same part once more, packed
            entries.append(entry)
    if not entries:
        return None
    kept = used[0].parent != places.live_folder()
    name = split_stem(stem_of(used[0].name))[0] if used[0].parent == places.recordings_folder() else str(used[0])
    return Listed(
        name=name if kept else entries[0].session[:ID_SHOWN],
        files=tuple(used),
        row=row_of(entries),
        bytes=size_bytes,
        live=any(map(places.is_live, used[-2:])),  # the last may be there packed, too
        kept=kept,
        back=back,
    )


def names_in_live_folder(files: Sequence[Path]) -> list[Path]:
    """The names that files of kept sessions still have in the live folder: a killed run leaves them there."""
    inodes = set(map(_inode, files))
    return [path for each in places.live_files() for path in each if path not in files and _inode(path) in inodes]


def _inode(path: Path) -> tuple[int, int]:
    try:
        state = os.stat(path)
    except OSError:
        return (0, 0)
    return (state.st_dev, state.st_ino)


def _written(one: Listed) -> float:
    """When it was written last, s since the epoch."""
    try:
        return max(path.stat().st_mtime for path in one.files)
    except OSError:
        return 0.0
