"""Focus, zoom, pages and marks; what panes show of it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from phasetop.tui import explain, pages
from phasetop.tui.cells import Canvas
from phasetop.tui.frame import Frame
from phasetop.tui.layout import PANES, Pane, layout, pane_at, zoomed
from phasetop.tui.painter import paint
from phasetop.tui.theme import Look
from tests.tui.desk import Desk
from tests.tui.fabricate import S, Turn, scripted, session_of

RUNNING = session_of(scripted("run", Turn(tokens=400, stall_at=300)))
TURNS = session_of(scripted("turns", Turn(tokens=100)))
SIZES = [(120, 36), (80, 24), (200, 60), (60, 40)]


def shown(desk: Desk) -> Frame:
    assert desk.controls.shown is not None
    return desk.controls.shown


def picture(desk: Desk) -> tuple[str, Canvas]:
    plan = layout(*desk.size)
    assert plan is not None
    if desk.controls.zoom is not None:
        plan = zoomed(plan, desk.controls.zoom)
    canvas = Canvas(*desk.size, Look())
    assert paint(canvas, shown(desk), plan) == {}
    return canvas.text(), canvas


def reversed_text(canvas: Canvas) -> str:
    cells = zip(canvas.chars, canvas.inks, strict=True)
    return "".join(c for chars, inks in cells for c, how in zip(chars, inks, strict=True) if "r" in how.style)


def test_tab_goes_over_the_panes_and_shift_tab_back() -> None:
    desk = Desk(RUNNING, 6 * S)
    seen = [shown(desk.press("tab")).view.focus for _ in range(6)]
    assert seen == [*PANES, PANES[0]]
    assert shown(desk.press("shift+tab")).view.focus == PANES[-1]
    assert shown(Desk(RUNNING, 6 * S).press("shift+tab")).view.focus == PANES[-1]


@pytest.mark.parametrize(
    ("pane", "label"),
    [("trace", "phases"), ("text", "reply"), ("figures", "first token"), ("kv", "KV cache"), ("machine", "CPU")],
)
def test_the_focused_panes_label_is_reversed_and_no_other(pane: Pane, label: str) -> None:
    desk = Desk(RUNNING, 6 * S)
    desk.controls.focus(pane)
    desk.draw()
    assert reversed_text(picture(desk)[1]) == label


@pytest.mark.parametrize("pane", PANES)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_each_pane_has_all_the_room_when_it_is_zoomed(pane: Pane, size: tuple[int, int]) -> None:
    desk = Desk(RUNNING, 6 * S, size=size)
    desk.controls.focus(pane)
    desk.press("z")
    text, _ = picture(desk)
    lines = text.split("\n")
    assert "DECODE" in text
    assert lines[size[1] - 1].startswith(" space pause")
    words = {
        "trace": ("phases", "gap", " s\n"),
        "text": ("reply", "bucket"),
        "figures": ("first token", "time by gap", "RSS"),
        "kv": ("KV cache", "cells", "full in  "),
        "machine": ("CPU", "RAM", "of 16"),
    }[pane]
    for word in words:
        assert word in text, word
    assert shown(desk.press("z")).view.zoom is None


def test_a_zoomed_trace_has_more_rows_for_gaps_and_a_zoomed_machine_for_lanes() -> None:
    plan = layout(120, 36)
    assert plan is not None
    trace, machine = zoomed(plan, "trace"), zoomed(plan, "machine")
    assert trace.gap_rows > 3 * plan.gap_rows
    assert machine.lane_rows >= 8
    for made in (trace, machine):
        assert made.trace is not None
        assert made.lanes["ruler"].bottom == made.trace.bottom


@pytest.mark.parametrize("size", [(40, 12), (50, 13), (60, 16), (112, 14), (300, 100)], ids=str)
@pytest.mark.parametrize("pane", PANES)
def test_a_zoomed_pane_never_covers_the_last_rows(size: tuple[int, int], pane: Pane) -> None:
    plain = layout(*size)
    assert plain is not None
    plan = zoomed(plain, pane)
    for rect in (plan.trace, plan.text, plan.alone):
        if rect is not None:
            assert plan.notice is not None
            assert rect.bottom <= plan.notice.y
            assert rect.right <= size[0]
    for rect in plan.lanes.values():
        assert plan.trace is not None
        assert rect.bottom <= plan.trace.bottom


def test_tab_in_a_zoom_zooms_the_next_pane() -> None:
    desk = Desk(RUNNING, 6 * S).press("tab", "z", "tab")
    assert shown(desk).view.zoom == "text"


def test_v_shows_the_figures_and_hides_them() -> None:
    desk = Desk(RUNNING, 6 * S, size=(80, 24)).press("v")
    assert "time by gap" in picture(desk)[0]
    assert shown(desk.press("v")).view.zoom is None


def test_w_sweeps() -> None:
    desk = Desk(RUNNING, 6 * S).press("w")
    assert shown(desk).view.sweep
    trace = shown(desk).trace
    assert trace is not None
    assert trace.axis.span_ns == 10 * S
    assert not shown(desk.press("w")).view.sweep


@pytest.mark.parametrize(
    ("x", "y", "pane"),
    [
        (3, 6, "trace"),
        (40, 10, "trace"),
        (3, 14, "machine"),
        (20, 26, "text"),
        (85, 20, "figures"),
        (85, 28, "kv"),
        (5, 0, None),
    ],
)
def test_a_click_focuses_the_pane_under_it(x: int, y: int, pane: Pane | None) -> None:
    plan = layout(120, 36)
    assert plan is not None
    assert pane_at(plan, x, y) == pane


@pytest.mark.parametrize("focus", [None, *PANES])
@pytest.mark.parametrize("at", [0, 1 * S, 60 * S])
def test_every_pane_is_explained_and_every_dash_has_a_reason(focus: Pane | None, at: int) -> None:
    desk = Desk(RUNNING, at)
    for width in (56, 78, 118):
        lines = explain.lines(focus, shown(desk), width)
        texts = ["".join(part if isinstance(part, str) else part[0] for part in line) for line in lines]
        for text, below in zip(texts, [*texts[1:], ""], strict=True):
            assert len(text.rstrip()) <= width
            if text.split("  ")[-1].strip() == "—" or " — " in text:
                assert len(below.split()) >= 2 or len(text.split("—", 1)[1].split()) >= 2, text


def test_pages_open_over_the_view_and_show_what_they_say() -> None:
    for key, kind, words in (
        ("T", "turns", ("turns", "prompt", "decode")),
        ("i", "info", ("first token", "sent → first token of any channel")),
        ("p", "charts", ("gaps", "KV cache over time", "prefill rate a batch", "decode rate over depth")),
    ):
        desk = Desk(TURNS, TURNS.last_t).press(key)
        assert desk.controls.page == (kind, 0)
        canvas = Canvas(120, 33, Look())
        assert pages.paint(kind, canvas.area(0, 0, 120, 33), shown(desk), TURNS, {}, 0) == {}  # type: ignore[arg-type]
        for word in words:
            assert word in canvas.text(), (kind, word)
        assert desk.press("escape").controls.page is None
        assert shown(desk).view.page is None


def test_the_turns_page_chooses_the_turn() -> None:
    desk = Desk(TURNS, TURNS.last_t).press("T", "left_square_bracket")
    assert shown(desk).turn == 2
    assert len(shown(desk).history) == 3


def test_the_page_of_the_token_under_the_cursor() -> None:
    desk = Desk(TURNS, TURNS.last_t).press("left", "i")
    canvas = Canvas(80, 21, Look())
    pages.paint("info", canvas.area(0, 0, 80, 21), shown(desk), TURNS, {}, 0)
    assert "came at" in canvas.text()
    assert "× the turn's median" in canvas.text()


def test_a_page_that_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("made to fail")

    monkeypatch.setattr(explain, "lines", broken)
    desk = Desk(TURNS, TURNS.last_t)
    canvas = Canvas(80, 21, Look())
    failed = pages.paint("info", canvas.area(0, 0, 80, 21), shown(desk), TURNS, {}, 0)
    assert set(failed) == {"info"}
    assert "this page failed: ValueError" in canvas.text()


def test_a_quantisation_that_the_name_tells_is_not_said_twice() -> None:
    frame = shown(Desk(RUNNING, 6 * S))
    plan = layout(120, 36)
    assert plan is not None
    for name, begins in (("tiny", " tiny  Q4_1  embedded"), ("tiny.q4_1", " tiny.q4_1  embedded")):
        canvas = Canvas(120, 36, Look())
        paint(canvas, replace(frame, facts=replace(frame.facts, model=name)), plan)
        assert canvas.text().startswith(begins)
