"""Fewer bytes, the same screen."""

from __future__ import annotations

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasetop.tui.squeeze import squeeze

PIECES = st.sampled_from(
    [
        *("\x1b[0m", "\x1b[m", "\x1b[1m", "\x1b[38;2;1;2;3m", "\x1b[38;5;79;48;5;235m", "\x1b[1;3;92;7m", "\x1b[4;39m"),
        *("\x1b[48;2;9;8;7m", "\x1b[31;44m", "\x1b[49m", "\n\x1b[2;3H", "\x1b[1;1H", "\n", "\x1b[6n", "\x1b[?25l"),
        *("word", " ", "   ", "é日", "⣿⡇", "x y", "\x1b[9m", "\x1b[97;100m"),
    ]
)


def cells(data: str) -> list[object]:
    """What the screen shows: blanks count only as far as they can be seen."""
    screen = pyte.Screen(20, 6)
    stream = pyte.Stream(screen)
    stream.feed("\x1b[20h" + data)  # new line mode, as a terminal's driver has it
    made: list[object] = []
    for y in range(6):
        for x in range(20):
            cell = screen.buffer[y][x]
            if cell.data == " " and not (cell.reverse or cell.underscore or cell.strikethrough):
                made.append((" ", cell.bg))
            else:
                made.append(cell)
    return [*made, screen.cursor.x, screen.cursor.y, screen.cursor.attrs if data.endswith("m") else None]


@given(st.lists(PIECES, max_size=24))
@settings(max_examples=300, deadline=None)
def test_the_screen_is_the_same(pieces: list[str]) -> None:
    data = "".join(pieces) + "\x1b[0m"
    made = squeeze(data)
    assert cells(made + "\x1b[0m") == cells(data)
    assert len(made) <= len(data)


def test_what_it_saves() -> None:
    grey = "38;2;188;192;199"
    run = f"\x1b[{grey}mone\x1b[0m \x1b[{grey}mtwo \x1b[0m\x1b[1;{grey}mthree\x1b[0m\n\x1b[2;1H   \x1b[{grey}mx\x1b[0m"
    assert squeeze(run) == f"\x1b[{grey}mone two \x1b[1mthree\x1b[2;1H   \x1b[;{grey}mx\x1b[m"


@pytest.mark.parametrize(
    "data", ["\x1b[4:3mx\x1b[0m", "\x1b]8;;http://x\x07y", "\x1b[38;9mx", "\x1bPq\x1b\\", "\x1b[58;2;1;1;1mx\x1b[0m"]
)
def test_what_it_does_not_know_it_leaves(data: str) -> None:
    assert squeeze(data) == data


def test_modes_and_questions_pass() -> None:
    data = "\x1b[?1049h\x1b[?25l\x1b[>25u\x1b[?2026$p\x1b[6n\x1b[24;7H\x1b[<u"
    assert squeeze(data) == data
