"""The trace of a request, in cells: on the whole of its time, or swept over the last ten seconds. Pure, as of a cursor.

A swept trace is two windows of ten seconds side by side: the one that is being written up to the pen, and after one blank
column what is left of the one before, as an oscilloscope shows it. Only the cells at the pen change.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phasetop.columns import LIVE
from phasetop.lately import lately
from phasetop.metrics import Measures, Phases
from phasetop.session import Run, Session
from phasetop.tui.lanes import (
    SECOND_NS,
    Axis,
    Batch,
    Cells,
    DotRow,
    GapLane,
    GapTally,
    StallCells,
    axis_ns,
    batch_cells,
    batches_of,
    nice_top,
    place_bands,
    place_stalls,
)
from phasetop.tui.machine import Lane, Machine, Worked

SWEEP_NS: Final = 10 * SECOND_NS
"""A swept trace shows so much."""
_SWEEP_TICKS: Final = 5


class Trace(Struct, frozen=True):
    """The lanes of one request."""

    axis: Axis
    bands: tuple[Cells, ...]
    stalls: tuple[StallCells, ...]
    answer_at: int | None  # the column where thinking ended
    broke_at: int | None  # the column where the stream broke
    gaps: tuple[DotRow, ...]
    gap_floor_ms: float
    batches: tuple[Batch, ...]  # while the prompt is read; then the lane shows them instead of gaps
    batch_dots: tuple[DotRow, ...]
    batch_top: float
    marks: tuple[tuple[int, str], ...] = ()  # the columns of what somebody marked, and its label
    cursor_at: int | None = None  # the column of the token under the cursor
    labels: tuple[tuple[int, str], ...] | None = None  # the ruler's; None: the axis' own


class Window(Struct, frozen=True):
    """What of time is shown: one axis; or, swept, the axis that is written up to column ``pen``, and the one before."""

    axis: Axis
    before: Axis | None = None
    pen: int | None = None


def window(phases: Phases, cursor: int, columns: int, *, sweep: bool) -> Window:
    """The window of a request whose phases are known up to the cursor."""
    start = phases.start
    now = max(phases.end, min(cursor, LIVE)) if phases.running else phases.end
    if not sweep:
        return Window(Axis(start, axis_ns(now - start), columns))
    page = max(0, now - start) // SWEEP_NS
    axis = Axis(start + page * SWEEP_NS, SWEEP_NS, columns)
    if not page:
        return Window(axis)
    pen = min(columns - 1, (now - axis.start) * columns // SWEEP_NS)
    return Window(axis, replace(axis, start=axis.start - SWEEP_NS), pen)


class Tracer:
    """Keeps what would be dear to compute again: dots, and final columns of samples."""

    __slots__ = ("_gaps", "_machines", "_swept", "_tallies")

    def __init__(self) -> None:
        self._gaps: dict[int, GapLane] = {}  # on the whole axis, a request; of those looked at lately
        self._swept: dict[tuple[int, int], GapLane] = {}  # a request and a window
        self._tallies: dict[int, GapTally] = {}  # likewise
        self._machines = (Machine(), Machine())

    def tally(self, run: Run, upto: int) -> tuple[tuple[int, int], ...]:
        """By step 1 to 7: how many gaps of a request's first ``upto`` token lines, and their sum in ns."""
        return lately(self._tallies, run.r, GapTally).update(run.tokens, upto)

    def lanes(
        self, session: Session, shown: Window, at: int, areas: int, of: Worked | None, pairs: int = 1
    ) -> tuple[Lane, ...]:
        """The machine's lanes: areas up to the moment ``areas``, figures of the second before ``at``; of what worked."""
        new = self._machines[0].lanes(session, shown.axis, at, areas, of, pairs)
        if shown.before is None or shown.pen is None:
            return new
        old = self._machines[1].lanes(session, shown.before, at, areas, of, pairs)
        pen = shown.pen
        return tuple(
            replace(lane, levels=(*lane.levels[: pen + 1], None, *left.levels[pen + 2 :])[: shown.axis.columns])
            for lane, left in zip(new, old, strict=True)
        )

    def trace(
        self,
        session: Session,
        run: Run,
        measures: Measures,
        phases: Phases,
        shown: Window,
        upto: int,
        rows: int,
        token: int | None,
    ) -> Trace:
        """The lanes of the first ``upto`` token lines; ``token`` is under the cursor."""
        if shown.before is None:
            lane = lately(self._gaps, run.r, GapLane)
            return _one(session, run, measures, phases, shown.axis, upto, rows, token, lane)
        new = _one(session, run, measures, phases, shown.axis, upto, rows, token, self._lane(run.r, shown.axis))
        earlier = min(upto, bisect_left(run.tokens.t, shown.axis.start))
        old = _one(session, run, measures, phases, shown.before, earlier, rows, token, self._lane(run.r, shown.before))
        near = (shown.axis.start, shown.before.start)
        self._swept = {key: each for key, each in self._swept.items() if key[0] == run.r and key[1] in near}
        return _joined(new, old, shown, phases.start)

    def _lane(self, r: int, axis: Axis) -> GapLane:
        return self._swept.setdefault((r, axis.start), GapLane())


