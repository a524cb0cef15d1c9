"""The present of a session that another machine writes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from phasetop.present import Present

S = 1_000_000_000


def test_now_is_the_last_t_plus_the_time_since_it_was_read_and_stands_when_nothing_comes() -> None:
    clock = [100 * S]
    present = Present(lambda: clock[0])
    assert present.at(0) == 0
    present.read(7 * S)
    clock[0] += S
    assert present.at(7 * S) == 8 * S
    clock[0] += 60 * S
    assert present.at(7 * S) == 7 * S
    assert present.silent_ns == 61 * S
    present.read(68 * S)
    assert present.at(68 * S) == 68 * S


@given(st.lists(st.tuples(st.integers(1, S), st.integers(0, S)), min_size=2, max_size=60))
def test_it_never_goes_back_however_late_reads_come_and_is_never_ahead(reads: list[tuple[int, int]]) -> None:
    clock, last, shown = [0], 0, 0
    present = Present(lambda: clock[0])
    for step, delay in reads:
        clock[0] += step
        last = max(last, clock[0] - delay)  # far clock = this clock, read `delay` late
        present.read(last)
        now = present.at(last)
        assert shown <= now <= clock[0]
        shown = now


def test_a_far_machine_that_slept_is_believed_at_once_and_drift_slowly() -> None:
    clock = [0]
    present = Present(lambda: clock[0])
    present.read(50 * S)
    clock[0] = S
    present.read(51 * S - 8_000_000)  # 8 ms later than before
    assert present.at(0) == 51 * S - 8_000_000
    clock[0] = 100 * S
    present.read(60 * S)  # it slept for 90 s
    assert present.at(0) == 60 * S
