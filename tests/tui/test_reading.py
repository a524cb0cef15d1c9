"""Keys in the text: the cursor, searching, copying, next and previous."""

from __future__ import annotations

from pathlib import Path

import pytest

from phasetop import events as ev
from phasetop import places
from phasetop.session import Session
from phasetop.tui import copying
from phasetop.tui.frame import Frame
from tests.tui.desk import Desk
from tests.tui.fabricate import MS, Growing, S, Turn, ask, opening, scripted, session_of

EVENTS = scripted("turns", Turn(tokens=300, stall_at=200, logprobs=True))
TURNS = session_of(EVENTS)


@pytest.fixture
def desk() -> Desk:
    return Desk(TURNS, TURNS.last_t)


def shown(desk: Desk) -> Frame:
    assert desk.controls.shown is not None
    return desk.controls.shown


def picked(desk: Desk) -> str:
    """What is reversed in the text."""
    return "".join(text for row in shown(desk).page.rows for text, how in row.runs if "r" in how.style)


def test_the_first_arrow_puts_the_cursor_on_the_newest_token(desk: Desk) -> None:
    desk.press("left")
    frame = shown(desk)
    assert frame.token is not None
    assert frame.token.line == frame.upto - 1
    assert frame.view.focus == "text"
    before = frame.token.line
    desk.press("left", "left", "right")
    assert shown(desk).token is not None
    assert shown(desk).token.line == before - 1  # type: ignore[union-attr]
    assert picked(desk).strip() == str(TURNS.runs[2].tokens.text[before - 1]).strip()


def test_up_and_down_move_by_rows_and_keep_the_cursor_in_sight(desk: Desk) -> None:
    desk.press("left")
    rows = []
    for _ in range(30):
        desk.press("up")
        frame = shown(desk)
        assert frame.reply is not None
        assert frame.view.token is not None
        row = frame.reply.wrap.row_of(frame.view.token)
        rows.append(row)
        assert any(each.number == row for each in frame.page.rows)
    assert rows == sorted(rows, reverse=True)
    assert rows[-1] < 3
    for _ in range(60):
        desk.press("down")
    assert shown(desk).view.token is not None
    assert shown(desk).reply.wrap.row_of(shown(desk).view.token) >= shown(desk).page.total - 2  # type: ignore[union-attr,arg-type]


def test_at_both_ends_the_cursor_stays(desk: Desk) -> None:
    desk.press("right", "right", "right")
    assert shown(desk).view.token == shown(desk).upto - 1
    desk.controls.put_cursor(0)
    desk.press("left")
    assert shown(desk).view.token == 0
    assert shown(desk).view.top == 0


def test_escape_gives_the_text_back_and_f_follows(desk: Desk) -> None:
    desk.press("left", "left", "escape")
    assert (shown(desk).view.token, shown(desk).view.top, shown(desk).view.focus) == (None, None, "text")
    assert desk.press("escape").controls.shown is not None
    assert shown(desk).view.focus is None
    desk.press("left", "up", "f")
    assert (shown(desk).view.token, shown(desk).view.top) == (None, None)


def test_a_click_puts_the_cursor_under_the_mouse() -> None:
    desk = Desk(TURNS, TURNS.last_t)
    frame = shown(desk)
    y, row = next((y, row) for y, row in enumerate(frame.page.rows) if len(row.runs) > 0 and row.number >= 0)
    text = "".join(run for run, _ in row.runs)
    column = text.index(" ", 20) + 2
    desk.controls.click(9 + column, 21 + y)
    desk.draw()
    token = shown(desk).view.token
    assert token is not None
    word = str(TURNS.runs[2].tokens.text[token])
    assert text[column] in word
    assert shown(desk).page.rows[y].number == row.number  # nothing jumped under the mouse
    desk.controls.click(9 + column + 12, 21 + y, select=True)
    desk.draw()
    first, end = shown(desk).view.selection
    assert first == token
    assert end > token + 1


def test_alternatives_are_read_for_the_token_under_the_cursor() -> None:
    script = opening()
    ask(script, 0, Turn(tokens=30))
    for event in script.events:
        if isinstance(event, ev.Tok):
            event.p, event.top = -0.2, [str(event.x), -0.2, " other", -1.9]
    events = script.sorted()
    desk = Desk(session_of(events), script.t, events=events).press("left")
    token = shown(desk).token
    assert token is not None
    assert [each.text for each in token.alternatives[0]] == [TURNS.runs[0].tokens.text[29], " other"]
    assert token.rank == 1


def test_colour_by_probability_asks_for_it_from_the_next_turn_on() -> None:
    plain = session_of(scripted("run", Turn(tokens=60)))
    desk = Desk(plain, plain.last_t).press("c")
    assert desk.wire.said == [("logprobs", 5)]
    assert desk.message is not None
    assert "from the next turn on" in desk.message
    assert "bytes a token" in desk.message
    desk.press("c", "c", "c", "c")
    assert desk.wire.said == [("logprobs", 5)]  # once
    with_them = Desk(TURNS, TURNS.last_t).press("c")
    assert with_them.wire.said == []


def test_n_begins_with_the_newest_stall_and_goes_back_and_forth(desk: Desk) -> None:
    desk.press("n")
    assert (shown(desk).r, shown(desk).view.token) == (2, TURNS.runs[2].tokens.stalls[0])
    assert desk.message is not None
    assert desk.message.startswith("a stall of 33")
    assert desk.message.endswith("4 of 4")
    desk.press("n")
    assert desk.message == "no stall, mark or turn after this"
    seen = []
    for _ in range(4):
        desk.press("N")
        seen.append((shown(desk).r, desk.message))
    assert [r for r, _ in seen] == [2, 1, 0, 0]
    assert seen[-1][1] == "no stall, mark or turn before this"
    desk.press("n")
    assert shown(desk).r == 1


