"""The trace: what lies on one time axis, computed in cells. Pure; nothing here draws.

The axis fills, then folds: it spans 5 s, 10, 20, 50, 100 …, and becomes the next when it is full, so that the whole request
is always in sight and only the cells at the pen change. Times are ns since the request was sent.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from math import floor, isnan, log10
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from phasetop.columns import Tokens
from phasetop.pace import STALL, USUAL
from phasetop.samples import Samples
from phasetop.tui.cells import BRAILLE, DOTS
from phasetop.tui.theme import Accent

if TYPE_CHECKING:
    from phasetop.metrics import Band, Phase

SECOND_NS: Final = 1_000_000_000
ACCENT_OF: Final[dict[Phase, Accent]] = {
    "queue": "queue",
    "waiting": "queue",
    "load": "load",
    "prefill": "prefill",
    "decode": "decode",
    "finish": "queue",
}
_AXES_KEPT: Final = 64
GAP_DECADES: Final = 2
"""The gap lane's axis is logarithmic and spans two decades."""
SETTLED_GAPS: Final = 16
"""After so many gaps the axis of the gap lane is fixed for the turn."""
TALLY_LINES: Final = 1024
"""Sums over gaps are kept every so many lines."""


def axis_ns(elapsed_ns: int) -> int:
    """The span of the time axis that holds ``elapsed_ns``: the smallest of 5 s, 10, 20, 50, 100 … that does."""
    scale = SECOND_NS
    while True:
        for step in (5, 10, 20):
            if elapsed_ns <= step * scale:
                return step * scale
        scale *= 10


class Axis(Struct, frozen=True):
    """The time axis: ``span_ns`` from ``start`` (ns since the anchor) over ``columns`` cells."""

    start: int
    span_ns: int
    columns: int


def ticks(span_ns: int, columns: int) -> list[tuple[int, str]]:
    """The ruler's labels as (column, text); the last ends with the unit before column ``columns`` + 2."""
    n = 5 if columns > 40 else 2
    made = []
    for i in range(n + 1):
        text = f"{i * span_ns / n / SECOND_NS:g}" + (" s" if i == n else "")
        made.append((round(i / n * columns) - (len(text) if i == n else 0), text))
    return made


class Cells(Struct, frozen=True):
    """One band of the phase lane: columns [x0, x1), how long it took, whether it runs at the cursor."""

    phase: Phase
    x0: int
    x1: int
    took_ns: int
    running: bool

    @property
    def accent(self) -> Accent:
        """The colour of its phase."""
        return ACCENT_OF[self.phase]


def place_bands(bands: Sequence[Band], axis: Axis, running: Phase | None) -> tuple[Cells, ...]:
    """The bands as cells, none hidden: one shorter than a cell gets a cell, and those after it begin later."""
    placed: list[Cells] = []
    start, span_ns, columns = axis.start, axis.span_ns, axis.columns
    edge = 0
    for band in bands:
        if edge >= columns:
            break
        x0 = max(edge, round((band.t0 - start) / span_ns * columns))
        x1 = min(columns, max(x0 + 1, round((band.t1 - start) / span_ns * columns)))
        last = band is bands[-1]
        placed.append(Cells(band.phase, min(x0, columns - 1), x1, band.t1 - band.t0, last and running == band.phase))
        edge = x1
    return tuple(placed)


def phases_by_column(bands: Sequence[Cells], columns: int) -> tuple[Accent | None, ...]:
    """Each column's accent, as the phase lane above shows it."""
    accents: list[Accent | None] = [None] * columns
    for band in bands:
        accents[band.x0 : band.x1] = [band.accent] * (band.x1 - band.x0)
    return tuple(accents)


class StallCells(Struct, frozen=True):
    """A stall in the phase lane: columns [x0, x1) and its length."""

    x0: int
    x1: int
    gap_ns: int


def place_stalls(stalls: Iterable[tuple[int, int]], span_ns: int, columns: int) -> tuple[StallCells, ...]:
    """Stalls, given as (end, length), as cells; of several in the same columns the longest."""
    placed: list[StallCells] = []
    for end, gap in stalls:
        x0 = min(columns - 1, max(0, int((end - gap) / span_ns * columns)))
        x1 = min(columns, max(x0 + 1, round(end / span_ns * columns)))
        if placed and placed[-1].x1 > x0:
            if placed[-1].gap_ns >= gap:
                continue
            placed.pop()
        placed.append(StallCells(x0, x1, gap))
    return tuple(placed)


