"""When to draw: the beats of the view's parts, and frames paced by the terminal's own answers.

After each frame that sent something the terminal is asked where its cursor is (CSI 6n); the next frame waits for the answer.
So a slow link shows fewer frames, never old ones. After 3 s of silence one more frame is tried, and after some of these the
terminal is not waited for again: a link that hangs is not flooded, and a terminal that answers nothing is not frozen.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

MS: Final = 1_000_000
AREAS_NS: Final = 200 * MS
"""Bands and areas: every 200 ms."""
NUMBERS_NS: Final = 500 * MS
"""Numbers: every 500 ms."""
MACHINE_NS: Final = 1000 * MS
"""Figures of the machine: every second."""
PATIENCE_S: Final = 3.0
MISSES: Final = 4
"""So many waits in vain, one after the other, and the terminal is taken for one that does not answer."""


def beat(cursor: int, period_ns: int) -> int:
    """The last multiple of ``period_ns`` at or before the cursor: what moves at that beat shows the session as of then.

    A pure function of the cursor, so live and replay show the same.
    """
    return cursor - cursor % period_ns


class Pacer(Struct):
    """Decides whether a frame may be drawn. Times are seconds of any steady clock.

    Attributes:
        paced: the terminal is asked and waited for. False for one that answers nothing.
        waiting_since: when it was asked what it has not answered.
        missed: how often in a row it was not waited for any longer.
        patience_s: how long it is waited for: three times as long as the last answer took, and each miss doubles it.

    """

    paced: bool = True
    waiting_since: float | None = None
    missed: int = 0
    patience_s: float = PATIENCE_S

    def may_draw(self, now: float) -> bool:
        """True unless the terminal still works on the last frame; after a while of silence one more is tried."""
        if self.waiting_since is None:
            return True
        if now - self.waiting_since < self.patience_s:
            return False
        self.waiting_since = None
        self.missed += 1
        self.patience_s *= 2
        if self.missed >= MISSES:
            self.paced = False
        return True

    def drew(self, now: float) -> bool:
        """A frame was sent; True when the terminal is to be asked."""
        if not self.paced or self.waiting_since is not None:
            return False
        self.waiting_since = now
        return True

    def answered(self, now: float) -> None:
        """The terminal has shown the last frame."""
        if self.waiting_since is not None:
            self.patience_s = max(PATIENCE_S, 3 * (now - self.waiting_since))
        self.waiting_since, self.missed = None, 0
