"""The charts: what they compute, and that they stay in their places."""

from __future__ import annotations

import pytest

from phasetop import events as ev
from phasetop.session import Session
from phasetop.tui import charts
from phasetop.tui.cells import Canvas
from phasetop.tui.frame import Frame, FrameMaker
from phasetop.tui.layout import layout
from phasetop.tui.theme import Look
from phasetop.tui.view import View
from tests.tui.cards import on_a_card, on_a_cpu
from tests.tui.fabricate import MS, S, Turn, ask, opening, scripted, session_of

SESSION = session_of(scripted("run", Turn(tokens=400, stall_at=300, prompt=2000, cached=200, batches=12)))


def frame_of(session: Session, at: int, size: tuple[int, int]) -> Frame:
    plan = layout(*size)
    assert plan is not None
    return FrameMaker(session).frame(at, plan, View(page="charts"))


def page(session: Session, at: int, size: tuple[int, int], first: int = 0) -> str:
    canvas = Canvas(*size, Look())
    charts.paint(canvas.area(0, 0, size[0], size[1] - 3), frame_of(session, at, size), session, first)
    return canvas.text()


def test_four_in_a_grid_or_one_at_a_time() -> None:
    titles = ("gaps", "decode rate over depth", "prefill rate a batch", "KV cache over time")
    wide = page(SESSION, 6 * S, (120, 36))
    assert all(title in wide for title in titles)
    for first in range(5):
        narrow = page(SESSION, 6 * S, (80, 24), first)
        assert [title for title in titles if title in narrow] == [titles[first % 4]]
        assert f"{first % 4 + 1} of 4" in narrow


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (200, 60), (60, 40), (40, 12), (100, 12)], ids=str)
@pytest.mark.parametrize("at_ms", [0, 200, 600, 3000, 60_000])
def test_at_any_size_and_time_margins_stay_free(size: tuple[int, int], at_ms: int) -> None:
    for row in page(SESSION, at_ms * MS, size).split("\n"):
        assert row[:1] in ("", " ")
        assert len(row) < size[0]


def test_every_gap_is_in_a_column_of_its_steps_colour() -> None:
    gaps = tuple([10 * MS] * 90 + [4 * MS] * 3 + [25 * MS] * 5 + [400 * MS])
    chart = charts.gap_chart(gaps, 10 * MS)
    assert sum(height for _, height, _ in chart.bars) == len(gaps)
    assert {role: height for _, height, role in chart.bars} == {"gap3": 90, "gap1": 3, "gap5": 5, "gap7": 1}
    assert [text for _, text in chart.x_labels] == ["5", "8", "12", "18", "30", "60 ms"]


def test_the_rate_over_depth_is_tokens_over_time() -> None:
    script = opening()
    ask(script, 0, Turn(tokens=0, finish=None))
    t = script.t
    for i in range(201):
        t += (10 if i <= 100 else 20) * MS
        script.add(ev.Tok(t=t, r=0, x="x"))
    session = session_of(script.sorted())
    (line,) = charts.depth_chart(session.runs[0], 201, 512, None).series
    assert line.ys[0] == pytest.approx(100)
    assert line.ys[-1] == pytest.approx(50)
    assert line.xs[0] == pytest.approx(512 + 3.5, abs=2)
    assert line.xs[-1] == pytest.approx(512 + 198.5, abs=2)


def test_the_ceiling_falls_with_depth_as_the_weights_and_the_cache_say() -> None:
    """1,008 GB/s over 4.617 GB of weights and 131,072 B of cache a token (8 heads of 128, K and V of 32 layers, f16)."""
    session = session_of(on_a_card(Turn(tokens=400, prompt=6000, gap_ms=8.3)))
    frame = frame_of(session, session.last_t, (120, 36))
    ceiling = charts.ceiling_of(session, session.runs[0], frame)
    chart = charts.charts_of(session.runs[0], session.last_t, frame, ceiling)[1]
    limit, decode = chart.series
    assert (limit.role, decode.role) == ("faint", "decode")
    for x, y in zip(limit.xs, limit.ys, strict=True):
        assert y == pytest.approx(1008e9 / (4_617_396_480 + 131_072 * x), rel=1e-3)
    assert limit.ys[0] > limit.ys[-1] > max(decode.ys)
    assert max(limit.ys) <= chart.y[1]
    assert "ceiling 184.7" in chart.note


