"""The phases on the time axis: one band a phase, its stalls and marks under it, and the ruler below all lanes."""

from __future__ import annotations

from phasetop.figures import UNKNOWN, pause, seconds
from phasetop.tui.cells import Area, fit
from phasetop.tui.frame import Frame
from phasetop.tui.lanes import Cells, StallCells, ticks
from phasetop.tui.layout import Layout
from phasetop.tui.theme import AREA_OF, BAND_CHARS, Role
from phasetop.tui.tracing import Trace
from phasetop.visible import harmless


def paint(area: Area, frame: Frame, layout: Layout) -> None:
    """Draw the bands, and below them what is marked."""
    plot = layout.plot
    assert plot is not None
    if plot.x > 1:
        area.label(1, 0, "phases", focused=frame.view.focus == "trace")
    trace, values = frame.trace, layout.values_x
    if trace is None:
        if values is not None:
            area.value(values, 0, UNKNOWN, "s", "not yet")
        return
    for band in trace.bands:
        _band(area, plot.x, band, trace.stalls)
    for stall in trace.stalls:
        area.put(plot.x + stall.x0, 0, "!" * (stall.x1 - stall.x0), "ground", "stall")
    if trace.broke_at is not None:
        area.put(plot.x + trace.broke_at, 0, "!", "ground", "ink")
    if values is not None:
        area.value(values, 0, *seconds(frame.elapsed_ns))
    if area.height > 1:
        _marks(area, 1, plot.x, plot.width, trace)


def _band(area: Area, x: int, band: Cells, stalls: tuple[StallCells, ...]) -> None:
    """One band, with its name and seconds where no stall covers them."""
    width = band.x1 - band.x0
    name = f"{band.phase} {' '.join(seconds(band.took_ns))}"
    at, room = _free_stretch(band, stalls)
    if room <= len(name) + 3:
        name = band.phase
    if area.look.coloured:
        tone: Role = band.accent if band.running else AREA_OF[band.accent]
        area.put(x + band.x0, 0, " " * width, "ink", tone)
        if room > len(name) + 1:
            area.put(x + at + 1, 0, name, "ground" if band.running else area.look.on_area, tone)
    else:
        area.put(x + band.x0, 0, BAND_CHARS[band.accent] * width)
        if room > len(name) + 3:
            area.put(x + at + 1, 0, f" {name} ")


def _free_stretch(band: Cells, stalls: tuple[StallCells, ...]) -> tuple[int, int]:
    """The first column and the width of the band's part before its first stall, or of a longer one after it."""
    best, at = (band.x0, 0), band.x0
    for x0, x1 in [*((stall.x0, stall.x1) for stall in stalls if band.x0 <= stall.x0 < band.x1), (band.x1, band.x1)]:
        if x0 - at > best[1] and best[1] < 16:
            best = (at, x0 - at)
        at = max(at, x1)
    return best


def paint_cursor(area: Area, frame: Frame, layout: Layout) -> None:
    """A thin line through the lanes: at the token under the cursor, in a replay where the cursor is."""
    plot, trace = layout.plot, frame.trace
    if plot is None or trace is None or not layout.marks:
        return
    column = trace.cursor_at
    if frame.view.scrub is not None and frame.view.token is None:
        x = (frame.cursor - trace.axis.start) * trace.axis.columns // trace.axis.span_ns
        column = min(x, plot.width - 1) if 0 <= x <= plot.width and not frame.view.scrub.following else None
    if column is None:
        return
    for y in range(1 + layout.marks, area.height - layout.ruler):  # what is marked stays readable
        area.put(plot.x + column, y, "│", "soft")


def paint_ruler(area: Area, frame: Frame, layout: Layout) -> None:
    """The time axis."""
    if frame.trace is not None and layout.plot is not None:
        for column, text in frame.trace.labels or ticks(frame.trace.axis.span_ns, layout.plot.width):
            area.put(layout.plot.x + column, 0, text, "faint")


def _marks(area: Area, y: int, x: int, columns: int, trace: Trace | None) -> None:
    """Under the band: how long stalls were (of two that collide the longer), and where thinking ended."""
    if trace is None:
        return
    taken = [False] * (columns + 32)
    for at, label in trace.marks:
        text = fit(f"◆ {harmless(label, newlines=False)}", 14)
        if not any(taken[max(0, at - 1) : at + len(text) + 1]):
            taken[at : at + len(text)] = [True] * len(text)
            area.put(x + at, y, text, "ink")
    for stall in sorted(trace.stalls, key=lambda each: -each.gap_ns):
        text = f"▲ {pause(stall.gap_ns)}"
        at = stall.x0
        if any(taken[max(0, at - 1) : at + len(text) + 1]):
            continue
        taken[at : at + len(text)] = [True] * len(text)
        area.put(x + at, y, text, "stall")
    if trace.answer_at is not None and not taken[trace.answer_at]:
        whole = not any(taken[trace.answer_at : trace.answer_at + 9])
        area.put(x + trace.answer_at, y, "┊ answer" if whole else "┊", "faint")
