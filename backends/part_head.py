"""What a further part of a session begins with, so that it replays on its own: what was known, and what still runs.

Kept while lines are written: each description merged over what it said before, the newest state of each server, the newest
notice of each code that is of no request, every line of the requests that have not ended, and what is of no request
(samples) since the oldest of them was sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from phasetop import codec
from phasetop import events as ev
from phasetop.columns import Versions

MOST_BYTES: Final = 1 << 24
"""Of requests that run so many bytes are repeated at most: with more of them no part is begun."""

_Description: TypeAlias = ev.Server | ev.Model | ev.Device | ev.Series


class PartHead:
    """Takes each event with its line; `lines` is the head of the next part.

    Attributes:
        kept_bytes: of the lines that would be repeated now.

    """

    def __init__(self) -> None:
        self._hello: ev.Hello | None = None
        self._known: dict[tuple[str, int], Versions[_Description]] = {}
        self._servers: dict[int, bytes] = {}
        self._notices: dict[str, bytes] = {}
        self._own: dict[int, list[bytes]] = {}  # the lines of each request that has not ended
        self._own_bytes: dict[int, int] = {}
        self._busy: dict[int, int] = {}  # request that was sent → how many of the common lines came before that
        self._common: list[bytes] = []  # lines of no request since the oldest of those was sent
        self._ended: set[int] = set()
        self.kept_bytes = 0

    @property
    def busy(self) -> bool:
        """Whether a request is under way: sent, and not ended."""
        return bool(self._busy)

    def take(self, event: ev.Event, line: bytes) -> None:
        """One event, as it was written (times not falling, redacted)."""
        if isinstance(event, ev.Tok):  # most are
            self._keep(event.r, line, busy=True)
            return
        match event:
            case ev.Hello():
                self._hello = event
            case ev.Server(v=number) | ev.Model(m=number) | ev.Device(d=number) | ev.Series(s=number):
                self._known.setdefault((str(type(event).__struct_config__.tag), number), Versions()).add(event)
            case ev.State(r=None, v=int() as v):
                self._servers[v] = line
            case ev.Notice(r=None):
                self._notices[event.code] = line
            case ev.Mark() | ev.Control() | ev.Task() | ev.Finding() | ev.Part() | ev.Bye():
                pass
            case ev.Request():
                if event.r not in self._own and event.r not in self._ended:
                    self._own[event.r], self._own_bytes[event.r] = [], 0
                self._keep(event.r, line, busy=False)
            case ev.End():
                self._end(event.r)
            case _:
                r: int | None = getattr(event, "r", None)
                if r is not None:
                    waits = isinstance(event, (ev.Prompt, ev.Notice)) or (
                        isinstance(event, ev.State) and event.s == "queued"
                    )
                    self._keep(r, line, busy=not waits)
                elif self._busy:
                    self._common.append(line)
                    self.kept_bytes += len(line)

    def _keep(self, r: int, line: bytes, *, busy: bool) -> None:
        own = self._own.get(r)
        if own is None:
            return
        self._own_bytes[r] += len(line)
        self.kept_bytes += len(line)
        if busy and r not in self._busy:
            self._busy[r] = len(self._common)
        if r in self._busy and self._own_bytes[r] > MOST_BYTES:
            own.clear()  # until it ends no part is begun, and so nothing of it is repeated: it need not fill the memory
        else:
            own.append(line)

    def _end(self, r: int) -> None:
        """Let go of a request's lines, and of the common ones from before the oldest request that is under way."""
        self._ended.add(r)
        self._busy.pop(r, None)
        if self._own.pop(r, None) is None:
            return
        self._own_bytes.pop(r)
        first = min(self._busy.values(), default=len(self._common))
        self._common = self._common[first:]
        self._busy = {each: at - first for each, at in self._busy.items()}
        self.kept_bytes = sum(self._own_bytes.values()) + sum(map(len, self._common))

    def lines(self, part: int, t: int) -> Sequence[bytes]:
        """The head of part ``part``, begun at ``t``: as the parts before have it, then the line that ends it."""
        found: list[bytes] = []
        if self._hello is not None:
            found.append(codec.encode(msgspec.structs.replace(self._hello, part=part)))
        for versions in self._known.values():
            described = versions.at()
            if described is not None:
                found.append(codec.encode(msgspec.structs.replace(described, t=versions.first_t)))
        found += [*self._servers.values(), *self._notices.values()]
        for own in self._own.values():
            found += own
        found += self._common
        found.append(codec.encode(ev.Part(t=t, part=part, carried=list(self._own))))
        return found
