"""OpenAI-compatible servers other than llama.cpp, each with its own idea of what a chunk holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from phasetop import events as ev
from phasetop.backends.openai_stream import ChatStream

if TYPE_CHECKING:
    from tests.backends.streams.conftest import GatherFn


def delta(finish: str | None = None, **keys: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": keys, "finish_reason": finish}]}


def usage(prompt: int, completion: int, total: int | None = None, **details: Any) -> dict[str, Any]:
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total or prompt + completion}
    return {"choices": [], "usage": {**counts, **details}}


def feed(*values: dict[str, Any], step_ns: int = 1_000_000, **options: Any) -> list[ev.Event]:
    parser = ChatStream(0, options.pop("asked", {}), **options)
    events: list[ev.Event] = []
    for t, value in enumerate(values):
        events += parser.feed(b"data: " + json.dumps(value).encode() + b"\n\n", t * step_ns)
    t = len(values) * step_ns
    return events + parser.feed(b"data: [DONE]\n\n", t) + parser.close(t, "complete")


def test_ollama_v1(gather: GatherFn) -> None:
    """The role in every chunk, no cached tokens, no timings."""
    words = [delta(role="assistant", content=f" {i}") for i in range(12)]
    end = [delta("length", role="assistant", content=""), usage(12, 12)]
    found = gather(feed(*words, *end, asked={"max_tokens": 12}))
    assert {tok.n for tok in found.lines} == {None}
    assert (found.tokens, len(found.lines)) == (12, 12)
    assert found.finish == ("length", "max-tokens")
    [last] = found.timings
    assert (last.prompt_n, last.cached_n, last.total_n, last.gen_n) == (None, None, 12, 12)
    assert last.raw == {"usage": {"prompt_tokens": 12, "completion_tokens": 12, "total_tokens": 24}}


def test_a_call_of_the_old_form(gather: GatherFn) -> None:
    """`function_call`: one call, its name first, then its arguments in pieces."""
    found = gather(
        feed(
            delta(role="assistant", content=None, function_call={"name": "weather", "arguments": ""}),
            delta(function_call={"arguments": '{"city":'}),
            delta(function_call={"arguments": '"Rome"}'}),
            delta("function_call"),
        )
    )
    assert [(tok.c, tok.x, tok.tool) for tok in found.lines] == [
        ("tool", "", ev.Tool(index=0, name="weather")),
        ("tool", '{"city":', None),
        ("tool", '"Rome"}', None),
    ]
    assert found.finish == ("tool_calls", None)


@pytest.mark.parametrize("said", [-3, 10**12, 10**30])
def test_a_count_that_no_reply_can_have_is_told(gather: GatherFn, said: int) -> None:
    events = feed(delta(content="a"), delta(content="b"), delta("stop"), usage(9, said, 12))
    (notice,) = (event for event in events if isinstance(event, ev.Notice))
    assert (notice.code, notice.level) == ("implausible", "warn")
    assert notice.text.startswith(f"the server counts {str(said)[:30]} tokens, which cannot be")
    found = gather(events)
    assert [tok.x for tok in found.lines] == ["a", "b"]
    assert all(timings.gen_n is None for timings in found.timings)


def test_the_end_token_is_a_line_at_the_finish(gather: GatherFn) -> None:
    found = gather(
        feed(delta(role="assistant", content=""), delta(content="a"), delta(content="b"), delta("stop"), usage(9, 3))
    )
    assert [(tok.x, tok.n, tok.t) for tok in found.lines] == [
        ("a", None, 1_000_000),
        ("b", None, 2_000_000),
        ("", msgspec.UNSET, 3_000_000),
    ]
    assert found.tokens == 3


def test_role_only_and_usage_chunks_are_no_tokens(gather: GatherFn) -> None:
    found = gather(feed(delta(role="assistant", content=None), delta(role="assistant"), delta("stop"), usage(9, 0)))
    assert found.lines == []
    assert found.timings[-1].gen_n == 0
    assert found.finish == ("stop", "eos")


def test_a_reply_of_nothing_but_its_end_token(gather: GatherFn) -> None:
    found = gather(feed(delta(role="assistant"), delta("stop"), usage(9, 1)))
    assert [(tok.x, tok.c, tok.n) for tok in found.lines] == [("", "answer", msgspec.UNSET)]


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content", "thinking"])
def test_thinking_by_any_name(gather: GatherFn, key: str) -> None:
    found = gather(
        feed(*[delta(**{key: "a"}) for _ in range(256)], delta("length"), usage(5, 256), asked={"max_tokens": 256})
    )
    assert (found.thinking, found.text, found.tokens) == ("a" * 256, "", 256)
    assert {tok.c for tok in found.lines} == {"think"}
    assert found.finish == ("length", "max-tokens")


def test_thinking_under_two_names_at_once_is_one(gather: GatherFn) -> None:
    found = gather(feed(delta(reasoning="a", reasoning_content="a"), delta(content="b"), delta("stop")))
    assert (found.thinking, found.text) == ("a", "b")


def test_both_channels_in_one_chunk(gather: GatherFn) -> None:
    timings = {"timings": {"predicted_n": 4}}
    found = gather(feed({**delta(reasoning_content="a", content="b"), **timings}, delta("stop")))
    assert [(tok.c, tok.x, tok.n) for tok in found.lines] == [("think", "a", msgspec.UNSET), ("answer", "b", 3)]
    found = gather(feed(delta(reasoning_content="a", content="b"), delta("stop"), usage(1, 1)))
    assert found.notices == []  # one event may be one token
    assert [tok.n for tok in found.lines] == [None, None]


@pytest.mark.parametrize(
    ("counts", "gen", "think"),
    [
        (usage(50, 100, 150, completion_tokens_details={"reasoning_tokens": 33}), 100, 33),  # inside: never added
        (usage(50, 100, 183, completion_tokens_details={"reasoning_tokens": 33}), 133, 33),  # on top: the total says so
        (usage(50, 100, 0, completion_tokens_details={"reasoning_tokens": 33}), 100, 33),
        (
            usage(50, 100, 150, completion_tokens_details={"reasoning_tokens": 0}),
            100,
            None,
        ),  # thinking came: 0 is not a count
        (usage(50, 100, 150, completion_tokens_details=None), 100, None),
    ],
)
def test_reasoning_tokens(gather: GatherFn, counts: dict[str, Any], gen: int, think: int | None) -> None:
    found = gather(feed(delta(reasoning="a"), delta(content="b"), delta("stop"), counts))
    assert (found.timings[-1].gen_n, found.timings[-1].think_n) == (gen, think)
    assert found.tokens == gen


def test_cached_tokens_split_the_prompt(gather: GatherFn) -> None:
    found = gather(feed(delta(content="a"), delta("stop"), usage(100, 1, prompt_tokens_details={"cached_tokens": 83})))
    last = found.timings[-1]
    assert (last.prompt_n, last.cached_n, last.total_n) == (17, 83, None)
    found = gather(feed(delta(content="a"), delta("stop"), usage(100, 1, prompt_tokens_details=None)))
    last = found.timings[-1]
    assert (last.prompt_n, last.cached_n, last.total_n) == (None, None, 100)


def test_llama_cpp_before_cache_n(gather: GatherFn) -> None:
    timings = {"timings": {"prompt_n": 17, "prompt_ms": 10.0, "predicted_n": 1, "predicted_ms": 0.0}}
    found = gather(feed(delta(content="a"), {**delta("stop"), **timings}, usage(100, 1)))
    assert (found.timings[-1].prompt_n, found.timings[-1].cached_n) == (17, 83)


def test_a_final_count_below_the_pieces_counts_for_nothing(gather: GatherFn) -> None:
    found = gather(feed(*[delta(content="a") for _ in range(25)], delta("stop"), usage(9, 12)))
    assert found.notices == ["implausible"]
    assert (found.tokens, found.timings[-1].gen_n, found.timings[-1].total_n) == (25, None, 9)
    assert found.timings[-1].raw is not None
    assert found.timings[-1].raw["usage"]["completion_tokens"] == 12


def test_no_usage_at_all(gather: GatherFn) -> None:
    found = gather(feed(delta(content="a"), delta(content="b"), delta("stop")))
    assert found.timings == []
    assert (found.tokens, found.counted) == (2, False)


def test_usage_in_every_chunk_counts(gather: GatherFn) -> None:
    """vLLM with continuous_usage_stats."""

    def running(n: int, finish: str | None = None, **keys: Any) -> dict[str, Any]:
        return {**delta(finish, **keys), "usage": usage(9, n)["usage"]}

    found = gather(
        feed(
            running(0, role="assistant", content=""),
            running(1, content="a"),
            running(4, content="bcd"),
            running(5, "stop", content=""),
        )
    )
    assert [(tok.x, tok.n) for tok in found.lines] == [("a", msgspec.UNSET), ("bcd", 3), ("", msgspec.UNSET)]
    assert found.counted
    assert found.tokens == 5


@pytest.mark.parametrize("each", [0, 1])
def test_usage_in_every_chunk_that_does_not_grow_is_no_count(gather: GatherFn, each: int) -> None:
    chunks = [{**delta(content="a"), "usage": usage(9, each)["usage"]} for _ in range(4)]
    found = gather(feed(*chunks, delta("stop"), usage(9, 5)))
    assert [tok.n for tok in found.lines][1:4] == [None, None, None]
    assert found.tokens == 5


def test_last_text_finish_and_usage_in_one_chunk(gather: GatherFn) -> None:
    found = gather(feed(delta(content="a"), {**delta("stop", content="b"), "usage": usage(9, 3)["usage"]}))
    assert [(tok.x, tok.n) for tok in found.lines] == [("a", None), ("b", None), ("", msgspec.UNSET)]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", ("stop", "eos")),
        ("length", ("length", None)),
        ("max_tokens", ("length", None)),
        ("tool_calls", ("tool_calls", None)),
        ("function_call", ("tool_calls", None)),
        ("eos_token", ("stop", "eos")),
        ("stop_sequence", ("stop", "stop-string")),
        ("abort", ("error", None)),
        ("content_filter", ("stop", None)),
    ],
)
def test_finish_reasons(gather: GatherFn, reason: str, finish: tuple[str, str | None]) -> None:
    found = gather(feed(delta(content="a"), delta(reason)))
    assert found.finish == finish
    assert found.notices == (["finish-unknown"] if reason == "content_filter" else [])


@pytest.mark.parametrize(
    ("named", "finish", "stop"),
    [
        ({}, ("stop", None), None),
        ({"stop_reason": "END"}, ("stop", "stop-string"), "END"),
        ({"stop_reason": None}, ("stop", "eos"), None),
        ({"stop_reason": 128001}, ("stop", "eos"), None),
        ({"matched_stop": "END"}, ("stop", "stop-string"), "END"),
        ({"matched_stop": 2}, ("stop", "eos"), None),
    ],
)
def test_stop_strings_that_servers_name(
    gather: GatherFn, named: dict[str, Any], finish: tuple[str, str | None], stop: str | None
) -> None:
    last = delta("stop")
    last["choices"][0].update(named)
    found = gather(feed(delta(content="a"), last, asked={"stop": ["END"]}))
    assert found.end is not None
    assert (found.finish, found.end.stop) == (finish, stop)


def test_verbose_tells_what_the_template_made_and_what_stopped_it(gather: GatherFn) -> None:
    verbose = {
        "stop_type": "word",
        "stopping_word": "7. 7",
        "truncated": False,
        "prompt": "<|im_start|>x",
        "generation_settings": {"top_k": 40},
    }
    parser = ChatStream(0, {"stop": ["7. 7"]})
    body = json.dumps({**delta("stop"), "__verbose": verbose}).encode()
    found = gather(parser.feed(b"data: " + body + b"\n\n", 0) + parser.close(0, "complete"))
    assert found.end is not None
    assert (found.finish, found.end.stop) == (("stop", "stop-string"), "7. 7")
    assert (parser.rendered, parser.applied) == ("<|im_start|>x", {"top_k": 40})
    cut = json.dumps({**delta("length"), "__verbose": {"stop_type": "limit", "truncated": True}}).encode()
    parser = ChatStream(0, {})
    assert gather(parser.feed(b"data: " + cut + b"\n\n", 0) + parser.close(0, "complete")).finish == ("length", "context")


def test_context_that_is_full(gather: GatherFn) -> None:
    chunks = (delta(content="a"), delta("length"), usage(60, 4))
    assert gather(feed(*chunks, ctx=64)).finish == ("length", "context")
    assert gather(feed(*chunks, ctx=65)).finish == ("length", None)
    assert gather(feed(*chunks, ctx=64, asked={"max_tokens": 4})).finish == ("length", "max-tokens")
    assert gather(feed(*chunks, ctx=64, asked={"max_tokens": 8})).finish == ("length", "context")
    assert gather(feed(*chunks)).finish == ("length", None)


# -- tool calls -----------------------------------------------------------------------------------------------------------


def call(
    index: int | None = None, ident: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    keys: dict[str, Any] = {"index": index, "id": ident, "type": "function"}
    function = {"name": name, "arguments": arguments}
    return {
        **{key: value for key, value in keys.items() if value is not None},
        "function": {key: value for key, value in function.items() if value is not None},
    }


def calls_of(gather: GatherFn, *chunks: list[dict[str, Any]]) -> list[tuple[int, str | None, str, str]]:
    found = gather(feed(*[delta(tool_calls=entries) for entries in chunks], delta("tool_calls")))
    assert found.finish == ("tool_calls", None)
    return [(one["index"], one["id"], one["name"], one["arguments"]) for one in found.calls]


def test_a_call_in_pieces(gather: GatherFn) -> None:
    pieces = [[call(0, "a", "f", "")], [call(0, None, None, '{"x"')], [call(0, None, None, ": 1}")]]
    assert calls_of(gather, *pieces) == [(0, "a", "f", '{"x": 1}')]
    found = gather(feed(*[delta(tool_calls=entries) for entries in pieces], delta("tool_calls")))
    assert [(tok.x, tok.tool) for tok in found.lines] == [("", ev.Tool(0, "a", "f")), ('{"x"', None), (": 1}", None)]


def test_calls_that_take_turns(gather: GatherFn) -> None:
    pieces = [[call(0, "a", "f", "1")], [call(1, "b", "g", "2")], [call(0, None, None, "3")], [call(1, None, None, "4")]]
    assert calls_of(gather, *pieces) == [(0, "a", "f", "13"), (1, "b", "g", "24")]


def test_whole_calls_in_one_chunk(gather: GatherFn) -> None:
    assert calls_of(gather, [call(0, "a", "f", "{}"), call(1, "b", "g", {"y": 2})]) == [
        (0, "a", "f", "{}"),
        (1, "b", "g", '{"y":2}'),
    ]


def test_calls_without_an_index_or_all_with_0(gather: GatherFn) -> None:
    assert calls_of(gather, [call(None, "a", "f", "{}")], [call(None, "b", "g", "{}")]) == [
        (0, "a", "f", "{}"),
        (1, "b", "g", "{}"),
    ]
    assert calls_of(gather, [call(0, "a", "f", "{}")], [call(0, "b", "g", "{}")]) == [
        (0, "a", "f", "{}"),
        (1, "b", "g", "{}"),
    ]
    assert calls_of(gather, [call(None, "a", "f", "1")], [call(None, None, None, "2")]) == [(0, "a", "f", "12")]


def test_a_call_assembled_in_silence(gather: GatherFn) -> None:
    """A role, 40 s of nothing, one chunk with the whole call, 900 tokens at the end."""
    found = gather(
        feed(
            delta(role="assistant"),
            delta(tool_calls=[call(0, "a", "f", "{}")]),
            delta("tool_calls"),
            usage(9, 900),
            step_ns=40_000_000_000,
        )
    )
    assert [(tok.c, tok.n) for tok in found.lines] == [("tool", None), ("tool", 899)]
    assert found.tokens == 900


# -- probabilities ----------------------------------------------------------------------------------------------------------


def entry(token: str, raw: list[int] | None = None, logprob: Any = -0.5, **more: Any) -> dict[str, Any]:
    return {"token": token, "bytes": list(token.encode()) if raw is None else raw, "logprob": logprob, **more}


def with_entries(text: str, *entries: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    chunk = delta(finish, content=text)
    chunk["choices"][0]["logprobs"] = {"content": list(entries)}
    return chunk


def test_several_tokens_in_a_chunk(gather: GatherFn) -> None:
    found = gather(feed(with_entries(" ab", entry(" a", id=1), entry("b", logprob=-0.1234567)), delta("stop")))
    [line] = found.lines
    assert (line.x, line.p, line.i, line.b, line.n) == ([" a", "b"], [-0.5, -0.12346], [1, None], None, msgspec.UNSET)
    assert found.tokens == 2


def test_tokens_that_are_parts_of_a_character(gather: GatherFn) -> None:
    parts = [entry("\ufffd", [0xF0, 0x9F]), entry("\ufffd", [0x98]), entry("\ufffd", [0x8A])]
    [line] = gather(feed(with_entries("😊", *parts), delta("stop"))).lines
    assert line.x == ["", "", ""]
    assert line.b == ["8J8=", "mA==", "ig=="]
    assert gather(feed(with_entries("😊", *parts), delta("stop"))).text == "😊"
    one_by_one = [with_entries("\ufffd", part) for part in parts]
    assert gather(feed(*one_by_one, delta("stop"))).text == "😊"


def test_bytes_lost_on_the_way_show_one_character(gather: GatherFn) -> None:
    lost = [entry("\ufffd", [239, 191, 189]) for _ in range(4)]
    found = gather(feed(with_entries("😊", *lost), delta("stop"), usage(1, 5)))
    assert found.text == "😊"
    assert found.lines[0].x == ["", "", "", "😊"]
    assert found.lines[0].p == [-0.5] * 4
    assert found.tokens == 5


def test_tokens_held_back_and_the_end_token_with_probabilities(gather: GatherFn) -> None:
    """vLLM: text "" with an entry, then the whole character; the end token's entry comes with the finish."""
    found = gather(
        feed(
            delta(role="assistant", content=""),
            with_entries("", entry("", [0xF0, 0x9F])),
            with_entries("😊", entry("😊", [0x98, 0x8A])),
            with_entries("", entry("<|im_end|>"), finish="stop"),
            usage(9, 3),
        )
    )
    assert [(tok.x, tok.n, tok.p) for tok in found.lines] == [
        ("", msgspec.UNSET, -0.5),
        ("😊", None, -0.5),
        ("", msgspec.UNSET, -0.5),
    ]
    assert found.tokens == 3


