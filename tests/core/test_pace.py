"""The running median and the steps of latency: by their definitions, and never by what comes later."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop.pace import STALL, USUAL, Pace, RunningMedian, step_of

MS = 1_000_000


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=200))
def test_running_median_is_the_median(values: list[int]) -> None:
    running = RunningMedian()
    for i, value in enumerate(values, 1):
        running.add(value)
        assert running.n == i
        assert running.median == statistics.median(values[:i])


@pytest.mark.parametrize(
    ("gap", "step"),
    [
        (49, 1),
        (50, 2),
        (79, 2),
        (80, 3),
        (100, 3),
        (124, 3),
        (125, 4),
        (174, 4),
        (175, 5),
        (299, 5),
        (300, 6),
        (600, 6),
        (601, 7),
    ],
)
def test_steps_are_multiples_of_the_median(gap: int, step: int) -> None:
    assert step_of(gap, 100.0) == step


def graded(gaps: list[int], *, tool_at: int | None = None) -> list[int]:
    pace = Pace()
    return [pace.grade(gap, tool=i == tool_at) for i, gap in enumerate(gaps)]


def test_the_first_sixteen_gaps_are_usual_and_the_seventeenth_may_stall() -> None:
    assert graded([10 * MS] * 15 + [500 * MS]) == [USUAL] * 16
    assert graded([10 * MS] * 16 + [500 * MS]) == [USUAL] * 16 + [STALL]


def test_a_stall_is_over_six_medians_and_at_least_thirty_ms() -> None:
    before = [10 * MS] * 16
    assert graded([*before, 60 * MS])[-1] == 6
    assert graded([*before, 60 * MS + 1])[-1] == STALL
    fast = [1 * MS] * 16
    assert graded([*fast, 30 * MS - 1])[-1] == 6
    assert graded([*fast, 30 * MS])[-1] == STALL


def test_the_median_is_of_the_gaps_before_it() -> None:
    # Of the sixteen before it the median is 25 ms, with itself it would be 40 ms and the gap under six of them.
    assert graded([10 * MS] * 8 + [40 * MS] * 8 + [160 * MS])[-1] == STALL


def test_a_gap_that_ends_at_a_tool_call_is_no_stall() -> None:
    assert graded([10 * MS] * 16 + [40_000 * MS], tool_at=16)[-1] == 6


@given(st.lists(st.integers(1, 10**9), max_size=60))
def test_a_step_never_depends_on_what_comes_later(gaps: list[int]) -> None:
    whole = graded(gaps)
    for k in range(len(gaps)):
        assert graded(gaps[:k]) == whole[:k]


@given(st.lists(st.integers(1, 10**9), min_size=17, max_size=60))
def test_grading_is_by_the_definition(gaps: list[int]) -> None:
    for i, step in enumerate(graded(gaps)):
        if i < 16:
            assert step == USUAL
            continue
        middle = statistics.median(gaps[:i])
        stalled = gaps[i] > 6 * middle and gaps[i] >= 30 * MS
        assert (step == STALL) == stalled
        if not stalled:
            assert step == min(step_of(gaps[i], middle), 6)
