"""The roofline as a plot: FLOP/s over FLOPs a byte, both log; a quiet roof, and a dot a phase in its accent. Pure cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, floor, log10
from textwrap import wrap
from typing import Final

from msgspec import Struct

from phasetop.metrics import Measures
from phasetop.tui.cells import BRAILLE, DOTS, Area, fit
from phasetop.tui.theme import Accent
from phasetop.tui.wrap import text_width
from phasetop.visible import clean

DECADES: Final = (1.0, 1e4)
"""The FLOPs a byte that are always shown; more where a point lies beyond."""
_DOTTED: Final = 3
"""A line that is no roof has a dot in so many."""
_LEAST: Final = 5
"""Rows of a plot and its labels."""
_HEIGHT: Final = 3
"""So many powers of ten of FLOP/s are shown at least."""
_PEAK: Final = "roofline.peak_bandwidth_bytes_per_s"
_WAYS: Final = (
    ("--measure-bandwidth", "phasetop doctor --measure-bandwidth", "measures it"),
    ("--peak-bandwidth", "phasetop run --peak-bandwidth 40GB/s", "sets it"),
)
"""How a bandwidth comes to be known: the word for it in a reason, what to type, what that does."""
_GAP: Final = 2
MEASURED: Final = "●"
PREDICTED: Final = "○"


class Point(Struct, frozen=True):
    """A phase: FLOPs a byte, FLOP/s; measured, or what it should reach."""

    phase: Accent
    intensity: float
    flops_per_s: float
    mark: str = MEASURED


class Roof(Struct, frozen=True):
    """What the plot shows; a peak is None where it is not known.

    ``of`` says whose peaks they are; ``at_least``: the bandwidth was measured. Without one ``why`` says what is missing, and
    ``ways`` how it comes to be known: what to type, and what that does.
    """

    bytes_per_s: float | None
    flops: float | None
    points: tuple[Point, ...] = ()
    of: str = ""
    at_least: bool = False
    why: str = ""
    ways: tuple[tuple[str, str], ...] = ()
    disturbed: bool = False  # and while other programs were busy: it may be too low
    read_bytes_per_s: float | None = None  # by decode: a roof that is not known lies there or above


def missing(reason: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """A reason for a peak that is not known, as what is missing and the ways to have it; the reason names them."""
    reason = clean(reason).replace("`", "")
    ways = [(command, does) for word, command, does in _WAYS if word in reason]
    what = reason.rpartition(": ")[0] if ways else reason
    return what or reason, tuple(ways)


def roof_of(measures: Measures) -> Roof:
    """The roof of a request's devices, with what its phases reached."""
    roofline = measures.roofline
    points = []
    if roofline.decode_intensity and roofline.decode_flops_per_s:
        points.append(Point("decode", roofline.decode_intensity, roofline.decode_flops_per_s))
    if roofline.prefill_intensity and roofline.prefill_flops_per_s:
        points.append(Point("prefill", roofline.prefill_intensity, roofline.prefill_flops_per_s))
    ran = roofline.ran
    of = clean(roofline.device or "")
    if len(ran.gpus) > 1:
        of = f"{len(ran.gpus)} cards at once" if ran.by_rows else "one card"
    why, ways = missing(measures.unknown.get(_PEAK, ""))
    return Roof(
        roofline.peak_bytes_per_s,
        roofline.peak_flops,
        tuple(points),
        of,
        roofline.at_least,
        why,
        ways,
        roofline.disturbed,
        roofline.read_bytes_per_s,
    )


class _Axes(Struct, frozen=True):
    """The powers of ten at the edges."""

    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, intensity: float, flops: float, width: int, height: int) -> tuple[int, int]:
        """The dot of a point in ``width`` × ``height`` cells (2 × 4 dots each)."""
        across = (log10(intensity) - self.x[0]) / (self.x[1] - self.x[0])
        up = (log10(flops) - self.y[0]) / (self.y[1] - self.y[0])
        return round(across * (2 * width - 1)), round((1 - up) * (4 * height - 1))


def axes_of(roof: Roof) -> _Axes | None:
    """The edges for a roof and its points; None: there is nothing to draw."""
    xs = [*DECADES, *(point.intensity for point in roof.points)]
    if roof.bytes_per_s and roof.flops:
        xs.append(2 * roof.flops / roof.bytes_per_s)
    left, right = floor(log10(min(xs)) + 1e-9), ceil(log10(max(xs)) - 1e-9)
    ys = [point.flops_per_s for point in roof.points]
    if roof.flops:
        ys.append(roof.flops)
    if roof.bytes_per_s:
        ys.append(roof.bytes_per_s * 10.0**left)
        if not roof.flops:
            ys.append(roof.bytes_per_s * 10.0 ** (left + 2))
    ys = [y for y in ys if y > 0]
    if not ys:
        return None
    top = ceil(log10(max(ys)) + 0.002)
    bottom = min(floor(log10(min(ys)) + 1e-9), top - _HEIGHT)
    return _Axes((left, right), (bottom, top))


