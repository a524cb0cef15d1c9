"""Fixed moments of a fixed session as text, to be read in review.

After a change that is meant: ``PHASETOP_SNAPSHOTS=write pytest tests/tui/test_snapshots.py``, then read the diff.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from phasetop.session import Session
from phasetop.tui import helppage, pages
from phasetop.tui.cells import Canvas
from phasetop.tui.frame import FrameMaker
from phasetop.tui.layout import layout, zoomed
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


VIEWS = {
    "token-120x36": (View(steers=True, focus="text", token=301, top=24), 6500, 120, 36),
    "zoomed-trace-120x36": (View(steers=True, focus="trace", zoom="trace"), 6500, 120, 36),
    "zoomed-machine-80x24": (View(steers=True, focus="machine", zoom="machine"), 6500, 80, 24),
    "zoomed-figures-80x24": (View(steers=True, zoom="figures"), 6500, 80, 24),
    "zoomed-figures-200x60": (View(steers=True, zoom="figures"), 6500, 200, 60),
    "zoomed-kv-60x40": (View(steers=True, focus="kv", zoom="kv"), 6500, 60, 40),
    "zoomed-text-60x40": (View(steers=True, zoom="text"), 6500, 60, 40),
    "channels-120x36": (View(steers=True, colour="channel"), 6500, 120, 36),
}


@pytest.mark.parametrize("name", VIEWS)
def test_what_keys_make_of_it(name: str) -> None:
    view, at_ms, width, height = VIEWS[name]
    plan = layout(width, height)
    assert plan is not None
    plan = zoomed(plan, view.zoom) if view.zoom is not None else plan
    canvas = Canvas(width, height, Look())
    assert paint(canvas, FrameMaker(session("run")).frame(at_ms * MS, plan, view), plan) == {}
    compare(name, canvas)


def test_a_sweep() -> None:
    plan = layout(120, 36)
    assert plan is not None
    canvas = Canvas(120, 36, Look())
    long = session_of(scripted("run", Turn(tokens=1500, stall_at=500)))
    assert paint(canvas, FrameMaker(long).frame(17_300 * MS, plan, View(sweep=True)), plan) == {}
    compare("sweep-120x36", canvas)


@pytest.mark.parametrize(
    ("name", "kind", "view"),
    [
        ("page-charts-120x36", "charts", View(page="charts")),
        ("page-charts-80x24", "charts", View(page="charts")),
        ("page-turns-80x24", "turns", View(page="turns")),
        ("page-figures-80x24", "info", View(page="info")),
        ("page-token-80x24", "info", View(page="info", token=301)),
        ("page-kv-80x24", "info", View(page="info", focus="kv")),
        ("page-machine-80x24", "info", View(page="info", focus="machine")),
        ("page-trace-80x24", "info", View(page="info", focus="trace")),
    ],
)
def test_pages(name: str, kind: pages.Kind, view: View) -> None:
    width, height = (int(n) for n in name.rpartition("-")[2].split("x"))
    plan = layout(width, height)
    assert plan is not None
    canvas = Canvas(width, height, Look())
    it = session("turns" if kind == "turns" else "run")
    frame = FrameMaker(it).frame(6500 * MS, plan, view)
    assert pages.paint(kind, canvas.area(0, 2, width, height - 3), frame, it, {}, 0) == {}
    compare(name, canvas)


def test_the_help_page() -> None:
    plan = layout(80, 24)
    assert plan is not None
    canvas = Canvas(80, 24, Look())
    helppage.paint(canvas.area(0, 2, 80, 21), FrameMaker(session("run")).frame(6500 * MS, plan, View(steers=True)))
    compare("help-80x24", canvas)


def compare(name: str, canvas: Canvas) -> None:
    file = FOLDER / f"{name}.txt"
    if os.environ.get("PHASETOP_SNAPSHOTS") == "write":
        file.write_text(canvas.text(), encoding="utf-8")
    assert canvas.text() == file.read_text(encoding="utf-8"), f"{name} looks different: see this file's first lines"
