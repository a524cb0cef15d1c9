"""When to draw: the beats of the view's parts, and frames paced by the terminal's own answers.

After each frame that sent something the terminal is asked where its cursor is (CSI 6n); the next frame waits for the answer.
So a slow link shows fewer frames, never old ones. A terminal that says nothing for 3 s is not waited for again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MS: Final = 1_000_000
MARKS_NS: Final = 100 * MS
"""Tokens and dots move at most every 100 ms."""
AREAS_NS: Final = 200 * MS
"""Bands and areas: every 200 ms."""
NUMBERS_NS: Final = 500 * MS
"""Numbers: every 500 ms."""
MACHINE_NS: Final = 1000 * MS
"""Figures of the machine: every second."""
PATIENCE_S: Final = 3.0


def beat(cursor: int, period_ns: int) -> int:
    """The last multiple of ``period_ns`` at or before the cursor: what moves at that beat shows the session as of then.

    A pure function of the cursor, so live and replay show the same.
    """
    return cursor - cursor % period_ns


@dataclass
class Pacer:
    """Decides whether a frame may be drawn. Times are seconds of any steady clock."""

    waiting_since: float | None = None
    paced: bool = True
    heard: bool = False  # it has answered once: until then nothing waits for it

    def may_draw(self, now: float) -> bool:
        """True unless the terminal still works on the last frame."""
        if self.waiting_since is None:
            return True
        if not self.heard and now - self.waiting_since < PATIENCE_S:
            return True
        if now - self.waiting_since < PATIENCE_S:
            return False
        self.paced = False
        self.waiting_since = None
        return True

    def drew(self, now: float) -> bool:
        """A frame was sent; True when the terminal is to be asked."""
        if not self.paced or self.waiting_since is not None:
            return False
        self.waiting_since = now
        return True

    def answered(self) -> None:
        """The terminal has shown the last frame."""
        self.waiting_since, self.heard = None, True
