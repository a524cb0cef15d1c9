"""What this machine's own files offer to look at: sessions that run now, and the newest recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec import Struct

from phasetop import codec, places
from phasetop import events as ev
from phasetop.parts import split_stem, stem_of

_HEAD_BYTES: Final = 1 << 16
"""The names of server and model stand within so much of a session's beginning."""


class LiveSession(Struct, frozen=True):
    """A session that is being written: its first part, the model it runs on, and when it began (wall clock, ns)."""

    path: Path
    model: str | None
    began_ns: int | None


class Recording(Struct, frozen=True):
    """A kept session: its file, what it is called, when it was written last (s since the epoch), its size."""

    path: Path
    name: str
    when_s: float
    size_bytes: int


def live_sessions(but: str | None = None) -> list[LiveSession]:
    """The sessions of this machine that run and have a server, newest first; ``but``: the id of one's own."""
    found: list[LiveSession] = []
    for files in places.live_files():
        if split_stem(files[0].stem)[0] != but and any(map(places.is_live, files[-2:])):
            known = _head(files[0], files[-1])
            if known is not None:
                found.append(known)
    return found


def recordings(limit: int = 20) -> list[Recording]:
    """The newest recordings."""
    found: list[Recording] = []
    for files in places.kept_files()[:limit]:
        try:
            states = [path.stat() for path in files]
        except OSError:
            continue
        name = split_stem(stem_of(files[0].name))[0]
        when_s, size_bytes = max(each.st_mtime for each in states), sum(each.st_size for each in states)
        found.append(Recording(files[0], name, when_s, size_bytes))
    return found


def _head(first: Path, newest: Path) -> LiveSession | None:
    """What a session tells, in the file that has its first part, by the head of its newest."""
    try:
        with newest.open("rb") as file:
            return told_by(first, file.read(_HEAD_BYTES))
    except OSError:
        return None


def told_by(path: Path, head: bytes) -> LiveSession | None:
    """What a session's first lines tell; None where no server is known, so that there is nothing to watch."""
    began, model, served = None, None, False
    for line in head.split(b"\n")[:-1]:
        try:
            event = codec.decode_lean(line)
        except codec.BadLine:
            continue
        match event:
            case ev.Hello(kind="observe"):
                return None
            case ev.Hello():
                began = event.anchor.wall
            case ev.Server():
                served = True
            case ev.Model():
                model = event.name or model
    return LiveSession(path, model, began) if served else None
