"""Fixed moments of a fixed session as text, to be read in review.

After a change that is meant: ``PHASETOP_SNAPSHOTS=write pytest tests/tui/test_snapshots.py``, then read the diff.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from phasetop.session import Session
from phasetop.tui import pages
from phasetop.tui.cells import Canvas
from phasetop.tui.frame import FrameMaker
from phasetop.tui.layout import layout
from phasetop.tui.painter import paint
from phasetop.tui.theme import Look
from phasetop.tui.view import View
from tests.tui.fabricate import MS, Turn, scripted, session_of

FOLDER = Path(__file__).parents[1] / "data" / "view"
MOMENTS = {
    #                       session, at ms, columns, rows
    "decode-120x36": ("run", 6500, 120, 36),
    "decode-80x24": ("run", 6500, 80, 24),
    "decode-60x40": ("run", 6500, 60, 40),
    "decode-20x5": ("run", 6500, 20, 5),
    "prefill-120x36": ("prefill", 4500, 120, 36),
    "done-80x24": ("run", 60_000, 80, 24),
    "empty-120x36": ("empty", 1000, 120, 36),
    "loading-80x24": ("loading", 3200, 80, 24),
    "error-80x24": ("error", 5000, 80, 24),
    "turns-200x60": ("turns", 9000, 200, 60),
}


@cache
def session(name: str) -> Session:
    return session_of(scripted(name, Turn(tokens=400, stall_at=300)))


@pytest.mark.parametrize("name", MOMENTS)
def test_the_view(name: str) -> None:
    what, at_ms, width, height = MOMENTS[name]
    plan = layout(width, height)
    assert plan is not None
    canvas = Canvas(width, height, Look())
    assert paint(canvas, FrameMaker(session(what)).frame(at_ms * MS, plan, View(steers=True)), plan) == {}
    compare(name, canvas)


def test_the_help_page() -> None:
    plan = layout(80, 24)
    assert plan is not None
    canvas = Canvas(80, 24, Look())
    pages.paint_help(canvas.area(0, 2, 80, 21), FrameMaker(session("run")).frame(6500 * MS, plan, View(steers=True)))
    compare("help-80x24", canvas)


def compare(name: str, canvas: Canvas) -> None:
    file = FOLDER / f"{name}.txt"
    if os.environ.get("PHASETOP_SNAPSHOTS") == "write":
        file.write_text(canvas.text(), encoding="utf-8")
    assert canvas.text() == file.read_text(encoding="utf-8"), f"{name} looks different: see this file's first lines"
