"""The trace on its time axis, in cells."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop import events as ev
from phasetop.columns import Tokens, Versions
from phasetop.metrics import Band
from phasetop.samples import Samples
from phasetop.tui import lanes
from phasetop.tui.lanes import SECOND_NS, Axis, GapLane, LevelLane

MS = 1_000_000


@pytest.mark.parametrize(
    ("seconds", "span"), [(0, 5), (5, 5), (5.01, 10), (19.9, 20), (20.1, 50), (99, 100), (101, 200), (4000, 5000)]
)
def test_the_axis_fills_then_folds(seconds: float, span: int) -> None:
    assert lanes.axis_ns(int(seconds * SECOND_NS)) == span * SECOND_NS


def test_the_ruler_ends_with_its_unit_at_the_edge() -> None:
    assert lanes.ticks(10 * SECOND_NS, 88) == [(0, "0"), (18, "2"), (35, "4"), (53, "6"), (70, "8"), (84, "10 s")]
    assert lanes.ticks(10 * SECOND_NS, 30) == [(0, "0"), (15, "5"), (26, "10 s")]


def test_a_band_shorter_than_a_cell_gets_one_and_those_after_it_begin_later() -> None:
    bands = [Band("queue", 0, 3 * MS), Band("prefill", 3 * MS, 430 * MS), Band("decode", 430 * MS, 6430 * MS)]
    placed = lanes.place_bands(bands, Axis(0, 10 * SECOND_NS, 100), "decode")
    assert [(c.phase, c.x0, c.x1, c.running) for c in placed] == [
        ("queue", 0, 1, False),
        ("prefill", 1, 4, False),
        ("decode", 4, 64, True),
    ]


@given(st.lists(st.integers(0, 3 * SECOND_NS), min_size=1, max_size=6), st.integers(1, 100))
def test_bands_never_overlap_nor_leave_the_plot(lengths: list[int], columns: int) -> None:
    bands, t = [], 0
    for length in lengths:
        bands.append(Band("decode", t, t + length))
        t += length
    placed = lanes.place_bands(bands, Axis(0, lanes.axis_ns(t), columns), None)
    edge = 0
    for cells in placed:
        assert edge <= cells.x0 < cells.x1 <= columns
        edge = cells.x1


def test_of_stalls_in_the_same_columns_the_longest_is_kept() -> None:
    stalls = [(1000 * MS, 100 * MS), (1100 * MS, 90 * MS), (5000 * MS, 200 * MS)]
    placed = lanes.place_stalls(stalls, 100 * SECOND_NS, 100)
    assert [(s.x0, s.gap_ns // MS) for s in placed] == [(0, 100), (1, 90), (4, 200)]
    placed = lanes.place_stalls(stalls[:2], 1000 * SECOND_NS, 100)
    assert [(s.x0, s.gap_ns // MS) for s in placed] == [(0, 100)]


@pytest.mark.parametrize(("gap_ms", "floor"), [(1.5, 0.4), (15, 4.0), (99, 4.0), (150, 40.0)])
def test_the_gap_axis_follows_the_first_gaps(gap_ms: float, floor: float) -> None:
    assert lanes.gap_floor_ms([int(gap_ms * MS)] * 20) == floor


def tokens_at(*times_ms: float) -> Tokens:
    tokens = Tokens()
    for t in times_ms:
        tokens.append(ev.Tok(t=int(t * MS), r=0, x="x"))
    return tokens


def test_a_dot_stands_at_its_time_and_its_gap() -> None:
    # 40 ms is the middle of 4 … 400 on a log axis: with one row of four dots the third from below (bit 2 of the left column)
    rows = GapLane().update(tokens_at(0, 40), 2, Axis(0, 5 * SECOND_NS, 10), 1)
    assert rows == ((chr(0x2800 + 2) + " " * 9, bytes([3] + [0] * 9)),)


@given(st.lists(st.integers(1, 400), min_size=1, max_size=60), st.data())
def test_a_lane_that_grows_equals_one_made_at_once(gaps: list[int], data: st.DataObject) -> None:
    times, t = [0.0], 0.0
    for gap in gaps:
        t += gap
        times.append(t)
    tokens = tokens_at(*times)
    axis = Axis(0, lanes.axis_ns(int(t * MS)), 40)
    growing = GapLane()
    for upto in sorted(data.draw(st.lists(st.integers(0, len(times)), max_size=5))):
        growing.update(tokens, upto, axis, 3)
    fresh = GapLane()
    assert growing.update(tokens, len(times), axis, 3) == fresh.update(tokens, len(times), axis, 3)
    tally = lanes.GapTally()
    for upto in (len(times) // 2, len(times)):
        counted = tally.update(tokens, upto)
    assert counted == lanes.GapTally().update(tokens, len(times))
    assert sum(n for n, _ in counted) == len(gaps)
    assert tally.update(tokens, 1) == ((0, 0),) * 7
    assert growing.update(tokens, 1, axis, 3) == GapLane().update(tokens, 1, axis, 3)  # and back


def test_batches_are_steps_of_progress() -> None:
    made = lanes.batches_of([(0, 100), (SECOND_NS, 300), (2 * SECOND_NS, 300), (4 * SECOND_NS, 600)])
    assert [(b.t0 // SECOND_NS, b.t1 // SECOND_NS, b.per_s) for b in made] == [(0, 1, 200.0), (1, 4, 100.0)]


@pytest.mark.parametrize(("value", "top"), [(0, 0.01), (9117, 10_000), (181, 200), (100, 100), (101, 150)])
def test_the_top_of_a_linear_axis_has_round_fifths(value: float, top: float) -> None:
    assert lanes.nice_top(value) == pytest.approx(top, rel=1) if value == 0 else lanes.nice_top(value) == pytest.approx(top)


def samples_of(*samples: tuple[int, int, float]) -> Samples:
    made = Samples(Versions())
    for t0, t, value in samples:
        made.t0.append(t0 * MS)
        made.t.append(t * MS)
        made.value.append(value)
    return made


def test_a_column_has_the_mean_of_what_samples_cover_of_it() -> None:
    axis = Axis(0, 5 * SECOND_NS, 5)
    samples = samples_of((0, 500, 1.0), (500, 1000, 3.0), (1000, 2600, 2.0))
    assert LevelLane().update(samples, axis, 5 * SECOND_NS) == (2.0, 2.0, 2.0, None, None)
    assert LevelLane().update(samples, axis, 1000 * MS) == (2.0, None, None, None, None)


def test_a_level_lane_that_grows_equals_one_made_at_once() -> None:
    axis = Axis(0, 5 * SECOND_NS, 7)
    spans = [(i * 170, (i + 1) * 170, float(i % 5)) for i in range(25)]
    growing, whole = LevelLane(), samples_of(*spans)
    for cursor in range(0, 4000, 300):
        growing.update(whole, axis, cursor * MS)
    assert growing.update(whole, axis, 4000 * MS) == LevelLane().update(whole, axis, 4000 * MS)
