"""Frame and layout to cells: each pane into its place, so that one that fails harms no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from phasetop.tui import alone, footer, gappane, header, headline, machinepane, rail, scrubpane, secondrail, textpane, trace
from phasetop.tui.cells import Area, Canvas
from phasetop.tui.failure import Failure
from phasetop.tui.frame import Frame
from phasetop.tui.keys import Screen
from phasetop.tui.layout import Layout, Rect

_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "headline": ("figures", "verdict"),
    "phases": ("trace",),
    "gap": ("trace",),
    "machine": ("machine",),
    "text": ("text",),
    "figures": ("figures",),
    "turns": ("turns", "devices"),
}
"""Which parts of the Frame a pane shows: it stands for their failures."""


def paint(canvas: Canvas, frame: Frame, layout: Layout) -> dict[str, Failure]:
    """Draw the whole view; returns the panes that failed, by name."""
    failed: dict[str, Failure] = {}

    def pane(name: str, rect: Rect | None, draw: Callable[[Area], None]) -> None:
        if rect is None or rect.height <= 0 or rect.width <= 0:
            return
        area = canvas.area(rect.x, rect.y, rect.width, rect.height)
        broken = next((frame.failed[part] for part in _PARTS.get(name, ()) if part in frame.failed), None)
        if broken is None:
            try:
                draw(area)
                return
            except Exception as error:
                broken = Failure.of(error)
        failed[name] = broken
        area.clear()
        area.put(1 if rect.x == 0 else 0, 0, f"! this pane failed: {broken.kind} · e shows it", "ink")

    view = frame.view
    screen: Screen = "search" if view.search is not None else "ask" if view.ask.focused else "live"
    if view.scrub is not None and screen == "live":
        screen = "time" if view.time is not None else "replay"
    pane("headline", layout.headline_room, lambda area: headline.paint(area, frame, layout))
    pane("header", layout.header, lambda area: header.paint(area, frame))
    lanes = layout.lanes
    pane("phases", lanes.get("phases"), lambda area: trace.paint(area, frame, layout))
    pane("gap", lanes.get("gap"), lambda area: gappane.paint(area, frame, layout))
    pane("machine", lanes.get("machine"), lambda area: machinepane.paint(area, frame, layout))
    pane("cursor", layout.trace, lambda area: trace.paint_cursor(area, frame, layout))
    pane("ruler", lanes.get("ruler"), lambda area: trace.paint_ruler(area, frame, layout))
    pane("text", layout.text, lambda area: textpane.paint(area, frame, layout))
    pane("figures", layout.rail, lambda area: rail.paint(area, frame, with_devices=layout.second_rail is None))
    pane("turns", layout.second_rail, lambda area: secondrail.paint(area, frame))
    pane("figures", layout.block, lambda area: rail.paint_block(area, frame))
    pane("figures", layout.strip, lambda area: rail.paint_strip(area, frame))
    pane("figures", layout.alone, lambda area: alone.paint(area, frame, layout))
    pane("scrub", layout.ask, lambda area: scrubpane.paint(area, frame, layout))
    ask_at = None if layout.scrub is not None else layout.ask
    ask_at = ask_at or (layout.notice if screen not in ("live", "replay") else None)
    if ask_at is not layout.notice:
        pane("notice", layout.notice, lambda area: footer.paint_notice(area, frame))
    pane("ask", ask_at, lambda area: footer.paint_line(area, frame))
    pane("keys", layout.keys, lambda area: footer.paint_keys(area, frame, screen, message_here=ask_at is layout.notice))
    return failed
