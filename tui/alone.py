"""A pane of figures in all the room under the headline: the figures with time by gap and turns, or the KV cache."""

from __future__ import annotations

from typing import Final

from phasetop.tui import explain, kvgauge, rail, turns
from phasetop.tui.cells import Area
from phasetop.tui.frame import Frame
from phasetop.tui.layout import Layout

RAIL: Final = 39
SPACE: Final = 4


def paint(area: Area, frame: Frame, layout: Layout) -> None:
    """Draw the pane that is zoomed."""
    if layout.alone_pane == "kv":
        _kv(area, frame)
    else:
        _figures(area, frame)


def _figures(area: Area, frame: Frame) -> None:
    """As many columns as there is room for: the rail, time by gap, the turns."""
    width = min(RAIL, area.width)
    beside = area.width >= 2 * RAIL - 4
    rail.paint(area.area(0, 0, width, area.height), frame, time_by_gap=not beside)
    x = width + SPACE
    if beside:
        rail.paint_time_by_gap(area.area(x, 0, min(RAIL, area.width - x), area.height), frame)
        x += RAIL + SPACE
    if area.width - x >= turns.WIDTH:
        turns.paint(area.area(x, 0, area.width - x, area.height), frame)


def _kv(area: Area, frame: Frame) -> None:
    """The gauge, wide, and below it where its figures are from."""
    width = min(area.width, 96)
    used = kvgauge.paint_block(area.area(0, 0, width, area.height), frame)
    lines = explain.lines("kv", frame, area.width)
    if len(lines) > area.height - used - 1:
        lines = explain.heads(lines)
    for y, line in enumerate(lines, used + 1):
        area.line(0, y, *line)