def unit_of(roof: Roof) -> tuple[float, str]:
    """(FLOP/s of one, its name): TFLOP/s, on small machines GFLOP/s."""
    top = max([roof.flops or 0.0, *(point.flops_per_s for point in roof.points)])
    return (1e12, "TFLOP/s") if top >= 2e12 or not top else (1e9, "GFLOP/s")


def figure(value: float) -> str:
    """A figure of the plot: two digits, all of those before the point."""
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 0.95 else f"{value:.2g}"


def paint(area: Area, roof: Roof, *, title: str = "roofline") -> None:
    """The title's row, the plot, two rows of labels; without any peak and any point nothing but the title."""
    scale, unit = unit_of(roof)
    x = area.put(0, 0, title, "soft")
    peak = f"{figure(roof.flops / scale)} peak" if roof.flops else "peak not known" if roof.bytes_per_s else ""
    room = area.width - x - 3 - (text_width(peak) + 2 if peak else 0)
    note = next((each for each in (f"{unit}, {roof.of}", unit) if text_width(each) <= room), "")
    if roof.of or roof.points:
        area.put(x + 2, 0, note, "faint")
    area.right(area.width, 0, peak, "faint")
    axes = axes_of(roof)
    top = 1
    if not roof.bytes_per_s and roof.why:
        top += _paint_missing(area, roof)
        if area.height < top + _LEAST and roof.points:
            _paint_as_words(area, top, roof, scale)
            return
    if axes is None or area.height < top + _LEAST or area.width < 16:
        return
    plot = area.area(0, top, area.width, area.height - top - 2)
    taken = _paint_roof(plot, roof, axes)
    taken |= _label_slope(plot, roof, axes, taken)
    _paint_points(plot, roof, axes, scale, taken)
    _paint_x(area.area(0, area.height - 2, area.width, 2), axes)
    if any(point.mark == PREDICTED for point in roof.points):
        area.put(0, area.height - 1, f"{MEASURED} this run  {PREDICTED} predicted", "faint")


def _paint_missing(area: Area, roof: Roof) -> int:
    """Why there is no roof, in a sentence, and a row a way to have one; returns how many rows that took."""
    rows = wrap(f"{'No slope' if roof.flops else 'No roof'}: {roof.why}.", max(10, area.width), break_on_hyphens=False)[:3]
    for y, line in enumerate(rows, 1):
        area.put(0, y, line, "soft")
    y = len(rows)
    for command, does in roof.ways:
        y += 1
        lean = command.removeprefix("phasetop run ") if len(command) > area.width else command
        area.put(0, y, lean, "ink")
        if len(lean) + _GAP + len(does) <= area.width:
            area.put(len(lean) + _GAP, y, does, "faint")
    return y


def _paint_as_words(area: Area, y: int, roof: Roof, scale: float) -> None:
    """The points where there is no room to plot them."""
    for point in roof.points:
        if point.mark == MEASURED and y < area.height:
            name = area.put(0, y, point.mark, point.phase)
            words = f" {point.phase} {figure(point.flops_per_s / scale)}, at {figure(point.intensity)} FLOP a byte"
            area.put(name, y, fit(words, area.width - 1), "soft")
            y += 1


