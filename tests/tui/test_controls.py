"""What keys do, without a terminal."""

from __future__ import annotations

from phasetop.faults import PhasetopError
from phasetop.tui.controls import final_status
from tests.tui.desk import Desk
from tests.tui.fabricate import Finished, S, Turn, ask, opening, scripted, session_of

RUNNING = session_of(scripted("run", Turn(tokens=300)))
TURNS = session_of(scripted("turns", Turn(tokens=100)))


def test_space_freezes_the_view_and_nothing_else() -> None:
    desk = Desk(RUNNING, 2 * S).press("space")
    desk.clock[0] = 4 * S
    assert desk.controls.cursor == 2 * S
    desk.press("space")
    assert desk.controls.cursor == 4 * S
    assert desk.wire.said == []


def test_escape_ends_the_running_reply_and_nothing_when_none_runs() -> None:
    assert Desk(RUNNING, 2 * S).press("escape").wire.said == [("cancel", 0)]
    assert Desk(RUNNING, 60 * S).press("escape").wire.said == []
    assert Desk(RUNNING, 2 * S, steers=False).press("escape").wire.said == []


def test_escape_first_leaves_the_zoom() -> None:
    desk = Desk(RUNNING, 2 * S).press("z")
    assert desk.controls.zoomed
    assert desk.press("escape").wire.said == []
    assert not desk.controls.zoomed


def test_ctrl_c_cancels_then_leaves_with_130() -> None:
    desk = Desk(RUNNING, 2 * S).press("ctrl+c")
    assert desk.wire.said == [("cancel", 0)]
    assert desk.left == []
    desk.time = 2.0
    assert desk.press("ctrl+c").left == [130]


def test_two_ctrl_c_far_apart_are_not_twice() -> None:
    desk = Desk(RUNNING, 60 * S).press("ctrl+c")
    desk.time = 4.0
    assert desk.press("ctrl+c").left == []
    assert desk.message == "ctrl-c again quits"


def test_q_leaves_but_in_the_ask_line_it_is_a_letter() -> None:
    assert Desk(RUNNING, 2 * S).press("q").left == [0]
    desk = Desk(RUNNING, 2 * S, asking=True).press("q")
    assert desk.left == []
    assert desk.controls.line.text == "q"


def test_asking() -> None:
    desk = Desk(RUNNING, 60 * S).press("a", "H", "i", "space", "y", "o", "u", "enter")
    assert desk.wire.said == [("ask", "Hi you")]
    assert desk.controls.screen == "live"
    desk.press("enter", "enter")
    assert desk.wire.said == [("ask", "Hi you")]  # nothing is sent for nothing typed


def test_escape_leaves_the_ask_line_and_again_ends_the_reply() -> None:
    desk = Desk(RUNNING, 2 * S).press("a", "x", "escape")
    assert (desk.controls.screen, desk.wire.said) == ("live", [])
    assert desk.press("escape").wire.said == [("cancel", 0)]
    assert desk.press("a").controls.line.text == "x"


def test_a_watcher_cannot_ask() -> None:
    desk = Desk(RUNNING, 2 * S, steers=False).press("a", "enter", "s")
    assert desk.controls.screen == "live"
    desk.controls.paste("text")
    assert desk.controls.screen == "live"


def test_a_paste_goes_to_the_ask_line() -> None:
    desk = Desk(RUNNING, 2 * S)
    desk.controls.paste("two\nlines")
    assert desk.controls.screen == "ask"
    assert desk.press("enter").wire.said == [("ask", "two\nlines")]


def test_colours_go_round() -> None:
    desk = Desk(RUNNING, 2 * S)
    seen = []
    for _ in range(5):
        assert desk.controls.shown is not None
        seen.append(desk.controls.shown.view.colour)
        desk.press("c")
    assert seen == ["gap", "probability", "channel", "plain", "gap"]


def test_where_there_is_no_legend_the_meaning_is_said() -> None:
    desk = Desk(RUNNING, 2 * S, steers=False)
    desk.size = (80, 24)
    desk.draw()
    assert desk.press("c").message == "colours: probability, which the server was not asked for"
    assert desk.press("c").message == "colours: answer, thinking, tool call"


def test_keeping_says_where_and_why_not() -> None:
    desk = Desk(RUNNING, 2 * S).press("s")
    assert desk.message == "kept as 2026-11-30-SmolLM2-135M"

    desk = Desk(RUNNING, 2 * S)
    desk.wire.refusal = PhasetopError("cannot keep the session: no room")
    assert desk.press("s").message == "cannot keep the session: no room"


def test_a_message_goes_after_a_while() -> None:
    desk = Desk(RUNNING, 2 * S).press("s")
    desk.time = 8.0
    desk.controls.tick()
    desk.draw()
    assert desk.message is None


def test_scrolling_and_following() -> None:
    desk = Desk(RUNNING, 5 * S).press("up")
    assert desk.controls.shown is not None
    top = desk.controls.shown.view.top
    total = desk.controls.shown.page.total
    assert top == total - len(desk.controls.shown.page.rows) - 1
    assert desk.press("home").controls.shown is not None
    assert desk.controls.shown.view.top == 0
    desk.press("f")
    assert desk.controls.shown.view.top is None
    desk.press("pageup", "pagedown", "pagedown")
    assert desk.controls.shown.view.top is None  # at the end it follows again


def test_turns() -> None:
    desk = Desk(TURNS, TURNS.last_t)
    shown = []
    before, after = "left_square_bracket", "right_square_bracket"
    for key in (before, before, before, after, after):
        desk.press(key)
        assert desk.controls.shown is not None
        shown.append(desk.controls.shown.r)
    assert shown == [1, 0, 0, 1, 2]


def test_pages_open_and_close() -> None:
    desk = Desk(RUNNING, 2 * S).press("question_mark")
    assert desk.controls.page == ("help", 0)
    assert desk.press("down").controls.page == ("help", 5)
    assert desk.press("q").controls.page is None
    assert desk.left == []
    assert desk.press("exclamation_mark").controls.page == ("log", 0)
    assert desk.press("escape").controls.page is None
    assert desk.wire.said == []


def test_the_exit_status_is_the_last_requests() -> None:
    for finish, status in (("stop", 0), ("cancelled", 0), ("cut", 1)):
        assert final_status(Finished(session_of(ask(opening(), 0, Turn(tokens=5, finish=finish)).sorted()))) == status
    assert final_status(Finished(session_of(ask(opening(), 0, Turn(error="no")).sorted()))) == 1
    assert final_status(Finished(session_of(opening().sorted()))) == 0
