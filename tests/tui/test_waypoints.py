"""Where n and N go."""

from __future__ import annotations

from phasetop import events as ev
from phasetop.tui.waypoints import neighbour, waypoints
from tests.tui.fabricate import MS, S, Turn, ask, opening, session_of


def test_stalls_marks_and_turns_in_order_of_time() -> None:
    script = opening()
    ask(script, 0, Turn(tokens=100, stall_at=60))
    marked = script.t - 100 * MS
    ask(script, 1, Turn(tokens=50), at_ms=500)
    script.add(ev.Mark(t=script.t, at=marked, label="here"))
    session = session_of(script.sorted())
    points = waypoints(session, session.last_t)
    assert [(each.r, each.words.split(" of ")[0]) for each in points] == [
        (0, "turn 1 begins"),
        (0, "a stall"),
        (0, "mark here"),
        (1, "turn 2 begins"),
    ]
    assert session.runs[0].tokens.step[points[1].token] == 7
    tokens = session.runs[0].tokens
    assert tokens.t[points[2].token - 1] < marked <= tokens.t[points[2].token]
    assert [each.words for each in waypoints(session, points[1].t - 1)] == ["turn 1 begins"]  # as of a cursor


def test_neighbours() -> None:
    session = session_of(ask(opening(), 0, Turn(tokens=100, stall_at=60)).sorted())
    points = waypoints(session, session.last_t)
    assert neighbour(points, None, 1) is points[-1]
    assert neighbour(points, points[0].t, 1) is points[1]
    assert neighbour(points, points[1].t, 1) is None
    assert neighbour(points, points[1].t, -1) is points[0]
    assert neighbour([], 5 * S, 1) is None