@pytest.mark.parametrize(
    ("given", "p"),
    [(-0.000001, 0.0), (-1.234567, -1.23457), (None, None), (-3.4028234663852886e38, None), (-9999.0, -9999.0)],
)
def test_probabilities_as_logs(gather: GatherFn, given: float | None, p: float | None) -> None:
    [line] = gather(feed(with_entries("a", entry("a", logprob=given)), delta("stop"))).lines
    assert line.p == p
    assert str(line.p) == str(p)  # never -0.0


def test_probabilities_after_the_samplers(gather: GatherFn) -> None:
    sampled = {
        "token": "a",
        "bytes": [97],
        "prob": 0.25,
        "top_probs": [{"token": "a", "prob": 0.25}, {"token": "b", "prob": 0.0}],
    }
    [line] = gather(feed(with_entries("a", sampled), delta("stop"))).lines
    assert (line.p, line.top) == (-1.38629, ["a", -1.38629, "b", None])


def test_alternatives_that_are_no_text(gather: GatherFn) -> None:
    top = [entry("", [226, 128], -1.0), entry("", [], -2.0), entry("\x1b", None, -3.0)]
    [line] = gather(feed(with_entries("a", entry("a", top_logprobs=top)), delta("stop"))).lines
    assert line.top == ["\ufffd", -1.0, "", -2.0, "\x1b", -3.0]


