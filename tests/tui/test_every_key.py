"""Each key of the table does in the app what it says: pressed over a running request, its mark is on the screen."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from phasetop import places
from phasetop.tui import startpage
from phasetop.tui.cells import Canvas
from phasetop.tui.keys import TABLE
from phasetop.tui.theme import Look
from tests.tui.fabricate import S
from tests.tui.test_start import COLD, WARM, Around, Desk
from tests.tui.test_view_app import Stage, press, run, until_shown

SHOWS: dict[str, tuple[tuple[str, ...], str]] = {
    # action: the keys before and its own, and what is on the screen then
    "freeze": (("space",), "paused"),
    "close": (("tab", "escape"), "esc cancel"),
    "escape": (("escape",), "STOPPED"),
    "ask": (("a",), "esc again ends the reply"),
    "again": (("R",), ""),
    "afresh": (("alt+shift+r",), ""),
    "colour": (("c",), "the server is asked for it"),
    "follow": (("up", "f"), "DECODE"),
    "pane_on": (("tab",), "the trace: z gives it all the room"),
    "pane_back": (("shift+tab",), "the machine: z gives it all the room"),
    "zoom": (("z",), "esc close"),
    "figures": (("v",), "time by gap"),
    "sweep": (("w",), "the last 10 s"),
    "turns": (("T",), "cached   reply"),
    "explain": (("i",), "where they are from"),
    "charts": (("p",), "KV cache over time"),
    "doctor": (("d",), "1.2 GB lie in swap"),
    "roofline": (("r",), "what if"),
    "mark": (("m",), "mark 1; n and N go to it"),
    "next": (("n",), "turn 1 begins"),
    "search": (("slash",), "without a capital, case does not matter"),
    "copy": (("y",), "copied the reply"),
    "end_task": (("escape",), ""),  # test_lacking: only while something is fetched
    "pull": (("y",), ""),  # test_lacking: only where a model is lacking
    "move": (("left",), "i explains it"),
    "select": (("left", "shift+left"), "i explains it"),
    "turn": (("left_square_bracket",), ""),
    "keep": (("s",), "kept as"),
    "error": (("e",), ""),
    "up": (("up",), "row behind"),
    "down": (("up", "up", "down"), "row behind"),
    "page_up": (("pageup",), "f follows"),
    "page_down": (("home", "pagedown"), "DECODE"),
    "home": (("home",), "f follows"),
    "log": (("exclamation_mark",), "nothing so far"),
    "help": (("question_mark",), "end the reply; twice: quit"),
    "quit": (("q",), ""),
    "interrupt": (("ctrl+c",), "ctrl-c again quits"),
    "theme": (("ctrl+t",), "theme"),
    "palette": ((), ""),  # test_start opens it
    "redraw": ((), ""),  # the pty tests: a headless app has no terminal
    "suspend": ((), ""),  # the pty tests do it: there is no terminal to give back here
}


ON_OTHERS: dict[str, dict[str, tuple[tuple[str, ...], str]]] = {
    # screen: action: the keys that lead there and its own, and what is on the screen then
    "ask": {
        "send": (("a", *"why", "enter"), "DECODE"),
        "leave": (("a", "escape"), "esc cancel"),
        "edit": (("a", *"one", "enter", "a", "up"), "ask  one"),
        "editor": (("a", "ctrl+e"), "no editor: set EDITOR"),
        "interrupt": (("a", "ctrl+c"), "enter send"),
        "suspend": ((), ""),  # the pty tests
    },
    "search": {
        "find": (("slash", *"bucket", "enter"), "esc close"),
        "unsearch": (("slash", *"bucket", "escape"), "esc cancel"),
        "suspend": ((), ""),  # the pty tests
    },
    "page": {
        "back": (("question_mark", "escape"), "DECODE"),
        "page_on": (("i", "down"), "of the devices that worked"),
        "page_back": (("i", "down", "up"), "first token"),
        "page_next": (("p", "tab"), "2 of 4"),
        "page_previous": (("p", "shift+tab"), "4 of 4"),
        "turn": ((), ""),  # test_controls: it needs several turns
        "interrupt": (("question_mark", "ctrl+c"), "this page"),
        "suspend": ((), ""),  # the pty tests
    },
    "start": {
        "begin": (("enter",), "begun"),
        "up": (("down", "up", "enter"), "begun"),
        "down": (("down", "enter"), "begun"),
        "ask": (("a",), "enter send"),
        "launch": (("o",), "starting Ollama"),
        "fetch": ((), ""),  # test_start
        "end_fetch": ((), ""),  # test_start
        "more": (("m",), "what can be begun"),
        "look": ((), ""),  # test_start
        "help": (("question_mark",), "look around again"),
        "quit": ((), ""),  # test_start
        "theme": ((), ""),  # test_start
        "palette": ((), ""),  # test_start
        "interrupt": (("ctrl+c",), "ctrl-c again quits"),
        "suspend": ((), ""),  # the pty tests
    },
    "time": {
        "go": ((), ""),  # test_replaying, like the two others
        "untime": ((), ""),
        "suspend": ((), ""),
    },
}
ELSEWHERE = {"live", "roofline", "replay"}
"""Screens whose keys a table of their own holds: here, in test_roofline_screen, in test_replaying."""


def test_no_key_of_the_table_is_without_a_test() -> None:
    assert {key.does for key in TABLE["live"]} == set(SHOWS)
    for screen in set(TABLE) - ELSEWHERE:
        assert {key.does for key in TABLE[screen]} == set(ON_OTHERS[screen]), screen


@pytest.mark.parametrize(
    ("screen", "does"),
    [
        (screen, name)
        for screen, keys in ON_OTHERS.items()
        for name, (_, words) in keys.items()
        if words and screen != "start"
    ],
)
def test_the_key_shows_on_its_screen(screen: str, does: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("shutil.which", lambda _: None)
    keys, words = ON_OTHERS[screen][does]
    size = (80, 24) if screen == "page" else (120, 36)

    async def scene() -> None:
        stage = Stage(at=4 * S)
        async with stage.app.run_test(size=size):
            await until_shown(stage, "DECODE")
            await press(stage, *keys)
            stage.clock[0] += S // 2
            await until_shown(stage, words)
            await press(stage, "escape", "escape", "escape", "q")

    run(scene())


@pytest.mark.parametrize("does", [name for name, (_, words) in ON_OTHERS["start"].items() if words])
def test_the_key_shows_on_the_start_screen(does: str) -> None:
    keys, words = ON_OTHERS["start"][does]
    desk = Desk(Around((WARM, COLD))).press(*keys)
    if words == "begun":
        expected = COLD if does == "down" else WARM
        assert desk.around.said == [(expected.name, None)]
        return
    canvas = Canvas(100, 40, Look())
    if desk.controls.help:
        startpage.paint_help(canvas.area(0, 0, 100, 40))
    else:
        startpage.paint(canvas.area(0, 0, 100, 40), desk.controls.picture(100), desk.controls.screen, "")
    assert words in canvas.text()


@pytest.mark.parametrize("does", [name for name, (keys, words) in SHOWS.items() if words])
def test_the_key_shows(does: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "state_folder", lambda: tmp_path)
    keys, words = SHOWS[does]

    async def scene() -> None:
        stage = Stage(at=4 * S)
        async with stage.app.run_test(size=(120, 36)):
            await until_shown(stage, "DECODE")
            await press(stage, *keys)
            stage.clock[0] += S // 2
            await until_shown(stage, words)
            await press(stage, "escape", "escape", "q")

    run(scene())


def test_a_search_is_typed_found_and_closed() -> None:
    async def scene() -> None:
        stage = Stage(at=4 * S)
        async with stage.app.run_test(size=(120, 36)):
            await until_shown(stage, "DECODE")
            await press(stage, "slash", *"bucket")
            await until_shown(stage, "hits in this turn")
            await press(stage, "enter")
            await until_shown(stage, "'bucket'" if "'bucket'" in stage.app.text else "hit ")
            await press(stage, "escape")
            await until_shown(stage, "tab pane")
            assert stage.wire.said == []

    run(scene())


def test_a_page_says_how_it_scrolls_where_there_is_more_of_it() -> None:
    async def scene() -> None:
        stage = Stage(at=4 * S)
        async with stage.app.run_test(size=(80, 24)):
            await until_shown(stage, "DECODE")
            await press(stage, "i")
            await until_shown(stage, "more below")
            assert stage.app.text.rstrip().endswith("esc back   ↑ ↓ scroll")
            await press(stage, "escape", "exclamation_mark")
            await until_shown(stage, "nothing so far")
            assert "scroll" not in stage.app.text

    run(scene())


def test_the_mouse_puts_the_cursor_on_a_token() -> None:
    async def scene() -> None:
        stage = Stage(at=4 * S)
        async with stage.app.run_test(size=(120, 36)) as pilot:
            await until_shown(stage, "DECODE")
            y = next(y for y, row in enumerate(stage.app.text.split("\n")) if y > 20 and len(row[:75].strip()) > 30)
            await pilot.mouse_down(offset=(20, y))
            await until_shown(stage, "i explains it")
            await pilot.mouse_down(offset=(3, 14))
            await asyncio.sleep(0)
            assert stage.app.shown is not None
            assert stage.app.shown.view.focus in ("machine", "text")

    run(scene())