def test_a_ceiling_far_above_or_unknown_is_not_drawn() -> None:
    slow = session_of(on_a_card(Turn(tokens=60, gap_ms=100)))
    frame = frame_of(slow, slow.last_t, (120, 36))
    chart = charts.charts_of(slow.runs[0], slow.last_t, frame, charts.ceiling_of(slow, slow.runs[0], frame))[1]
    assert len(chart.series) == 1
    assert "far above" in chart.note
    assert chart.y[1] < 50
    no_peak = session_of(on_a_cpu(Turn(tokens=60, gap_ms=100), peak=None))
    frame = frame_of(no_peak, no_peak.last_t, (120, 36))
    ceiling = charts.ceiling_of(no_peak, no_peak.runs[0], frame)
    assert ceiling(100) is None
    assert len(charts.charts_of(no_peak.runs[0], no_peak.last_t, frame, ceiling)[1].series) == 1


def test_the_fit_of_the_prefill_finds_what_made_it() -> None:
    base, slope = 1e-4, 5e-8  # seconds a token, and more for each token before it
    script = opening()
    t, done = script.t, 0
    script.add(ev.Request(t=t, r=0, v=0, m=0, api="chat"), ev.State(t=t, r=0, s="sent"))
    script.add(ev.Prog(t=t, r=0, total=8192, cached=0, done=0))
    for _ in range(16):
        t += int((base + slope * (done + 256)) * 512 * 1e9)
        done += 512
        script.add(ev.Prog(t=t, r=0, total=8192, cached=0, done=done))
    chart = charts.prefill_chart(session_of(script.sorted()).runs[0], t)
    assert f"half as fast {base / slope:,.0f} deep" in chart.note
    line = chart.series[0]
    for x, y in zip(line.xs, line.ys, strict=True):
        assert y == pytest.approx(1 / (base + slope * x), rel=1e-3)


def test_batches_that_scatter_get_no_line() -> None:
    script = opening()
    t = script.t
    script.add(ev.Request(t=t, r=0, v=0, m=0, api="chat"), ev.State(t=t, r=0, s="sent"))
    script.add(ev.Prog(t=t, r=0, total=4096, cached=0, done=0))
    for batch, ms in enumerate((90, 30, 85, 40, 95, 35, 80, 45), 1):  # another program comes and goes
        t += ms * MS
        script.add(ev.Prog(t=t, r=0, total=4096, cached=0, done=batch * 512))
    chart = charts.prefill_chart(session_of(script.sorted()).runs[0], t)
    assert chart.note == "tok/s; too scattered for a line"
    assert [series.role for series in chart.series] == ["prefill"]


def test_a_flat_prefill_is_not_drawn_out_to_where_nobody_was() -> None:
    script = opening()
    t = script.t
    script.add(ev.Request(t=t, r=0, v=0, m=0, api="chat"), ev.State(t=t, r=0, s="sent"))
    script.add(ev.Prog(t=t, r=0, total=4096, cached=0, done=0))
    for batch in range(1, 9):
        t += 50_000_000 + batch * 1000  # slower by nothing that means anything
        script.add(ev.Prog(t=t, r=0, total=4096, cached=0, done=batch * 512))
    assert charts.prefill_chart(session_of(script.sorted()).runs[0], t).note == "tok/s"


def test_the_cache_grows_from_nothing_to_what_is_in_it() -> None:
    frame = frame_of(SESSION, SESSION.last_t, (120, 36))
    made = charts.charts_of(SESSION.runs[0], SESSION.last_t, frame)[3]
    ys = [y for series in made.series for y in series.ys]
    assert ys == sorted(ys)
    assert ys[0] == 200  # what was cached
    assert frame.measures is not None
    assert ys[-1] == 2399 == frame.measures.kv.tokens  # the last token is not in it
    assert made.level == 4096


def test_what_is_not_known_says_why() -> None:
    empty = page(session_of(scripted("empty", Turn())), S, (120, 36))
    assert "no request yet" in empty
    failed = page(session_of(scripted("error", Turn())), 5 * S, (120, 36))
    assert failed.count("—") >= 3


def test_a_hundred_thousand_tokens_are_thinned_out() -> None:
    made = charts._series([(float(i), float(i)) for i in range(100_000)], "decode", "line")
    assert len(made.xs) <= 401
    assert made.xs[-1] == 99_999


def test_one_batch_is_a_figure_and_no_dot() -> None:
    script = opening()
    t = script.t
    script.add(ev.Request(t=t, r=0, v=0, m=0, api="chat"), ev.State(t=t, r=0, s="sent"))
    script.add(ev.Prog(t=t, r=0, total=14, cached=0, done=0), ev.Prog(t=t + 200 * MS, r=0, total=14, cached=0, done=14))
    chart = charts.prefill_chart(session_of(script.sorted()).runs[0], script.t)
    assert chart.why == "one batch alone, at 70.0 tok/s"
    assert not chart.series
