"""Only what changes is sent, and the screen is the same."""

from __future__ import annotations

import pyte
from hypothesis import given, settings
from hypothesis import strategies as st

from phasetop.tui.shadow import Shadow

WIDTH, HEIGHT = 16, 4
STYLES = [
    "\x1b[0m",
    "\x1b[1m",
    "\x1b[38;2;1;2;3m",
    "\x1b[38;5;79;48;5;235m",
    "\x1b[1;3;92;7m",
    "\x1b[4m",
    "\x1b[48;2;9;8;7m",
]
TEXTS = ["a", "word", "wort", " ", "   ", "日", "a日b", "⣿", "xxxx", "é", "e\u0301", "some words"]


@st.composite
def writes(draw: st.DrawFn) -> str:
    """A write as Textual makes them: moves, runs with their style and a reset, a place for the cursor."""
    parts: list[str] = []
    for _ in range(draw(st.integers(0, 5))):
        y, x = draw(st.integers(1, HEIGHT)), draw(st.integers(1, WIDTH))
        parts.append(f"\x1b[{y};{x}H")
        room = WIDTH - x + 1
        for _ in range(draw(st.integers(1, 4))):
            text = draw(st.sampled_from(TEXTS))
            cells = sum(2 if char == "日" else 0 if char == "\u0301" else 1 for char in text)
            if cells > room:
                break
            room -= cells
            parts.append(f"{draw(st.sampled_from(STYLES))}{text}\x1b[0m")
        parts.append(draw(st.sampled_from(["", "\n" if y < HEIGHT else "", "\x1b[6n", "\x1b[?25l"])))
        if parts[-1] == "\n":
            parts.append(f"\x1b[{y};1H")
    parts.append(f"\x1b[{draw(st.integers(1, HEIGHT))};{draw(st.integers(1, WIDTH))}H")
    return "".join(parts)


class Screen:
    """A terminal whose cells can be compared."""

    def __init__(self) -> None:
        self._screen = pyte.Screen(WIDTH, HEIGHT)
        self._screen.reset_mode(pyte.modes.DECAWM)  # as the view has it
        self._stream = pyte.Stream(self._screen)

    def feed(self, data: str) -> None:
        self._stream.feed(data)

    @property
    def shown(self) -> list[object]:
        made: list[object] = [(self._screen.cursor.x, self._screen.cursor.y)]
        for y in range(HEIGHT):
            for x in range(WIDTH):
                cell = self._screen.buffer[y][x]
                blank = cell.data == " " and not (cell.reverse or cell.underscore)
                made.append((" ", cell.bg) if blank else cell)
        return made


@given(st.lists(writes(), min_size=1, max_size=6))
@settings(max_examples=400, deadline=None)
def test_the_screen_is_the_same_after_every_write(made: list[str]) -> None:
    shadow, plain, ours = Shadow(), Screen(), Screen()
    shadow.forget(WIDTH)
    for data in made:
        plain.feed(data)
        ours.feed(shadow.send(data))
        assert ours.shown == plain.shown


def test_what_is_there_is_not_sent_again() -> None:
    shadow = Shadow()
    shadow.forget(80)
    row = "\x1b[22;1H   \x1b[38;5;246m7.71  \x1b[0m\x1b[38;5;250m{}\x1b[0m\x1b[24;7H"
    shadow.send(row.format("Open addressing does"))
    assert shadow.send(row.format("Open addressing does")) == ""
    assert shadow.send(row.format("Open addressing does without")) == "\x1b[22;30H \x1b[38;5;250mwithout\x1b[24;7H\x1b[m"
    assert shadow.send(row.format("Open addressing does nothing")) == "\x1b[22;31H\x1b[38;5;250mnothing\x1b[24;7H\x1b[m"


def test_a_text_that_begins_where_nothing_is_known_ends_where_it_is() -> None:
    shadow = Shadow()
    shadow.forget(80)
    shadow.send("\x1b[1;5Hword\x1b[2;2H")
    assert shadow.send("\x1b[1;1Hany word\x1b[2;2H") == "\x1b[1;1Hany \x1b[2;2H"


def test_after_anything_else_all_is_sent_until_it_is_known_again() -> None:
    shadow = Shadow()
    data = "\x1b[1;1Hword\x1b[2;2H"
    assert shadow.send(data) == data  # the width is not known yet
    for between in ("\x1b[2J", "\x1b[?1049h", "\x1b]52;c;eA==\x07", "\x07", "plain\n"):
        shadow.forget(80)
        shadow.send(data)
        assert shadow.send(data) == ""
        assert shadow.send(between) == between
        assert shadow.send(data) == data
