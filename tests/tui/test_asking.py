"""The ask line and what people try at once: again, a key that is wanted, the editor."""

from __future__ import annotations

import msgspec
import pytest

from phasetop import events as ev
from phasetop.faults import PhasetopError
from phasetop.session import Session
from phasetop.tui.asking import again_words
from tests.tui.desk import Desk
from tests.tui.fabricate import MS, S, Turn, ask, opening, scripted, session_of


def done() -> Session:
    return session_of(scripted("run", Turn(tokens=20)))


def test_again_shows_the_newest_and_says_what_was_cached() -> None:
    desk = Desk(done(), 20 * S).press("R")
    assert desk.wire.said == [("again", (0, True))]
    for event in ask(opening(), 1, Turn(prompt=38, cached=37), at_ms=20_100).sorted():
        desk.controls._source.session.apply(event)  # type: ignore[arg-type]
    desk.clock[0] = 30 * S
    desk.draw()
    desk.controls.tick()
    desk.draw()
    assert desk.message == "the same prompt again: cached 37 of 38, so 1 token was read anew"
    desk.time += 20
    desk.controls.tick()
    desk.draw()
    assert desk.message is None


def test_without_the_cache_is_asked_so() -> None:
    assert Desk(done(), 20 * S).press("alt+shift+r").wire.said == [("again", (0, False))]
    assert Desk(done(), 20 * S, steers=False).press("R", "alt+shift+r").wire.said == []
    assert Desk(session_of(opening().sorted()), S).press("R").wire.said == []


@pytest.mark.parametrize(
    ("cached", "cache", "words"),
    [
        (37, True, "the same prompt again: cached 37 of 38, so 1 token was read anew"),
        (0, True, "the same prompt again: cached 0 of 38, so 38 tokens were read anew"),
        (0, False, "the same prompt without the cache: all 38 tokens were read anew"),
        (20, False, "the server used its cache all the same: cached 20 of 38, so 18 tokens were read anew"),
    ],
)
def test_the_words(cached: int, cache: bool, words: str) -> None:
    assert again_words(cached, 38, cache=cache) == words


def test_why_it_cannot_be_repeated_is_said() -> None:
    desk = Desk(done(), 20 * S)
    desk.wire.refusal = PhasetopError("that request was not asked from here, so it cannot be asked again")
    assert desk.press("R").message == "that request was not asked from here, so it cannot be asked again"


def refused() -> Session:
    script = opening()
    ask(script, 0, Turn(error="the server wants an API key"))
    script.add(ev.Notice(t=script.t + MS, code="key-needed", level="error", r=0, text="the server wants an API key"))
    return session_of(script.sorted())


def test_a_key_that_is_wanted_is_asked_for_shown_as_dots_and_the_request_sent_again() -> None:
    desk = Desk(refused(), 5 * S)
    shown = desk.controls.shown
    assert shown is not None
    assert (shown.view.ask.label, shown.view.ask.focused) == ("key", False)
    assert shown.view.ask.hint == "the server wants an API key: a types it, enter sends it"
    desk.press("q")  # not typed: nothing took the keys yet
    assert desk.left == [1]

    desk = Desk(refused(), 5 * S).press("a", *"sk-1q")
    assert desk.controls.shown is not None
    assert desk.controls.shown.view.ask.text == "•••••"
    assert "sk-1q" not in repr(msgspec.structs.astuple(desk.controls.shown.view))
    desk.press("up", "enter")
    assert desk.wire.said == [("key", "sk-1q"), ("again", (0, True))]
    assert desk.controls.line._history == []
    assert desk.controls.secret.text == ""


def test_after_the_key_the_line_takes_prompts_again() -> None:
    desk = Desk(refused(), 5 * S)
    session = desk.controls._source.session
    session.apply(ev.Control(t=session.last_t + 1, op="set", ok=True))
    desk.press("a", *"why", "enter")
    assert desk.wire.said == [("ask", "why")]


def test_leaving_forgets_a_half_typed_key() -> None:
    desk = Desk(refused(), 5 * S).press("a", *"sk", "escape", "a")
    assert desk.controls.secret.text == ""


def test_earlier_prompts_come_back_and_many_lines_show_as_so_many() -> None:
    desk = Desk(done(), 20 * S, earlier=("first", "second\nof two"))
    desk.press("a", "up", "up")
    assert desk.controls.line.text == "first"
    desk.press("down")
    assert desk.controls.shown is not None
    assert desk.controls.shown.view.ask.text == "2 lines"
    desk.press("down")
    assert desk.controls.line.text == ""


def test_a_paste_of_lines_is_one_prompt() -> None:
    desk = Desk(done(), 20 * S)
    desk.controls.paste("\r\n".join("abcdefghijkl"))
    desk.draw()
    assert desk.controls.shown is not None
    assert desk.controls.shown.view.ask.text == "12 lines"
    desk.press("enter")
    assert desk.wire.said == [("ask", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl")]


def test_q_is_typed_only_where_the_line_has_the_keys() -> None:
    desk = Desk(done(), 20 * S).press("q")
    assert desk.left == [0]
    desk = Desk(done(), 20 * S).press("a", "q")
    assert desk.left == []
    assert desk.controls.line.text == "q"


def test_the_editor_gets_the_text_and_gives_it_back() -> None:
    desk = Desk(done(), 20 * S, edit=lambda text: text + "\nand more")
    desk.press("a", *"why", "ctrl+e")
    assert desk.controls.line.text == "why\nand more"

    def none(text: str) -> str:
        raise PhasetopError("no editor: set EDITOR")

    desk = Desk(done(), 20 * S, edit=none)
    assert desk.press("a", *"why", "ctrl+e").message == "no editor: set EDITOR"
    assert desk.controls.line.text == "why"


def test_that_a_key_is_wanted_is_said_where_no_line_stands() -> None:
    desk = Desk(refused(), 5 * S)
    desk.controls.tick()
    desk.draw()
    assert desk.message == "the server wants an API key: a types it, enter sends it"
