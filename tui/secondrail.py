"""The second rail of very wide terminals: the roofline, the devices, the turns."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from phasetop.tui import devices, roofplot, turns
from phasetop.tui.cells import Area
from phasetop.tui.frame import Frame
from phasetop.tui.roofplot import Roof, roof_of

SHORT: Final = "bandwidth not known; r tries one"
PLOT: Final = 14
"""Rows of the plot, its title and its labels."""
LOWEST_PLOT: Final = 9
TURNS: Final = 9
"""Rows that are kept for the turns."""


def paint(area: Area, frame: Frame) -> None:
    """Draw what there is room for: the turns first, then the devices, then the plot."""
    rows = min(len(frame.devices), max(1, area.height - TURNS - 1)) if frame.devices else 0
    plot = min(PLOT, area.height - TURNS - (rows + 1 if rows else 0) - 1)
    y = 0
    if plot >= LOWEST_PLOT:
        roof = roof_of(frame.measures) if frame.measures is not None else Roof(None, None, why="no request yet")
        if not roof.bytes_per_s and roof.ways:  # one token, beside it, says how to have one
            roof = replace(roof, why=SHORT, ways=())
        roofplot.paint(area.area(0, 0, area.width, plot), roof)
        y = plot + 1
    if rows:
        y += devices.paint(area.area(0, y, area.width, rows), frame.devices) + 1
    turns.paint(area.area(0, y, area.width, area.height - y), frame)
