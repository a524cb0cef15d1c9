"""Real streams of Ollama 0.32.5, replayed whole, byte by byte and in any reads, to the recorded right values."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from phasetop import codec
from phasetop import events as ev
from phasetop.backends.ollama_stream import OllamaStream
from phasetop.metrics import Measures, measure
from phasetop.session import Session

if TYPE_CHECKING:
    from tests.backends.ollama.conftest import Capture, CapturesFn

STREAMS = 65
"""How many recorded exchanges are replies."""
DEBUG = "debug-render"


def replies(captures: CapturesFn) -> list[Capture]:
    paths = ("/api/chat", "/api/generate")
    return [
        one
        for name, one in captures().items()
        if one.status == 200 and one.path in paths and not name.startswith(DEBUG) and one.head["request"]["method"] == "POST"
    ]


def replay(capture: Capture, reads: Iterable[tuple[int, bytes]] | None = None) -> list[ev.Event]:
    parser = OllamaStream(0, capture.body.get("options") or {})
    events: list[ev.Event] = []
    t = 0
    for t, data in capture.reads if reads is None else reads:
        events.extend(parser.feed(data, t))
    events.extend(parser.close(max(t, round(capture.head["end_ms"] * 1e6)), capture.outcome))  # type: ignore[arg-type]
    return [codec.decode(codec.encode(event)) for event in events]  # type: ignore[misc]


def session_of(events: list[ev.Event]) -> Session:
    session = Session()
    session.apply(ev.Request(t=0, r=0, api="chat"))
    session.apply(ev.State(t=0, r=0, s="sent", at=0))
    for event in events:
        session.apply(event)  # type: ignore[arg-type]
    return session


def figures(events: list[ev.Event]) -> Measures:
    session = session_of(events)
    return measure(session, session.runs[0])


def text_of(events: list[ev.Event], channel: str) -> str:
    return "".join(
        "".join(map(str, event.x)) if isinstance(event.x, list) else str(event.x)
        for event in events
        if isinstance(event, ev.Tok) and event.c == channel
    )


def check(capture: Capture, events: list[ev.Event]) -> None:
    expected = capture.expected
    assert text_of(events, "answer") == expected.get("text", "")
    assert text_of(events, "think") == expected.get("thinking", "")
    end = events[-1]
    assert isinstance(end, ev.End)
    assert sum(isinstance(event, ev.End) for event in events) == 1
    timings = [event for event in events if isinstance(event, ev.Timings)]
    found = figures(events)
    if expected["done"] and expected["done_reason"] not in ("load", "unload"):
        assert end.finish == expected["done_reason"]
        assert len(timings) == 1
        assert timings[0].total_n == expected["prompt_tokens"] == found.tokens.prompt
        assert found.tokens.cached is None  # no stream of Ollama's says it
        assert found.rates.prefill_per_s is None
    elif not expected["done"]:
        assert timings == []
        assert end.finish == ("cancelled" if capture.outcome == "cancelled" else "error" if "error" in expected else "cut")
        assert found.tokens.output is None
    if "error" in expected:
        assert end.error is not None
        assert end.error.code == "runner-died"
        assert "unexpected EOF" in str(end.error.text)
    with_text = [event for event in events if isinstance(event, ev.Tok) and event.x]
    if "logprobs" in expected:
        assert sum(event.p is not None for event in with_text) == expected["logprobs"]
    elif capture.name != "no-stream":
        assert all(event.n is None for event in with_text)


def test_all_replies_are_there(captures: CapturesFn) -> None:
    assert len(replies(captures)) == STREAMS


def test_replies_as_they_came(captures: CapturesFn) -> None:
    for capture in replies(captures):
        events = replay(capture)
        check(capture, events)
        if capture.name != "think-format":
            assert [event for event in events if isinstance(event, ev.Notice)] == []


def test_output_is_by_the_final_count(captures: CapturesFn) -> None:
    """The end token, and tokens that no piece showed, are a line without text that the last read brought."""
    for name, lines in {"stop-eos": 1, "utf8": 12, "context-shift": 11, "chat-cold": 1, "queue-a": 0}.items():
        capture = captures()[name]
        events = replay(capture)
        held = [event for event in events if isinstance(event, ev.Tok) and event.x == ""]
        assert sum(event.n if isinstance(event.n, int) else 1 for event in held) == lines
        assert figures(events).tokens.output == capture.expected["output_tokens"]
        assert all(event.t == capture.reads[-1][0] for event in held)


def test_a_final_count_below_the_pieces_counts_for_nothing(captures: CapturesFn) -> None:
    """Thinking with a format is two runs of the model, and the figures are the second's."""
    events = replay(captures()["think-format"])
    assert [event.code for event in events if isinstance(event, ev.Notice)] == ["implausible"]
    found = figures(events)
    assert found.tokens.output is None
    assert found.rates.decode_per_s is None


