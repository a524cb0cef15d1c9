"""Figures of requests to Ollama: what its stream does not tell, told by who looks beside it; by hand, in ms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from phasetop.metrics import measure

if TYPE_CHECKING:
    from tests.core.conftest import Build

MS = 1_000_000
Line = dict[str, Any]


def at(k: str, t: float, **keys: Any) -> Line:
    return {"k": k, "t": round(t * MS), "r": 0, **keys}


BEGIN = (
    {"k": "server", "t": 1, "v": 0, "backend": "ollama"},
    {"k": "state", "t": 2, "v": 0, "s": "ready"},
    at("request", 90, v=0),
)


def state(t: float, s: str, **keys: Any) -> Line:
    return at("state", t, s=s, **keys)


def test_a_request_that_waits_behind_another_is_in_its_queue(session_of: Build) -> None:
    lines = (*BEGIN, state(99, "queued", why="another request is running"), state(100, "sent", at=100 * MS))
    waiting = measure(session_of(*lines), session_of(*lines).runs[0], 400 * MS).phases
    assert waiting.running == "queue"
    session = session_of(*lines, at("clock", 500, wall=1), at("prog", 600, total=50, cached=0, done=0, **{"from": "slots"}))
    begun = measure(session, session.runs[0]).phases
    assert begun.running == "prefill"
    assert [(band.phase, band.t0 / MS, band.t1 / MS) for band in begun.bands] == [("queue", 100, 600)]


def test_an_ask_that_waits_for_one_of_our_own_is_not_waiting_at_the_server(session_of: Build) -> None:
    lines = (*BEGIN, state(95, "queued", after=7), state(100, "sent", at=100 * MS), at("clock", 300, wall=1))
    session = session_of(*lines)
    assert measure(session, session.runs[0], 300 * MS).phases.running == "waiting"


def reply(tokens: int, gap_ms: float, gen_ms: float) -> tuple[Line, ...]:
    texts = [at("tok", 200 + i * gap_ms, x="a", n=None) for i in range(tokens)]
    last = 200 + (tokens - 1) * gap_ms
    final = at(
        "timings", last, total_n=50, prompt_n=47, cached_n=3, prompt_ms=90.0, gen_n=tokens, gen_ms=gen_ms, load_ms=5.0
    )
    return (*BEGIN, state(100, "sent", at=100 * MS), *texts, final, at("end", last, finish="length"))


def test_the_runners_cached_part_makes_the_prefill_rate(session_of: Build) -> None:
    session = session_of(*reply(80, 10, 790.0))
    found = measure(session, session.runs[0])
    assert (found.tokens.prompt, found.tokens.cached, found.tokens.prefilled, found.tokens.output) == (50, 3, 47, 80)
    assert found.rates.prefill_per_s == pytest.approx(47 / 0.09)
    assert found.rates.server_prefill_per_s == pytest.approx(47 / 0.09)
    assert [(band.phase, band.t0 / MS, band.t1 / MS) for band in found.phases.bands] == [
        ("queue", 100, 110),
        ("prefill", 110, 200),
        ("decode", 200, 990),
    ]
    assert found.phases.load == "warm"
    assert found.phases.ns("load") == 0


def test_a_cold_load_is_as_long_as_the_server_says(session_of: Build) -> None:
    lines = list(reply(80, 10, 790.0))
    lines.insert(3, state(99, "loading", why="it was not loaded"))
    session = session_of(*lines)
    found = measure(session, session.runs[0])
    assert [(band.phase, band.t0 / MS, band.t1 / MS) for band in found.phases.bands][:3] == [
        ("load", 100, 105),
        ("queue", 105, 110),
        ("prefill", 110, 200),
    ]
    assert found.phases.load == "cold"


@pytest.mark.parametrize(
    ("tokens", "gen_ms", "says"),
    [(80, 790.0, None), (80, 784.0, None), (80, 869.0, "+10.0 %"), (80, 711.0, "-10.0 %"), (40, 790.0, None)],
)
def test_a_rate_that_differs_from_the_servers_says_so(
    session_of: Build, tokens: int, gen_ms: float, says: str | None
) -> None:
    session = session_of(*reply(tokens, 10, gen_ms))
    source = measure(session, session.runs[0]).sources.get("rates.decode_tok_per_s")
    assert source is None if says is None else says in str(source)
