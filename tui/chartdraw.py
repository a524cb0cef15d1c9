"""A chart drawn: its points by plotext in braille, title, axes and labels in the view's own cells and colours.

plotext takes a tenth of a second to load, and so this module is imported when a page of charts is opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import plotext

from phasetop.tui.cells import Area, fit
from phasetop.tui.theme import Role

GUTTER: Final = 8
Kind = Literal["dots", "line"]


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one colour."""

    xs: tuple[float, ...]
    ys: tuple[float, ...]
    role: Role
    kind: Kind


@dataclass(frozen=True, slots=True)
class Chart:
    """What one chart shows; without series ``why`` says why."""

    title: str
    note: str = ""
    why: str = ""
    x: tuple[float, float] = (0.0, 1.0)
    y: tuple[float, float] = (0.0, 1.0)
    x_labels: tuple[tuple[float, str], ...] = ()
    y_labels: tuple[tuple[float, str], ...] = ()
    series: tuple[Series, ...] = ()
    bars: tuple[tuple[float, float, Role], ...] = ()  # middle, height, colour; all as wide as ``bar_width``
    bar_width: float = 1.0
    upright: tuple[tuple[float, Role], ...] = ()  # lines from top to bottom
    level: float | None = None  # a line from left to right: a limit


def draw(area: Area, chart: Chart) -> None:
    """One chart: title and note, labels at the left and below, the points between them."""
    x = area.put(0, 0, chart.title, "soft")
    if chart.why:
        area.put(x + 3, 0, fit(f"—  {chart.why}", max(0, area.width - x - 3)), "faint")
        return
    area.put(x + 3, 0, fit(chart.note, max(0, area.width - x - 3)), "faint")
    left, width, height = GUTTER, area.width - GUTTER, area.height - 3
    if width < 10 or height < 3:
        return
    plot = area.area(left, 1, width, height)
    for at, role in chart.upright:
        for y in range(height):
            plot.put(_cell(at, chart.x, width), y, "│", role)
    if chart.level is not None:
        plot.put(0, height - 1 - _cell(chart.level, chart.y, height), "·" * width, "faint")
    if chart.bars:
        _bars(plot, chart)
    for series in chart.series:
        rows = points(series.xs, series.ys, width, height, chart.x, chart.y, series.kind)
        for y, row in enumerate(rows[:height]):
            _over(plot, y, row[:width], series.role)
    plot_base = area.area(left, 1 + height, width, 1)
    plot_base.put(0, 0, "─" * width, "rule")
    for value, text in chart.y_labels:
        area.right(left - 1, 1 + height - 1 - _cell(value, chart.y, height), text, "faint")
    end = -2
    for value, text in chart.x_labels:
        at = min(max(0, _cell(value, chart.x, width) - len(text) // 2), width - len(text))
        if at > end + 1:
            area.put(left + at, 2 + height, text, "faint")
            end = at + len(text)


def _bars(plot: Area, chart: Chart) -> None:
    """Columns, each in its colour."""
    heights = tuple(height for _, height, _ in chart.bars)
    rows = columns(tuple(x for x, _, _ in chart.bars), heights, plot.width, plot.height, chart.x, chart.y)
    roles: list[Role | None] = [None] * plot.width
    for x, _, role in chart.bars:
        first = _cell(x - chart.bar_width / 2, chart.x, plot.width)
        last = _cell(x + chart.bar_width / 2, chart.x, plot.width)
        for column in range(first, last + 1):
            if roles[column] is None:
                roles[column] = role
    for y, row in enumerate(rows[: plot.height]):
        for column, char in enumerate(row[: plot.width]):
            its = roles[column]
            if char not in " \u2800" and its is not None:  # columns of no height have a foot: leave it out
                plot.put(column, y, char, its)


def _over(plot: Area, y: int, row: str, role: Role) -> None:
    """A row of points over what is there; where nothing is, nothing changes."""
    for column, char in enumerate(row):
        if char not in " \u2800":
            plot.put(column, y, char, role)


def _cell(value: float, axis: tuple[float, float], cells: int) -> int:
    """The cell that a value falls into."""
    low, high = axis
    return min(cells - 1, max(0, int((value - low) / (high - low) * cells)))


def _figure(width: int, height: int) -> object:
    """Plotext's one figure, empty: without axes, frame, colours and ticks."""
    plotext.terminal.limit(False, False)
    figure = plotext.figure
    figure.clear()
    figure.plot_size(width, height)
    figure.theme("colorless")
    figure.axes(False)
    return figure


def _built(figure: object, x: tuple[float, float], y: tuple[float, float]) -> tuple[str, ...]:
    for name, (low, high) in (("x", x), ("y", y)):
        ruler = figure.ruler(name)  # type: ignore[attr-defined]
        ruler.ticks([], [])
        ruler.lim(low, high)
    rows = str(figure.build().string(colorless=True)).split("\n")  # type: ignore[attr-defined]
    figure.clear()  # type: ignore[attr-defined]
    return tuple(rows)


@lru_cache(16)
def points(
    xs: tuple[float, ...],
    ys: tuple[float, ...],
    width: int,
    height: int,
    x: tuple[float, float],
    y: tuple[float, float],
    kind: Kind,
) -> tuple[str, ...]:
    """Points, or the line through them, as rows of braille."""
    figure = _figure(width, height)
    signal = figure.signal(list(xs), list(ys), marker="braille")  # type: ignore[attr-defined]
    figure.draw(signal.lines() if kind == "line" else signal)  # type: ignore[attr-defined]
    return _built(figure, x, y)


@lru_cache(8)
def columns(
    xs: tuple[float, ...],
    heights: tuple[float, ...],
    width: int,
    height: int,
    x: tuple[float, float],
    y: tuple[float, float],
) -> tuple[str, ...]:
    """Columns standing on the axis, as rows of braille."""
    figure = _figure(width, height)
    figure.draw(figure.bar(list(xs), list(heights), width=1, marker="braille", _reset_ticks=False))  # type: ignore[attr-defined]
    return _built(figure, x, y)
