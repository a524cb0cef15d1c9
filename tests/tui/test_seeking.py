"""What a cursor shows is a function of (session, cursor): whatever was looked at before, and however the session came."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasetop import events as ev
from phasetop import gaporder, tally
from phasetop.session import Session
from phasetop.tui import lanes
from phasetop.tui.cells import Canvas
from phasetop.tui.frame import Frame, FrameMaker
from phasetop.tui.layout import Layout, layout
from phasetop.tui.painter import paint
from phasetop.tui.theme import Look
from phasetop.tui.view import View
from tests.core.test_cursor import RECORDINGS
from tests.tui.cards import counted, with_weights
from tests.tui.fabricate import MS, S, Script, Turn, ask, opening, sample, session_of

SIZES = [(120, 36), (80, 24), (200, 60), (20, 5)]
VIEWS = [View(), View(sweep=True), View(colour="channel", pattern="a"), View(turn=0)]


def plan(size: tuple[int, int]) -> Layout:
    made = layout(*size)
    assert made is not None
    return made


def fresh(session: Session, cursor: int, size: tuple[int, int], view: View) -> Frame:
    return FrameMaker(session).frame(cursor, plan(size), view)


def painted(frame: Frame, size: tuple[int, int]) -> tuple[object, object]:
    canvas = Canvas(*size, Look())
    assert paint(canvas, frame, plan(size)) == {}
    return canvas.chars, canvas.inks


def slower(events: list[ev.Event], factor: int) -> list[ev.Event]:
    """The same events, further apart, and the model's weights as the rules of the cache want them."""
    made = []
    for event in events:
        stamps = {name: value * factor for name in ("t", "t0", "at") if (value := getattr(event, name, None)) is not None}
        made.append(msgspec.structs.replace(event, **stamps))
    return made


SESSIONS = st.builds(slower, RECORDINGS, st.sampled_from([1, 3 * MS, 40 * MS, 700 * MS]))


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept every thousand lines is kept every few: short sessions cross the borders, too."""
    monkeypatch.setattr(tally, "CHECKPOINT_LINES", 4)
    monkeypatch.setattr(gaporder, "BLOCK_LINES", 4)
    monkeypatch.setattr(lanes, "TALLY_LINES", 4)


@st.composite
def seeks(draw: st.DrawFn) -> tuple[list[ev.Event], list[int]]:
    """A session, and cursors in any order: on stamps, right before and after them, and anywhere."""
    events = draw(SESSIONS)
    stamps = [event.t + d for event in events for d in (-1, 0, 1)]
    at = st.sampled_from(stamps) | st.integers(0, stamps[-1] + 12 * S)
    return events, [max(0, cursor) for cursor in draw(st.lists(at, min_size=2, max_size=8))]


@settings(max_examples=40)
@given(seeks(), st.sampled_from(SIZES), st.sampled_from(VIEWS))
def test_any_order_of_seeks_shows_what_is_shown_there_at_once(
    drawn: tuple[list[ev.Event], list[int]], size: tuple[int, int], view: View
) -> None:
    events, cursors = drawn
    session = session_of(events)
    maker = FrameMaker(session)
    for cursor in cursors:
        frame = maker.frame(cursor, plan(size), view)
        assert not frame.failed
        assert frame == fresh(session, cursor, size, view)


@settings(max_examples=40)
@given(seeks(), st.sampled_from(SIZES), st.sampled_from(VIEWS))
def test_live_showed_the_same(drawn: tuple[list[ev.Event], list[int]], size: tuple[int, int], view: View) -> None:
    events, cursors = drawn
    whole, growing = session_of(events), Session()
    live, replay = FrameMaker(growing), FrameMaker(whole)
    come = 0
    for cursor in sorted(cursors):
        while come < len(events) and events[come].t <= cursor:
            growing.apply(events[come])  # type: ignore[arg-type]
            come += 1
        seen, again = live.frame(cursor, plan(size), view), replay.frame(cursor, plan(size), view)
        assert seen == again
        assert painted(seen, size) == painted(again, size)


@settings(max_examples=40)
@given(seeks(), st.data())
def test_what_comes_late_is_in_the_next_picture(drawn: tuple[list[ev.Event], list[int]], data: st.DataObject) -> None:
    events, cursors = drawn
    size, view = (120, 36), View()
    whole, growing = session_of(events), Session()
    live = FrameMaker(growing)
    rest = list(events)
    for cursor in sorted(cursors):
        due = [event for event in rest if event.t <= cursor]
        late = data.draw(st.integers(0, len(due)))
        for event in due[: len(due) - late]:
            growing.apply(event)  # type: ignore[arg-type]
        live.frame(cursor, plan(size), view)
        for event in due[len(due) - late :]:
            growing.apply(event)  # type: ignore[arg-type]
        rest = rest[len(due) :]
        assert live.frame(cursor, plan(size), view) == fresh(whole, cursor, size, view)


def turns_of(script: Script) -> Script:
    ask(script, 0, Turn(tokens=120, think=30, stall_at=60, logprobs=True, prefill_ms=2600, gap_ms=9))
    return ask(script, 1, Turn(tokens=90, gap_ms=30, cached=300, prompt=700), at_ms=700)


TURNS = [
    sample(turns_of(opening())).sorted(),
    counted(turns_of(with_weights(counters="GPM")), sm=96, memory=61).sorted(),
]


@settings(max_examples=12)
@given(
    st.integers(0, len(TURNS) - 1),
    st.lists(st.integers(0, 9 * S), min_size=3, max_size=6),
    st.sampled_from(SIZES),
    st.sampled_from(VIEWS),
)
def test_seeks_in_two_turns_show_what_was_known_then(
    which: int, cursors: list[int], size: tuple[int, int], view: View
) -> None:
    events = TURNS[which]
    session = session_of(events)
    maker = FrameMaker(session)
    for cursor in cursors:
        then = session_of([event for event in events if event.t <= cursor])
        frame, again = maker.frame(cursor, plan(size), view), fresh(then, cursor, size, view)
        assert frame == again
        assert painted(frame, size) == painted(again, size)


def test_a_sample_that_reaches_back_over_others_changes_no_column_that_was_settled() -> None:
    events: list[ev.Event] = [*opening().events, ev.Request(t=S, r=0, v=0, m=0, api="chat"), ev.State(t=S, r=0, s="sent")]
    events += [ev.Smp(t=S + i * S // 4, t0=S + (i - 1) * S // 4, v={"0": 1.0}) for i in range(1, 9)]
    events.append(ev.Smp(t=4 * S, t0=0, v={"0": 2.0}))
    whole, growing = session_of(events), session_of(events[:-1])
    live, replay = FrameMaker(growing), FrameMaker(whole)
    before = live.frame(3 * S, plan((120, 36)), View()).lanes[0].levels
    growing.apply(events[-1])  # type: ignore[arg-type]
    after = live.frame(4 * S, plan((120, 36)), View()).lanes[0].levels
    assert after == replay.frame(4 * S, plan((120, 36)), View()).lanes[0].levels
    assert after[:30] == before[:30]
