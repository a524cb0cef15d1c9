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
_L1, _L2, _L3, _L4, _L5, _L6 = GAP_LIMITS
USUAL: Final = 3
STALL: Final = 7
STALL_FLOOR_NS: Final = 30_000_000
"""A gap shorter than this is never a stall."""
SETTLING_GAPS: Final = 16
"""The first gaps of a turn: all usual, none a stall."""


class RunningMedian:
    """The exact median of all values added so far.

    Attributes:
        n: how many values there were.
        median: the middle one, the mean of the two middle ones where their number is even; NaN without values.

    """

    __slots__ = ("_high", "_low", "median", "n")

    def __init__(self) -> None:
        self.n = 0
        self.median = float("nan")
        self._low: list[int] = []  # the smaller half, negated: its largest on top
        self._high: list[int] = []  # the larger half: its smallest on top; as many, or one less

    def add(self, value: int) -> None:
        """Take one more value."""
        low, high = self._low, self._high
        if self.n & 1:
            heappush(high, -heappushpop(low, -value))
            self.median = (high[0] - low[0]) / 2
        else:
            heappush(low, -heappushpop(high, value))
            self.median = float(-low[0])
        self.n += 1


class Pace:
    """Grades the gaps of one turn in order of arrival."""

    __slots__ = ("median",)

    def __init__(self) -> None:
        self.median = RunningMedian()

    def grade(self, gap_ns: int, *, tool: bool = False) -> int:
        """The step (1 to 7; 7 is a stall) of the next gap, which then counts for the median.

        ``tool``: the gap ends at a tool call, which servers send when it is whole: slow, but no stall.
        """
        median = self.median
        step = USUAL
        middle = median.median
        if median.n >= SETTLING_GAPS and not _L2 * middle <= gap_ns < _L3 * middle:  # most are usual: no further call
            step = step_of(gap_ns, middle)
            if step == STALL and (tool or gap_ns < STALL_FLOOR_NS):
                step = STALL - 1
        median.add(gap_ns)
        return step


def step_of(gap_ns: int, median_ns: float) -> int:
    """The step of a gap against a median, 1 (fast) to 7 (over six medians)."""
    if gap_ns < _L3 * median_ns:
        if gap_ns >= _L2 * median_ns:
            return USUAL
        return 1 if gap_ns < _L1 * median_ns else 2
    if gap_ns < _L5 * median_ns:
        return 4 if gap_ns < _L4 * median_ns else 5
    return 6 if gap_ns <= _L6 * median_ns else STALL
