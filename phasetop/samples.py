"""The samples of a series, in columns; series that were always sampled together keep their times once.

A machine is sampled some times a second for as long as a session lasts: with times of its own, each value would take three
times its room.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from phasetop import events as ev
from phasetop.columns import Versions


class Times:
    """The intervals [t0, t] of so many ``series``."""

    __slots__ = ("series", "t", "t0")

    def __init__(self, series: int, t0: array[int], t: array[int]) -> None:
        self.series = series
        self.t0 = t0
        self.t = t


class Samples:
    """One series' samples: value (NaN: none) over the interval [t0, t]; ``why`` holds the reason of a null."""

    __slots__ = ("__weakref__", "info", "times", "value", "why")

    def __init__(self, info: Versions[ev.Series]) -> None:
        self.info = info
        self.times = Times(1, array("q"), array("q"))
        self.value: array[float] = array("d")
        self.why: dict[int, str] = {}

    @property
    def t0(self) -> array[int]:
        """Where each begins, ns; it may be other series' as well."""
        return self.times.t0

    @property
    def t(self) -> array[int]:
        """Where each ends, ns; likewise."""
        return self.times.t


def stamp(sampled: Sequence[Samples], t0: int, t: int) -> None:
    """Give each of some series its next interval; one that would fall back begins and ends with the newest."""
    together: dict[int, list[Samples]] = {}
    for samples in sampled:
        times = samples.times
        together.setdefault(id(times) if times.t else 0, []).append(samples)  # 0: those that begin
    for some in together.values():
        times = some[0].times
        if not times.t or len(some) < times.series:
            times = _apart(some)
        end = max(t, times.t[-1]) if times.t else t
        times.t0.append(min(t0, end))
        times.t.append(end)


def _apart(some: list[Samples]) -> Times:
    """Have times for these alone, as they have been so far: the others were not sampled with them this time."""
    before = some[0].times
    times = Times(len(some), before.t0[:], before.t[:])
    for samples in some:
        samples.times.series -= 1
        samples.times = times
    return times
