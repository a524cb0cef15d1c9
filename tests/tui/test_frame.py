"""The Frame: the same live and in replay, the right state at each moment, and unharmed by an error in a part."""

from __future__ import annotations

import msgspec
import pytest

from phasetop import events as ev
from phasetop.metrics import Flag
from phasetop.session import Session
from phasetop.tui import charts, tracing
from phasetop.tui import frame as frames
from phasetop.tui.facts import Notice
from phasetop.tui.frame import Frame, FrameMaker
from phasetop.tui.layout import Layout, layout
from phasetop.tui.pages import log_lines
from phasetop.tui.scrub import Scrub
from phasetop.tui.view import View
from tests.tui.fabricate import MS, Growing, S, Script, Turn, ask, opening, sample, scripted, session_of


def plan(width: int = 120, height: int = 36) -> Layout:
    made = layout(width, height)
    assert made is not None
    return made


def frame_of(session: Session, cursor: int, view: View | None = None, size: tuple[int, int] = (120, 36)) -> Frame:
    return FrameMaker(session).frame(cursor, plan(*size), view or View())


def whole() -> list[ev.Event]:
    script = opening()
    ask(script, 0, Turn(tokens=120, think=30, stall_at=60, logprobs=True))
    ask(script, 1, Turn(tokens=90, gap_ms=30, cached=300, prompt=700), at_ms=700)
    return sample(script).sorted()


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (200, 60), (20, 5)])
def test_live_and_replay_are_the_same_frame(size: tuple[int, int]) -> None:
    events = whole()
    recorded = session_of(events)
    clock = [0]
    source = Growing(events, clock)
    live, replay = FrameMaker(source.session), FrameMaker(recorded)
    for cursor in range(0, recorded.last_t + S, 137 * MS):
        clock[0] = cursor
        source.poll()
        seen = live.frame(cursor, plan(*size), View())
        assert not seen.failed
        assert seen == replay.frame(cursor, plan(*size), View())
        assert seen == frame_of(recorded, cursor, size=size)


def test_going_back_shows_what_was_shown() -> None:
    session = session_of(whole())
    maker = FrameMaker(session)
    cursors = [2 * S, 1 * S, 4 * S, 600 * MS, session.last_t]
    assert [maker.frame(c, plan(), View()) for c in cursors] == [frame_of(session, c) for c in cursors]


def test_figures_move_at_beats_and_at_once_when_the_phase_changes() -> None:
    session = session_of(whole())
    maker = FrameMaker(session)
    first = session.runs[0].tokens.t[0]
    at = {frames.numbers_at(session.runs[0], cursor) for cursor in range(first + 10 * MS, first + 1000 * MS, 10 * MS)}
    assert at <= {first, *range(0, session.last_t, 500 * MS)}
    assert maker.frame(first - 1, plan(), View()).state == "prefill"
    assert maker.frame(first, plan(), View()).state == "decode"


@pytest.mark.parametrize(
    ("state", "at_s", "chip"),
    [
        ("empty", 0.01, "starting"),
        ("empty", 1.0, "ready"),
        ("loading", 1.0, "load"),
        ("unreachable", 1.0, "failed"),
        ("error", 5.0, "failed"),
        ("prefill", 2.0, "prefill"),
        ("run", 2.0, "decode"),
        ("run", 60.0, "done"),
    ],
)
def test_states(state: str, at_s: float, chip: str) -> None:
    session = session_of(scripted(state, Turn()))
    assert frame_of(session, int(at_s * S)).state == chip


def test_a_cancelled_request_is_stopped_and_a_cut_one_failed() -> None:
    for finish, chip in (("cancelled", "stopped"), ("cut", "failed")):
        session = session_of(ask(opening(), 0, Turn(tokens=20, finish=finish)).sorted())
        frame = frame_of(session, session.last_t)
        assert frame.state == chip
        assert frame.trace is not None
        assert (frame.trace.broke_at is not None) == (chip == "failed")


