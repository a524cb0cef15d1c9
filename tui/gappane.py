"""The gap lane: a dot a token at the time it came, as high as its gap is long; while the prompt is read, a step a batch."""

from __future__ import annotations

from collections.abc import Sequence

from phasetop.figures import UNKNOWN, milliseconds, rate, seconds
from phasetop.tui.cells import Area
from phasetop.tui.frame import Frame
from phasetop.tui.lanes import GAP_DECADES, DotRow
from phasetop.tui.layout import Layout
from phasetop.tui.theme import GAP_ROLES, Role
from phasetop.tui.tracing import Trace


def paint(area: Area, frame: Frame, layout: Layout) -> None:
    """Draw the lane: gaps, or batches while the prompt is read."""
    plot = layout.plot
    assert plot is not None
    x, rows, values = plot.x, area.height, layout.values_x
    trace, measures = frame.trace, frame.measures
    if trace is None or measures is None:
        area.put(1, 0, "gap", "soft")
        if values is not None:
            _unknown(area, rows, values, "ms", "not yet")
        return
    if measures.latency.ttft_ns is None and frame.running:
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
                area.value(values, y, UNKNOWN, "ms", "too few" if frame.running else "none")
            continue
        number, unit = _gap_figure(value, fine=fine)
        area.value(values, y, number, unit, name, "ink", "b" if name == "p50" else "")


def _unknown(area: Area, rows: int, values: int, unit: str, reason: str) -> None:
    """A dash; its reason under it where there is a row, since beside the unit there is little room."""
    area.value(values, max(0, rows - 2), UNKNOWN, unit, "" if rows > 1 else reason)
    if rows > 1:
        area.put(min(values + 8, area.width - 1 - len(reason)), rows - 1, reason, "faint")


def _gap_figure(ns: float, *, fine: bool) -> tuple[str, str]:
    if ns >= 10e9:
        return seconds(int(ns))
    return milliseconds(ns, fine=fine), "ms"


def _axis_number(value: float) -> str:
    """Two digits: ``4``, ``25``, ``160``, ``1.6k``."""
    if value >= 995:
        return f"{value / 1000:.2g}k"
    if value < 100:
        return f"{value:.2g}"
    return f"{round(value / 10) * 10:,.0f}"


def _batch_lane(area: Area, x: int, frame: Frame, trace: Trace, rows: int, values: int | None) -> None:
    """While the prompt is read: a step of dots a batch, in tokens per second."""
    area.put(1, 0, "batch", "soft")
    batches = trace.batches
    if not batches:
        if values is not None:
            _unknown(area, rows, values, "tok/s", "not yet" if frame.state in ("queue", "load") else "none told yet")
        return
    _dots(area, x, trace.batch_dots, "prefill")
    for row in range(1, rows, 2):
        top = trace.batch_top * (rows - row) / rows
        area.right(x - 1, row, f"{top / 1000:.3g}k" if top >= 1000 else f"{top:.3g}", "faint")
    if values is None:
        return
    mean = frame.measures.rates.prefill_per_s if frame.measures is not None else None
    figures = [("first", batches[0].per_s), ("mean", mean), ("last", batches[-1].per_s)][-rows:]
    unit = "tok/s"
    if values + 8 + len(f"{unit} first") > area.width - 1 and rows > 2:  # the lane has the unit, and each figure its name
        area.right(x - 1, rows - 1, unit, "faint")
        unit = ""
    for i, (name, value) in enumerate(figures):
        area.value(values, rows - len(figures) + i, rate(value), unit, name, "ink", "b" if name == "last" else "")


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
