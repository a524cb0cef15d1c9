"""Samples: each series' columns are what its lines say, also where several keep their times once."""

from __future__ import annotations

import math
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from phasetop import events as ev
from phasetop.session import Session

SERIES: Final = 4
LINES = st.lists(
    st.tuples(
        st.integers(-3, 9),  # ns since the line before: a file that somebody made may fall back
        st.integers(0, 12),  # how long it took
        st.dictionaries(st.sampled_from([str(s) for s in range(SERIES + 1)]), st.sampled_from([None, 0.0, 1.5, 7.0])),
    ),
    max_size=40,
)


def session_of(lines: list[tuple[int, int, dict[str, float | None]]]) -> Session:
    session, t = Session(), 100
    for s in range(SERIES):
        session.apply(ev.Series(t=0, s=s, name=f"x{s}"))
    for step, took, values in lines:
        t += step
        reasons = {key: f"why {key}" for key, value in values.items() if value is None}
        session.apply(ev.Smp(t=t, t0=t - took, v=values, e=reasons))
    return session


@given(LINES)
def test_every_series_has_its_own_samples_whoever_was_sampled_with_it(
    lines: list[tuple[int, int, dict[str, float | None]]],
) -> None:
    session = session_of(lines)
    for s in range(SERIES):
        t, newest = 100, 0
        t0s: list[int] = []
        ts: list[int] = []
        values: list[float | None] = []
        why: dict[int, str] = {}
        for step, took, sampled in lines:
            t += step
            if str(s) not in sampled:
                continue
            value = sampled[str(s)]
            if value is None:
                why[len(ts)] = f"why {s}"
            newest = max(t, newest) if ts else t
            t0s.append(min(t - took, newest))
            ts.append(newest)
            values.append(value)
        samples = session.samples[s]
        assert (list(samples.t0), list(samples.t), samples.why) == (t0s, ts, why)
        assert [None if math.isnan(value) else value for value in samples.value] == values


def test_what_is_always_sampled_together_keeps_its_times_once() -> None:
    session = session_of([(5, 5, {"0": 1.0, "1": 2.0}), (5, 5, {"0": 1.0, "1": 2.0, "2": 3.0, "3": 4.0})] * 3)
    kept = [session.samples[s] for s in range(SERIES)]
    assert kept[0].t is kept[1].t
    assert kept[0].t0 is kept[1].t0
    assert kept[2].t is kept[3].t
    assert kept[0].t is not kept[2].t
    session.apply(ev.Smp(t=1000, t0=990, v={"0": 1.0}))
    assert kept[0].t is not kept[1].t
    assert (len(kept[0].t), len(kept[1].t)) == (7, 6)


def test_a_series_that_comes_and_goes_takes_the_others_apart_once_and_not_again() -> None:
    session = session_of([(5, 5, {"0": 1.0, "1": 2.0, "2": 3.0}), (5, 5, {"0": 1.0, "1": 2.0})] * 20)
    first, second, third = (session.samples[s] for s in range(3))
    assert first.t is second.t
    assert (first.times.series, third.times.series) == (2, 1)
