"""Where ``n`` and ``N`` go: stalls, marks and the beginnings of requests, in order of time. Pure."""

from __future__ import annotations

from bisect import bisect_left

from msgspec import Struct

from phasetop.figures import pause
from phasetop.session import Run, Session


class Waypoint(Struct, frozen=True):
    """A place worth looking at: when (ns since the anchor), in which request, at which token line, and what it is."""

    t: int
    r: int
    token: int
    words: str


def waypoints(session: Session, cursor: int) -> list[Waypoint]:
    """All of them up to the cursor."""
    made: list[Waypoint] = []
    runs = [run for run in session.runs.values() if run.info.at(cursor) is not None]
    for turn, run in enumerate(runs, 1):
        upto = run.tokens.index(cursor)
        made.append(Waypoint(run.info.first_t, run.r, 0, f"turn {turn} begins"))
        for i in run.tokens.stalls:
            if i < upto:
                words = f"a stall of {pause(run.tokens.gap_ns[i])}"
                made.append(Waypoint(run.tokens.t[i], run.r, i, words))
    for number, mark in enumerate(session.marks.until(cursor), 1):
        run_then = run_at(runs, mark.at)
        if run_then is not None:
            i = min(bisect_left(run_then.tokens.t, mark.at), max(0, len(run_then.tokens) - 1))
            made.append(Waypoint(mark.at, run_then.r, i, f"mark {mark.label or number}"))
    return sorted(made, key=lambda each: each.t)


def run_at(runs: list[Run], t: int) -> Run | None:
    """The request that was the newest at a moment."""
    begun = [run for run in runs if run.info.first_t <= t]
    return begun[-1] if begun else None


def neighbour(points: list[Waypoint], t: int | None, step: int) -> Waypoint | None:
    """The point after (1) or before (−1) a moment; without a moment the newest one; None where there is none."""
    if not points:
        return None
    if t is None:
        return points[-1]
    if step > 0:
        return next((each for each in points if each.t > t), None)
    return next((each for each in reversed(points) if each.t < t), None)
