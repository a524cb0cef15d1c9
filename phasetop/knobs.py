"""The values that a what-if changes, and the grids on which they are moved; `what_if` works them out."""

from __future__ import annotations

from math import floor, log10
from typing import Final, Literal

from msgspec import Struct

Name = Literal["prompt", "output", "dtype", "context", "batch", "bandwidth", "flops"]
NAMES: Final[tuple[Name, ...]] = ("prompt", "output", "dtype", "context", "batch", "bandwidth", "flops")
"""What can be changed, in the order of the sliders."""
DTYPES: Final = ("int2", "q2_k", "q3_k_m", "int4", "q4_k_m", "q5_k_m", "q6_k", "int8", "q8_0", "fp16", "fp32")
"""Types of weights from few bits to many."""
COARSE: Final = 4
"""A coarse step is so many fine ones."""
PEAKS: Final[frozenset[Name]] = frozenset(("bandwidth", "flops"))
_COUNT_MARKS: Final = (1.0, 1.5)
"""Fine steps of a count, within each power of two."""
_PEAK_MARKS: Final = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
"""Fine steps of a peak, within each power of ten."""
RANGES: Final[dict[Name, tuple[float, float]]] = {
    "prompt": (1, 1 << 20),
    "output": (1, 1 << 20),
    "context": (1, 1 << 20),
    "batch": (1, 1024),
    "bandwidth": (1e9, 1e14),
    "flops": (1e10, 1e17),
}
BEGIN: Final[dict[Name, float]] = {
    "prompt": 512,
    "output": 512,
    "context": 512,
    "batch": 1,
    "bandwidth": 1e11,
    "flops": 1e13,
}
"""Where a value that nobody knows begins when it is moved."""


class Values(Struct, frozen=True):
    """The values that are changed; None: the request's own.

    ``prompt`` and ``output`` are tokens of each sequence, ``context`` the tokens in the cache when decode begins,
    ``bandwidth`` bytes a second, ``flops`` FLOPs a second, ``dtype`` a name of `weight_types`.
    """

    prompt: int | None = None
    output: int | None = None
    dtype: str | None = None
    context: int | None = None
    batch: int | None = None
    bandwidth: float | None = None
    flops: float | None = None


def stepped(name: Name, value: float, steps: int) -> float:
    """A count or a peak so many steps of its grid further, within its range."""
    base, marks = _grid_of(name)
    for _ in range(abs(steps)):
        value = _neighbour(value, base, marks, up=steps > 0)
    low, high = RANGES[name]
    return min(high, max(low, value))


def nearest(name: Name, value: float) -> float:
    """The count or peak of the grid that a value is nearest to, on a logarithmic scale; within the range."""
    found = min(_around(value, *_grid_of(name)), key=lambda mark: abs(log10(mark / max(value, 1e-9))))
    low, high = RANGES[name]
    return min(high, max(low, found))


def _grid_of(name: Name) -> tuple[float, tuple[float, ...]]:
    return (10.0, _PEAK_MARKS) if name in PEAKS else (2.0, _COUNT_MARKS)


def _around(value: float, base: float, marks: tuple[float, ...]) -> list[float]:
    """The grid around a value; for counts it has whole numbers only."""
    power = base ** floor(log10(max(value, 1e-9)) / log10(base) + 1e-9)
    grid = [scale * mark for scale in (power / base, power, power * base) for mark in marks]
    if base == 2.0:
        grid = [mark for mark in grid if mark >= 1 and mark == int(mark)] or [1.0]
    return grid


def _neighbour(value: float, base: float, marks: tuple[float, ...], *, up: bool) -> float:
    """The next value of a grid above or below."""
    grid = _around(value, base, marks)
    near = 1e-9 * value
    if up:
        return next((mark for mark in grid if mark > value + near), value)
    return next((mark for mark in reversed(grid) if mark < value - near), value)
