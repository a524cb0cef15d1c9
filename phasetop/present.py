"""The present of a session that somebody else writes, on whatever machine: ns since its anchor."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

SILENT_NS: Final = 3_000_000_000
"""A collector samples the machine five times a second: when nothing has come for so long, nobody knows how it goes on."""
_SLEW: Final = 0.01
_JUMP_NS: Final = 5_000_000_000


class Present:
    """Now is the last ``t`` plus the time since it was read (EVENTS: Time), by the luckiest of the last reads.

    A link delays one read more than another, so the newest alone would let the clock fall back. What was read with the least
    delay counts, and is forgotten slowly (10 ms a second), as clocks drift; a clock that was off by over 5 s is set at once.
    After three seconds of silence it stands at the newest event: what goes on there is not known, and no token for so long
    would be a figure of the link's, not of the run's.

    Args:
        clock: this machine's steady clock, ns.
    """

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._ahead: int | None = None  # the session's time minus this machine's
        self._read_at = 0

    @property
    def silent_ns(self) -> int:
        """Since when nothing was read."""
        return 0 if self._ahead is None else self._clock() - self._read_at

    def read(self, t: int) -> None:
        """Something was read now; ``t`` is the newest that is known."""
        now = self._clock()
        ahead = t - now
        if self._ahead is None or ahead > self._ahead or self._ahead - ahead > _JUMP_NS:
            self._ahead = ahead
        else:
            self._ahead -= min(self._ahead - ahead, int((now - self._read_at) * _SLEW))
        self._read_at = now

    def at(self, last_t: int) -> int:
        """Now; never before ``last_t``, the newest event."""
        if self._ahead is None or self.silent_ns > SILENT_NS:
            return last_t
        return max(last_t, self._clock() + self._ahead)
