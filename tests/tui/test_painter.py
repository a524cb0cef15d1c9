"""Frames as cells: at any size, with hostile text, with a pane that fails."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasetop import events as ev
from phasetop.session import Session
from phasetop.standing import Standing
from phasetop.tui import machinepane
from phasetop.tui.cells import Canvas
from phasetop.tui.frame import FrameMaker
from phasetop.tui.layout import layout, zoomed
from phasetop.tui.page import COLOURS
from phasetop.tui.painter import paint
from phasetop.tui.theme import Look
from phasetop.tui.view import AskLine, View
from tests.tui.fabricate import HOSTILE, MS, S, Turn, ask, opening, sample, scripted, session_of

SESSIONS = {
    name: session_of(scripted(name, Turn(tokens=150, stall_at=80, think=20)))
    for name in ("empty", "loading", "unreachable", "error", "run", "turns", "prefill")
}


def shown(
    session: Session, cursor: int, size: tuple[int, int] = (120, 36), view: View | None = None, look: Look | None = None
) -> str:
    plan = layout(*size)
    assert plan is not None
    canvas = Canvas(*size, look or Look())
    frame = FrameMaker(session).frame(cursor, plan, view or View(steers=True))
    assert paint(canvas, frame, plan) == {}
    return canvas.text()


@given(
    st.sampled_from(sorted(SESSIONS)),
    st.integers(0, 12_000),
    st.tuples(st.integers(6, 230), st.integers(2, 70)),
    st.sampled_from(COLOURS),
    st.booleans(),
    st.sampled_from([Look(), Look(depth="none"), Look(depth="16"), Look(ascii=True)]),
)
@settings(max_examples=150, deadline=None)
def test_nothing_fails_at_any_size(
    name: str, at_ms: int, size: tuple[int, int], colour: str, zoom: bool, look: Look
) -> None:
    plan = layout(*size)
    assert plan is not None
    plan = zoomed(plan) if zoom else plan
    view = View(colour=colour, steers=True, zoom="text" if zoom else None, ask=AskLine("typed", 3, focused=zoom))  # type: ignore[arg-type]
    frame = FrameMaker(SESSIONS[name]).frame(at_ms * MS, plan, view)
    assert paint(Canvas(*size, look), frame, plan) == {}


def test_hostile_text_is_harmless_wherever_it_stands() -> None:
    script = opening()
    script.add(ev.Model(t=20 * MS, m=0, v=0, name=f"evil{HOSTILE}", quant=HOSTILE))
    script.add(ev.Server(t=20 * MS, v=0, backend=HOSTILE, version=HOSTILE, local=True))
    script.add(ev.Notice(t=30 * MS, code="x", level="warn", text=HOSTILE))
    turn = Turn(tokens=60, texts=[HOSTILE[i : i + 3] for i in range(0, len(HOSTILE), 3)], ask=HOSTILE)
    ask(script, 0, turn, at_ms=10)
    ask(script, 1, Turn(error=HOSTILE), at_ms=500)
    session = session_of(sample(script).sorted())
    for cursor in (50 * MS, 300 * MS, S, session.last_t):
        for size in ((120, 36), (80, 24), (60, 40), (20, 5)):
            text = shown(session, cursor, size, View(steers=True, message=HOSTILE, title=HOSTILE))
            assert all(line.isprintable() for line in text.split("\n"))
    assert "[/INST][b + [#888888]" in shown(session, 900 * MS).replace("\n", "")  # and never taken for markup


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
def test_how_a_link_stands_is_never_left_out_for_a_long_name(size: tuple[int, int]) -> None:
    standing = Standing("link lost 12 s", f"link lost 12 s, trying again: no route {HOSTILE}")
    view = View(title="me@box:a-long-name-of-a-session-that-goes-on.phasetop", standing=standing)
    text = shown(SESSIONS["run"], 2000 * MS, size, view)
    assert "link lost 12 s" in text.split("\n")[0]
    assert "▲ link lost 12 s, trying again: no route" in text
    assert "\x1b" not in text
    plain = shown(SESSIONS["run"], 2000 * MS, size, View(title="me@box:run"))
    assert "me@box:run" in plain.split("\n")[0]
    assert "link lost" not in plain


def test_a_pane_that_fails_says_so_and_the_rest_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError("made to fail")

    monkeypatch.setattr(machinepane, "paint_lane", broken)
    plan = layout(120, 36)
    assert plan is not None
    canvas = Canvas(120, 36, Look())
    frame = FrameMaker(SESSIONS["run"]).frame(2 * S, plan, View())
    failed = paint(canvas, frame, plan)
    assert set(failed) == {"machine"}
    lines = canvas.text().split("\n")
    assert lines[plan.lanes["machine"].y] == " ! this pane failed: ValueError · e shows it"
    assert "DECODE" in lines[2]
    assert "first token" in lines[20]


def test_what_is_unknown_is_a_dash_with_a_reason() -> None:
    text = shown(SESSIONS["empty"], 2 * S)
    assert "first token     — s      no request yet" in text
    assert "KV cache        — tokens no request yet" in text
    prefill = shown(SESSIONS["prefill"], 3 * S)
    assert "decode          — tok/s       not begun" in prefill


def test_every_figure_of_the_lanes_has_its_name_and_a_unit_whole_at_any_width() -> None:
    """At 80 columns a batch's unit stands with the lane: beside its number and its name there is no room."""
    for width in (60, 80, 99, 120, 200):
        text = shown(SESSIONS["prefill"], 3 * S, (width, 40))
        for name in ("first", "mean", "last"):
            row = next(row for row in text.split("\n") if row.endswith(f" {name}"))
            assert len(row) < width
        assert "tok/s" in "".join(text.split("\n")[7:14])


def test_no_number_changes_its_column_while_it_runs() -> None:
    columns = set()
    for at in range(1200, 2400, 100):
        lines = shown(SESSIONS["run"], at * MS).split("\n")
        columns.add((lines[2].index(" tok/s"), lines[22].index(" tok/s"), lines[12].index(" ms p50"), lines[6].rindex(" s")))
    assert len(columns) == 1


def test_without_colour_the_phases_are_told_by_their_characters() -> None:
    text = shown(SESSIONS["run"], 4 * S, look=Look(depth="none"))
    band = text.split("\n")[6]
    assert ".▒" in band
    assert "██" in band
    assert "!" in band


def test_ascii_mode_has_no_other_character_after_the_glyphs() -> None:
    look = Look(ascii=True)
    assert look.glyphs(shown(SESSIONS["run"], 2 * S, look=look)).isascii()
