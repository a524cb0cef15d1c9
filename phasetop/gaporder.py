"""Percentiles of the gaps in a request's first lines, for any number of lines, without sorting them again.

The gaps are sorted in blocks of lines as they come, and two neighbours of a size are merged into one of twice that. The
first n lines are then a few sorted arrays and a rest shorter than a block; a percentile is found by bisecting all of them
for a value that has so many below it. So a live view pays for what is new, and a seek the same in both directions.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right, insort
from collections.abc import Sequence
from typing import Final

BLOCK_LINES: Final = 1024
_INSERT_AT_MOST: Final = 32


class GapOrder:
    """The order of the gaps of one request; ``gaps`` is its column, which grows (below 0: no gap)."""

    __slots__ = ("_gaps", "_levels", "_rest", "_rest_at")

    def __init__(self, gaps: array[int]) -> None:
        self._gaps = gaps
        self._levels: list[list[array[int]]] = []  # level k: sorted gaps of 2**k blocks each
        self._rest: array[int] = array("q")
        self._rest_at = 0  # the lines that the rest goes up to; it begins at the block's first

    def _sorted(self, begin: int, end: int) -> array[int]:
        return array("q", sorted(gap for gap in self._gaps[begin:end] if gap >= 0))

    def _blocks(self, n: int) -> None:
        """Have all whole blocks of the first ``n``."""
        have = len(self._levels[0]) if self._levels else 0
        for k in range(have, n):
            made, level = self._sorted(k * BLOCK_LINES, (k + 1) * BLOCK_LINES), 0
            while True:
                if level == len(self._levels):
                    self._levels.append([])
                self._levels[level].append(made)
                if len(self._levels[level]) % 2:
                    break
                made = array("q", sorted(self._levels[level][-2] + made))
                level += 1

    def parts(self, lines: int) -> list[array[int]]:
        """Sorted arrays that together hold the gaps of the first ``lines`` lines. They are its own: look, don't touch."""
        whole = lines // BLOCK_LINES
        self._blocks(whole)
        found: list[array[int]] = []
        at = 0
        for level in range(len(self._levels) - 1, -1, -1):
            if whole >> level & 1:
                found.append(self._levels[level][at >> level])
                at += 1 << level
        begin = whole * BLOCK_LINES
        if not begin <= self._rest_at <= lines:
            self._rest, self._rest_at = array("q"), begin
        fresh = array("q", (gap for gap in self._gaps[self._rest_at : lines] if gap >= 0))
        if len(fresh) <= _INSERT_AT_MOST:
            for gap in fresh:
                insort(self._rest, gap)
        else:
            self._rest = array("q", sorted(self._rest + fresh))
        self._rest_at = lines
        found.append(self._rest)
        return [part for part in found if part]

    def percentiles(self, lines: int, shares: Sequence[float]) -> list[float]:
        """Linear interpolation between order statistics (numpy's default); ``shares`` in [0, 1]; there must be a gap."""
        parts = self.parts(lines)
        n = sum(len(part) for part in parts)
        found = []
        for share in shares:
            place = share * (n - 1)
            low = int(place)
            below, above = _pair(parts, low)
            found.append(float(below) if above is None else below + (above - below) * (place - low))
        return found


def _pair(parts: list[array[int]], k: int) -> tuple[int, int | None]:
    """The values number ``k`` and ``k`` + 1 (from 0) of sorted arrays taken together; None where there is no further one."""
    if len(parts) == 1:
        only = parts[0]
        return only[k], only[k + 1] if k + 1 < len(only) else None
    low, high = min(part[0] for part in parts), max(part[-1] for part in parts)
    while low < high:
        middle = (low + high) // 2
        if sum(bisect_right(part, middle) for part in parts) > k:
            high = middle
        else:
            low = middle + 1
    places = [bisect_right(part, low) for part in parts]
    if sum(places) > k + 1:
        return low, low
    after = [part[i] for part, i in zip(parts, places, strict=True) if i < len(part)]
    return low, min(after) if after else None
