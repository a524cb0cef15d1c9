"""Student's t against printed tables, and the interval of a mean against one worked out by hand."""

from __future__ import annotations

import pytest

from phasetop import student


@pytest.mark.parametrize(
    ("confidence", "freedom", "t"),
    [  # NIST/SEMATECH e-Handbook, table 1.3.6.7.2
        (0.95, 1, 12.706),
        (0.95, 2, 4.303),
        (0.95, 4, 2.776),
        (0.95, 10, 2.228),
        (0.95, 30, 2.042),
        (0.95, 100, 1.984),
        (0.99, 5, 4.032),
        (0.90, 7, 1.895),
        (0.95, 1e6, 1.960),
    ],
)
def test_quantiles_are_those_of_the_tables(confidence: float, freedom: float, t: float) -> None:
    assert student.quantile(confidence, freedom) == pytest.approx(t, abs=5e-4)


def test_broken_degrees_of_freedom_lie_between_whole_ones() -> None:
    assert 2.776 < student.quantile(0.95, 3.5) < 3.182


def test_interval_by_hand() -> None:
    values = [9.0, 10.0, 11.0]  # sd 1, standard error 1 / √3, t(2) = 4.3027
    assert student.deviation(values) == pytest.approx(1.0)
    assert student.interval(values) == pytest.approx((10 - 2.48414, 10 + 2.48414), abs=1e-5)
    assert student.interval([10.0]) is None
    assert student.deviation([10.0]) is None


def test_sums_round_once_on_every_python() -> None:
    """0.1 ten times is 1; added one by one, as `sum` does before Python 3.12, it is 0.9999999999999999."""
    assert student.mean([0.1] * 10) == 0.1
    assert student.deviation([0.1] * 10) == 0.0
