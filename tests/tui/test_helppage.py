"""The help page: on one page at 80×24, whatever is the case, nothing of it cut."""

from __future__ import annotations

import pytest

from phasetop.session import Session
from phasetop.tui import helppage
from phasetop.tui.cells import Canvas
from phasetop.tui.frame import FrameMaker
from phasetop.tui.keys import LIVE, TABLE, Screen
from phasetop.tui.layout import layout
from phasetop.tui.theme import Look
from phasetop.tui.view import View
from tests.tui.fabricate import MS, Turn, scripted, session_of

TURNS = session_of(scripted("turns", Turn(tokens=200)))


def help_of(size: tuple[int, int], view: View, session: Session = TURNS, at: int = 6500 * MS, top: int = 0) -> list[str]:
    plan = layout(*size)
    assert plan is not None
    canvas = Canvas(*size, Look())
    helppage.paint(canvas.area(0, 2, size[0], size[1] - 3), FrameMaker(session).frame(at, plan, view), top)
    return canvas.text().split("\n")


@pytest.mark.parametrize(
    "view", [View(steers=True), View(), View(steers=True, offer="pull it? y pulls it", failed=True, top=3)]
)
def test_one_page_at_80x24_with_nothing_cut(view: View) -> None:
    rows = help_of((80, 24), view)
    text = "\n".join(rows)
    assert "…" not in text
    assert "more below" not in text
    assert "gap ms" in text
    assert rows[22].startswith(" figures")
    for words in ("the roofline, and what if", "this page", "quit; a running reply ends"):
        assert words in text
    assert ("pull the lacking model" in text) == (view.offer is not None)
    assert ("leave a mark" in text) == view.steers


def test_with_room_every_key_is_there() -> None:
    text = "\n".join(help_of((120, 36), View(steers=True)))
    for key in LIVE:
        assert key.help in text


@pytest.mark.parametrize("screen", ["live", "replay"])
def test_no_keys_words_are_cut_in_columns_of_40(screen: Screen) -> None:
    for key in TABLE[screen]:
        assert len(key.help) <= 40 - 12, key.help


def test_where_even_that_is_too_much_it_scrolls() -> None:
    first, later = help_of((60, 14), View(steers=True)), help_of((60, 14), View(steers=True), top=10)
    assert "more below" in first[2]
    assert "pause the view" in first[3]
    assert "pause the view" not in "\n".join(later)


@pytest.mark.parametrize("width", [80, 100, 110, 120])
def test_where_figures_are_from_is_cut_with_a_mark(width: int) -> None:
    rows = help_of((width, 60), View(steers=True))
    assert any(row.startswith(" KV bytes") for row in rows)
    for row in rows:
        assert len(row) < width or row.endswith("…"), row
