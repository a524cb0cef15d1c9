"""The row under the one that reads: state and speed, the scrub bar on the trace's columns, where in the session one is."""

from __future__ import annotations

from phasetop.figures import seconds
from phasetop.tui.cells import Area
from phasetop.tui.frame import Frame
from phasetop.tui.layout import Layout
from phasetop.tui.player import times
from phasetop.tui.scrub import Scrub
from phasetop.tui.theme import AREA_OF, BAND_CHARS, Role


def paint(area: Area, frame: Frame, layout: Layout) -> None:
    """Draw it: what lies before the cursor bright, what follows subdued."""
    scrub = frame.view.scrub
    if scrub is None or layout.scrub is None:
        return
    mark, name = _state(scrub)
    area.put(1, 0, mark, "ink", None, "b")
    area.put(1 + len(mark) + 1, 0, name, "ink" if scrub.playing else "soft", None, "b" if scrub.playing else "")
    _paint_bar(area, layout.scrub.x, scrub)
    x = layout.scrub.right + 2
    if layout.width >= 50:
        number, unit = seconds(scrub.at_ns)
        total, of = seconds(scrub.total_ns)
        if unit == of:
            unit = f"of {total}" + (f" {of}" if of == "s" else "")
        else:
            unit = f"s of {total}"
        area.value(x, 0, number, unit)


def _state(scrub: Scrub) -> tuple[str, str]:
    if scrub.following:
        return "▶", "live"
    return ("▶" if scrub.playing else "┃┃"), times(scrub.speed)


def _paint_bar(area: Area, x: int, scrub: Scrub) -> None:
    bar = scrub.bar
    for column, accent in enumerate(bar.accents):
        past = column < scrub.cursor
        if column in bar.stalls:
            area.put(x + column, 0, "!", "ground", "stall")
        elif accent is None:
            area.put(x + column, 0, "·", "soft" if past else "rule")
        elif area.look.coloured:
            tone: Role = accent if past else AREA_OF[accent]
            area.put(x + column, 0, "█", tone)
        else:
            area.put(x + column, 0, BAND_CHARS[accent] if past else "─")
    for column in bar.marks:
        area.put(x + column, 0, "◆", "ink")
    if bar.columns:
        area.put(x + scrub.cursor, 0, "┃", "ink", None, "b")