def test_thinking_is_a_channel_and_the_first_answer_comes_after_it(captures: CapturesFn) -> None:
    found = figures(replay(captures()["think-on"]))
    assert (found.tokens.output, found.tokens.thinking, found.tokens.answer) == (20, 12, 8)
    assert found.latency.ttft_ns is not None
    assert found.latency.first_answer_ns is not None
    assert found.latency.first_answer_ns > found.latency.ttft_ns
    only = figures(replay(captures()["think-length"]))
    assert (only.tokens.thinking, only.tokens.answer) == (6, 0)
    assert only.finish.reason == "length"
    assert only.latency.first_answer_ns is None


def test_durations_are_in_milliseconds(captures: CapturesFn) -> None:
    (timings,) = (event for event in replay(captures()["queue-b"]) if isinstance(event, ev.Timings))
    assert timings.load_ms == pytest.approx(168, abs=1)
    assert timings.prompt_ms == pytest.approx(14, abs=1)
    assert timings.gen_ms == pytest.approx(251, abs=1)
    assert timings.total_ms == pytest.approx(1936, abs=1)
    assert timings.raw is not None
    assert timings.raw["total_duration"] // 1_000_000 == 1936


def test_what_waits_for_the_slot_is_queue(captures: CapturesFn) -> None:
    """No field names it: it is what load, prompt and answer leave of the total."""
    found = figures(replay(captures()["queue-b"]))
    assert found.phases.load == "warm"
    queue = found.phases.ns("queue")
    assert queue is not None
    assert queue / 1e9 == pytest.approx(1.936 - 0.014 - 0.251, abs=0.03)


def test_one_token_makes_no_rate(captures: CapturesFn) -> None:
    found = figures(replay(captures()["num-predict-1"]))
    assert found.tokens.output == 1
    assert found.rates.decode_per_s is None
    assert found.rates.server_decode_per_s is None


def test_decode_agrees_with_the_servers_clock(captures: CapturesFn) -> None:
    """From 50 tokens on, one client, within one percent."""
    compared = 0
    for capture in replies(captures):
        found = figures(replay(capture))
        ours, theirs = found.rates.decode_per_s, found.rates.server_decode_per_s
        if (found.tokens.output or 0) >= 50 and ours and theirs:
            compared += 1
            assert ours == pytest.approx(theirs, rel=0.01), capture.name
    assert compared >= 7


def test_a_stream_given_up_for_repetition_is_cut_and_says_so(captures: CapturesFn) -> None:
    end = replay(captures()["repeat-abort"])[-1]
    assert isinstance(end, ev.End)
    assert (end.finish, end.detail) == ("cut", "repeated")
    assert end.error is not None
    assert "'no'" in str(end.error.text)


def test_loading_and_unloading_are_no_replies(captures: CapturesFn) -> None:
    for name, reason in {"empty-load": "load", "keepalive-0": "unload"}.items():
        events = replay(captures()[name])
        assert len(events) == 1
        end = events[0]
        assert isinstance(end, ev.End)
        assert (end.finish, end.detail) == ("stop", reason)


@pytest.mark.parametrize("name", ["chat-cold", "think-on", "logprobs", "utf8", "runner-killed", "generate", "no-stream"])
def test_reads_of_one_byte(captures: CapturesFn, name: str) -> None:
    capture = captures()[name]
    events = replay(capture, [(capture.reads[-1][0], bytes([byte])) for byte in capture.data])
    check(capture, events)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 4000), max_size=8))
@pytest.mark.parametrize("name", ["utf8", "think-logprobs", "native-utf8"])
def test_any_reads(captures: CapturesFn, name: str, cuts: list[int]) -> None:
    capture = captures()[name]
    at = sorted({0, *(cut % (len(capture.data) + 1) for cut in cuts), len(capture.data)})
    t = capture.reads[-1][0]
    check(capture, replay(capture, [(t, capture.data[a:b]) for a, b in itertools.pairwise(at)]))


# -- what no capture has ----------------------------------------------------------------------------------------------------


def parse(*lines: Any, outcome: str = "complete") -> list[ev.Event]:
    parser = OllamaStream(0, {})
    data = b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
    return [*parser.feed(data, 5), *parser.close(9, outcome)]  # type: ignore[arg-type]


