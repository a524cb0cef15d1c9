"""The trace: phases, marks, gaps or batches, the machine's lanes and the ruler, all on one time axis."""

from __future__ import annotations

from collections.abc import Sequence

from phasetop.figures import milliseconds, rate, seconds
from phasetop.tui.cells import BARS, HALF_DOTS, Area
from phasetop.tui.frame import Frame, Trace
from phasetop.tui.lanes import GAP_DECADES, DotRow, phases_by_column, ticks
from phasetop.tui.layout import Layout
from phasetop.tui.machine import Lane
from phasetop.tui.theme import AREA_OF, BAND_CHARS, GAP_ROLES, Accent, Role


def paint(area: Area, frame: Frame, layout: Layout) -> None:
    """Draw all lanes into the trace's rows."""
    plot = layout.plot
    assert plot is not None
    values = plot.right + 2 if layout.width >= 50 else None
    labels = plot.x > 1
    y = 0
    _phases(area, y, plot.x, frame, values, labels=labels)
    y += 1
    if layout.marks:
        _marks(area, y, plot.x, plot.width, frame.trace)
        y += 1
    if layout.gap_rows:
        _gap_lane(area.area(0, y, area.width, layout.gap_rows), plot.x, frame, layout.gap_rows, values)
        y += layout.gap_rows
    if layout.lane_rows:
        y += layout.lane_gap
        accents = phases_by_column(frame.trace.bands, plot.width) if frame.trace else ()
        for lane in frame.lanes or _EMPTY_LANES:
            paint_lane(area.area(0, y, area.width, layout.lane_rows), plot.x, lane, accents, values)
            y += layout.lane_rows
    if layout.ruler and frame.trace is not None:
        for column, text in ticks(frame.trace.axis.span_ns, plot.width):
            area.put(plot.x + column, y, text, "faint")


_EMPTY_LANES = (Lane("CPU", "", (), "—", "", "no samples"), Lane("memory", "", (), "—", "", "no samples"))


def _phases(area: Area, y: int, x: int, frame: Frame, values: int | None, *, labels: bool) -> None:
    if labels:
        area.put(1, y, "phases", "soft")
    trace = frame.trace
    if trace is None:
        if values is not None:
            area.value(values, y, "—", "s")
        return
    for band in trace.bands:
        width = band.x1 - band.x0
        tone: Role = band.accent if band.running else AREA_OF[band.accent]
        name = f"{band.phase} {' '.join(seconds(band.took_ns))}"
        if area.look.coloured:
            area.put(x + band.x0, y, " " * width, "ink", tone)
            text: Role = "ground" if band.running else area.look.on_area
            if width > len(name) + 1:
                area.put(x + band.x0 + 1, y, name, text, tone)
        else:
            area.put(x + band.x0, y, BAND_CHARS[band.accent] * width)
            if width > len(name) + 3:
                area.put(x + band.x0 + 1, y, f" {name} ")
    for stall in trace.stalls:
        area.put(x + stall.x0, y, "!" * (stall.x1 - stall.x0), "ground", "stall")
    if trace.broke_at is not None:
        area.put(x + trace.broke_at, y, "!", "ground", "ink")
    if values is not None:
        area.value(values, y, *seconds(frame.elapsed_ns))


def _marks(area: Area, y: int, x: int, columns: int, trace: Trace | None) -> None:
    """Under the band: how long stalls were (of two that collide the longer), and where thinking ended."""
    if trace is None:
        return
    if trace.answer_at is not None and trace.answer_at < columns:
        area.put(x + trace.answer_at, y, "┊ answer", "faint")
    taken = [False] * (columns + 16)
    for stall in sorted(trace.stalls, key=lambda each: -each.gap_ns):
        text = f"▲ {' '.join(seconds(stall.gap_ns)) if stall.gap_ns >= 10e9 else f'{stall.gap_ns / 1e6:,.0f} ms'}"
        at = stall.x0
        if any(taken[max(0, at - 1) : at + len(text) + 1]):
            continue
        taken[at : at + len(text)] = [True] * len(text)
        area.put(x + at, y, text, "stall")