def test_the_old_completions_lists(gather: GatherFn) -> None:
    lists = {
        "tokens": [" a", "b"],
        "token_logprobs": [-0.5, None],
        "top_logprobs": [{" a": -0.5, " c": -1.5}, None],
        "text_offset": [0, 2],
    }
    found = gather(
        feed(
            {"choices": [{"index": 0, "text": " ab", "logprobs": lists, "finish_reason": None}]},
            {"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]},
        )
    )
    [line] = found.lines
    assert (line.x, line.p, line.top) == ([" a", "b"], [-0.5, None], [[" a", -0.5, " c", -1.5], None])


def test_content_in_parts(gather: GatherFn) -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "yes"}]
    found = gather(feed(delta(content=parts), delta("stop")))
    assert (found.thinking, found.text) == ("hm", "yes")


# -- timings and progress -------------------------------------------------------------------------------------------------


def test_running_timings_come_at_most_ten_a_second(gather: GatherFn) -> None:
    chunks = [{**delta(content="a"), "timings": {"predicted_n": n, "predicted_ms": 5.0 * n}} for n in range(1, 201)]
    found = gather(
        feed(*chunks, {**delta("stop"), "timings": {"predicted_n": 201, "predicted_ms": 1005.0}}, step_ns=5_000_000)
    )
    stamps = [timings.t for timings in found.timings]
    assert stamps == [*range(0, 1_000_000_000, 100_000_000), 1_000_000_000]
    assert all(timings.raw is None for timings in found.timings[:-1])
    assert found.timings[-1].raw == {"predicted_n": 201, "predicted_ms": 1005.0}


