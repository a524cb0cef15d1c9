"""The pace of a turn: which step of latency each gap is, and which gaps are stalls.

A step is a multiple of the turn's median gap *before* it, so one picture means the same on every machine, and a token
keeps the step that it got on arrival: equal live and in replay. An exact running median needs two heaps (66 ms for
100,000 gaps).
"""

from __future__ import annotations

from heapq import heappush, heappushpop
from typing import Final

GAP_LIMITS: Final = (0.5, 0.8, 1.25, 1.75, 3.0, 6.0)
"""Upper limits of steps 1 to 6 as multiples of the median; what is over the last may be a stall."""
USUAL: Final = 3
STALL: Final = 7
STALL_FLOOR_NS: Final = 30_000_000
"""A gap shorter than this is never a stall."""
SETTLING_GAPS: Final = 16
"""The first gaps of a turn: all usual, none a stall."""


class RunningMedian:
    """The exact median of all values added so far."""

    __slots__ = ("_high", "_low")

    def __init__(self) -> None:
        self._low: list[int] = []  # the smaller half, negated: its largest on top
        self._high: list[int] = []  # the larger half: its smallest on top

    def __len__(self) -> int:
        return len(self._low) + len(self._high)

    def add(self, value: int) -> None:
        """Take one more value."""
        if len(self._low) > len(self._high):
            heappush(self._high, -heappushpop(self._low, -value))
        else:
            heappush(self._low, -heappushpop(self._high, value))

    @property
    def median(self) -> float | None:
        """The middle value, the mean of the two middle ones where their number is even; None without values."""
        if not self._low:
            return None
        if len(self._low) > len(self._high):
            return float(-self._low[0])
        return (self._high[0] - self._low[0]) / 2


class Pace:
    """Grades the gaps of one turn in order of arrival."""

    __slots__ = ("median",)

    def __init__(self) -> None:
        self.median = RunningMedian()

    def grade(self, gap_ns: int, *, tool: bool = False) -> int:
        """The step (1 to 7; 7 is a stall) of the next gap, which then counts for the median.

        ``tool``: the gap ends at a tool call, which servers send when it is whole: slow, but no stall.
        """
        step = USUAL
        middle = self.median.median
        if len(self.median) >= SETTLING_GAPS and middle is not None:
            step = step_of(gap_ns, middle)
            if step == STALL and (tool or gap_ns < STALL_FLOOR_NS):
                step = STALL - 1
        self.median.add(gap_ns)
        return step


def step_of(gap_ns: int, median_ns: float) -> int:
    """The step of a gap against a median, 1 (fast) to 7 (over six medians)."""
    for step, limit in enumerate(GAP_LIMITS, 1):
        if gap_ns < limit * median_ns or (step == 6 and gap_ns <= limit * median_ns):
            return step
    return STALL