def test_marks_are_left_at_this_moment_and_gone_to() -> None:
    clock = [3 * S]
    source = Growing(scripted("run", Turn(tokens=300)), clock)
    source.poll()
    desk = Desk(source.session, clock[0], source=source)
    desk.press("m")
    assert desk.wire.said == [("mark", (3 * S, "1"))]
    source.session.apply(ev.Mark(t=3 * S, at=3 * S, label="1"))
    clock[0] += 10 * MS
    desk.draw()
    assert shown(desk).trace is not None
    assert [label for _, label in shown(desk).trace.marks] == ["1"]  # type: ignore[union-attr]
    desk.press("n")
    assert desk.message is not None
    assert desk.message.startswith("mark 1")
    token = shown(desk).view.token
    assert token is not None
    assert source.session.runs[0].tokens.t[token - 1] < 3 * S <= source.session.runs[0].tokens.t[token] + 20 * MS


def test_a_watcher_leaves_no_marks() -> None:
    desk = Desk(TURNS, TURNS.last_t, steers=False).press("m")
    assert desk.wire.said == []


def test_searching_goes_to_hits_of_all_turns_and_around() -> None:
    desk = Desk(TURNS, TURNS.last_t)
    desk.press("slash", *"promise")
    assert desk.controls.searching
    assert shown(desk).view.search is not None
    assert shown(desk).hits == 2
    desk.press("enter")
    assert desk.controls.screen == "live"
    assert shown(desk).token is not None
    turns = [shown(desk).turn]
    for _ in range(4):
        desk.press("n")
        turns.append(shown(desk).turn)
    back = []
    for _ in range(4):
        desk.press("N")
        back.append(shown(desk).turn)
    assert sorted(turns[:4]) == [1, 2, 3, 3]
    assert turns[4] == turns[0]
    assert back == turns[3::-1]
    assert desk.press("escape").controls.shown is not None
    assert shown(desk).view.pattern == ""


def test_what_is_searched_stands_out(desk: Desk) -> None:
    desk.press("slash", *"bucket")
    styles = [(text, how.bg) for row in shown(desk).page.rows for text, how in row.runs if how.bg == "raised"]
    assert styles
    assert all(text == "bucket" for text, _ in styles)


def test_a_search_for_nothing_or_for_what_is_not_there() -> None:
    desk = Desk(TURNS, TURNS.last_t).press("slash", "enter")
    assert shown(desk).view.token is None
    desk.press("slash", *"xyzzy", "enter")
    assert desk.message == "nothing like 'xyzzy' in the replies"
    desk.press("slash", "escape")
    assert shown(desk).view.pattern == ""


def test_copying(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, desk: Desk) -> None:
    monkeypatch.setattr(places, "state_folder", lambda: tmp_path)
    sent: list[str] = []
    desk.controls.copy = sent.append
    desk.press("y")
    whole = "".join(str(text) for text in TURNS.runs[2].tokens.text)
    assert (tmp_path / "copied.txt").read_text() == whole
    assert sent == [copying.osc52(whole)]
    assert desk.message is not None
    assert f"{len(whole):,} characters" in desk.message
    desk.press("left", "shift+left", "shift+left", "y")
    last = "".join(str(text) for text in TURNS.runs[2].tokens.text[-3:])
    assert (tmp_path / "copied.txt").read_text() == last
    assert picked(desk).replace("\n", "") == last.replace("\n", "") or last.strip() in picked(desk)


def test_a_reply_too_long_for_the_clipboard_goes_to_the_file_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(places, "state_folder", lambda: tmp_path)
    long = session_of(ask(opening(), 0, Turn(tokens=20, texts=["x" * 5000])).sorted())
    desk = Desk(long, long.last_t)
    sent: list[str] = []
    desk.controls.copy = sent.append
    desk.press("y")
    assert sent == []
    assert desk.message is not None
    assert "too long for the clipboard" in desk.message


def test_a_file_that_cannot_be_written_is_said(monkeypatch: pytest.MonkeyPatch, desk: Desk) -> None:
    def full(text: str) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(copying, "save", full)
    desk.press("y")
    assert desk.message is not None
    assert desk.message.endswith("no file: No space left on device")


def test_of_a_redacted_reply_nothing_is_copied_and_its_dots_have_colours() -> None:
    session = session_of(ask(opening(), 0, Turn(tokens=40, texts=["x"])).sorted())
    hidden = Session()
    script = ask(opening(), 0, Turn(tokens=40))
    for event in script.sorted():
        if isinstance(event, ev.Tok):
            event.x = len(str(event.x))
        hidden.apply(event)  # type: ignore[arg-type]
    desk = Desk(hidden, hidden.last_t)
    assert shown(desk).redacted
    text = "".join(run for row in shown(desk).page.rows for run, _ in row.runs)
    assert set(text) == {"·"}
    desk.press("y")
    assert desk.message == "the text was left out of this recording: there is nothing to copy"
    assert not shown(Desk(session, session.last_t)).redacted


def test_probability_that_is_remembered_from_another_time_is_asked_for_too() -> None:
    class Remembered:
        def get(self, name: str) -> object:
            return "probability" if name == "colour" else None

        def put(self, name: str, value: object) -> None:
            """Nothing is kept."""

    plain = session_of(scripted("run", Turn(tokens=60)))
    desk = Desk(plain, plain.last_t)
    desk.controls.restore(Remembered())
    desk.draw()
    assert desk.wire.said == [("logprobs", 5)]
    desk.draw()
    assert desk.wire.said == [("logprobs", 5)]