def _gap_lane(area: Area, x: int, frame: Frame, rows: int, values: int | None) -> None:
    trace, measures = frame.trace, frame.measures
    if trace is None or measures is None:
        area.put(1, 0, "gap", "soft")
        if values is not None:
            area.value(values, rows - 1, "—", "ms", "no request")
        return
    if measures.latency.ttft_ns is None:
        _batch_lane(area, x, frame, trace, rows, values)
        return
    area.put(1, 0, "gap", "soft")
    _dots(area, x, trace.gaps)
    for row in range(0, rows, 2) if rows > 1 else ():
        low = trace.gap_floor_ms * (10**GAP_DECADES) ** ((rows - 1 - row) / rows)
        area.right(x - 1, row, _axis_number(low), "faint")
    if values is None:
        return
    gaps = measures.latency.gaps
    known = [("max", gaps.max), ("p99", gaps.p99), ("p95", gaps.p95), ("p50", gaps.p50)]
    shown = known[-rows:] if rows < 5 else known
    fine = gaps.p50 is not None and gaps.p50 < 5e6
    for i, (name, value) in enumerate(shown):
        y = rows - len(shown) + i
        if value is None:
            if name == "p50":
                area.value(values, y, "—", "ms", "too few" if area.width >= 90 else "")
            continue
        number, unit = _gap_figure(value, fine=fine)
        area.value(values, y, number, unit, name, "ink", "b" if name == "p50" else "")


def _gap_figure(ns: float, *, fine: bool) -> tuple[str, str]:
    if ns >= 10e9:
        return seconds(int(ns))
    return milliseconds(ns, fine=fine), "ms"


def _axis_number(value: float) -> str:
    """Two digits: ``4``, ``25``, ``160``."""
    if value < 100:
        return f"{value:.2g}"
    return f"{round(value / 10) * 10:,.0f}"


def _batch_lane(area: Area, x: int, frame: Frame, trace: Trace, rows: int, values: int | None) -> None:
    """While the prompt is read: a step of dots a batch, in tokens per second."""
    area.put(1, 0, "batch", "soft")
    batches = trace.batches
    if not batches:
        if values is not None:
            told = frame.state not in ("queue", "load")
            area.value(values, rows - 1, "—", "tok/s", ("not told" if told else "not yet") if area.width >= 90 else "")
        return
    _dots(area, x, trace.batch_dots, "prefill")
    if rows > 2:
        for share in (1.0, 0.5):
            row = min(rows - 1, int((1 - share) * rows))
            top = trace.batch_top * (rows - row) / rows
            area.right(x - 1, row, f"{top / 1000:.3g}k" if top >= 1000 else f"{top:.3g}", "faint")
    if values is None:
        return
    took = batches[-1].t1 - batches[0].t0
    mean = sum(b.per_s * (b.t1 - b.t0) for b in batches) / took if took else batches[-1].per_s
    figures = [("first", batches[0].per_s), ("mean", mean), ("last", batches[-1].per_s)][-rows:]
    for i, (name, value) in enumerate(figures):
        area.value(values, rows - len(figures) + i, rate(value), "tok/s", name, "ink", "b" if name == "last" else "")


def _dots(area: Area, x: int, lane: Sequence[DotRow], fixed: Role | None = None) -> None:
    for y, (text, steps) in enumerate(lane):
        column = 0
        while column < len(text):
            if text[column] == " ":
                column += 1
                continue
            start = column
            while column < len(text) and text[column] != " " and steps[column] == steps[start]:
                column += 1
            area.put(x + start, y, text[start:column], fixed or GAP_ROLES[steps[start]])


def paint_lane(area: Area, x: int, lane: Lane, accents: Sequence[Accent | None], values: int | None) -> None:
    """One machine lane: filled from below, in the subdued accent of the phase above it; full height is 100 %."""
    rows = area.height
    area.put(1, 0, lane.label, "soft")
    if rows > 1:
        area.right(x - 1, 1, lane.full, "faint")
    steps = 8 if area.look.subdues else 4
    glyphs = BARS if area.look.subdues else HALF_DOTS
    for column, level in enumerate(lane.levels):
        accent = accents[column] if column < len(accents) else None
        if level is None or accent is None:
            continue
        filled = max(1, round(level * rows * steps))
        for row in range(rows):
            part = min(steps, filled - steps * (rows - 1 - row))
            if part > 0:
                glyph = glyphs[part] if area.look.coloured else BARS[part]
                area.put(x + column, row, glyph, AREA_OF[accent])
    if values is None:
        return
    area.right(values + 7, 0, lane.number, "faint" if lane.stale else "ink")
    end = area.put(values + 8, 0, lane.unit, "soft")
    if rows > 1:
        area.put(values + 8, 1, lane.note, "faint")
    elif lane.number == "—" or lane.stale:
        area.put(end + 1 if lane.unit else end, 0, lane.note, "faint")
