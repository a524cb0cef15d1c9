"""Real streams of llama.cpp, replayed read by read, byte by byte and in any other reads, to the recorded right values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from phasetop import events as ev
from phasetop.backends.llamacpp_stream import CompletionStream
from phasetop.backends.openai_stream import ChatStream

if TYPE_CHECKING:
    from tests.backends.streams.conftest import Exchange, ExchangesFn, Gathered, GatherFn

STREAMS = 102
"""How many recorded exchanges are generations."""
ROUTES = {"/v1/chat/completions": ChatStream, "/v1/completions": ChatStream, "/completion": CompletionStream}


def generations(exchanges: ExchangesFn) -> list[Exchange]:
    return [one for one in exchanges("llamacpp") if one.head["status"] == 200 and one.path in ROUTES]


def replay(exchange: Exchange, reads: Iterable[tuple[int, bytes]]) -> list[ev.Event]:
    parser = ROUTES[exchange.path](3, exchange.asked, ctx=exchange.ctx)
    events: list[ev.Event] = []
    t = 0
    for t, data in reads:
        events.extend(parser.feed(data, t))
    outcome = "broken" if exchange.broken else "cancelled" if exchange.head.get("client_closed") else "complete"
    events.extend(parser.close(t, outcome, "the connection broke" if exchange.broken else None))  # type: ignore[arg-type]
    assert parser.pings == exchange.expected.get("comments", 0)
    assert isinstance(events[-1], ev.End)
    return events


def finish_of(expected: dict[str, Any]) -> str | None:
    """The finish that the server gave, in our words; choice 0 of several."""
    finish = expected.get("finish")
    if isinstance(finish, list):
        finish = finish[0]
    elif isinstance(finish, dict):
        finish = finish["0"]
    if finish is None and (kind := expected.get("stop_type")):
        finish = "length" if kind == "limit" else "stop"
    return finish


def check(exchange: Exchange, found: Gathered) -> None:
    expected = exchange.expected
    assert found.text == expected.get("text", "")
    assert found.thinking == expected.get("reasoning", "")
    assert [(call["name"], call["arguments"]) for call in found.calls] == [tuple(c) for c in expected.get("tool_calls", [])]
    assert [call["index"] for call in found.calls] == list(range(len(found.calls)))
    assert found.tokens == expected["tokens"]
    assert found.notices == []
    assert found.end is not None

    progress = expected.get("progress", [])
    if isinstance(expected.get("finish"), dict) or len(expected.get("texts", {})) > 1:  # several choices: ours only
        assert found.progress == progress[: len(found.progress)]
    else:
        assert found.progress == progress

    last = found.timings[-1]
    assert last.prompt_n is not None
    assert last.gen_n == expected["tokens"]
    if (
        len(expected.get("texts", {})) < 2 or exchange.path != "/completion"
    ):  # of two prompts the recorded figures are the second's
        assert last.prompt_n + (last.cached_n or 0) == expected["prompt"]
        assert last.cached_n == expected["cached"]
        for ours, theirs in (
            ("prompt_ms", "prompt_ms"),
            ("gen_ms", "predicted_ms"),
            ("draft_n", "draft_n"),
            ("accepted_n", "draft_n_accepted"),
        ):
            if theirs in expected:
                assert getattr(last, ours) == expected[theirs]
    assert last.raw is not None
    assert last.raw["predicted_n"] == expected["tokens"]
    assert not any(isinstance(value, str) for value in last.raw.values())

    finish = finish_of(expected)
    if finish is not None:
        assert found.end.finish == finish
        if expected.get("stop_type") == "eos":
            assert found.finish == ("stop", "eos")
        if expected.get("stopping_word"):
            assert (found.end.detail, found.end.stop) == ("stop-string", expected["stopping_word"])
    elif expected.get("not_sse"):
        assert found.finish == ("error", None)
        assert found.error == expected["not_sse"][0]
    elif exchange.broken:
        assert found.finish == ("cut", "server-lost")
        assert found.error == "the connection broke"
    else:
        assert exchange.head.get("client_closed")
        assert found.finish == ("cancelled", None)


def test_every_generation_is_replayed(exchanges: ExchangesFn) -> None:
    assert len(generations(exchanges)) == STREAMS


def test_read_by_read(exchanges: ExchangesFn, gather: GatherFn) -> None:
    for exchange in generations(exchanges):
        found = gather(replay(exchange, exchange.reads))
        check(exchange, found)
        shown = [tok.t for tok in found.lines if (tok.x or tok.b or tok.tool) and tok.n != 0]
        if "first_token_at" in exchange.expected and "texts" not in exchange.expected:
            assert (shown[0], shown[-1]) == (
                round(exchange.expected["first_token_at"] * 1e6),
                round(exchange.expected["last_token_at"] * 1e6),
            ), exchange.name
        if "logprob_entries" in exchange.expected:
            assert sum(tok.p is not None for tok in found.lines) == exchange.expected["logprob_entries"]
        stamps = [tok.t for tok in found.lines]
        assert stamps == sorted(stamps)
        for a, b in zip(found.timings, found.timings[1:-1], strict=False):
            assert b.t - a.t >= 100_000_000


def test_byte_by_byte(exchanges: ExchangesFn, gather: GatherFn) -> None:
    for exchange in generations(exchanges):
        if exchange.name.startswith("sampling-settings"):
            continue  # whole replies of one token
        check(exchange, gather(replay(exchange, bytewise(exchange))))


def bytewise(exchange: Exchange) -> Iterable[tuple[int, bytes]]:
    for t, data in exchange.reads:
        for at in range(len(data)):
            yield t, data[at : at + 1]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(draw=st.data())
def test_in_any_reads(exchanges: ExchangesFn, gather: GatherFn, draw: st.DataObject) -> None:
    exchange = draw.draw(st.sampled_from(generations(exchanges)), label="exchange")
    data = exchange.data
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=40), label="cuts"))
    reads = [(at, data[a:b]) for at, (a, b) in enumerate(zip([0, *cuts], [*cuts, len(data)], strict=True))]
    check(exchange, gather(replay(exchange, reads)))


def one(exchanges: ExchangesFn, name: str) -> Exchange:
    return next(exchange for exchange in exchanges("llamacpp") if exchange.name == name)


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("chat-0", "max-tokens"),
        ("chat-max-tokens-1-0", "max-tokens"),
        ("chat-thinking-cut-0", "max-tokens"),
        ("context-full-during-0", "context"),
        ("completion-context-full-during-0", "context"),
        ("completion-context-shift-0", "max-tokens"),  # shifted, but not why it ended
        ("completion-n-predict-0-0", "max-tokens"),
        ("chat-second-turn-cached-0", "eos"),
        ("chat-stop-string-0", None),  # a stop string was asked for, and nothing tells whether it was that
        ("completion-stop-string-0", "stop-string"),
    ],
)
def test_why_it_ended(exchanges: ExchangesFn, gather: GatherFn, name: str, detail: str | None) -> None:
    exchange = one(exchanges, name)
    assert gather(replay(exchange, exchange.reads)).finish == (finish_of(exchange.expected), detail)


def decode_rate(found: Gathered) -> float:
    """Tokens a second between the first and the last token event."""
    lines = [(tok.t, 1 if tok.n is None else tok.n if isinstance(tok.n, int) else 1) for tok in found.lines if tok.n != 0]
    return sum(n for t, n in lines[1:]) / (lines[-1][0] - lines[0][0]) * 1e9


@pytest.mark.parametrize(
    ("name", "rate"),
    # measured with the counts of the stream and the end token at the read that brought the finish
    [
        ("chat-second-turn-cached-0", 49.4),
        ("chat-json-schema-0", 43.6),
        ("chat-tool-call-required-0", 44.7),
        ("chat-multibyte-0", 42.2),
        ("chat-stop-string-0", 44.9),
    ],
)
def test_decode_rates(exchanges: ExchangesFn, gather: GatherFn, name: str, rate: float) -> None:
    exchange = one(exchanges, name)
    assert decode_rate(gather(replay(exchange, exchange.reads))) == pytest.approx(rate, abs=0.06)


def test_lines_of_tokens_that_show_late_or_never(exchanges: ExchangesFn, gather: GatherFn) -> None:
    found = gather(replay(one(exchanges, "chat-multibyte-0"), one(exchanges, "chat-multibyte-0").reads))
    assert [(tok.x, tok.n) for tok in found.lines][:3] == [("日", 3), ("本", 3), ("語", 3)]
    assert (found.lines[-1].x, found.lines[-1].n, found.lines[-1].t) == ("", msgspec.UNSET, 910_403_000)
    assert found.lines[0].i == 115
    assert found.lines[0].p == -1.63397
    assert found.lines[0].top == ["\ufffd", -1.09832]

    found = gather(replay(one(exchanges, "chat-stop-string-0"), one(exchanges, "chat-stop-string-0").reads))
    assert (found.lines[-1].x, found.lines[-1].n, found.lines[-1].t) == ("", 4, 804_698_000)

    found = gather(replay(one(exchanges, "chat-thinking-none-0"), one(exchanges, "chat-thinking-none-0").reads))
    assert (found.lines[0].x, found.lines[0].n, found.lines[0].t) == ("<think>\n", 0, 2_374_000)

    found = gather(replay(one(exchanges, "chat-thinking-deepseek-0"), one(exchanges, "chat-thinking-deepseek-0").reads))
    answer = next(tok for tok in found.lines if tok.c == "answer")
    assert (answer.x, answer.n) == ("You", 6)  # the tags and the white space are its
    assert found.lines[-1].c == "answer"

    found = gather(replay(one(exchanges, "chat-tool-call-cut-0"), one(exchanges, "chat-tool-call-cut-0").reads))
    assert [(tok.c, tok.x, tok.n) for tok in found.lines] == [("tool", "{", None), ("tool", "", 13)]

    found = gather(replay(one(exchanges, "completion-stop-string-0"), one(exchanges, "completion-stop-string-0").reads))
    assert [(tok.x, tok.n, tok.i) for tok in found.lines][-4:] == [
        ("", msgspec.UNSET, 1918),
        ("", msgspec.UNSET, 553),
        ("", msgspec.UNSET, 253),
        (" ", msgspec.UNSET, 2155),
    ]


def test_a_stream_without_counts(exchanges: ExchangesFn, gather: GatherFn) -> None:
    found = gather(replay(one(exchanges, "chat-plain-0"), one(exchanges, "chat-plain-0").reads))
    assert not found.counted
    assert {tok.n for tok in found.lines} == {None}
    assert len(found.lines) == 24
    assert len(found.timings) == 1


def test_a_whole_reply_with_probabilities_is_laid_out_in_pieces(exchanges: ExchangesFn, gather: GatherFn) -> None:
    found = gather(replay(one(exchanges, "chat-nostream-0"), one(exchanges, "chat-nostream-0").reads))
    [line] = found.lines
    assert line.x[:4] == ["1", ".", " Danube", ":"]  # type: ignore[index]
    assert line.p[:3] == [-0.81152, -0.04576, -0.53389]  # type: ignore[index]
    assert line.i[:3] == [33, 30, 37939]  # type: ignore[index]
    assert line.n is msgspec.UNSET
    assert line.top is not None
    assert line.top[0] == ["1", -0.81152, "The", -2.18547]


def test_settings_and_prompt_of_a_raw_reply(exchanges: ExchangesFn) -> None:
    exchange = one(exchanges, "completion-0")
    parser = CompletionStream(0, exchange.asked, ctx=exchange.ctx)
    for t, data in exchange.reads:
        parser.feed(data, t)
    assert parser.rendered == "The capital of France is"
    assert parser.applied is not None
    assert parser.applied["top_k"] == 40