def piece(**message: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", **message}, "done": False}


DONE = {"message": {"content": ""}, "done": True, "done_reason": "stop", "prompt_eval_count": 9, "eval_count": 40}


def test_a_tool_call_comes_whole() -> None:
    call = {"id": "call_1", "function": {"index": 0, "name": "weather", "arguments": {"city": "Rome", "days": 2}}}
    other = {"function": {"index": 1, "name": "time", "arguments": {}}}
    events = parse(piece(content="", tool_calls=[call, other]), DONE)
    first, second, rest = (event for event in events if isinstance(event, ev.Tok))
    assert (first.c, first.n, first.tool) == ("tool", None, ev.Tool(0, "call_1", "weather"))
    assert json.loads(str(first.x)) == {"city": "Rome", "days": 2}
    assert second.tool is not None
    assert (second.tool.index, second.tool.name, second.x) == (1, "time", "{}")
    assert (rest.x, rest.n, rest.c) == ("", 38, "tool")  # the count knows more than two lines
    end = events[-1]
    assert isinstance(end, ev.End)
    assert end.finish == "tool_calls"


def test_thought_and_answer_in_one_line_are_two_lines_of_one_moment() -> None:
    events = parse(piece(content=" so", thinking="hm"), DONE)
    thought, answer = (event for event in events if isinstance(event, ev.Tok) and event.x)
    assert (thought.x, thought.c, answer.x, answer.c) == ("hm", "think", " so", "answer")
    assert thought.t == answer.t


def test_characters_that_split_lines_elsewhere_are_text() -> None:
    line = '{"message":{"content":"a\u2028b\u0085c"},"done":false}\n'.encode()
    assert text_of(parse(line, DONE), "answer") == "a\u2028b\u0085c"


def test_a_lone_surrogate_costs_no_token() -> None:
    line = b'{"message":{"content":"x\\ud800y"},"done":false}\n'
    assert text_of(parse(line, DONE), "answer") == "x\ufffdy"


def test_a_version_without_reasons_ends_well() -> None:
    end = parse(piece(content="a"), {"message": {"content": ""}, "done": True})[-1]
    assert isinstance(end, ev.End)
    assert end.finish == "stop"


def test_nothing_after_the_last_line_counts() -> None:
    assert text_of(parse(piece(content="a"), DONE, piece(content="b")), "answer") == "a"


@pytest.mark.parametrize(
    ("lines", "finish", "says"),
    [
        ([piece(content="a")], "cut", "without its last line"),
        ([], "cut", "without its last line"),
        ([piece(content="a"), {"error": "boom"}], "error", "boom"),
        ([piece(content="a"), {"error": {"message": "boom", "code": 500}}], "error", "boom"),
        ([b"proxy error: gone\n"], "error", "proxy error"),
        ([{"detail": "Not Found"}], "error", "Not Found"),
        ([piece(content="a"), b'{"message":{"content":"b'], "cut", "without its last line"),
    ],
)
def test_streams_that_end_badly_keep_what_came(lines: list[Any], finish: str, says: str) -> None:
    events = parse(*lines)
    end = events[-1]
    assert isinstance(end, ev.End)
    assert end.finish == finish
    assert end.error is not None
    assert says in str(end.error.text)
    assert "\n" not in str(end.error.text)
    if lines and isinstance(lines[0], dict) and "message" in lines[0]:
        assert text_of(events, "answer") == "a"


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    parser = OllamaStream(0, {})
    for _ in range(18):
        assert parser.feed(b'{"message":{"content":"' + b"x" * (1 << 20), 1) == []
    (end,) = parser.close(2, "complete")
    assert isinstance(end, ev.End)
    assert end.error is not None
    assert end.error.code == "too-long"


@settings(max_examples=150, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=6), st.sampled_from(["complete", "broken", "cancelled"]))
def test_any_bytes_end_in_an_end(reads: list[bytes], outcome: str) -> None:
    parser = OllamaStream(0, {})
    events = [event for t, data in enumerate(reads) for event in parser.feed(data, t)]
    events += parser.close(len(reads), outcome)  # type: ignore[arg-type]
    assert [isinstance(event, ev.End) for event in events].count(True) == 1
    assert isinstance(events[-1], ev.End)
    for event in events:
        codec.decode(codec.encode(event))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
KEYS = ("message", "response", "thinking", "done", "done_reason", "logprobs", "eval_count", "error", "tool_calls", "content")


@settings(max_examples=150, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4), max_size=4))
def test_odd_keys_cost_nothing_but_themselves(lines: list[dict[str, Any]]) -> None:
    events = parse(*(json.dumps(line).encode() + b"\n" for line in lines))
    assert isinstance(events[-1], ev.End)
    for event in events:
        codec.decode(codec.encode(event))
