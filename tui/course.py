"""The course of a session as a replay runs over it: where it begins and ends, its requests and their bands.

A replay's clock is the course's: pauses between requests, in which nothing runs and somebody reads or types, are passed over
in two seconds. `Course.way` and `Course.time` turn moments of the session into moments of the course and back.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from phasetop.columns import LIVE
from phasetop.phases import Band, borders
from phasetop.session import Run, Session
from phasetop.tally import timings_at
from phasetop.tui.lanes import SECOND_NS, axis_ns
from phasetop.tui.waypoints import Waypoint, waypoints

if TYPE_CHECKING:
    from phasetop.moments import Moment

PAUSE_NS: Final = 2 * SECOND_NS
"""A longer pause between requests takes so long in the course."""
LONG_LINES: Final = 2000
"""From so many token lines on it pays to look at a reply ahead."""
_SHORT_NS: Final = 20 * SECOND_NS
SETTLE_NS: Final = SECOND_NS
"""The course goes on so long after the last reply's end: the figures settle then."""


class Span(Struct, frozen=True):
    """One request: when it was sent and ended (or what is known of it ends), ns, and its bands.

    ``asked``: from when on it is shown.
    """

    r: int
    asked: int
    start: int
    end: int
    bands: tuple[Band, ...]


class Course:
    """Of one session, which may grow: `renew` takes what came."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lines = -1
        self._known: dict[int, tuple[tuple[object, ...], Span]] = {}
        self._times: list[int] = [0, 0]  # moments of the session, and where they lie in the course; straight between them
        self._ways: list[int] = [0, 0]
        self._waypoints: list[Waypoint] | None = None
        self.spans: list[Span] = []
        self.version = 0  # counts what changed
        self.renew()

    def renew(self) -> bool:
        """Take what came; True where something did."""
        session = self._session
        if session.lines == self._lines:
            return False
        self._lines = session.lines
        self.version += 1
        self._waypoints = None
        self.spans = [self._span(run) for run in session.runs.values() if run.info.at() is not None]
        self._lay()
        return True

    def _span(self, run: Run) -> Span:
        events = (run.ends, run.states, run.progress, run.timings, run.slots, self._session.server_states)
        now = 0 if run.ends.items else self._session.last_t
        key = (now, len(run.tokens), *(len(each.items) for each in events), run.info.at())
        known = self._known.get(run.r)
        if known is not None and known[0] == key:
            return known[1]
        end = run.ends.items[0] if run.ends.items else None
        found = borders(self._session, run, LIVE, len(run.tokens), timings_at(run.timings, LIVE), end).phases
        span = Span(run.r, run.info.first_t, found.start, found.end, found.bands)
        self._known[run.r] = (key, span)
        return span

    def _lay(self) -> None:
        """Lay the course: busy stretches at full length, pauses between them shortened."""
        begin, last = self.zero, self.last
        edges: list[tuple[int, int]] = []
        for span in sorted(self.spans, key=lambda each: each.start):
            if edges and span.start <= edges[-1][1]:
                edges[-1] = (edges[-1][0], max(edges[-1][1], span.end))
            else:
                edges.append((span.start, span.end))
        times, ways = [begin], [0]
        for start, end in edges:
            if start > times[-1]:
                ways.append(ways[-1] + min(start - times[-1], PAUSE_NS))
                times.append(start)
            if end > times[-1]:
                ways.append(ways[-1] + end - times[-1])
                times.append(end)
        if times[-1] < last or len(times) == 1:
            ways.append(ways[-1] + max(1, last - times[-1]))
            times.append(max(last, times[-1] + 1))
        self._times, self._ways = times, ways

    # ---- its ends

    @property
    def zero(self) -> int:
        """The moment that is called 0 s: the first request was sent (or the session began)."""
        return min((span.start for span in self.spans), default=0)

    @property
    def begin(self) -> int:
        """Where a replay opens: the first request is there."""
        return min((span.asked for span in self.spans), default=0)

    @property
    def last(self) -> int:
        """Where the last request has ended."""
        return max((span.end for span in self.spans), default=self._session.last_t)

    @property
    def stop(self) -> int:
        """Where the cursor stops."""
        return max(self.begin, min(self._session.last_t, self.last + SETTLE_NS) if self.spans else self._session.last_t)

    @property
    def total(self) -> int:
        """Its length, of the course's time, ns; 1 at least."""
        return max(1, self._ways[-1])

    def within(self, t: int) -> int:
        """The nearest moment that the cursor can be at."""
        return max(self.begin, min(t, self.stop))

    # ---- moments of the session, and of the course

    def way(self, t: int) -> int:
        """Where a moment of the session lies in the course, ns from its begin."""
        return _between(self._times, self._ways, t)

    def time(self, way: int) -> int:
        """The moment of the session at a place of the course."""
        return _between(self._ways, self._times, way)

    def moment(self, meant: Moment, r: int | None) -> int:
        """The moment that somebody means; a token is one of request ``r``, else of the first that has so many."""
        match meant.kind:
            case "s":
                return self.zero + round(meant.value * 1e9)
            case "share":
                if meant.value <= 0 or meant.value >= 1:
                    return self.begin if meant.value <= 0 else self.stop
                return self.within(self.time(round(self.total * meant.value)))
            case _:
                return self._token(int(meant.value), r)

    def _token(self, number: int, r: int | None) -> int:
        runs = [run for run in self._session.runs.values() if len(run.tokens)]
        if not runs:
            return self.begin
        own = [run for run in runs if run.r == r]
        run = next((run for run in own or runs if run.tokens.count[-1] >= number), (own or runs)[-1])
        return run.tokens.t[min(bisect_left(run.tokens.count, number), len(run.tokens) - 1)]

    # ---- places to go to

    def token_after(self, t: int) -> int | None:
        """When the next token comes."""
        found = []
        for run in self._session.runs.values():
            i = run.tokens.index(t)
            if i < len(run.tokens):
                found.append(run.tokens.t[i])
        return min(found, default=None)

    def token_before(self, t: int) -> int | None:
        """When the last token before a moment came."""
        found = []
        for run in self._session.runs.values():
            i = bisect_left(run.tokens.t, t)
            if i:
                found.append(run.tokens.t[i - 1])
        return max(found, default=None)

    def edges(self) -> list[int]:
        """Where bands begin, and requests end."""
        found = {span.asked for span in self.spans}
        for span in self.spans:
            found |= {max(band.t0, span.asked) for band in span.bands} | {span.end}
        return sorted(found)

    def waypoints(self) -> list[Waypoint]:
        """Stalls, marks, and where requests begin, of the whole session."""
        if self._waypoints is None:
            self._waypoints = waypoints(self._session, LIVE)
        return self._waypoints

    def ahead(self) -> list[int]:
        """Moments whose pictures, once made, make all others cheap: the end of each long reply, and of each of its axes."""
        found = []
        for span in self.spans:
            if len(self._session.runs[span.r].tokens) < LONG_LINES:
                continue
            axes = [_SHORT_NS]
            while axes[-1] < span.end - span.start:
                axes.append(axis_ns(axes[-1] + 1))
            found += [span.end, *(span.start + axis for axis in reversed(axes[:-1]))]
        return found

    def turn_at(self, t: int) -> int:
        """The place in `spans` of the newest request at a moment; -1: none yet."""
        return max((k for k, span in enumerate(self.spans) if span.asked <= t), default=-1)


def _between(xs: list[int], ys: list[int], x: int) -> int:
    """On the line through (x, y) points: in whole ns, and past the last one straight on."""
    k = max(1, min(bisect_right(xs, x), len(xs) - 1))
    (x0, x1), (y0, y1) = (xs[k - 1], xs[k]), (ys[k - 1], ys[k])
    if x <= x0:
        return y0 + min(0, x - xs[0]) if k == 1 else y0
    if x > x1:
        return y1 + x - x1
    return y0 + (x - x0) * (y1 - y0) // (x1 - x0)
