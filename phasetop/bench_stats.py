"""Means with their spread, straight lines through points, and knees: the statistics of `phasetop bench`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import Final

from msgspec import Struct

from phasetop.student import deviation, interval, mean

KNEE_SHARE: Final = 0.95
"""The knee is where this share of the best is reached first."""


class Figure(Struct, frozen=True):
    """Repeats of one figure: their mean, standard deviation (n − 1), and Student's 95 % interval of the mean."""

    values: tuple[float, ...] = ()

    @property
    def mean(self) -> float | None:
        """None without a value."""
        return mean(self.values) if self.values else None

    @property
    def sd(self) -> float | None:
        """None below two values."""
        return deviation(self.values)

    @property
    def ci95(self) -> tuple[float, float] | None:
        """None below two values."""
        return interval(self.values)

    @property
    def spread(self) -> float | None:
        """Half of the interval over the mean; None where there is none."""
        bounds, middle = self.ci95, self.mean
        if bounds is None or not middle:
            return None
        return (bounds[1] - bounds[0]) / 2 / abs(middle)

    def group(self) -> dict[str, object]:
        """As ``bench --json`` has it."""
        bounds = self.ci95
        return {
            "mean": rounded(self.mean),
            "sd": rounded(self.sd),
            "ci95": None if bounds is None else [rounded(bound) for bound in bounds],
            "values": [rounded(value) for value in self.values],
        }


def rounded(value: float | None) -> float | None:
    """A figure as it is printed: seven significant digits, whatever the format."""
    return None if value is None else float(f"{value:.7g}")


class Line(Struct, frozen=True):
    """A straight line y = intercept + slope · x, and how much of y's spread it explains (r²; None where y has none)."""

    slope: float
    intercept: float
    r2: float | None

    def at(self, x: float) -> float:
        """Its y."""
        return self.intercept + self.slope * x


def least_squares(points: Sequence[tuple[float, float]]) -> Line | None:
    """The straight line through points (x, y) by least squares; None where there are no two different x."""
    if len({x for x, _ in points}) < 2:
        return None
    middle_x, middle_y = mean([x for x, _ in points]), mean([y for _, y in points])
    sxx = fsum((x - middle_x) ** 2 for x, _ in points)
    sxy = fsum((x - middle_x) * (y - middle_y) for x, y in points)
    syy = fsum((y - middle_y) ** 2 for _, y in points)
    slope = sxy / sxx
    r2 = sxy * sxy / (sxx * syy) if syy > 0 else None
    return Line(slope, middle_y - slope * middle_x, r2)


def knee(points: Sequence[tuple[float, float]]) -> float | None:
    """The x at which y has reached `KNEE_SHARE` of its best for the first time; None below two points."""
    if len(points) < 2:
        return None
    best = max(y for _, y in points)
    return next(x for x, y in sorted(points) if y >= KNEE_SHARE * best)


def apart(a: Figure, b: Figure) -> bool:
    """Whether two means differ beyond their noise: their 95 % intervals do not touch (both are needed)."""
    first, second = a.ci95, b.ci95
    return first is not None and second is not None and (first[1] < second[0] or second[1] < first[0])
