"""Whatever comes, the parsers end with exactly one end, in valid events, and the same for any reads."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from phasetop import events as ev
from phasetop.backends.llamacpp_stream import CompletionStream
from phasetop.backends.openai_stream import ChatStream
from phasetop.backends.protocol import Outcome

if TYPE_CHECKING:
    from tests.backends.streams.conftest import ExchangesFn, GatherFn

Parser = type[ChatStream] | type[CompletionStream]
PARSERS: list[Parser] = [ChatStream, CompletionStream]
quick = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def run(parser: Parser, reads: list[bytes], outcome: Outcome = "complete") -> list[ev.Event]:
    stream = parser(0, {"max_tokens": 8, "stop": "x"}, ctx=64, expects_progress=True, expects_timings=True)
    events = [event for t, data in enumerate(reads) for event in stream.feed(data, t * 60_000_000)]
    return events + stream.close(len(reads) * 60_000_000, outcome, "why" if outcome == "broken" else None)


def shape(events: list[ev.Event]) -> list[Any]:
    """Events without their stamps and without running timings, which depend on the stamps."""
    last = next((event for event in reversed(events) if isinstance(event, ev.Timings)), None)
    kept = [event for event in events if not isinstance(event, ev.Timings) or event is last]
    return [{key: value for key, value in msgspec.to_builtins(event).items() if key != "t"} for event in kept]


def cut(draw: st.DataObject, data: bytes, most: int = 12) -> list[bytes]:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=most), label="cuts"))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@pytest.mark.parametrize("parser", PARSERS)
@quick
@given(reads=st.lists(st.binary(max_size=60), max_size=10), outcome=st.sampled_from(["complete", "broken", "cancelled"]))
def test_random_bytes(gather: GatherFn, parser: Parser, reads: list[bytes], outcome: Outcome) -> None:
    assert gather(run(parser, reads, outcome)).end is not None


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 9),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=6),
    st.sampled_from(["stop", "length", "a", "\ufffd", "", "word", "eos"]),
    st.characters(categories=["Cs"]),
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def mostly(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(usual, usual, usual, anything)


def some(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={key: mostly(value) for key, value in keys.items()})


count = st.integers(-1, 40)
token_id = st.sampled_from([0, 279, 2**31 - 1, 2**31, 2**53 - 1])
text = st.text(max_size=4)
raw_bytes = st.lists(st.integers(-1, 300), max_size=4)
probability = st.floats(-9, 0)
alternative = some(token=text, bytes=raw_bytes, logprob=probability, prob=st.floats(0, 1))
entry = some(
    token=text,
    id=token_id,
    bytes=raw_bytes,
    logprob=probability,
    prob=st.floats(0, 1),
    top_logprobs=st.lists(alternative, max_size=3),
)
timings = some(prompt_n=count, cache_n=count, predicted_n=count, predicted_ms=st.floats(0, 100), draft_n=count)
progress = some(total=count, cache=count, processed=count, time_ms=count)
tool_call = some(index=st.integers(-1, 3), id=text, function=some(name=text, arguments=text))
delta = some(
    role=st.just("assistant"),
    content=text,
    reasoning_content=text,
    reasoning=text,
    tool_calls=st.lists(tool_call, max_size=3),
)
choice = some(
    index=st.integers(0, 1),
    delta=delta,
    message=delta,
    text=text,
    finish_reason=st.sampled_from([None, "stop", "length", "tool_calls", "odd"]),
    logprobs=some(
        content=st.lists(entry, max_size=3), tokens=st.lists(text, max_size=3), token_logprobs=st.lists(probability)
    ),
)
usage = some(
    prompt_tokens=count,
    completion_tokens=count,
    total_tokens=count,
    prompt_tokens_details=some(cached_tokens=count),
    completion_tokens_details=some(reasoning_tokens=count),
)
chat_chunk = some(choices=st.lists(choice, max_size=2), timings=timings, usage=usage, prompt_progress=progress)
raw_chunk = some(
    index=st.integers(0, 1),
    content=text,
    tokens=st.lists(token_id, max_size=3),
    stop=st.booleans(),
    tokens_predicted=count,
    tokens_evaluated=count,
    truncated=st.booleans(),
    stop_type=st.sampled_from(["eos", "word", "limit", "none"]),
    stopping_word=text,
    completion_probabilities=st.lists(entry, max_size=3),
    timings=timings,
    prompt_progress=progress,
    prompt=text,
)


def encode(chunks: list[Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(chunk).encode("utf-8") + b"\n\n" for chunk in chunks)


@pytest.mark.parametrize(("parser", "chunk"), [(ChatStream, chat_chunk), (CompletionStream, raw_chunk)])
def test_random_chunks(gather: GatherFn, parser: Parser, chunk: st.SearchStrategy[Any]) -> None:
    @quick
    @given(chunks=st.lists(chunk, max_size=6), draw=st.data())
    def check(chunks: list[Any], draw: st.DataObject) -> None:
        body = encode(chunks)
        events = run(parser, [body])
        found = gather(events)
        assert found.end is not None
        assert shape(run(parser, cut(draw, body))) == shape(events)
        for t, n in [(tok.t, tok.n) for tok in found.lines]:
            assert t >= 0
            assert n is None or n is msgspec.UNSET or 0 <= n < 2**31
        if found.timings and (final := found.timings[-1].gen_n) is not None and found.timings[-1].raw is not None:
            assert found.tokens >= final

    check()


@quick
@given(draw=st.data())
def test_recorded_streams_with_damage(gather: GatherFn, exchanges: ExchangesFn, draw: st.DataObject) -> None:
    streams = [
        one for one in exchanges("llamacpp") if one.expected.get("data_events", 99) < 30 and one.head["status"] == 200
    ]
    exchange = draw.draw(st.sampled_from(streams))
    body = bytearray(exchange.data)
    for _ in range(draw.draw(st.integers(1, 5))):
        at = draw.draw(st.integers(0, len(body)))
        length = draw.draw(st.integers(0, 40))
        body[at : at + length] = draw.draw(st.binary(max_size=8))
    parser = CompletionStream if exchange.path == "/completion" else ChatStream
    events = run(parser, [bytes(body)])
    assert gather(events).end is not None
    assert shape(run(parser, cut(draw, bytes(body)))) == shape(events)


@pytest.mark.parametrize(
    "body",
    [b"[" * 100_000, b'{"a":' * 50_000, b'data: {"choices":' + b"[" * 100_000 + b"\n\n", b"data: " + b"9" * 9999 + b"\n\n"],
)
@pytest.mark.parametrize("parser", PARSERS)
def test_deep_and_long_values(gather: GatherFn, parser: Parser, body: bytes) -> None:
    assert gather(run(parser, [body])).end is not None


@pytest.mark.parametrize("parser", PARSERS)
def test_memory_stays_bounded(parser: Parser) -> None:
    """Thirty MiB of text in small events leave nothing behind but a few last ones."""
    word = json.dumps({"choices": [{"delta": {"content": "x" * 1000}}], "content": "x" * 1000, "stop": False}).encode()
    stream = parser(0)
    read = (b"data: " + word + b"\n\n") * 10
    tracemalloc.start()
    for t in range(1500):
        stream.feed(read, t)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 200_000