def test_speculative_replies_count_tokens_not_chunks(gather: GatherFn) -> None:
    """45 chunks for 106 tokens: the rate is the server's 47.4 tok/s, not 45 chunks over the time."""
    counts = [round(106 * (at + 1) / 45) for at in range(45)]
    timings = [
        {"predicted_n": n, "predicted_ms": 2213.0 * n / 106, "draft_n": n, "draft_n_accepted": n // 2} for n in counts
    ]
    found = gather(feed(*[{**delta(content="a"), "timings": t} for t in timings], delta("stop"), usage(9, 106)))
    assert (found.tokens, found.counted, len(found.lines)) == (106, True, 45)
    last = found.timings[-1]
    assert (last.gen_n, last.gen_ms, last.draft_n, last.accepted_n) == (106, 2213.0, 106, 53)


def test_progress(gather: GatherFn) -> None:
    def progress(done: int, total: int, cached: int, ms: int) -> dict[str, Any]:
        said = {"total": total, "cache": cached, "processed": done, "time_ms": ms}
        return {
            **delta(role="assistant", content=None),
            "prompt_progress": said,
            "timings": {"prompt_n": done, "predicted_n": 0},
        }

    events = feed(progress(2048, 2048, 2048, 0), progress(2048, 2048, 2048, 7), delta(content="a"), delta("stop"))
    found = gather(events)
    assert found.progress == [[2048, 2048, 2048], [2048, 2048, 2048]]
    assert [event.ms for event in events if isinstance(event, ev.Prog)] == [0.0, 7.0]
    assert found.timings == []  # a prefill's unfinished counts are no timings


def test_text_that_comes_before_the_prefill_is_no_token(gather: GatherFn) -> None:
    opening = {**delta(content="<think>\n"), "prompt_progress": {"total": 9, "cache": 0, "processed": 0, "time_ms": 0}}
    found = gather(feed(opening, delta(content="a"), delta("stop"), usage(9, 1)))
    assert [(tok.x, tok.n) for tok in found.lines] == [("<think>\n", 0), ("a", None)]
    assert found.notices == []


def test_a_cut_in_the_prefill_invents_no_prompt(gather: GatherFn) -> None:
    parser = ChatStream(0)
    said = {"total": 4096, "cache": 0, "processed": 512, "time_ms": 90}
    body = {**delta(role="assistant", content=None), "prompt_progress": said, "timings": {"prompt_n": 512, "predicted_n": 0}}
    found = gather(parser.feed(b"data: " + json.dumps(body).encode() + b"\n\n", 0) + parser.close(1, "broken", "reset"))
    assert (found.progress, found.timings, found.finish) == ([[512, 4096, 0]], [], ("cut", "server-lost"))


def test_what_was_asked_for_and_did_not_come_is_told(gather: GatherFn) -> None:
    found = gather(feed(delta(content="a"), delta("stop"), expects_timings=True, expects_progress=True))
    assert found.notices == ["no-timings", "no-progress"]
    found = gather(feed({**delta(content="a"), "timings": {"predicted_n": 1}}, delta("stop"), expects_timings=True))
    assert found.notices == []


def test_only_the_first_of_several_choices(gather: GatherFn) -> None:
    def choice(index: int, text: str) -> dict[str, Any]:
        return {
            "choices": [{"index": index, "delta": {"content": text}, "finish_reason": None}],
            "timings": {"predicted_n": 1},
        }

    both = {
        "choices": [{"index": 1, "delta": {"content": "y"}}, {"index": 0, "delta": {"content": "b"}}],
        "timings": {"predicted_n": 2},
    }
    found = gather(feed(choice(1, "x"), choice(0, "a"), both, delta("stop")))
    assert (found.text, found.tokens) == ("ab", 2)
