"""The trace on the whole of its time and swept over the last ten seconds."""

from __future__ import annotations

import pytest

from phasetop import events as ev
from phasetop.tui.frame import FrameMaker
from phasetop.tui.layout import layout
from phasetop.tui.tracing import SWEEP_NS, Trace
from phasetop.tui.view import View
from tests.tui.fabricate import MS, S, Turn, ask, opening, sample, session_of

TURN = Turn(tokens=2500, gap_ms=10, stall_at=1500)
SCRIPT = sample(ask(opening(), 0, TURN))
SCRIPT.add(ev.Mark(t=24 * S, at=23 * S, label="here"))
SESSION = session_of(SCRIPT.sorted())
START = SESSION.runs[0].states.items[0].t


def trace(at: int, *, sweep: bool, maker: FrameMaker | None = None, token: int | None = None) -> Trace:
    plan = layout(120, 36)
    assert plan is not None
    frame = (maker or FrameMaker(SESSION)).frame(at, plan, View(sweep=sweep, token=token))
    assert frame.failed == {}
    assert frame.trace is not None
    return frame.trace


def test_in_its_first_ten_seconds_a_sweep_is_the_whole() -> None:
    at = START + 8 * S
    assert trace(at, sweep=True) == trace(at, sweep=False)


def test_a_sweep_shows_the_last_ten_seconds_and_a_blank_column_at_the_pen() -> None:
    at = START + 23 * S
    shown = trace(at, sweep=True)
    assert shown.axis.span_ns == SWEEP_NS
    pen = 3 * shown.axis.columns // 10
    row = max((text for text, _ in shown.gaps), key=lambda text: len(text.replace(" ", "")))
    assert row[pen + 1] == " "
    assert len(row.replace(" ", "")) > 0.8 * shown.axis.columns
    assert shown.labels is not None
    assert [text for _, text in shown.labels] == ["20", "22", "14", "16", "18", "20 s"]
    bands = shown.bands
    assert [band.phase for band in bands] == ["decode", "decode"]
    assert bands[0].x1 <= pen + 1 < bands[1].x0
    assert (bands[0].running, bands[1].running) == (True, False)
    assert bands[1].took_ns > 20 * S  # the length of the whole phase


def test_stalls_and_marks_lie_in_their_window_only() -> None:
    stalled = SESSION.runs[0].tokens.t[SESSION.runs[0].tokens.stalls[0]] - START
    for seconds in range(1, 26):
        at = START + seconds * S
        shown = trace(at, sweep=True)
        page = seconds // 10
        in_new = page * 10 * S < stalled <= seconds * S
        behind = (page - 1) * 10 * S + (seconds - page * 10) * S + S // 2 < stalled <= page * 10 * S
        if in_new or behind:
            assert shown.stalls, seconds
        elif stalled > seconds * S or stalled < (seconds - 10) * S - S // 2:
            assert not shown.stalls, seconds
    assert trace(START + 25 * S, sweep=True).marks == ((int((23 * S - START) % SWEEP_NS * 88 // SWEEP_NS), "here"),)


@pytest.mark.parametrize("sweep", [False, True])
def test_a_trace_that_grows_equals_one_made_at_once(sweep: bool) -> None:
    growing = FrameMaker(SESSION)
    for ms in range(0, 26_000, 490):
        at = START + ms * MS
        grown = trace(at, sweep=sweep, maker=growing)
        if ms % 2450 == 0:
            assert grown == trace(at, sweep=sweep)


def test_the_cursor_stands_where_its_token_came() -> None:
    tokens = SESSION.runs[0].tokens
    shown = trace(SESSION.last_t, sweep=False, token=700)
    expected = (tokens.t[700] - START) * shown.axis.columns // shown.axis.span_ns
    assert shown.cursor_at == expected


def test_what_came_before_a_window_is_not_drawn_at_its_edge() -> None:
    shown = trace(START + 23 * S, sweep=True)
    assert [text[0] for text, _ in shown.gaps[:2]] == [" ", " "]  # the stall and slow tokens of before would stand there


def test_a_band_has_its_own_length_where_the_end_of_the_reply_has_no_cell_left() -> None:
    """A reply that ends in the axis' last column: what comes after it (4 ms) is not the length of decode."""
    script = ask(opening(), 0, Turn(tokens=2))
    sent = next(event.t for event in script.events if isinstance(event, ev.Request))
    late = [event for event in script.events if event.t > sent + 430 * MS]  # the last token, the server's times, the end
    shift = sent + 4980 * MS - late[0].t
    for event in late:
        event.t += shift
    session = session_of(script.sorted())
    plan = layout(80, 24)
    assert plan is not None
    frame = FrameMaker(session).frame(session.last_t + 2 * S, plan, View())
    assert frame.measures is not None
    assert frame.trace is not None
    decode = frame.measures.phases.ns("decode")
    last = frame.trace.bands[-1]
    assert last.phase == "decode"
    assert last.x1 == frame.trace.axis.columns
    assert last.took_ns == decode
