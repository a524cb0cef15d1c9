"""The statistics against values that were worked out by hand, or stand in tables."""

from __future__ import annotations

import pytest

from phasetop.bench_stats import Figure, apart, knee, least_squares


def test_a_figure_of_five() -> None:
    """Mean 100, deviations −2 −1 0 1 2: s² = 10/4; t(0.975, 4) = 2.776445 (tables): ± 2.776 · 1.581139 / √5 = 1.963243."""
    figure = Figure((98.0, 99.0, 100.0, 101.0, 102.0))
    assert figure.mean == 100
    assert figure.sd == pytest.approx(1.5811388)
    assert figure.ci95 == pytest.approx((98.036757, 101.963243), abs=1e-5)
    assert figure.spread == pytest.approx(0.01963243, abs=1e-7)
    told = figure.group()
    assert list(told) == ["mean", "sd", "ci95", "values"]
    assert told["values"] == [98.0, 99.0, 100.0, 101.0, 102.0]


def test_few_values_have_no_spread() -> None:
    assert Figure().group() == {"mean": None, "sd": None, "ci95": None, "values": []}
    assert Figure((3.0,)).group() == {"mean": 3.0, "sd": None, "ci95": None, "values": [3.0]}
    assert Figure((3.0,)).spread is None
    assert Figure((0.0, 0.0)).spread is None


def test_a_straight_line() -> None:
    """Points (1, 2) (2, 4) (3, 7): x̄ 2, ȳ 13/3, Sxx 2, Sxy 5, Syy 38/3: slope 2.5, intercept −2/3, r² 25 / (2 · 38/3)."""
    line = least_squares([(1, 2), (2, 4), (3, 7)])
    assert line is not None
    assert line.slope == pytest.approx(2.5)
    assert line.intercept == pytest.approx(-2 / 3)
    assert line.r2 == pytest.approx(25 / (2 * 38 / 3))
    assert line.at(4) == pytest.approx(10 - 2 / 3)


def test_lines_that_are_none() -> None:
    assert least_squares([]) is None
    assert least_squares([(1, 2), (1, 3)]) is None
    flat = least_squares([(1, 2), (2, 2)])
    assert flat is not None
    assert flat.r2 is None  # nothing to explain


def test_the_knee_is_where_95_percent_of_the_best_is_reached_first() -> None:
    assert knee([(1, 50), (2, 96), (4, 100), (8, 98)]) == 2
    assert knee([(8, 98), (4, 100), (2, 94), (1, 50)]) == 4
    assert knee([(1, 50)]) is None


def test_means_apart_beyond_their_noise() -> None:
    assert apart(Figure((1.0, 1.1, 0.9)), Figure((2.0, 2.1, 1.9)))
    assert not apart(Figure((1.0, 2.0)), Figure((2.0, 3.0)))
    assert not apart(Figure((1.0,)), Figure((9.0, 9.1)))
