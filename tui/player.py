"""Where a replay is, whether it plays, and how fast. Pure but for its clock; `replaying` has the keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from phasetop.moments import Moment
    from phasetop.tui.course import Course

SPEEDS: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
"""What + and - go through."""
SLOW: Final = 0.5
"""So slow, single tokens can be read while it plays."""
_LEAP_S: Final = 1.0
"""The view was held up for longer than this (suspended, say): that is not played."""


class Opening(Struct, frozen=True):
    """How a replay is opened.

    Attributes:
        at: where; None: at the start, or (``end``) at the end.
        speed: times as fast as it was.
        end: follow what still grows; of what has ended, stand at its end.
        word: what the header calls it.

    """

    at: Moment | None = None
    speed: float = 1.0
    end: bool = False
    word: str = "replay"


class Player:
    """The clock of a replay.

    Args:
        course: what it runs over.
        at: the moment of the session that it begins at, ns; None: follow the present.
        playing: it begins at once.
        speed: times as fast as it was.
        clock: seconds of a steady clock.

    """

    def __init__(self, course: Course, at: int | None, *, playing: bool, speed: float, clock: Callable[[], float]) -> None:
        self.course = course
        self.at = at
        self.speed = speed
        self.playing = playing
        self._clock = clock
        self._since = clock()

    def tick(self, *, live: bool) -> bool:
        """Time went on: move the cursor; ``live``: the session still grows, and is followed from its end on.

        True where it moved.
        """
        now = self._clock()
        passed, self._since = min(now - self._since, _LEAP_S), now
        if self.at is None and not live:
            self.at, self.playing = self.course.stop, False
            return True
        if self.at is None or not self.playing:
            return False
        self.at = self.course.time(self.course.way(self.at) + int(passed * self.speed * 1e9))
        if self.at >= self.course.stop:
            self.at = None if live else self.course.stop
            self.playing = live
        return True

    def play(self) -> None:
        """Begin, or pause; at the end: from the start again."""
        if self.at is None:
            self.at, self.playing = self.course.stop, False
            return
        if not self.playing and self.at >= self.course.stop:
            self.at = self.course.begin
        self.playing = not self.playing

    def seek(self, t: int) -> None:
        """To a moment of the session, or as near as can be."""
        self.at = self.course.within(t)

    def faster(self, step: int) -> None:
        """The next speed of `SPEEDS` above (1) or below (-1)."""
        others = [speed for speed in SPEEDS if (speed > self.speed if step > 0 else speed < self.speed)]
        if others:
            self.speed = min(others) if step > 0 else max(others)


def times(speed: float) -> str:
    """A speed as it is written: ``1.0×``, ``0.1×``, ``100×``."""
    return f"{speed:.1f}×" if speed < 10 else f"{speed:.0f}×"