def gap_floor_ms(gaps_ns: Sequence[int]) -> float:
    """The lower end of the gap lane's axis, from the turn's first gaps: 0.4, 4 or 40 ms (over 500, 10, fewer tok/s)."""
    first = sorted(gaps_ns[:SETTLED_GAPS])
    if not first:
        return 4.0
    middle_ms = first[len(first) // 2] / 1e6
    return 0.4 if middle_ms < 2 else 40.0 if middle_ms > 100 else 4.0


DotRow = tuple[str, bytes]
"""A row of a lane of dots: its characters, and each cell's step (the worst of its tokens)."""


class Dots:
    """A lane of braille dots, two by four in a cell, that points are added to.

    Args:
        columns: cells in a row.
        rows: rows of cells.
        span_ns: the time axis.
    """

    __slots__ = ("_bits", "_steps", "columns", "rows", "span_ns")

    def __init__(self, columns: int, rows: int, span_ns: int) -> None:
        self.columns = columns
        self.rows = rows
        self.span_ns = span_ns
        self._bits = bytearray(columns * rows)
        self._steps = bytearray(columns * rows)

    def add(self, at_ns: int, height: float, step: int) -> None:
        """Set the dot at a time and a height from 0 (lowest row of dots) to 1."""
        dx = min(self.columns * 2 - 1, max(0, int(at_ns / self.span_ns * self.columns * 2)))
        n = self.rows * 4
        dy = n - 1 - max(0, min(n - 1, int(height * n)))
        cell = dy // 4 * self.columns + dx // 2
        self._bits[cell] |= DOTS[dx % 2][dy % 4]
        if step > self._steps[cell]:
            self._steps[cell] = step

    def add_gaps(self, at: Sequence[int], gaps: Sequence[int], steps: Sequence[int], start: int, floor_ms: float) -> None:
        """Set the dots of many gaps on the log axis from ``floor_ms`` up: as `add` for each, and faster."""
        bits, worst, w, last, span = self._bits, self._steps, self.columns, self.columns * 2 - 1, self.span_ns
        top = self.rows * 4 - 1
        limits = [floor_ms * 1e6 * 10 ** (GAP_DECADES * k / (top + 1)) for k in range(1, top + 1)]
        for t, gap, step in zip(at, gaps, steps, strict=True):
            if gap > 0:
                dx = min(last, int((t - start) / span * w * 2))
                dy = top - bisect_right(limits, gap)
                cell = (dy >> 2) * w + (dx >> 1)
                bits[cell] |= DOTS[dx & 1][dy & 3]
                if step > worst[cell]:
                    worst[cell] = step

    def column(self, at_ns: int) -> int:
        """The column of a time on the axis: the very one that `add_gaps` takes."""
        return min(self.columns * 2 - 1, max(0, int(at_ns / self.span_ns * self.columns * 2))) >> 1

    def cells_before(self, column: int, own: Dots) -> tuple[DotRow, ...]:
        """The rows with this lane's columns before ``column``, and from it on those of ``own``."""
        return tuple(
            (mine[0][:column] + theirs[0][column:], mine[1][:column] + theirs[1][column:])
            for mine, theirs in zip(self.cells(), own.cells(), strict=True)
        )

    def cells(self) -> tuple[DotRow, ...]:
        """The lane's rows, top to bottom."""
        w = self.columns
        return tuple(
            (
                "".join(chr(BRAILLE + bits) if bits else " " for bits in self._bits[y * w : y * w + w]),
                bytes(self._steps[y * w : y * w + w]),
            )
            for y in range(self.rows)
        )


class _Whole:
    """The dots of all gaps that are known of one axis; what a cursor shows of them is cut from it."""

    __slots__ = ("dots", "first", "upto")

    def __init__(self, tokens: Tokens, axis: Axis, rows: int) -> None:
        self.dots = Dots(axis.columns, rows, axis.span_ns)
        self.first = self.upto = bisect_left(tokens.t, axis.start)


class GapLane:
    """The gap lane: a dot a gap, on a log axis, its cell's step the slowest in it.

    Each axis' dots are set once, of all tokens that are known; a cursor then takes the columns before it as they are and
    computes its own again. So a seek costs one column, in either direction.
    """

    __slots__ = ("_floor_ms", "_floor_of", "_made", "_of", "_size", "_wholes")

    def __init__(self) -> None:
        self._wholes: dict[tuple[Axis, float], _Whole] = {}
        self._size = (0, 0)
        self._floor_ms = 4.0
        self._floor_of = 0
        self._of: tuple[_Whole, int, int] | None = None  # what `_made` was cut from
        self._made: tuple[DotRow, ...] = ()

    @property
    def floor_ms(self) -> float:
        """The lower end of the axis."""
        return self._floor_ms

    def update(self, tokens: Tokens, upto: int, axis: Axis, rows: int) -> tuple[DotRow, ...]:
        """The lane of the first ``upto`` token lines, without what came before the axis begins."""
        if self._floor_of < SETTLED_GAPS or upto < 4 * SETTLED_GAPS:
            first = [gap for gap in tokens.gap_ns[: min(upto, 4 * SETTLED_GAPS)] if gap >= 0][:SETTLED_GAPS]
            self._floor_ms = gap_floor_ms(first)
            self._floor_of = len(first)
        if self._size != (axis.columns, rows):
            self._size, self._wholes = (axis.columns, rows), {}
        key = (axis, self._floor_ms)
        whole = self._wholes.get(key)
        if whole is None:
            whole = self._wholes[key] = _Whole(tokens, axis, rows)
        known = max(upto, bisect_right(tokens.t, axis.start + axis.span_ns, whole.upto))
        if known > whole.upto:
            self._add(whole.dots, tokens, whole.upto, known, axis)
            whole.upto = known
        of = (whole, upto, whole.upto)
        if self._of != of:
            self._of, self._made = of, self._cut(whole, tokens, upto, axis)
        return self._made

    def _add(self, dots: Dots, tokens: Tokens, begin: int, end: int, axis: Axis) -> None:
        part = slice(begin, end)
        dots.add_gaps(tokens.t[part], tokens.gap_ns[part], tokens.step[part], axis.start, self._floor_ms)

    def _cut(self, whole: _Whole, tokens: Tokens, upto: int, axis: Axis) -> tuple[DotRow, ...]:
        """Of the whole the columns before that of the newest token, and that one from its own tokens."""
        dots = whole.dots
        if upto >= whole.upto:
            return dots.cells()
        if upto <= whole.first:
            return Dots(dots.columns, dots.rows, dots.span_ns).cells()
        column = dots.column(tokens.t[upto - 1] - axis.start)
        begin = upto - 1
        while begin > whole.first and dots.column(tokens.t[begin - 1] - axis.start) == column:
            begin -= 1
        own = Dots(dots.columns, dots.rows, dots.span_ns)
        self._add(own, tokens, begin, upto, axis)
        return dots.cells_before(column, own)


class GapTally:
    """How many gaps of each step there were and how long they took together; sums are kept every so many lines."""

    __slots__ = ("_marks", "_now", "_upto")

    def __init__(self) -> None:
        self._upto = 0
        self._now = ([0] * (STALL + 1), [0] * (STALL + 1))  # counts and sums by step, of the first `_upto` lines
        self._marks = [([0] * (STALL + 1), [0] * (STALL + 1))]  # of 0, 1, 2 … times `TALLY_LINES` lines

    def update(self, tokens: Tokens, upto: int) -> tuple[tuple[int, int], ...]:
        """Of the first ``upto`` lines: by step 1 to 7 how many gaps, and their sum in ns."""
        if not self._upto <= upto < self._upto + TALLY_LINES:
            k = min(upto // TALLY_LINES, len(self._marks) - 1)
            self._upto, self._now = k * TALLY_LINES, (self._marks[k][0][:], self._marks[k][1][:])
        counts, sums = self._now
        while self._upto < upto:
            end = min(upto, (self._upto // TALLY_LINES + 1) * TALLY_LINES)
            part = slice(self._upto, end)
            for gap, step in zip(tokens.gap_ns[part], tokens.step[part], strict=True):
                if gap > 0:
                    counts[step] += 1
                    sums[step] += gap
            self._upto = end
            if end == len(self._marks) * TALLY_LINES:
                self._marks.append((counts[:], sums[:]))
        return tuple(zip(counts[1:], sums[1:], strict=True))


class Batch(Struct, frozen=True):
    """One step of the prompt's progress: ns since sent, and tokens per second."""

    t0: int
    t1: int
    per_s: float


def batches_of(progress: Iterable[tuple[int, int]]) -> tuple[Batch, ...]:
    """Batches from (ns since sent, tokens done) readings; readings without progress stretch the next one."""
    made: list[Batch] = []
    before: tuple[int, int] | None = None
    for t, done in progress:
        if before is None:
            before = (t, done)
        elif done > before[1] and t > before[0]:
            made.append(Batch(before[0], t, (done - before[1]) * SECOND_NS / (t - before[0])))
            before = (t, done)
    return tuple(made)


def nice_top(value: float) -> float:
    """The top of a linear axis: five times the smallest of 1, 2, 3, 4, 5, 6, 8 × a power of ten that reaches ``value``."""
    fifth = max(value, 1e-3) / 5
    power = 10.0 ** floor(log10(fifth))
    return 5 * power * next(n for n in (1, 2, 3, 4, 5, 6, 8, 10, 20) if n * power >= fifth * 0.999999)


def batch_cells(batches: Sequence[Batch], span_ns: int, columns: int, rows: int, top_per_s: float) -> tuple[DotRow, ...]:
    """The batch lane: a step of dots a batch, on a linear axis from 0 to ``top_per_s``."""
    dots = Dots(columns, rows, span_ns)
    width = span_ns / (columns * 2)
    for batch in batches:
        x0, x1 = int(batch.t0 / width), int(batch.t1 / width)
        for x in range(x0, max(x0 + 1, x1 - (x1 - x0 > 2))):
            dots.add(int((x + 0.5) * width), batch.per_s / top_per_s * 0.999, USUAL)
    return dots.cells()


class LevelLane:
    """A sampled level, one value a column: the mean over what samples cover of it, weighted by how long they do.

    A column is settled by the first sample that reaches its end: it counts what is known then, whatever comes later, and is
    kept, a list an axis. So any cursor has its settled columns at once.
    """

    __slots__ = ("_samples", "_settled", "_width")

    def __init__(self) -> None:
        self._samples: Samples | None = None
        self._width = 0
        self._settled: dict[Axis, list[float | None]] = {}

    def update(self, samples: Samples, axis: Axis, cursor: int) -> tuple[float | None, ...]:
        """The level of each of the axis' columns as of the cursor; None from the newest sample on, and where none is."""
        if samples is not self._samples or axis.columns != self._width or len(self._settled) > _AXES_KEPT:
            self._samples, self._width, self._settled = samples, axis.columns, {}
        start, span, columns = axis.start, axis.span_ns, axis.columns
        known = bisect_right(samples.t, cursor)
        newest = samples.t[known - 1] if known else start
        settled = max(0, min(columns, (newest - start) * columns // span))
        done = self._settled.setdefault(axis, [])
        for column in range(len(done), settled):
            left, right = (start + edge * span / columns for edge in (column, column + 1))
            reached = bisect_left(samples.t, start - (-(column + 1) * span // columns))
            done.append(_mean_over(samples, reached + 1, left, right))
        levels = done[:settled]
        left = start + settled * span / columns
        if settled < columns and newest > left:
            levels.append(_mean_over(samples, known, left, newest))
        levels += [None] * (columns - len(levels))
        return tuple(levels)


def _mean_over(samples: Samples, known: int, left: float, right: float) -> float | None:
    """The overlap-weighted mean of the first ``known`` samples over [left, right); None without any."""
    t0, t, value = samples.t0, samples.t, samples.value
    total = weight = 0.0
    i = bisect_right(t, int(left), 0, known)
    while i < known and t0[i] < right:
        overlap = min(right, t[i]) - max(left, t0[i])
        if overlap > 0 and not isnan(value[i]):
            total += overlap * value[i]
            weight += overlap
        i += 1
    return total / weight if weight > 0 else None