def test_an_earlier_turn_can_be_shown() -> None:
    session = session_of(whole())
    frame = frame_of(session, session.last_t, View(turn=0))
    assert (frame.r, frame.turn, frame.turns, frame.state) == (0, 1, 2, "done")
    assert frame_of(session, session.last_t).r == 1


def test_an_error_in_one_part_harms_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("made to fail")

    monkeypatch.setattr(tracing, "place_bands", broken)
    session = session_of(whole())
    frame = frame_of(session, 2 * S)
    assert set(frame.failed) == {"trace"}
    assert frame.failed["trace"].kind == "KeyError"
    assert frame.measures is not None
    assert frame.page.rows


def test_a_notice_stands_for_eight_seconds() -> None:
    script = opening()
    script.add(ev.Notice(t=2 * S, code="prompt-cut", level="warn", text="the prompt was cut"))
    session = session_of(script.sorted())
    assert frame_of(session, 2 * S - 1).notice is None
    assert frame_of(session, 9 * S).notice == Notice("the prompt was cut", "warn")
    assert frame_of(session, 10 * S).notice is None


def test_a_stall_is_news() -> None:
    session = session_of(ask(opening(), 0, Turn(tokens=120, stall_at=60, stall_ms=300)).sorted())
    tokens = session.runs[0].tokens
    frame = frame_of(session, tokens.t[tokens.stalls[0]] + S)
    assert frame.notice is not None
    assert frame.notice.level == "stall"
    assert f"{tokens.gap_ns[tokens.stalls[0]] / 1e6:.0f} ms without a token" in frame.notice.text


def after_a_load() -> Session:
    """Asked at 1 s of a server that loads from then to 4 s; tokens every 50 ms from 5 s on, 400 ms without one at 6 s."""
    script = opening(load_ms=0)
    script.add(ev.Request(t=1 * S, r=0, v=0, m=0, api="chat"), ev.State(t=1 * S, v=0, s="loading"))
    script.add(ev.State(t=4 * S, v=0, s="ready"), ev.State(t=4 * S, r=0, s="sent", at=4 * S))
    at = [5 * S + i * 50 * MS for i in range(21)]
    at += [6 * S + 400 * MS + i * 50 * MS for i in range(10)]
    script.add(*(ev.Tok(t=t, r=0, x=" so") for t in at), ev.Tok(t=at[-1] + 50 * MS, r=0, x=""))
    script.add(ev.End(t=at[-1] + 51 * MS, r=0, finish="stop", detail="eos"))
    script.add(ev.Model(t=2 * S, m=0, v=0, name="m", eos="<|im_end|>"))
    return session_of(script.sorted())


def test_a_stalls_time_is_the_axis_time() -> None:
    session = after_a_load()
    frame = frame_of(session, session.last_t)
    assert frame.measures is not None
    assert frame.measures.phases.start == 1 * S
    assert frame.notice == Notice("400 ms without a token at 5.00 s", "stall")
    run = session.runs[0]
    made = charts.kv_chart(run, session.last_t, len(run.tokens), 10, frame.measures.kv, frame.measures.phases.start)
    assert max(x for series in made.series for x in series.xs) == pytest.approx(5.9)  # the last token, 6.9 s in the session


def test_stalls_are_among_the_notices() -> None:
    session = after_a_load()
    text = [
        "".join(p if isinstance(p, str) else p[0] for p in line) for line in log_lines(session, frame_of(session, 9 * S))
    ]
    assert text == [" 00:05.4  stall 400 ms without a token"]  # sent at 1 s; said once, though the figures flag it, too
    assert log_lines(session, frame_of(session, 6 * S)) == [(("nothing so far", "faint"),)]


def test_what_is_odd_in_a_turns_figures_stands_at_its_own_time() -> None:
    session = after_a_load()
    frame = frame_of(session, session.last_t)
    assert frame.measures is not None
    flag = Flag("implausible", "it cannot be", 6 * S)
    odd = msgspec.structs.replace(
        frame, measures=msgspec.structs.replace(frame.measures, flags=(*frame.measures.flags, flag))
    )
    text = ["".join(p if isinstance(p, str) else p[0] for p in line) for line in log_lines(session, odd)]
    assert text == [" 00:05.0  turn  it cannot be", " 00:05.4  stall 400 ms without a token"]


