"""Student's t: how far a mean of few runs may lie from the truth.

The quantile is found by bisecting the distribution function, which is a regularised incomplete beta function (Abramowitz and
Stegun 26.7.1), itself a continued fraction (26.5.8, by Lentz's method). Degrees of freedom may be broken (Welch).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import exp, fsum, lgamma, log, log1p, sqrt
from typing import Final

_TINY: Final = 1e-300
_STEPS: Final = 300


@lru_cache(maxsize=256)
def quantile(confidence: float, freedom: float) -> float:
    """The t that ``confidence`` of the distribution lies within, on both sides of 0: 12.706 for 0.95 and 1.

    Args:
        confidence: between 0 and 1.
        freedom: degrees of freedom, above 0; need not be whole.
    """
    outside = 1 - confidence
    low, high = 0.0, 1.0
    while _outside(high, freedom) > outside:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        if _outside(middle, freedom) > outside:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _outside(t: float, freedom: float) -> float:
    """The share of the distribution beyond ±t."""
    x = freedom / (freedom + t * t)
    return _beta(x, freedom / 2, 0.5)


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b)."""
    if x in (0.0, 1.0):
        return x
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, 1 / _large(1 - (a + b) * x / (a + 1))
    found = d
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _large(1 + term * d)
            c = _large(1 + term / c)
            found *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return found


def _large(value: float) -> float:
    """A divisor that is not 0."""
    return value if abs(value) > _TINY else _TINY


def mean(values: Sequence[float]) -> float:
    """The mean of at least one value."""
    return fsum(values) / len(values)


def deviation(values: Sequence[float]) -> float | None:
    """The standard deviation of a sample (n − 1); None below two values."""
    if len(values) < 2:
        return None
    middle = mean(values)
    return sqrt(fsum((value - middle) ** 2 for value in values) / (len(values) - 1))


def interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """Where the true mean lies with that confidence; None below two values."""
    spread = deviation(values)
    if spread is None:
        return None
    reach = quantile(confidence, len(values) - 1) * spread / sqrt(len(values))
    middle = mean(values)
    return middle - reach, middle + reach
