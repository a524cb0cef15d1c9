"""The bands of a request, each case with borders worked out by hand (ms)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from phasetop.columns import LIVE
from phasetop.metrics import Phases, measure
from phasetop.phases import FROM_PROGRESS, LEFT_OVER

if TYPE_CHECKING:
    from tests.core.conftest import Build

MS = 1_000_000
Line = dict[str, Any]

SERVER: Line = {"k": "server", "t": 1 * MS, "v": 0, "backend": "llamacpp"}
READY: Line = {"k": "state", "t": 2 * MS, "v": 0, "s": "ready"}


def at(k: str, t: float, **keys: Any) -> Line:
    """An event of request 0 at ``t`` ms."""
    if "at" in keys:
        keys["at"] = round(keys["at"] * MS)
    return {"k": k, "t": round(t * MS), "r": 0, **keys}


def ask(t: float = 90) -> Line:
    return at("request", t, v=0)


def sent(t: float = 100, **keys: Any) -> Line:
    return at("state", t + 0.5, s="sent", at=t, **keys)


def tok(t: float, n: int | None = 1, **keys: Any) -> Line:
    return at("tok", t, x=keys.pop("x", "a"), n=n, **keys)


def bands(phases: Phases) -> dict[str, float]:
    return {band.phase: (band.t1 - band.t0) / MS for band in phases.bands}


def shape(phases: Phases) -> list[tuple[str, float, float]]:
    return [(band.phase, band.t0 / MS, band.t1 / MS) for band in phases.bands]


@pytest.fixture
def phases_of(session_of: Build) -> Any:
    def phases(*lines: Line, cursor: float | None = None) -> Phases:
        session = session_of(*lines)
        return measure(session, session.runs[0], LIVE if cursor is None else round(cursor * MS)).phases

    return phases


DIRECT = (
    *(SERVER, READY, ask(), sent(), at("state", 104, s="headers")),
    *(at("prog", 104, total=60, cached=10, done=10, ms=0), at("prog", 290, total=60, cached=10, done=60, ms=186)),
    *(tok(300), tok(310), tok(320), tok(330, x="")),
    *(at("timings", 330, prompt_n=50, cached_n=10, prompt_ms=195.0, gen_n=4, gen_ms=30.0), at("end", 332, finish="stop")),
)


def test_a_server_whose_headers_mean_a_slot(phases_of: Any) -> None:
    phases = phases_of(*DIRECT)
    assert shape(phases) == [
        ("queue", 100, 104),
        ("prefill", 104, 300),
        ("decode", 300, 330),
        ("finish", 330, 332),
    ]
    assert (phases.load, phases.running, phases.split, phases.wall_ns) == ("warm", None, True, 232 * MS)
    assert (phases.ns("load"), phases.ns("waiting"), phases.ns("queue")) == (0, 0, 4 * MS)


def test_headers_that_came_with_the_first_token_border_nothing(phases_of: Any) -> None:
    """Read late, or held back by a proxy: a prefill of 0 ms would be a figure of that."""
    began = (SERVER, READY, ask(), sent(), at("state", 300, s="headers"), at("prog", 300, total=60, done=60, ms=186))
    rest = (tok(300), tok(310), at("end", 332, finish="stop"))
    times = at("timings", 310, prompt_n=50, cached_n=10, prompt_ms=195.0)
    assert shape(phases_of(*began, *rest[:2], times, rest[2]))[:2] == [("queue", 100, 105), ("prefill", 105, 300)]
    unknown = phases_of(*began, *rest)
    assert shape(unknown)[0] == ("waiting", 100, 300)
    assert unknown.ns("prefill") is None


@pytest.mark.parametrize(
    ("cursor", "running", "shown"),
    [
        (95, "waiting", []),
        (101, "waiting", [("waiting", 100, 101)]),
        (104, "prefill", [("queue", 100, 104)]),
        (200, "prefill", [("queue", 100, 104), ("prefill", 104, 200)]),
        (300, "decode", [("queue", 100, 104), ("prefill", 104, 300)]),
        (325, "decode", [("queue", 100, 104), ("prefill", 104, 300), ("decode", 300, 325)]),
        (331, "decode", [("queue", 100, 104), ("prefill", 104, 300), ("decode", 300, 331)]),
        (400, None, [("queue", 100, 104), ("prefill", 104, 300), ("decode", 300, 330), ("finish", 330, 332)]),
    ],
)
def test_what_runs_extends_to_the_cursor(phases_of: Any, cursor: float, running: str | None, shown: list[Any]) -> None:
    phases = phases_of(*DIRECT, cursor=cursor)
    assert phases.running == running
    assert shape(phases) == shown


def test_no_more_is_known_at_the_end_of_an_unfinished_file(phases_of: Any) -> None:
    phases = phases_of(*DIRECT[:-2])
    assert (phases.running, phases.end) == ("decode", 330 * MS)
    assert phases_of(*DIRECT[:-2], {"k": "bye", "t": 340 * MS, "reason": "stopped"}, cursor=1000).end == 340 * MS


def test_sent_is_the_moment_that_the_state_means(phases_of: Any) -> None:
    assert phases_of(*DIRECT).start == 100 * MS
    assert phases_of(ask(), at("state", 100, s="sent"), tok(200), at("end", 201, finish="stop")).start == 100 * MS


# -- without headers that mean a slot ---------------------------------------------------------------------------------

FAR = (SERVER, READY, ask(), sent(), tok(300), tok(310))
DONE = at("end", 311, finish="stop")


def test_the_servers_own_prefill_time_splits_the_wait(session_of: Build) -> None:
    session = session_of(*FAR, at("timings", 310, prompt_ms=150.0), DONE)
    found = measure(session, session.runs[0])
    assert shape(found.phases) == [("queue", 100, 150), ("prefill", 150, 300), ("decode", 300, 310), ("finish", 310, 311)]
    assert found.phases.load == "warm"
    assert found.sources["phases.queue_s"] == LEFT_OVER
    assert found.sources["phases.prefill_s"] == "server"


def test_it_is_clamped(phases_of: Any) -> None:
    phases = phases_of(*FAR, at("timings", 310, prompt_ms=5000.0), DONE)
    assert bands(phases) == {"prefill": 200, "decode": 10, "finish": 1}
    assert phases.ns("queue") == 0


@pytest.mark.parametrize("ms", [-3.0, 1e20])
def test_a_time_that_cannot_be_splits_nothing(phases_of: Any, ms: float) -> None:
    assert bands(phases_of(*FAR, at("timings", 310, prompt_ms=ms), DONE)) == {"waiting": 200, "decode": 10, "finish": 1}


def test_waiting_is_what_nobody_can_split(session_of: Build) -> None:
    session = session_of(*FAR, DONE)
    found = measure(session, session.runs[0])
    assert bands(found.phases) == {"waiting": 200, "decode": 10, "finish": 1}
    assert found.phases.load is None
    assert not found.phases.split
    assert [found.phases.ns(name) for name in ("queue", "load", "prefill")] == [None] * 3
    assert {f"phases.{name}_s" for name in ("queue", "load", "prefill")} <= set(found.unknown)


def test_while_it_runs_the_wait_is_split_only_when_the_times_come(phases_of: Any) -> None:
    lines = (*FAR, at("timings", 310, prompt_ms=150.0), DONE)
    assert bands(phases_of(*lines, cursor=305)) == {"waiting": 200, "decode": 5}
    assert bands(phases_of(*lines, cursor=310))["prefill"] == 150


def test_timings_of_a_prefill_under_way_split_nothing(phases_of: Any) -> None:
    early = at("timings", 200, prompt_ms=20.0, prompt_n=10)
    assert bands(phases_of(SERVER, READY, ask(), sent(), early, tok(300), at("end", 300, finish="cancelled"))) == {
        "waiting": 200
    }


def test_progress_splits_it_until_the_times_come(session_of: Build) -> None:
    lines = (
        *(SERVER, READY, ask(), sent(), at("prog", 140, total=60, cached=0, done=20, ms=30)),
        *(at("prog", 200, total=60, cached=0, done=60, ms=90), tok(300)),
    )
    session = session_of(*lines)
    found = measure(session, session.runs[0], 250 * MS)
    assert shape(found.phases) == [("queue", 100, 110), ("prefill", 110, 250)]  # the server began 30 ms before it told
    assert found.sources["phases.queue_s"] == FROM_PROGRESS
    polled = session_of(*lines[:4], at("prog", 140, done=20, **{"from": "slots"}), tok(300))
    assert shape(measure(polled, polled.runs[0], 200 * MS).phases) == [("queue", 100, 140), ("prefill", 140, 200)]


def test_progress_that_came_with_the_first_token_says_nothing(phases_of: Any) -> None:
    late = at("prog", 300, total=60, cached=0, done=0, ms=0)
    assert bands(phases_of(SERVER, READY, ask(), sent(), late, tok(300), at("end", 310, finish="cut"))) == {
        "waiting": 200,
        "finish": 10,
    }


# -- loads ------------------------------------------------------------------------------------------------------------


def embedded(*lines: Line) -> tuple[Line, ...]:
    return (
        *({"k": "server", "t": 1 * MS, "v": 0}, at("request", 10, v=0)),
        *({"k": "state", "t": 12 * MS, "v": 0, "s": "starting"}, {"k": "state", "t": 20 * MS, "v": 0, "s": "loading"}),
        *lines,
    )


UP: Line = {"k": "state", "t": 810 * MS, "v": 0, "s": "ready"}


def test_a_load_that_the_ask_had_to_wait_for_is_cold(phases_of: Any) -> None:
    lines = embedded(UP, sent(812), at("state", 815, s="headers"), tok(900), tok(910), at("end", 910, finish="stop"))
    phases = phases_of(*lines)
    assert shape(phases) == [("load", 10, 810), ("queue", 810, 815), ("prefill", 815, 900), ("decode", 900, 910)]
    assert phases.load == "cold"
    running = phases_of(*lines, cursor=500)
    assert (shape(running), running.running, running.load) == ([("load", 10, 500)], "load", "cold")
    between = phases_of(*lines, cursor=813)
    assert (shape(between), between.running) == ([("load", 10, 810), ("waiting", 810, 813)], "waiting")
    assert between.ns("load") == 800 * MS
    assert between.ns("queue") is None


def test_a_load_that_failed(phases_of: Any) -> None:
    gone = {"k": "state", "t": 300 * MS, "v": 0, "s": "gone"}
    phases = phases_of(*embedded(gone, at("end", 301, finish="error", error={"text": "no memory"})))
    assert (shape(phases), phases.load) == ([("load", 10, 301)], "cold")


def test_a_server_that_loaded_before_anybody_asked_costs_nothing(phases_of: Any) -> None:
    early = ({"k": "state", "t": 1 * MS, "v": 0, "s": "loading"}, {"k": "state", "t": 80 * MS, "v": 0, "s": "ready"})
    phases = phases_of(SERVER, *early, ask(), sent(), at("state", 104, s="headers"), tok(200), at("end", 200, finish="stop"))
    assert (phases.start, phases.load, phases.ns("load")) == (100 * MS, "warm", 0)


def test_a_server_that_only_had_to_be_looked_at_was_loaded_before(phases_of: Any) -> None:
    ready = {"k": "state", "t": 99 * MS, "v": 0, "s": "ready"}
    phases = phases_of(SERVER, ask(), ready, sent(), at("state", 104, s="headers"), tok(200), at("end", 200, finish="stop"))
    assert (phases.start, phases.load) == (100 * MS, "warm")


def test_a_503_is_a_load_from_the_ask_on(phases_of: Any) -> None:
    lines = (
        *(
            SERVER,
            READY,
            ask(90),
            sent(100),
            at("state", 101, s="loading", why="Loading model"),
            at("state", 101, s="retry", why="503"),
        ),
        *(sent(201), at("state", 202, s="retry", why="503"), sent(302), at("state", 310, s="headers")),
        *(tok(400), at("end", 401, finish="stop")),
    )
    phases = phases_of(*lines)
    assert shape(phases) == [("load", 90, 302), ("queue", 302, 310), ("prefill", 310, 400), ("finish", 400, 401)]
    assert phases.load == "cold"
    assert shape(phases_of(*lines, cursor=250)) == [("load", 90, 250)]


def test_a_lost_connection_is_no_load(phases_of: Any) -> None:
    again = at("state", 103, s="retry", why="connection lost")
    phases = phases_of(*(SERVER, READY, ask(), sent(), again, sent(104)), at("state", 110, s="headers"), tok(200), DONE)
    assert (phases.start, phases.load, bands(phases)["queue"]) == (100 * MS, "warm", 10)


def test_a_load_whose_time_the_server_tells(session_of: Build) -> None:
    lines = (SERVER, READY, ask(), sent(), at("state", 101, s="loading", why="not in /api/ps"), tok(2300), tok(2310))
    times = at("timings", 2310, load_ms=2000.0, prompt_ms=150.0, gen_n=2, gen_ms=10.0)
    session = session_of(*lines, times, at("end", 2311, finish="stop"))
    found = measure(session, session.runs[0])
    assert shape(found.phases)[:3] == [("load", 100, 2100), ("queue", 2100, 2150), ("prefill", 2150, 2300)]
    assert found.phases.load == "cold"
    running = measure(session, session.runs[0], 1000 * MS).phases
    assert (shape(running), running.running) == ([("load", 100, 1000)], "load")


def test_a_load_time_of_a_resident_model_is_no_load(phases_of: Any) -> None:
    # Ollama's load_duration holds its scheduling too: 66 to 230 ms on a model that is there.
    times = at("timings", 310, load_ms=145.0, prompt_ms=50.0)
    phases = phases_of(*FAR, times, DONE)
    assert (bands(phases)["queue"], phases.ns("load"), phases.load) == (150, 0, "warm")


def test_a_load_without_a_time_takes_the_rest(session_of: Build) -> None:
    session = session_of(
        *(SERVER, READY, ask(), sent(), at("state", 101, s="loading"), tok(2300), at("timings", 2300, prompt_ms=300.0)),
        at("end", 2301, finish="stop"),
    )
    found = measure(session, session.runs[0])
    assert shape(found.phases)[:2] == [("load", 100, 2000), ("prefill", 2000, 2300)]
    assert found.phases.ns("queue") is None
    assert "phases.queue_s" in found.unknown
    assert found.sources["phases.load_s"] == LEFT_OVER


# -- a first event of several tokens ----------------------------------------------------------------------------------


def tool(*more: Line) -> tuple[Line, ...]:
    """A tool call: the first event brings fourteen tokens 270 ms after the first was there."""
    lines = (
        at("tok", 570, x="{", n=14, c="tool"),
        at("tok", 590, x="}", n=1, c="tool"),
        at("tok", 610, x="", n=1, c="tool"),
    )
    return (SERVER, READY, ask(), sent(), *more, *lines)


CALLED = at("end", 612, finish="tool_calls")


def test_decode_begins_at_the_last_progress(session_of: Build) -> None:
    headers = at("state", 104, s="headers")
    progress = (at("prog", 104, total=60, cached=0, done=0), at("prog", 300, total=60, cached=0, done=60))
    session = session_of(*tool(headers, *progress), at("timings", 610, prompt_ms=190.0, gen_n=16, gen_ms=300.0), CALLED)
    found = measure(session, session.runs[0])
    assert shape(found.phases)[1:3] == [("prefill", 104, 300), ("decode", 300, 610)]
    assert found.latency.ttft_ns == 470 * MS  # what the client saw
    assert found.latency.gaps.n == 2


def test_else_after_the_servers_prefill_time(phases_of: Any) -> None:
    times = at("timings", 610, prompt_ms=190.0, gen_n=16, gen_ms=300.0)
    phases = phases_of(*tool(at("state", 104, s="headers")), times, CALLED)
    assert shape(phases)[1:3] == [("prefill", 104, 294), ("decode", 294, 610)]
    late = phases_of(*tool(at("state", 104, s="headers")), {**times, "prompt_ms": 9000.0}, CALLED)
    assert shape(late)[1:3] == [("prefill", 104, 570), ("decode", 570, 610)]


def test_without_headers_by_the_servers_decode_time(phases_of: Any) -> None:
    times = at("timings", 610, prompt_ms=150.0, gen_n=16, gen_ms=300.0)
    assert shape(phases_of(*tool(), times, CALLED))[:3] == [("queue", 100, 160), ("prefill", 160, 310), ("decode", 310, 610)]


def test_a_whole_call_in_a_stream_that_does_not_count(phases_of: Any) -> None:
    call = at("tok", 40_100, x="{}", n=None, c="tool")
    times = at("timings", 40_101, prompt_ms=100.0, gen_n=900, gen_ms=39_000.0)
    surfaced = at("tok", 40_101, x="", n=899, c="tool")
    phases = phases_of(*(SERVER, READY, ask(), sent(), call, surfaced, times), at("end", 40_102, finish="tool_calls"))
    assert shape(phases)[:3] == [("queue", 100, 1001), ("prefill", 1001, 1101), ("decode", 1101, 40_101)]


# -- short, empty and broken ------------------------------------------------------------------------------------------


def test_one_token_has_no_decode(phases_of: Any) -> None:
    phases = phases_of(
        SERVER, READY, ask(), sent(), at("state", 104, s="headers"), tok(200), at("end", 205, finish="length")
    )
    assert bands(phases) == {"queue": 4, "prefill": 96, "finish": 5}
    assert phases.ns("decode") == 0


def test_cut_in_prefill(phases_of: Any) -> None:
    phases = phases_of(
        *(SERVER, READY, ask(), sent(), at("state", 104, s="headers"), at("prog", 150, total=90, cached=0, done=30)),
        at("end", 180, finish="cut", detail="collector-died"),
    )
    assert (bands(phases), phases.running, phases.load) == ({"queue": 4, "prefill": 76}, None, "warm")


def test_cancelled_before_any_answer_is_waiting(session_of: Build) -> None:
    session = session_of(SERVER, READY, ask(), sent(), at("end", 400, finish="cancelled"))
    found = measure(session, session.runs[0])
    assert bands(found.phases) == {"waiting": 300}
    assert "cancelled" in found.unknown["phases.queue_s"]
    assert found.phases.ns("decode") == 0


def test_an_error_before_anything(session_of: Build) -> None:
    session = session_of(
        SERVER, READY, ask(), sent(), at("end", 103, finish="error", error={"status": 400, "text": "too long"})
    )
    found = measure(session, session.runs[0])
    assert bands(found.phases) == {"waiting": 3}
    assert found.unknown["phases.prefill_s"] == "the request failed before its first token"


def test_never_sent(session_of: Build) -> None:
    session = session_of(SERVER, READY, ask(), at("end", 103, finish="error", error={"text": "refused"}))
    found = measure(session, session.runs[0])
    assert (found.phases.wall_ns, found.phases.bands) == (0, ())
    assert found.unknown["phases.queue_s"] == "the request was never sent"


def test_behind_another_request_it_is_queued_here_and_costs_nothing(phases_of: Any) -> None:
    lines = (SERVER, READY, ask(), at("state", 91, s="queued", after=7), sent(500), at("state", 504, s="headers"))
    waiting = phases_of(*lines, cursor=300)
    assert (waiting.running, waiting.wall_ns) == ("queue", 0)
    assert phases_of(*lines, cursor=510).start == 500 * MS


def test_an_empty_reply(phases_of: Any) -> None:
    lines = (
        SERVER,
        READY,
        ask(),
        sent(),
        at("state", 104, s="headers"),
        at("timings", 150, prompt_n=0, prompt_ms=40.0, gen_n=0),
    )
    assert bands(phases_of(*lines, at("end", 150, finish="stop"))) == {"queue": 4, "prefill": 40, "finish": 6}


def test_requests_of_a_chat_are_measured_apart(session_of: Build) -> None:
    second = [
        {**line, "r": 1, "t": line["t"] + 1000 * MS} | ({"at": line["at"] + 1000 * MS} if "at" in line else {})
        for line in DIRECT[2:]
    ]
    second[0]["parent"] = 0
    session = session_of(*DIRECT, *second)
    one, two = (measure(session, session.runs[r]) for r in (0, 1))
    assert bands(one.phases) == bands(two.phases)
    assert two.phases.start - one.phases.start == 1000 * MS
    assert two.rates == one.rates