def _paint_roof(plot: Area, roof: Roof, axes: _Axes) -> set[tuple[int, int]]:
    """The roof, two dots a column, as far as the peaks are known; without one what was read, dotted. Returns its cells."""
    cells: dict[tuple[int, int], int] = {}
    slope, each = (roof.bytes_per_s, 1) if roof.bytes_per_s or roof.flops else (roof.read_bytes_per_s, _DOTTED)
    if not slope and not roof.flops:
        return set(cells)
    for dx in range(0, 2 * plot.width, each):
        x = axes.x[0] + (axes.x[1] - axes.x[0]) * dx / (2 * plot.width - 1)
        limits = [slope * 10.0**x] if slope else []
        limits += [roof.flops] if roof.flops else []
        y = log10(min(limits))
        if not axes.y[0] <= y <= axes.y[1]:
            continue
        _, dy = axes.at(10.0**x, 10.0**y, plot.width, plot.height)
        dy = min(4 * plot.height - 1, max(0, dy))
        cell = (dx // 2, dy // 4)
        cells[cell] = cells.get(cell, 0) | DOTS[dx % 2][dy % 4]
    for (x_cell, y_cell), bits in cells.items():
        plot.put(x_cell, y_cell, chr(BRAILLE + bits), "faint")
    return set(cells)


def _label_slope(plot: Area, roof: Roof, axes: _Axes, taken: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """The bandwidth (or what was read), beside the slope that it is, where nothing stands; returns the cells."""
    slope = roof.bytes_per_s or (None if roof.flops else roof.read_bytes_per_s)
    if not slope:
        return set()
    amount = slope / 1e9
    words = f"{amount:,.0f} GB/s" if amount >= 9.95 else f"{amount:.1f} GB/s" if amount >= 0.95 else f"{amount:.2g} GB/s"
    if not roof.bytes_per_s:
        words = f"decode read {words}"
    elif roof.at_least:
        words = f"≥ {words}" + (" (busy)" if roof.disturbed else "")
    dots = {_cell(point, axes, plot) for point in roof.points if point.intensity > 0 and point.flops_per_s > 0}
    for y in range(1, plot.height):
        level = axes.y[1] - (axes.y[1] - axes.y[0]) * (4 * y + 2) / (4 * plot.height - 1)
        x = (level - log10(slope) - axes.x[0]) / (axes.x[1] - axes.x[0]) * plot.width
        if roof.flops and 10.0**level > roof.flops / 3:
            continue
        at = int(x) - 3 - len(words)
        if at < 0 and not roof.bytes_per_s:  # right of it nothing bends
            at = max((column for column, row in taken if row == y), default=int(x)) + 3
        cells = {(column, y) for column in range(at, at + len(words))}
        if 0 <= at <= plot.width - len(words) and x < plot.width and not cells & (taken | dots):
            plot.put(at, y, words, "faint")
            return cells
    return set()


def _cell(point: Point, axes: _Axes, plot: Area) -> tuple[int, int]:
    """The cell of a point, at the edge where it lies beyond."""
    dx, dy = axes.at(point.intensity, point.flops_per_s, plot.width, plot.height)
    return min(plot.width - 1, max(0, dx // 2)), min(plot.height - 1, max(0, dy // 4))


def _paint_points(plot: Area, roof: Roof, axes: _Axes, scale: float, taken: set[tuple[int, int]]) -> None:
    """The dots, each with its name and figure where there is room that nothing has ``taken``."""
    placed: list[tuple[Point, int, int]] = []
    for point in roof.points:
        if point.intensity <= 0 or point.flops_per_s <= 0:
            continue
        placed.append((point, *_cell(point, axes, plot)))
    for point, x, y in sorted(placed, key=lambda each: each[0].mark == MEASURED):  # what was measured lies on top
        plot.put(x, y, point.mark, point.phase)
        taken.add((x, y))
    named: set[str] = set()
    for point, x, y in sorted(placed, key=lambda each: each[0].mark != MEASURED):
        if point.phase in named:
            continue  # one name a phase: the dots have its colour
        named.add(point.phase)
        words = f"{point.phase} {figure(point.flops_per_s / scale)}"
        for at, row in _places(x, y, len(words), plot):
            cells = {(column, row) for column in range(at - 1, at + len(words) + 1)}
            if not cells & taken:
                plot.put(at, row, words, "soft")
                taken |= cells
                break


def _places(x: int, y: int, width: int, plot: Area) -> Iterable[tuple[int, int]]:
    """Where a name may stand, the best first: right of its dot, under it, left of it, over it."""
    centred = min(max(0, x - width // 2), plot.width - width)
    found = [(x + 2, y), (x + 2, y + 1), (centred, y + 1), (x - 1 - width, y + 1), (x - 1 - width, y)]
    found += [(centred, y + 2), (centred, y - 1), (x + 2, y + 2), (x - 1 - width, y - 1)]
    return [(at, row) for at, row in found if at >= 0 and at + width <= plot.width and 0 <= row < plot.height]


def _paint_x(area: Area, axes: _Axes) -> None:
    """The powers of ten of FLOPs a byte, and what they are."""
    powers: Sequence[int] = range(int(axes.x[0]), int(axes.x[1]))
    for power in powers:
        at = round((power - axes.x[0]) / (axes.x[1] - axes.x[0]) * (area.width - 1))
        area.put(at, 0, _short(power), "faint")
    area.right(area.width, 1, "FLOP a byte", "faint")


def _short(power: int) -> str:
    """``0.1``, ``1``, ``100``, ``10k``, ``1M``."""
    if power < 0:
        return f"{10.0**power:g}"
    suffix, rest = (("", power), ("k", power - 3), ("M", power - 6))[min(2, power // 3)]
    return f"{10**rest}{suffix}"
