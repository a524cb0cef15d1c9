"""The scrub bar's content: what of the session each of its columns holds. Pure; `scrubpane` draws it."""

from __future__ import annotations

from msgspec import Struct

from phasetop.session import Session
from phasetop.tui.course import Course
from phasetop.tui.lanes import ACCENT_OF, axis_ns
from phasetop.tui.theme import Accent


class Bar(Struct, frozen=True):
    """The session in columns: the phase that each lies in (None: a pause), stalls, marks; ``span`` is all columns' time."""

    accents: tuple[Accent | None, ...] = ()
    stalls: frozenset[int] = frozenset()
    marks: frozenset[int] = frozenset()
    columns: int = 0
    span: int = 1

    def column(self, way: int) -> int:
        """The column of a place of the course."""
        return max(0, min(self.columns - 1, way * self.columns // self.span))

    def way(self, column: int) -> int:
        """The place of the course in the middle of a column."""
        return (2 * column + 1) * self.span // (2 * self.columns)


class Scrub(Struct, frozen=True):
    """Where a replay is, as it is drawn.

    Attributes:
        playing: it plays; following: its end is the present, which it shows.
        speed: times as fast as it was.
        at_ns, total_ns: the cursor and the end, since the first request was sent.
        turns: how many there are in all.
        bar: the session in columns; cursor: the cursor's one.
        reads: single tokens can be read: the one under the cursor is.
        word: what the header calls it.

    """

    playing: bool = False
    following: bool = False
    speed: float = 1.0
    at_ns: int = 0
    total_ns: int = 0
    turns: int = 0
    bar: Bar = Bar()
    cursor: int = 0
    reads: bool = True
    word: str = "replay"


def bar_of(course: Course, session: Session, columns: int) -> Bar:
    """The session on so many columns.

    One request alone lies on the axis that its trace has at its end, so that both cursors stand in one column there; several
    fill the bar.
    """
    if columns <= 0:
        return Bar()
    span = axis_ns(course.total) if len(course.spans) == 1 else course.total
    bar = Bar(columns=columns, span=span)
    accents: list[Accent | None] = [None] * columns
    for request in course.spans:
        for band in request.bands:
            x0 = bar.column(course.way(band.t0))
            x1 = max(x0 + 1, round(course.way(band.t1) / span * columns))
            accents[x0:x1] = [ACCENT_OF[band.phase]] * (min(x1, columns) - x0)
    stalls: set[int] = set()
    for run in session.runs.values():
        for i in run.tokens.stalls:
            t = run.tokens.t[i]
            x0 = bar.column(course.way(t - run.tokens.gap_ns[i]))
            stalls.update(range(x0, max(x0 + 1, bar.column(course.way(t)))))
    marks = frozenset(bar.column(course.way(mark.at)) for mark in session.marks.items)
    known = 1 + max((x for x, accent in enumerate(accents) if accent is not None), default=-1)
    return Bar(tuple(accents[:known]), frozenset(stalls), marks, columns, span)