def _one(
    session: Session,
    run: Run,
    measures: Measures,
    phases: Phases,
    axis: Axis,
    upto: int,
    gap_rows: int,
    token: int | None,
    lane: GapLane,
) -> Trace:
    """The lanes on one axis."""
    tokens, start, end = run.tokens, phases.start, phases.end
    span, columns, shift = axis.span_ns, axis.columns, axis.start - start
    answer = measures.latency.first_answer_ns if measures.tokens.thinking else None
    broke = measures.finish.reason in ("error", "cut")
    rows = max(1, gap_rows)
    batches: tuple[Batch, ...] = ()
    if measures.latency.ttft_ns is None:
        batches = batches_of((p.t - start, p.done) for p in run.progress.items if p.t <= end)
    top = nice_top(max((batch.per_s for batch in batches), default=0.0))
    here = [replace(b, t0=max(0, b.t0 - shift), t1=b.t1 - shift) for b in batches if b.t1 > shift and b.t0 < shift + span]

    def column(t: int) -> int | None:
        x = (t - axis.start) * columns // span
        return min(x, columns - 1) if 0 <= x <= columns else None

    stalls = [i for i in tokens.stalls if i < upto and axis.start < tokens.t[i]]
    marks = [(column(mark.at), mark.label or str(n)) for n, mark in enumerate(session.marks.until(max(end, 0)), 1)]
    return Trace(
        axis=axis,
        bands=_bands(phases, measures, axis),
        stalls=place_stalls(((tokens.t[i] - axis.start, tokens.gap_ns[i]) for i in stalls), span, columns),
        answer_at=None if answer is None else column(start + answer),
        broke_at=column(end) if broke else None,
        gaps=lane.update(tokens, upto, axis, rows) if gap_rows else (),
        gap_floor_ms=lane.floor_ms,
        batches=batches,
        batch_dots=batch_cells(here, span, columns, rows, top) if here else (),
        batch_top=top,
        marks=tuple((x, label) for x, label in marks if x is not None),
        cursor_at=column(tokens.t[token]) if token is not None and token < upto else None,
    )


def _bands(phases: Phases, measures: Measures, axis: Axis) -> tuple[Cells, ...]:
    """The bands that lie on the axis, each with the length of its whole."""
    end = axis.start + axis.span_ns
    whole = [band for band in phases.bands if (band.t1 > axis.start and band.t0 < end) or band.t0 == band.t1 == axis.start]
    clipped = [replace(band, t0=max(band.t0, axis.start), t1=min(band.t1, end)) for band in whole]
    runs_here = bool(whole) and whole[-1] is phases.bands[-1]
    cells = place_bands(clipped, axis, phases.running if runs_here else None)
    made = [replace(cell, took_ns=band.t1 - band.t0) for cell, band in zip(cells, whole, strict=False)]
    full = len(made) < len(whole)  # the axis is, and the last bands have no cell
    if made and not full and runs_here and measures.phases.bands:  # a length is a number, and moves at the numbers' beat
        last = measures.phases.bands[-1]
        made[-1] = replace(made[-1], took_ns=last.t1 - last.t0)
    return tuple(made)


def _joined(new: Trace, old: Trace, shown: Window, start: int) -> Trace:
    """Two windows as one sweep: the new one up to the pen, a blank column, the old one behind it."""
    assert shown.pen is not None
    pen, columns = shown.pen, shown.axis.columns
    rest = pen + 2

    def rows(one: tuple[DotRow, ...], other: tuple[DotRow, ...]) -> tuple[DotRow, ...]:
        blank = (" " * columns, bytes(columns))
        n = max(len(one), len(other))
        pairs = zip((*one, *[blank] * (n - len(one))), (*other, *[blank] * (n - len(other))), strict=True)
        return tuple(
            ((a[: pen + 1] + " " + b[rest:])[:columns], (u[: pen + 1] + b"\0" + v[rest:])[:columns])
            for (a, u), (b, v) in pairs
        )

    def choose(of: Callable[[Trace], int | None]) -> int | None:
        x, y = of(new), of(old)
        return x if x is not None and x <= pen else y if y is not None and y >= rest else None

    bands = [replace(band, x1=min(band.x1, pen + 1)) for band in new.bands if band.x0 <= pen]
    bands += [replace(band, x0=max(band.x0, rest), running=False) for band in old.bands if band.x1 > rest]
    stalls = [replace(stall, x1=min(stall.x1, pen + 1)) for stall in new.stalls if stall.x0 <= pen]
    stalls += [replace(stall, x0=max(stall.x0, rest)) for stall in old.stalls if stall.x1 > rest]
    marks = [mark for mark in new.marks if mark[0] <= pen] + [mark for mark in old.marks if mark[0] >= rest]
    return replace(
        new,
        bands=tuple(bands),
        stalls=tuple(stalls),
        answer_at=choose(lambda trace: trace.answer_at),
        broke_at=choose(lambda trace: trace.broke_at),
        gaps=rows(new.gaps, old.gaps),
        batch_dots=rows(new.batch_dots, old.batch_dots) if new.batch_dots or old.batch_dots else (),
        marks=tuple(marks),
        cursor_at=choose(lambda trace: trace.cursor_at),
        labels=tuple(_labels(shown, start)),
    )


def _labels(shown: Window, start: int) -> list[tuple[int, str]]:
    """The ruler of a sweep: each label the time of what stands above it."""
    assert shown.pen is not None
    made = []
    for i in range(_SWEEP_TICKS + 1):
        x = round(i / _SWEEP_TICKS * shown.axis.columns)
        axis_start = shown.axis.start - (SWEEP_NS if x > shown.pen + 1 else 0)
        text = f"{(axis_start - start + i * SWEEP_NS // _SWEEP_TICKS) / SECOND_NS:g}"
        text += " s" if i == _SWEEP_TICKS else ""
        made.append((x - (len(text) if i == _SWEEP_TICKS else 0), text))
    return made
