"""The course of a session: where it begins and ends, pauses that are passed over, and the places to go to in it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from phasetop import events as ev
from phasetop.moments import END, START, Moment
from phasetop.session import Session
from phasetop.tui.course import PAUSE_NS, SETTLE_NS, Course
from phasetop.tui.player import Player
from phasetop.tui.scrub import bar_of
from tests.core.test_cursor import RECORDINGS
from tests.tui.fabricate import MS, S, Turn, ask, opening, session_of


def two_turns(pause_ms: float = 42_000) -> Session:
    script = opening()
    ask(script, 0, Turn(tokens=100, gap_ms=20, stall_at=60))
    ask(script, 1, Turn(tokens=50, gap_ms=20), at_ms=pause_ms)
    script.add(ev.Bye(t=script.t + 300 * S, reason="done"))
    return session_of(script.sorted())


def test_it_runs_from_the_first_request_to_the_end_of_the_last_and_the_figures_settle() -> None:
    session = two_turns()
    course = Course(session)
    first, second = session.runs.values()
    assert course.zero == first.states.items[0].at
    assert course.begin == first.info.first_t
    assert course.last == second.ends.items[0].t
    assert course.stop == course.last + SETTLE_NS


def test_a_pause_is_passed_over_in_two_seconds() -> None:
    session = two_turns()
    course = Course(session)
    first, second = session.runs.values()
    busy = first.ends.items[0].t - course.zero + second.ends.items[0].t - course.spans[1].start
    assert course.total == busy + PAUSE_NS
    end, start = course.spans[0].end, course.spans[1].start
    assert course.way(start) - course.way(end) == PAUSE_NS
    assert course.time(course.way(end) + PAUSE_NS // 2) == pytest.approx((end + start) / 2, abs=S)
    short = Course(two_turns(pause_ms=1500))
    assert short.total == short.last - short.zero


@given(RECORDINGS)
def test_a_moment_and_its_place_are_each_other_s(events: list[ev.Event]) -> None:
    course = Course(session_of(events))
    places = [course.way(t) for t in range(max(0, course.zero - 3), course.stop + 3)]
    assert places == sorted(places)
    for t in range(course.begin, course.stop + 1):
        assert course.time(course.way(t)) == t
    assert course.begin <= course.stop
    bar = bar_of(course, session_of(events), 40)
    assert len(bar.accents) <= 40
    assert all(0 <= bar.column(place) < 40 for place in places)


@settings(max_examples=30)
@given(RECORDINGS)
def test_grown_it_is_as_if_made_afresh(events: list[ev.Event]) -> None:
    growing = Session()
    course = Course(growing)
    for event in events:
        growing.apply(event)  # type: ignore[arg-type]
        course.renew()
    fresh = Course(session_of(events))
    assert (course.spans, course.total, course.edges()) == (fresh.spans, fresh.total, fresh.edges())
    assert not course.renew()


def test_moments() -> None:
    session = two_turns()
    course = Course(session)
    first, second = session.runs.values()
    assert course.moment(Moment("s", 1.5), None) == course.zero + 1500 * MS
    assert course.moment(START, None) == course.begin
    assert course.moment(END, None) == course.stop
    assert course.moment(Moment("token", 50), 0) == first.tokens.t[49]
    assert course.moment(Moment("token", 50), 1) == second.tokens.t[49]
    assert course.moment(Moment("token", 9999), 1) == second.tokens.t[-1]
    assert course.moment(Moment("token", 80), None) == first.tokens.t[79]


def test_places_to_go_to() -> None:
    session = two_turns()
    course = Course(session)
    first, second = session.runs.values()
    t = first.tokens.t
    assert course.token_after(t[3]) == t[4]
    assert course.token_after(t[3] - 1) == t[3]
    assert course.token_before(t[3]) == t[2]
    assert course.token_before(second.tokens.t[0]) == t[-1]
    assert course.token_after(t[-1]) == second.tokens.t[0]
    assert course.token_after(course.stop) is None
    edges = course.edges()
    assert first.tokens.t[0] in edges  # decode begins
    assert {span.end for span in course.spans} <= set(edges)
    assert edges == sorted(set(edges))


def test_a_session_without_a_request_has_a_course_too() -> None:
    course = Course(session_of(opening().sorted()))
    assert (course.begin, course.zero, course.stop) == (0, 0, 25 * MS)
    assert course.token_after(0) is None
    assert course.moment(Moment("token", 3), None) == 0
    assert course.moment(END, None) == 25 * MS
    assert Course(Session()).total == 1


def player(at: int | None, session: Session, *, playing: bool = True, speed: float = 1.0) -> tuple[Player, list[float]]:
    clock = [100.0]
    return Player(Course(session), at, playing=playing, speed=speed, clock=lambda: clock[0]), clock


def test_it_plays_at_its_speed_over_pauses_and_stops_at_the_end() -> None:
    session = two_turns()
    it, clock = player(S, session, speed=2.0)
    clock[0] += 0.5
    assert it.tick(live=False)
    assert it.at == 2 * S
    it.seek(it.course.spans[0].end)
    clock[0] += 0.5
    it.tick(live=False)  # a second of the course: half of the pause
    assert it.at == pytest.approx((it.course.spans[0].end + it.course.spans[1].start) / 2, abs=S)
    it.faster(1)
    assert it.speed == 5.0
    for _ in range(30):
        clock[0] += 0.5
        it.tick(live=False)
    assert (it.at, it.playing) == (it.course.stop, False)
    assert not it.tick(live=False)
    it.play()
    assert (it.at, it.playing) == (it.course.begin, True)


def test_at_the_end_of_what_still_grows_it_follows_and_ends_with_it() -> None:
    it, clock = player(S, two_turns(), speed=100.0)
    clock[0] += 0.9
    it.tick(live=True)
    assert (it.at, it.playing) == (None, True)
    it.tick(live=False)
    assert (it.at, it.playing) == (it.course.stop, False)


def test_what_held_it_up_is_not_played() -> None:
    it, clock = player(0, two_turns())
    clock[0] += 3600
    it.tick(live=False)
    assert it.at is not None
    assert it.at < 3 * S


@pytest.mark.parametrize(("speed", "up", "down"), [(1.0, 2.0, 0.5), (3.0, 5.0, 2.0), (100.0, 100.0, 50.0), (0.1, 0.2, 0.1)])
def test_speeds(speed: float, up: float, down: float) -> None:
    it, _ = player(0, two_turns(), speed=speed)
    it.faster(1)
    assert it.speed == up
    it, _ = player(0, two_turns(), speed=speed)
    it.faster(-1)
    assert it.speed == down


def test_one_request_lies_on_its_trace_s_axis_and_several_fill_the_bar() -> None:
    one = session_of(ask(opening(), 0, Turn(tokens=300, gap_ms=20, stall_at=60)).sorted())
    course = Course(one)
    bar = bar_of(course, one, 80)
    assert bar.span == 10 * S  # 6.7 s lie on an axis of 10
    assert len(bar.accents) == pytest.approx(80 * (course.last - course.zero) / (10 * S), abs=1)
    stalled = one.runs[0].tokens.t[60] - course.zero
    assert stalled * 80 // (10 * S) - 1 in bar.stalls
    session = two_turns()
    several = bar_of(Course(session), session, 80)
    assert len(several.accents) == 80
    assert several.accents.count(None) == pytest.approx(80 * PAUSE_NS / several.span, abs=2)
    assert "prefill" in several.accents
    assert "decode" in several.accents


def test_of_long_replies_each_axis_is_looked_at_ahead() -> None:
    session = session_of(ask(opening(), 0, Turn(tokens=2000, gap_ms=40)).sorted())
    course = Course(session)
    start, end = course.spans[0].start, course.spans[0].end
    assert 50 * S < end - start < 100 * S
    assert course.ahead() == [end, start + 50 * S, start + 20 * S]
    assert Course(two_turns()).ahead() == []
