"""The host in prefill and decode: means by definition, counters at a phase's borders, the reason of each dash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop import events as ev
from phasetop import hostphases
from phasetop.columns import LIVE, Versions
from phasetop.hostphases import at_most, difference_over, mean_over
from phasetop.metrics import Measures, measure
from phasetop.samples import Samples

if TYPE_CHECKING:
    from tests.core.conftest import Build

MS = 1_000_000
Line = dict[str, Any]


def series_of(*rows: tuple[int, int, float]) -> Samples:
    samples = Samples(Versions[ev.Series]())
    for t0, t, value in rows:
        samples.t0.append(t0)
        samples.t.append(t)
        samples.value.append(value)
    return samples


NAN = float("nan")


def test_a_mean_is_weighted_by_overlap() -> None:
    samples = series_of((0, 100, 1.0), (100, 200, 3.0), (200, 300, 5.0))
    assert mean_over(samples, 0, 300, LIVE) == 3.0
    assert mean_over(samples, 50, 150, LIVE) == 2.0
    assert mean_over(samples, 120, 140, LIVE) == 3.0
    assert mean_over(samples, 150, 400, LIVE) == pytest.approx((50 * 3 + 100 * 5) / 150)
    assert mean_over(samples, 300, 400, LIVE) is None
    assert mean_over(series_of((0, 100, NAN), (100, 200, 3.0)), 0, 200, LIVE) == 3.0
    assert mean_over(series_of(), 0, 200, LIVE) is None


def test_samples_after_the_cursor_are_not_known() -> None:
    samples = series_of((0, 100, 1.0), (100, 200, 3.0))
    assert mean_over(samples, 0, 200, 199) == 1.0
    assert mean_over(samples, 0, 200, 200) == 2.0
    assert mean_over(samples, 0, 200, 99) is None


SPANS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 30), st.sampled_from([0.0, 1.0, 2.5, 100.0, NAN])), max_size=25
)


@given(SPANS, st.integers(0, 300), st.integers(0, 300), st.lists(st.integers(0, 1000), max_size=3))
def test_a_mean_by_definition(spans: list[tuple[int, int, float]], t0: int, t1: int, cursors: list[int]) -> None:
    rows, at = [], 0
    for pause, span, value in spans:
        rows.append((at + pause, at + pause + span, value))
        at += pause + span
    samples = series_of(*rows)
    for cursor in (*cursors, LIVE):
        parts = [(min(t, t1) - max(s, t0), value) for s, t, value in rows if t <= cursor and value == value]
        weight = sum(span for span, _ in parts if span > 0)
        want = sum(span * value for span, value in parts if span > 0) / weight if weight else None
        assert mean_over(samples, t0, t1, cursor) == (want if want is None else pytest.approx(want))


@given(SPANS, st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300), st.integers(0, 600)), min_size=1, max_size=5))
def test_a_mean_is_the_same_to_the_last_bit_however_many_sums_are_kept(
    spans: list[tuple[int, int, float]], asked: list[tuple[int, int, int]]
) -> None:
    """Live and replay ask in another order, and must show the same."""
    rows, at = [], 0
    for pause, span, value in spans:
        rows.append((at + pause, at + pause + span, value / 3))
        at += pause + span
    found = []
    for step in (1, 3, 16):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(hostphases, "_SUMMED", step)
            samples = series_of(*rows)
            found.append([mean_over(samples, t0, t1, cursor) for t0, t1, cursor in asked])
    assert found[0] == found[1] == found[2]


def test_a_counter_is_interpolated_at_the_borders() -> None:
    samples = series_of((0, 0, 1000.0), (0, 100, 1200.0), (100, 200, 1600.0))
    assert difference_over(samples, 0, 200, LIVE) == 600.0
    assert difference_over(samples, 50, 150, LIVE) == pytest.approx(1400 - 1100)
    assert difference_over(samples, 100, 300, LIVE) == 400.0  # half of it is covered
    assert difference_over(samples, 100, 301, LIVE) is None
    assert difference_over(samples, 300, 400, LIVE) is None
    assert difference_over(samples, 0, 200, 150) == 200.0
    assert difference_over(samples, 0, 0, LIVE) is None
    assert difference_over(series_of((0, 0, 5.0), (0, 100, 3.0)), 0, 100, LIVE) is None  # it fell: started anew
    assert difference_over(series_of((0, 0, 5.0), (0, 100, NAN)), 0, 100, LIVE) is None
    assert difference_over(series_of(), 0, 100, LIVE) is None


def smp(t0: float, t: float, v: Mapping[str, float | None], **keys: Any) -> Line:
    return {"k": "smp", "t0": round(t0 * MS), "t": round(t * MS), "v": v, **keys}


REQUEST: tuple[Line, ...] = (
    {"k": "request", "t": 1, "r": 0, "v": 0},
    {"k": "state", "t": 2, "r": 0, "s": "sent", "at": 0},
    {"k": "state", "t": 100 * MS, "r": 0, "s": "headers"},
    {"k": "tok", "t": 300 * MS, "r": 0, "x": "a"},
    {"k": "tok", "t": 700 * MS, "r": 0, "x": "b"},
    {"k": "end", "t": 701 * MS, "r": 0, "finish": "stop"},
)
SERIES: tuple[Line, ...] = (
    {"k": "series", "t": 1, "s": 0, "name": "cpu_cores_used"},
    {"k": "series", "t": 1, "s": 1, "v": 0, "name": "server_cpu_cores"},
    {"k": "series", "t": 1, "s": 2, "v": 0, "name": "server_rss_bytes"},
    {"k": "series", "t": 1, "s": 3, "v": 0, "name": "server_major_faults", "type": "counter"},
    {"k": "series", "t": 1, "s": 4, "name": "swap_in_bytes", "type": "counter"},
    {"k": "series", "t": 1, "s": 5, "name": "throttled_ns", "type": "counter"},
    {"k": "series", "t": 1, "s": 6, "name": "energy_uj", "type": "counter"},
    {"k": "series", "t": 1, "s": 7, "v": 1, "name": "server_cpu_cores"},
    {"k": "series", "t": 1, "s": 8, "name": "thermal_throttled_ns", "type": "counter"},
)


def figures(build: Build, *lines: Line) -> Measures:
    session = build(*lines)
    return measure(session, session.runs[0])


def test_the_host_in_both_phases(session_of: Build) -> None:
    counters = [{"3": 1.0 * n, "4": 4096.0 * n, "5": 1e7 * n, "6": 2e6 * n, "8": 3e7 * n} for n in range(9)]
    gauges = [{"0": 1.0, "1": 0.5, "2": 1000.0, "7": 9.0}] * 3 + [{"0": 2.0, "1": 1.5, "2": 3000.0, "7": 9.0}] * 5
    ticks = [smp(0, 0, counters[0]), *(smp(100 * i, 100 * (i + 1), gauges[i] | counters[i + 1]) for i in range(8))]
    found = figures(session_of, *SERIES, *ticks[:1], *REQUEST, *ticks[1:])
    prefill, decode = found.host["prefill"], found.host["decode"]
    assert (prefill.cpu_percent, prefill.server_cpu_percent, prefill.server_rss_bytes) == (100.0, 50.0, 1000)
    assert (decode.cpu_percent, decode.server_cpu_percent, decode.server_rss_bytes) == (200.0, 150.0, 3000)
    assert (prefill.major_faults, prefill.swap_in_bytes, prefill.throttled_s, prefill.energy_j) == (2, 8192, 0.02, 4.0)
    assert (decode.major_faults, decode.swap_in_bytes, decode.throttled_s, decode.energy_j) == (4, 16384, 0.04, 8.0)
    assert (prefill.thermal_throttled_s, decode.thermal_throttled_s) == (0.06, 0.12)
    assert not any(path.startswith("host") for path in found.unknown)


def test_a_phase_within_one_reading_of_the_energy_counter_has_none(session_of: Build) -> None:
    """Read at 0, 350 and 700 ms: prefill (100 to 300) lies within one span, decode (300 to 700) does not."""
    ticks = [smp(0, 0, {"6": 0.0}), smp(0, 350, {"6": 7e6}), smp(350, 700, {"6": 21e6}), smp(700, 1050, {"6": 21e6})]
    here: Line = {"k": "server", "t": 0, "v": 0, "local": True}
    found = figures(session_of, here, *SERIES, *ticks[:1], *REQUEST, *ticks[1:])
    assert found.host["prefill"].energy_j is None
    assert found.unknown["host.phases.prefill.energy_j"] == "the phase is shorter than the counter's step, 350 ms"
    assert found.host["decode"].energy_j == pytest.approx(1 + 14)
    assert found.energy.prefill_j is None
    assert "shorter than the counter's step" in found.unknown["energy.prefill_j"]


def test_a_cpu_that_heat_holds_back_is_told(session_of: Build) -> None:
    ticks = [smp(100 * i, 100 * (i + 1), {"8": 6e7 * i}) for i in range(9)]
    flags = [flag.text for flag in figures(session_of, *SERIES, *REQUEST, *ticks).flags if flag.code == "throttle"]
    assert any("heat held the CPU back for 0.24 s in decode" in text for text in flags), flags
    cool = [smp(100 * i, 100 * (i + 1), {"8": 1e6 * i}) for i in range(9)]
    assert not [flag for flag in figures(session_of, *SERIES, *REQUEST, *cool).flags if flag.code == "throttle"]


def test_cores_are_added_where_there_is_no_sum(session_of: Build) -> None:
    cores: list[Line] = [{"k": "series", "t": 1, "s": s, "name": "cpu_percent", "part": f"core {s}"} for s in (0, 1)]
    found = figures(session_of, *cores, *REQUEST, smp(0, 800, {"0": 90.0, "1": 30.0}))
    assert found.host["decode"].cpu_percent == 120.0


def test_an_exact_mean_wins(session_of: Build) -> None:
    exact = smp(300, 700, {"0": 1.25}, r=0, phase="decode")
    others = (smp(300, 700, {"0": 9.0}, r=1, phase="decode"), smp(100, 300, {"0": 8.0}, r=0, phase="prefill"))
    found = figures(session_of, *SERIES, *REQUEST, smp(0, 800, {"0": 2.0}), exact, *others)
    assert (found.host["decode"].cpu_percent, found.host["prefill"].cpu_percent) == (125.0, 800.0)


def test_each_dash_has_its_reason(session_of: Build) -> None:
    nothing = figures(session_of, *REQUEST).unknown
    assert nothing["host.phases.decode.cpu_percent"] == "the host was not sampled"
    assert nothing["host.phases.decode.server_rss_bytes"] == "the server's process was not sampled"
    away = figures(session_of, {"k": "server", "t": 0, "v": 0, "local": False}, *REQUEST).unknown
    assert away["host.phases.prefill.server_cpu_percent"] == "the server runs on another machine"
    off = {**SERIES[0], "off": "not on this system"}
    assert figures(session_of, off, *REQUEST).unknown["host.phases.decode.cpu_percent"] == "not on this system"
    gone = smp(0, 500, {"1": None}, e={"1": "the process is gone"})
    assert (
        figures(session_of, *SERIES, *REQUEST[:-1], gone).unknown["host.phases.decode.server_cpu_percent"]
        == "the process is gone"
    )
    short = figures(session_of, *SERIES, *REQUEST).unknown
    assert short["host.phases.decode.major_faults"] == "too few samples in the phase"


def test_a_phase_that_was_not(session_of: Build) -> None:
    found = figures(session_of, *SERIES, *REQUEST[:3], {"k": "end", "t": 300 * MS, "r": 0, "finish": "cut"})
    assert found.unknown["host.phases.decode"] == "there was no decode"
    assert found.host["decode"].cpu_percent is None
    waited = figures(session_of, *REQUEST[:2], *REQUEST[3:])
    assert waited.unknown["host.phases.prefill"] == "prefill is not told apart"


def test_an_old_recordings_jitter_of_ticks_is_no_core_more() -> None:
    assert at_most(2.04, 2) == 2.0
    assert at_most(1.5, 2) == 1.5
    assert at_most(2.04, None) == 2.04
    assert at_most(None, 2) is None
