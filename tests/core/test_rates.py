"""Counts, rates and gaps, each with its value worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from phasetop import events as ev
from phasetop.columns import LIVE
from phasetop.metrics import Measures, measure
from phasetop.session import Session

if TYPE_CHECKING:
    from tests.core.conftest import Build

MS = 1_000_000
Line = dict[str, Any]


def at(k: str, t: float, **keys: Any) -> Line:
    return {"k": k, "t": round(t * MS), "r": 0, **keys}


def tok(t: float, x: str = "a", **keys: Any) -> Line:
    return at("tok", t, x=x, **keys)


BEGUN = (
    at("request", 90, v=0),
    at("state", 100, s="sent"),
    at("state", 104, s="headers"),
)


def end(t: float, finish: str = "stop", **keys: Any) -> Line:
    return at("end", t, finish=finish, **keys)


def figures(session: Session, cursor: float | None = None) -> Measures:
    return measure(session, session.runs[0], LIVE if cursor is None else round(cursor * MS))


@pytest.fixture
def measured(session_of: Build) -> Any:
    def run(*lines: Line, cursor: float | None = None) -> Measures:
        return figures(session_of(*BEGUN, *lines), cursor)

    return run


# -- the decode rate --------------------------------------------------------------------------------------------------


def test_one_token_an_event_is_n_minus_one_over_the_time(measured: Any) -> None:
    found = measured(tok(300), tok(310), tok(320), tok(340, x=""), end(341))
    assert found.rates.decode_per_s == pytest.approx(3 / 0.040)
    assert found.rates.tpot_ns == pytest.approx(0.040e9 / 3)
    assert (found.tokens.output, found.tokens.answer, found.tokens.chunks) == (4, 4, 3)


def test_tokens_of_the_first_event_were_not_made_after_it(measured: Any) -> None:
    found = measured(
        tok(570, c="tool", n=14), *(tok(590 + 20 * i, c="tool") for i in range(21)), tok(1010, x="", c="tool"), end(1011)
    )
    assert found.tokens.output == found.tokens.tool == 36
    assert found.rates.decode_per_s == pytest.approx(22 / 0.440)


def test_held_back_tokens_count_where_they_surface(measured: Any) -> None:
    found = measured(tok(300), tok(360, x="😀", n=3), tok(380), end(381))
    assert found.rates.decode_per_s == pytest.approx(4 / 0.080)


def test_a_stream_that_does_not_count_is_corrected_at_the_finish(measured: Any) -> None:
    lines = [tok(300 + 10 * i, n=None) for i in range(26)]
    found = measured(*lines, tok(560, x="", n=6), at("timings", 560, gen_n=32), end(561))
    assert found.tokens.output == 32
    assert found.rates.decode_per_s == pytest.approx(31 / 0.260)


def test_a_final_count_that_no_line_told_of_counts_at_the_end(measured: Any) -> None:
    found = measured(tok(300, n=None), tok(310, n=None), at("timings", 400, gen_n=11), end(400))
    assert found.tokens.output == 11
    assert found.rates.decode_per_s == pytest.approx(10 / 0.100)


@pytest.mark.parametrize("timings", [[], [{"gen_n": 3}], [{"prompt_n": 9}]])
def test_no_credible_final_count_no_rate(measured: Any, timings: list[dict[str, Any]]) -> None:
    lines = [tok(300 + 10 * i, n=None, c="think") for i in range(5)]
    found = measured(*lines, *(at("timings", 350, **keys) for keys in timings), end(350))
    counts = found.tokens
    assert (counts.output, counts.thinking, counts.answer, counts.tool) == (None,) * 4
    assert found.rates.decode_per_s is None
    assert found.rates.tpot_ns is None
    for path in (
        "tokens.output",
        "tokens.thinking",
        "tokens.answer",
        "tokens.tool",
        "rates.decode_tok_per_s",
        "rates.tpot_ms",
    ):
        assert found.unknown[path]
    assert counts.chunks == 5


def test_a_cut_reply_that_did_not_count_has_no_rate(measured: Any) -> None:
    found = measured(tok(300, n=None), tok(310, n=None), end(320, "cancelled"))
    assert found.tokens.output is None
    assert "before a final count" in found.unknown["rates.decode_tok_per_s"]


def test_while_it_runs_a_line_counts_one_and_says_so(measured: Any) -> None:
    found = measured(tok(300, n=None), tok(310, n=None), tok(320, n=None))
    assert found.tokens.output == 3
    assert found.rates.decode_per_s == pytest.approx(2 / 0.020)
    assert found.sources["tokens.output"].startswith("estimate")
    assert found.sources["rates.decode_tok_per_s"].startswith("estimate")


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([], "no token came"),
        ([tok(300)], "fewer than two tokens"),
        ([tok(300), tok(300), tok(300)], "all tokens came in one read"),
        ([tok(300, n=36)], "all tokens came in one read"),
    ],
)
def test_no_rate_of_nothing(measured: Any, lines: list[Line], why: str) -> None:
    found = measured(*lines, end(400, "length"))
    assert found.rates.decode_per_s is None
    assert found.unknown["rates.decode_tok_per_s"] == why
    assert found.unknown["rates.tpot_ms"] == why


def test_a_tool_call_that_came_whole_has_no_rate_of_ours(measured: Any) -> None:
    found = measured(
        *(tok(40_100, n=None, c="tool"), tok(40_100.02, x="", n=899, c="tool")),
        *(at("timings", 40_100.02, gen_n=900, gen_ms=39_000.0), end(40_101, "tool_calls")),
    )
    assert found.tokens.tool == 900
    assert found.rates.decode_per_s is None  # not 899 tokens in 20 µs
    assert found.rates.server_decode_per_s == pytest.approx(899 / 39.0)
    assert found.latency.stalls == 0


def test_the_server_twins_are_recomputed(measured: Any) -> None:
    times = at("timings", 400, prompt_n=50, prompt_ms=200.0, gen_n=35, gen_ms=661.064, raw={"predicted_per_second": 52.945})
    found = measured(tok(300), tok(310), times, end(400))
    assert found.rates.server_decode_per_s == pytest.approx(51.432, abs=5e-4)  # (n − 1) / time, whatever the server divides
    assert found.rates.server_prefill_per_s == pytest.approx(250.0)
    mtp = measured(tok(300), at("timings", 400, gen_n=106, gen_ms=2213.0, draft_n=186, accepted_n=61), end(400))
    assert mtp.rates.server_decode_per_s == pytest.approx(47.4, abs=0.05)
    assert (mtp.tokens.drafted, mtp.tokens.accepted) == (186, 61)


@pytest.mark.parametrize(
    "keys",
    [{"gen_n": 117, "gen_ms": 0.0}, {"gen_n": 1, "gen_ms": 0.001}, {"gen_ms": 5.0}, {"prompt_n": 8000, "prompt_ms": 0.0}],
)
def test_no_server_rate_of_no_time(measured: Any, keys: dict[str, Any]) -> None:
    found = measured(tok(300), tok(310), at("timings", 400, **keys), end(400))
    assert found.rates.server_decode_per_s is None
    assert found.rates.server_prefill_per_s is None
    assert {"rates.server_decode_tok_per_s", "rates.server_prefill_tok_per_s"} <= set(found.unknown)


# -- prompt and prefill -----------------------------------------------------------------------------------------------


def test_the_prefill_rate_is_of_the_uncached_part(measured: Any) -> None:
    found = measured(at("timings", 310, prompt_n=18, cached_n=75), tok(304), tok(310), end(310))
    assert (found.tokens.prompt, found.tokens.cached, found.tokens.prefilled) == (93, 75, 18)
    assert found.rates.prefill_per_s == pytest.approx(18 / 0.200)


def test_an_unknown_cached_part_is_not_guessed(measured: Any) -> None:
    found = measured(tok(304), tok(310), at("timings", 310, total_n=8000, prompt_ms=12.0), end(310))
    assert (found.tokens.prompt, found.tokens.cached, found.tokens.prefilled) == (8000, None, None)
    assert found.rates.prefill_per_s is None
    assert {"tokens.cached", "tokens.prefilled", "rates.prefill_tok_per_s"} <= set(found.unknown)


def test_computed_tokens_alone_are_no_prompt(measured: Any) -> None:
    found = measured(tok(304), at("timings", 310, prompt_n=20), end(310))
    assert found.tokens.prompt is None
    told = measured(at("prompt", 200, n=100), tok(304), at("timings", 310, prompt_n=20), end(310))
    assert (told.tokens.prompt, told.tokens.cached, told.tokens.prefilled) == (100, 80, 20)


def test_a_cut_prompt(measured: Any) -> None:
    found = measured(at("prompt", 200, n=2050, cached=0, cut={"asked": 8736, "kept": 2050}), tok(304), end(310))
    assert (found.tokens.prompt, found.tokens.prompt_sent) == (2050, 8736)
    assert [flag.code for flag in found.flags] == ["prompt-cut"]


def prog(t: float, done: int, total: int = 1000, cached: int = 200) -> Line:
    return at("prog", t, total=total, cached=cached, done=done, ms=t - 104)


def test_progress_is_of_the_new_tokens(measured: Any) -> None:
    found = measured(prog(104, 200), prog(1104, 600), cursor=1200)
    assert found.prefill.fraction_new == pytest.approx(0.5)
    assert (found.prefill.total, found.prefill.cached, found.prefill.done) == (1000, 200, 600)
    assert found.rates.prefill_per_s == pytest.approx(400.0)
    assert found.rates.last_second_per_s == pytest.approx(400.0)
    assert found.kv.tokens == 600
    assert found.tokens.prompt == 1000


def test_figures_that_still_grow_are_no_totals(measured: Any) -> None:
    early = at("timings", 300, prompt_n=10, cached_n=20, prompt_ms=5.0)
    found = measured(at("prog", 104, total=60, cached=20, done=20), early, cursor=350)
    assert (found.tokens.prompt, found.tokens.cached, found.tokens.prefilled) == (60, 20, 40)


def test_the_last_second_of_a_prefill_is_of_its_newest_batches(measured: Any) -> None:
    found = measured(prog(104, 200), prog(604, 500), prog(1104, 600), prog(1704, 700), cursor=1750)
    assert found.rates.last_second_per_s == pytest.approx(200 / 1.1)  # since the newest that was a second earlier
    assert found.rates.prefill_per_s == pytest.approx(500 / 1.6)


def test_all_cached_is_all_read(measured: Any) -> None:
    assert measured(prog(104, 200, total=200)).prefill.fraction_new == 1.0


def test_a_finished_prefill_is_done(measured: Any) -> None:
    found = measured(prog(104, 200), tok(300), at("timings", 300, prompt_n=800, cached_n=200), end(310))
    assert (found.prefill.done, found.prefill.fraction_new) == (1000, 1.0)


def test_a_prefill_that_was_cut_has_no_rate(measured: Any) -> None:
    found = measured(prog(104, 200), prog(1104, 600), end(1200, "cancelled"))
    assert found.rates.prefill_per_s is None
    assert found.rates.last_second_per_s is None
    assert found.unknown["rates.prefill_tok_per_s"] == "the prefill did not end"


# -- the headline -----------------------------------------------------------------------------------------------------


def test_the_rate_of_the_last_second(measured: Any) -> None:
    lines = [tok(300 + 10 * i) for i in range(300)]
    assert measured(*lines, cursor=2500).rates.last_second_per_s == pytest.approx(100.0)
    assert measured(*lines, cursor=500).rates.last_second_per_s == pytest.approx(20 / 0.200)  # since the first token
    assert measured(*lines, cursor=4290).rates.last_second_per_s == pytest.approx(0.0)
    assert measured(*lines, cursor=305).rates.last_second_per_s is None
    assert measured(*lines, end(3291)).rates.last_second_per_s is None
    assert measured(cursor=101).rates.last_second_per_s is None


# -- latency ----------------------------------------------------------------------------------------------------------


def test_first_token_and_first_answer(measured: Any) -> None:
    found = measured(
        *(tok(200, x="<think>", n=0), tok(300, c="think"), tok(400, x="", c="answer"), tok(500, x="b"), end(501)),
    )
    assert (found.latency.ttft_ns, found.latency.first_answer_ns) == (200 * MS, 400 * MS)


def test_only_thinking_is_a_reply(measured: Any) -> None:
    found = measured(*(tok(300 + i, c="think") for i in range(256)), end(600, "length"))
    assert found.latency.ttft_ns == 200 * MS
    assert found.latency.first_answer_ns is None
    assert (found.tokens.output, found.tokens.thinking, found.tokens.answer) == (256, 256, 0)
    assert found.unknown["latency.first_answer_s"] == "no text of an answer came"


def test_thinking_and_answer_make_the_output(measured: Any) -> None:
    found = measured(
        *(tok(300 + 100 * i, c="think") for i in range(80)), *(tok(8300 + 100 * i) for i in range(21)), end(10_301)
    )
    assert (found.tokens.output, found.tokens.thinking, found.tokens.answer) == (101, 80, 21)
    assert found.rates.decode_per_s == pytest.approx(10.0)


def test_the_servers_own_thinking_count_where_the_stream_has_none(measured: Any) -> None:
    lines = [tok(300 + i, n=None) for i in range(60)]
    found = measured(*lines, tok(400, x="", n=40), at("timings", 400, gen_n=100, think_n=33), end(400))
    assert (found.tokens.output, found.tokens.thinking, found.tokens.answer) == (100, 33, 67)


def test_gaps(measured: Any) -> None:
    found = measured(tok(300), tok(310), tok(330), tok(330), tok(360), tok(400, x=""), end(401))
    gaps = found.latency.gaps
    assert (gaps.per, gaps.n, gaps.merged) == ("token", 4, 2)
    assert (gaps.mean, gaps.p50, gaps.max) == (25 * MS, 25 * MS, 40 * MS)
    assert gaps.p90 == pytest.approx(37 * MS)  # of 10, 20, 30, 40: place 0.9 × 3 = 2.7
    assert gaps.p99 == pytest.approx(39.7 * MS)


def test_gaps_between_chunks_are_called_so(measured: Any) -> None:
    nine = [tok(300 + 10 * i) for i in range(9)]
    assert measured(*nine, tok(400, n=2), end(401)).latency.gaps.per == "token"  # nine of ten
    assert measured(*nine[:8], tok(390, n=2), tok(400, n=2), end(401)).latency.gaps.per == "chunk"
    unknown = [tok(300 + 10 * i, n=None) for i in range(9)]
    assert measured(*unknown, tok(400, x="", n=1), at("timings", 400, gen_n=10), end(401)).latency.gaps.per == "token"
    eight = (*unknown[:8], tok(400, x="", n=2), at("timings", 400, gen_n=10), end(401))
    assert measured(*eight).latency.gaps.per == "token"  # the end token has no text
    assert measured(*unknown, tok(400, x="", n=3), at("timings", 400, gen_n=12), end(401)).latency.gaps.per == "chunk"
    assert measured(*unknown).latency.gaps.per == "chunk"


@pytest.mark.parametrize(
    ("lines", "why"), [([tok(300)], "fewer than two tokens"), ([tok(300), tok(300)], "all tokens came in one read")]
)
def test_no_gaps(measured: Any, lines: list[Line], why: str) -> None:
    found = measured(*lines, end(400))
    gaps = found.latency.gaps
    assert (gaps.n, gaps.mean, gaps.p50, gaps.max) == (0, None, None, None)
    assert found.unknown["latency.itl_ms"] == why


def test_stalls_are_counted_to_the_cursor(measured: Any) -> None:
    lines = [*(tok(300 + 10 * i) for i in range(18)), tok(1000), *(tok(1000 + 10 * i) for i in range(1, 20)), tok(2000)]
    assert measured(*lines, end(2001)).latency.stalls == 2
    assert measured(*lines, cursor=1100).latency.stalls == 1
    assert measured(*lines, cursor=999).latency.stalls == 0
    flag = measured(*lines, end(2001)).flags[0]
    assert (flag.code, flag.t) == ("stall", 2000 * MS)


def test_many_token_events_a_read_are_buffering(measured: Any) -> None:
    read = [tok(300 + 100 * (i // 4)) for i in range(12)]
    assert measured(*read, end(600)).latency.buffered
    assert not measured(*read, at("timings", 500, draft_n=8), end(600)).latency.buffered
    assert not measured(*read[:7], end(600)).latency.buffered
    assert not measured(*read[:8], *(tok(1000 + i) for i in range(8)), end(1100)).latency.buffered  # just half


# -- the cache and its context ----------------------------------------------------------------------------------------


def test_the_newest_token_is_not_in_the_cache_yet(measured: Any) -> None:
    found = measured(tok(304, n=64), at("timings", 310, prompt_n=499, cached_n=0), end(310))
    assert found.kv.tokens == 562


@pytest.mark.parametrize(
    ("options", "context"),
    [
        ({"slot_context": 1024, "parallel": 4}, 1024),
        ({"context": 8192}, 8192),
        ({"context": 8192, "parallel": 1}, 8192),
        ({"context": 8192, "parallel": 2}, 4096),
        ({"context": 8192, "parallel": 4, "kv_unified": True}, 8192),
        ({"context": "8k"}, None),
        ({"context": 0}, None),
        ({}, None),
    ],
)
def test_the_context_of_one_request(session_of: Build, options: dict[str, Any], context: int | None) -> None:
    said = {name: {"value": value, "from": "argv"} for name, value in options.items()}
    session = session_of({"k": "server", "t": 1, "v": 0, "backend": "llamacpp", "options": said}, *BEGUN, tok(300), end(310))
    found = figures(session)
    assert found.kv.context == context
    assert (context is None) == ("kv.context" in found.unknown)
    polled = session_of(
        {"k": "server", "t": 1, "v": 0, "options": said}, *BEGUN, at("slot", 290, t0=0, past=40, ctx=512), tok(300), end(310)
    )
    assert figures(polled).kv.context == 512
    assert figures(polled).kv.tokens == 40  # of the prompt nobody told


def test_a_context_is_at_most_what_the_model_was_trained_for(session_of: Build) -> None:
    session = session_of(
        {"k": "server", "t": 1, "v": 0, "backend": "ollama", "options": {"parallel": {"value": 4, "from": "argv"}}},
        {"k": "model", "t": 1, "m": 0, "v": 0, "context_trained": 8192},
        {**BEGUN[0], "m": 0, "asked": {"context": 4096}},
        *BEGUN[1:],
        end(300),
    )
    assert figures(session).kv.context == 4096  # Ollama's is a request's own
    session.apply(ev.Request(t=301 * MS, r=0, applied={"context": 32768}))
    assert figures(session).kv.context == 8192


@pytest.mark.parametrize(("source", "context"), [("argv: the runner's", 4096), ("server", 16384)])
def test_a_runner_is_started_with_the_contexts_of_all_its_slots(session_of: Build, source: str, context: int) -> None:
    options = {"context": {"value": 16384, "from": source}, "parallel": {"value": 4, "from": "argv"}}
    session = session_of({"k": "server", "t": 1, "v": 0, "backend": "ollama", "options": options}, *BEGUN, end(300))
    assert figures(session).kv.context == context


def test_near_the_end_of_the_context_is_told_and_never_over_it(session_of: Build) -> None:
    server = {"k": "server", "t": 1, "v": 0, "options": {"slot_context": {"value": 100, "from": "server"}}}
    times = at("timings", 310, prompt_n=80, cached_n=0)
    session = session_of(server, *BEGUN, tok(304, n=11), times, end(310, "length", detail="context"))
    found = figures(session)
    assert (found.kv.tokens, [flag.code for flag in found.flags]) == (90, ["context-near-full"])
    shifted = session_of(server, *BEGUN, tok(304, n=150), times, end(310))
    assert figures(shifted).kv.tokens == 100


# -- what cannot be ---------------------------------------------------------------------------------------------------


def test_clocks_that_disagree_are_told(measured: Any) -> None:
    times = {"prompt_n": 50, "cached_n": 0, "prompt_ms": 200.0, "gen_n": 3, "gen_ms": 100.0}
    lines = (tok(304), tok(350), tok(404))
    assert measured(*lines, at("timings", 404, **times), end(405)).flags == ()
    off = measured(*lines, at("timings", 404, **{**times, "gen_ms": 5000.0}), end(405)).flags
    assert [flag.code for flag in off] == ["implausible"]
    assert off[0].text == "the clocks disagree: decode took 5.00 s by the server's, 0.10 s by ours"
    assert measured(*lines, at("timings", 404, **{**times, "gen_ms": 149.0}), end(405)).flags == ()  # under 50 ms apart
    late = measured(*lines, at("timings", 404, **{**times, "prompt_ms": 20.0}), end(405)).flags
    assert ["prefill took 0.02 s" in flag.text for flag in late] == [True]


def test_an_instant_prefill_is_told(measured: Any) -> None:
    found = measured(tok(104.5), at("timings", 110, prompt_n=513, cached_n=0), tok(110), end(110))
    assert [flag.code for flag in found.flags] == ["implausible"]
    assert measured(tok(104.5), at("timings", 110, prompt_n=512, cached_n=0), tok(110), end(110)).flags == ()


# -- how it ended -----------------------------------------------------------------------------------------------------


def test_finish(measured: Any) -> None:
    found = measured(end(200, "error", error={"status": 400, "code": "exceed_context", "text": "too long"}))
    assert (found.finish.reason, found.finish.status, found.finish.code, found.finish.text) == (
        "error",
        400,
        "exceed_context",
        "too long",
    )
    assert measured(end(200, "error", error={"text": 9})).finish.text is None
    running = measured(tok(300))
    assert running.finish.reason is None
    assert running.unknown["finish.reason"] == "it runs"


def test_a_request_that_is_not_there_yet(measured: Any) -> None:
    found = measured(tok(300), end(310), cursor=50)
    assert found.phases.wall_ns == 0
    assert (found.tokens.output, found.rates.decode_per_s, found.finish.reason) == (0, None, None)
