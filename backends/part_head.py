"""What a further part of a session begins with, so that it replays on its own: what was known, and what still runs.

Kept while lines are written: each description merged over what it said before, the newest state of each server, the newest
notice of each code that is of no request, and every line since the oldest request that runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from phasetop import events as ev
from phasetop.session import Versions

MOST_BYTES: Final = 1 << 24
"""Of requests that run so many bytes are repeated at most: with more of them no part is begun."""

_Description: TypeAlias = ev.Server | ev.Model | ev.Device | ev.Series


class PartHead:
    """Takes each event with its line; `lines` is the head of the next part."""

    def __init__(self) -> None:
        self._hello: ev.Hello | None = None
        self._known: dict[tuple[str, int], Versions[_Description]] = {}
        self._servers: dict[int, bytes] = {}
        self._notices: dict[str, bytes] = {}
        self._running: dict[int, int] = {}  # request → how many of the kept lines came before it
        self._ended: set[int] = set()
        self._kept: list[tuple[int | None, bytes]] = []
        self.kept_bytes = 0

    @property
    def running(self) -> list[int]:
        """The requests that have begun and not ended."""
        return list(self._running)

    def take(self, event: ev.Event, line: bytes) -> None:
        """One event, as it was written (times not falling, redacted)."""
        if isinstance(event, ev.Tok):  # most are
            if event.r in self._running:
                self._kept.append((event.r, line))
                self.kept_bytes += len(line)
            return
        r: int | None = getattr(event, "r", None)
        match event:
            case ev.Hello():
                self._hello = event
                return
            case ev.Server(v=number) | ev.Model(m=number) | ev.Device(d=number) | ev.Series(s=number):
                self._known.setdefault((str(type(event).__struct_config__.tag), number), Versions()).add(event)
                return
            case ev.State(r=None, v=int() as v):
                self._servers[v] = line
                return
            case ev.Notice(r=None):
                self._notices[event.code] = line
                return
            case ev.Request() if event.r not in self._ended:
                self._running.setdefault(event.r, len(self._kept))
            case ev.Mark() | ev.Control() | ev.Task() | ev.Finding() | ev.Part() | ev.Bye():
                return
        if self._running and (r is None or r in self._running):
            self._kept.append((r, line))
            self.kept_bytes += len(line)
        if isinstance(event, ev.End):
            self._ended.add(event.r)
            if self._running.pop(event.r, None) is not None:
                self._forget()

    def _forget(self) -> None:
        """Let go of the lines from before the oldest request that runs."""
        if not self._running:
            self._kept, self.kept_bytes = [], 0
            return
        first = min(self._running.values())
        if first > 4096:
            self._kept = self._kept[first:]
            self._running = {r: at - first for r, at in self._running.items()}
            self.kept_bytes = sum(len(line) for _, line in self._kept)

    def lines(self, part: int, t: int) -> Sequence[bytes]:
        """The head of part ``part``, begun at ``t``: as the parts before have it, then the line that ends it."""
        found: list[bytes] = []
        if self._hello is not None:
            found.append(ev.encode(msgspec.structs.replace(self._hello, part=part)))
        for versions in self._known.values():
            described = versions.at()
            if described is not None:
                found.append(ev.encode(msgspec.structs.replace(described, t=versions.first_t)))
        found += [*self._servers.values(), *self._notices.values()]
        found += [line for r, line in self._kept if r is None or r in self._running]
        found.append(ev.encode(ev.Part(t=t, part=part, carried=self.running)))
        return found