def test_the_end_tokens_reading_has_its_name() -> None:
    session = after_a_load()
    token = frame_of(session, session.last_t, View(token=31)).token
    assert token is not None
    assert token.text == "<|im_end|>"
    before = frame_of(session, session.last_t, View(token=30)).token
    assert before is not None
    assert before.text == " so"


def test_no_token_is_shown_before_it_came() -> None:
    session = session_of(whole())
    tokens = session.runs[0].tokens
    frame = frame_of(session, tokens.t[10], View(colour="plain"))
    text = "".join(run for row in frame.page.rows for run, _ in row.runs)
    assert text == "".join(str(t) for t in tokens.text[:11]).replace("\n", "")


def test_redacted_text_is_dots() -> None:
    script = Script()
    script.add(*opening().events)
    script.add(ev.Request(t=S, r=0, v=0, m=0, messages=[{"role": "user", "content": 12}]))
    script.add(ev.State(t=S, r=0, s="sent"), ev.Tok(t=2 * S, r=0, x=4), ev.Tok(t=2 * S + MS, r=0, x=2))
    session = session_of(script.sorted())
    assert frame_of(session, S + 100 * MS).page.rows[0].runs[0][0] == "·" * 12
    assert frame_of(session, 3 * S).page.rows[0].runs[0][0] == "······"


def test_a_turn_that_waits_behind_ones_own_reply_is_not_shown_before_it_begins() -> None:
    """Asked 3.5 s into a reply of one slot: the reply stays in sight until it has ended, or the other one has begun."""
    script = opening()
    ask(script, 0, Turn(tokens=300, gap_ms=20))
    ends = script.events[-1].t
    later = [ev.Request(t=4 * S, r=1, v=0, m=0, api="chat"), ev.State(t=4 * S, r=1, s="sent", at=4 * S)]
    later += [ev.State(t=ends + MS, r=1, s="headers"), ev.Tok(t=ends + 2 * S, r=1, x="so")]
    script.add(*later)
    session = session_of(script.sorted())
    assert [frame_of(session, t).r for t in (3 * S, 4 * S, ends - MS, ends, ends + MS, ends + 3 * S)] == [0, 0, 0, 1, 1, 1]
    assert frame_of(session, 5 * S, View(turn=1)).r == 1  # who wants to see it does
    assert frame_of(session, 5 * S).turns == 2


def test_figures_are_of_the_very_moment_that_the_cursor_stands_at() -> None:
    session = session_of(ask(opening(), 0, Turn(tokens=120, gap_ms=30)).sorted())
    tokens = session.runs[0].tokens
    cursor = tokens.t[77]
    for view in (View(scrub=Scrub()), View(frozen=True)):
        frame = frame_of(session, cursor, view)
        assert frame.measures is not None
        assert frame.measures.tokens.output == 78
        assert frame.measures.phases.end == cursor
        assert frame.elapsed_ns == cursor - frame.measures.phases.start
        assert frame.token is None or frame.token.last == 78
    playing = frame_of(session, cursor, View(scrub=Scrub(playing=True))).measures
    assert playing is not None
    assert playing.tokens.output is not None
    assert playing.tokens.output < 78  # as of the last beat, so that figures can be read


def test_how_a_reply_will_end_is_no_news_once_it_has() -> None:
    script = ask(opening(), 0, Turn(tokens=20))
    text = "the reply ends at 512 tokens: -n N changes that"
    script.add(ev.Notice(t=200 * MS, code="reply-limit", r=0, text=text))
    session = session_of(script.sorted())
    end = session.runs[0].ends.when[0]
    before, after = frame_of(session, end - MS).notice, frame_of(session, end + MS).notice
    assert before == Notice(text, "info")
    assert after is None
