"""Streams as bad servers, proxies and networks make them: the tokens that came are kept, and the end says what happened."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from phasetop import codec
from phasetop import events as ev
from phasetop.backends.llamacpp_stream import CompletionStream
from phasetop.backends.openai_stream import ChatStream
from phasetop.backends.protocol import Outcome

if TYPE_CHECKING:
    from tests.backends.streams.conftest import Gathered, GatherFn


def chunk(text: str | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    delta = {} if text is None else {"content": text}
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "object": "chat.completion.chunk", **more}


def sse(*values: dict[str, Any] | str) -> bytes:
    return b"".join(
        b"data: " + (v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)).encode() + b"\n\n" for v in values
    )


def feed(*reads: bytes, outcome: Outcome = "complete", why: str | None = None, **options: Any) -> list[ev.Event]:
    parser = ChatStream(0, options.pop("asked", {}), **options)
    events = [event for t, data in enumerate(reads) for event in parser.feed(data, 1000 * t)]
    return events + parser.close(1000 * len(reads), outcome, why)


GOOD: list[dict[str, Any] | str] = [chunk("Hel"), chunk("lo"), chunk(None, "stop"), "[DONE]"]


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\r\n\n", b"\n\r\n"])
@pytest.mark.parametrize("space", [b" ", b""])
def test_line_ends_and_spaces(gather: GatherFn, end: bytes, space: bytes) -> None:
    body = b"".join(b"data:" + space + (v if isinstance(v, str) else json.dumps(v)).encode() + end for v in GOOD)
    for cut in range(len(body)):
        found = gather(feed(body[:cut], body[cut:]))
        assert (found.text, found.finish, len(found.lines)) == ("Hello", ("stop", "eos"), 2)


def test_characters_split_over_reads(gather: GatherFn) -> None:
    body = sse(chunk("né"), chunk("中😀"), chunk(None, "stop"), "[DONE]")
    for cut in range(len(body)):
        assert gather(feed(body[:cut], body[cut:])).text == "né中😀"


def test_separators_that_are_text(gather: GatherFn) -> None:
    text = "a\u2028b\u2029c\x85d"
    body = sse(chunk(text), chunk(None, "stop"))
    assert b"\xe2\x80\xa8" in body
    for cut in range(len(body)):
        assert gather(feed(body[:cut], body[cut:])).text == text


def test_pings_are_no_tokens(gather: GatherFn) -> None:
    parser = ChatStream(0)
    events = [*parser.feed(b":\n\n:\n\n", 5), *parser.feed(sse(*GOOD), 9), *parser.close(9, "complete")]
    found = gather(events)
    assert parser.pings == 2
    assert [tok.t for tok in found.lines] == [9, 9]


def test_many_events_in_one_read_share_its_stamp(gather: GatherFn) -> None:
    found = gather(feed(sse(*[chunk(f" {i}") for i in range(60)], chunk(None, "stop"), "[DONE]")))
    assert {tok.t for tok in found.lines} == {0}
    assert found.tokens == 60


def test_an_early_close_keeps_the_tokens_and_invents_nothing(gather: GatherFn) -> None:
    reads = [sse(chunk(f" {i}")) for i in range(7)]
    why = "the server closed the connection before the reply was whole"
    found = gather(feed(*reads, outcome="broken", why=why))
    assert (found.tokens, found.text) == (7, " 0 1 2 3 4 5 6")
    assert found.finish == ("cut", "server-lost")
    assert found.error == why
    assert found.timings == []


def test_a_clean_end_without_a_finish_is_cut(gather: GatherFn) -> None:
    found = gather(feed(sse(chunk("a"), chunk("b"))))
    assert (found.finish, found.error, found.tokens) == (("cut", None), "", 2)


@pytest.mark.parametrize("tail", [b"da", b'data: {"choi', b"data: [DON", b":", b"data:"])
def test_a_torn_last_line_is_cut_not_an_error(gather: GatherFn, tail: bytes) -> None:
    assert gather(feed(sse(chunk("a")) + tail, outcome="broken", why="reset")).finish == ("cut", "server-lost")


def test_a_last_event_without_its_empty_line_counts(gather: GatherFn) -> None:
    found = gather(feed(sse(chunk("a")) + b"data: " + json.dumps(chunk("b", "stop")).encode()))
    assert (found.text, found.finish) == ("ab", ("stop", "eos"))


def test_our_own_cancel(gather: GatherFn) -> None:
    assert gather(feed(sse(chunk("a")), outcome="cancelled")).finish == ("cancelled", None)
    assert gather(feed(sse(*GOOD), outcome="cancelled")).finish == ("stop", "eos")  # it had ended before
    assert gather(feed(sse(chunk("a")) + b"proxy er", outcome="cancelled")).finish == ("cancelled", None)


def test_a_break_after_the_finish_is_no_cut(gather: GatherFn) -> None:
    assert gather(feed(sse(chunk("a"), chunk(None, "stop")), outcome="broken", why="reset")).finish == ("stop", "eos")


def test_done_without_a_finish(gather: GatherFn) -> None:
    assert gather(feed(sse(chunk("a"), "[DONE]"))).finish == ("stop", None)  # the server's end, for a reason unknown
    assert gather(feed(sse("[DONE]"))).finish == ("cut", None)  # nothing came: no reply
    assert gather(feed(b"")).finish == ("cut", None)


@pytest.mark.parametrize(
    ("tail", "status", "code", "text"),
    [
        (
            b'error: {"code":400,"message":"ctx","type":"invalid_request_error"}\n\ndata: [DONE]\n\n',
            400,
            "invalid_request_error",
            "ctx",
        ),
        (b'error: {"error":{"code":500,"message":"boom"}}\n\n', 500, None, "boom"),
        (b"error: it fell over\n\n", None, None, "it fell over"),
        (b'data: {"error":{"code":500,"message":"slot died","type":"server_error"}}\n\n', 500, "server_error", "slot died"),
        (b'data: {"error":"plain words"}\n\ndata: [DONE]\n\n', None, None, "plain words"),
        (b'event: error\ndata: {"message":"bad","code":"oops"}\n\n', None, "oops", "bad"),
        (b'data: {"object":"error","message":"no","type":"BadRequestError","code":400}\n\n', 400, "BadRequestError", "no"),
        (b'{"error":{"message":"late","code":502}}', 502, None, "late"),
        (b"proxy error: Failed to read connection", None, None, "proxy error: Failed to read connection"),
        (b"data: upstream connect error\n\n", None, None, "upstream connect error"),
        (
            b"<html><body><h1>504 Gateway Time-out</h1></body></html>\n",
            200,
            "web-page",
            "a web page instead of an answer (200 OK)",
        ),
    ],
)
def test_errors_inside_a_stream_of_200(
    gather: GatherFn, tail: bytes, status: int | None, code: str | None, text: str
) -> None:
    body = sse(chunk("one"), chunk(" two")) + tail
    for reads in ((body,), tuple(body[i : i + 1] for i in range(len(body)))):
        found = gather(feed(*reads))
        assert found.end is not None
        assert found.finish == ("error", None)
        assert found.text == "one two"
        assert found.tokens == 2
        assert found.end.error == ev.Fault(status=status, code=code, text=text)


def test_bytes_beside_a_whole_reply_are_told(gather: GatherFn) -> None:
    found = gather(feed(sse(*GOOD) + b"debug: served by \x1b[31mcache7\n"))
    assert found.finish == ("stop", "eos")
    assert found.notices == ["stray-bytes"]


@pytest.mark.parametrize(
    ("body", "text", "finish"),
    [
        (b'{"error":{"message":"no","code":400}}', "no", "error"),
        (b'{\n  "error": {\n    "message": "pretty"\n  }\n}\n', "pretty", "error"),
        (b"Bad Gateway\n", "Bad Gateway", "error"),
        (b'{"status":"fine"}', '{"status":"fine"}', "error"),
        (b'{"torn":', '{"torn":', "error"),
        (b"[1, 2]", "[1, 2]", "error"),
        (b"123", "123", "error"),
    ],
)
def test_bodies_that_are_no_stream(gather: GatherFn, body: bytes, text: str, finish: str) -> None:
    found = gather(feed(body))
    assert (found.finish, found.error, found.tokens) == ((finish, None), text, 0)


def test_a_server_that_ignores_stream(gather: GatherFn) -> None:
    reply = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi there"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
    }
    for body in (json.dumps(reply).encode(), json.dumps(reply, indent=2).encode(), sse(reply, "[DONE]")):
        found = gather(feed(body))
        assert [(tok.x, tok.n) for tok in found.lines] == [("Hi there", 3)]
        assert found.finish == ("stop", "eos")
        assert (found.timings[-1].total_n, found.timings[-1].gen_n) == (12, 3)


def test_a_whole_reply_with_thinking_and_calls(gather: GatherFn) -> None:
    message = {
        "role": "assistant",
        "reasoning": "hm",
        "content": "ok",
        "tool_calls": [{"type": "function", "id": "a", "function": {"name": "f", "arguments": {"x": 1}}}],
    }
    reply = {"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": {"completion_tokens": 9}}
    found = gather(feed(json.dumps(reply).encode()))
    assert [(tok.c, tok.x, tok.n) for tok in found.lines] == [
        ("think", "hm", None),
        ("answer", "ok", None),
        ("tool", '{"x":1}', None),
        ("tool", "", 6),
    ]
    assert found.calls == [{"index": 0, "id": "a", "name": "f", "arguments": '{"x":1}'}]


def test_surrogates_and_bytes_that_are_no_utf8(gather: GatherFn) -> None:
    body = (
        b'data: {"choices":[{"delta":{"content":"a\\ud83d"}}]}\n\n'
        b'data: {"choices":[{"delta":{"content":"\\ud83d\\ude00"}}]}\n\n'
        b'data: {"choices":[{"delta":{"content":"x\xff\xfey"}}]}\n\n'
        b'data: {"choices":[{"delta":{"content":"z"},"logprobs":{"content":[{"token":"\\udfff","logprob":-Infinity,'
        b'"top_logprobs":[{"token":"\\ud800b","logprob":NaN}]}]},"finish_reason":"stop"}]}\n\n'
    )
    found = gather(feed(body))
    assert found.text == "a\ufffd😀x\ufffd\ufffdyz"
    assert found.lines[-1].p is None
    assert found.lines[-1].top == ["\ufffdb", None]
    assert found.finish == ("stop", "eos")


def test_one_alternative_that_is_the_token_itself_is_none(gather: GatherFn) -> None:
    entry = {"token": "a", "logprob": -0.25, "top_logprobs": [{"token": "a", "logprob": -0.25}]}
    other = {"token": "b", "logprob": -1.5, "top_logprobs": [{"token": "c", "logprob": -0.5}]}
    chunks = [
        {"choices": [{"delta": {"content": each["token"]}, "logprobs": {"content": [each]}}]} for each in (entry, other)
    ]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    first, second = gather(feed(body.encode())).lines[:2]
    assert (first.p, first.top) == (-0.25, None)
    assert (second.p, second.top) == (-1.5, ["c", -0.5])


def test_keys_of_odd_types_cost_no_token(gather: GatherFn) -> None:
    odd = {
        "choices": [
            {"index": "0", "delta": {"content": "a", "tool_calls": 7, "role": 3}, "finish_reason": None, "logprobs": "no"}
        ],
        "timings": {"predicted_n": "2", "predicted_ms": "fast", "prompt_n": -4, "cache_n": 1e30},
        "usage": "none",
        "prompt_progress": [],
    }
    found = gather(feed(sse(odd, chunk("b", "stop"))))
    assert found.text == "ab"
    assert found.lines[0].n == 2
    assert found.timings[-1].prompt_n is None


def test_counts_that_cannot_be(gather: GatherFn) -> None:
    def counted(text: str, n: Any) -> dict[str, Any]:
        return chunk(text, timings={"predicted_n": n})

    found = gather(feed(sse(counted("a", 1), counted("b", 2**40), counted("c", 1), counted("d", 4), chunk(None, "stop"))))
    assert [tok.n for tok in found.lines] == [msgspec.UNSET, None, None, msgspec.UNSET]
    assert found.tokens == 4


def test_an_event_over_the_limit_is_an_error_that_says_so(gather: GatherFn) -> None:
    block = b"x" * (1 << 20)
    parser = ChatStream(0)
    events = parser.feed(sse(chunk("a")) + b"data: ", 1)
    for t in range(18):
        events += parser.feed(block, t)
    events += parser.feed(sse(*GOOD), 99)
    found = gather(events + parser.close(99, "complete"))
    assert (found.text, found.finish) == ("a", ("error", None))
    assert "16 MiB" in found.error


def test_a_text_that_is_longer_than_a_line_may_be_is_cut(gather: GatherFn) -> None:
    # As long a line as the reader takes; written with its keys it is longer.
    text = "é\n" * ((codec.MAX_LINE_BYTES - 300) // 4)
    body = (
        b'data: {"choices":[{"delta":{"content":"'
        + text.encode().replace(b"\n", b"\\n")
        + b'"}}],"timings":{"predicted_n":5}}\n\n'
    )
    assert len(body) < codec.MAX_LINE_BYTES
    parser = ChatStream(0)
    [tok, timings] = parser.feed(body, 2**52)
    assert isinstance(tok, ev.Tok)
    assert isinstance(tok.x, str)
    assert len(codec.encode(tok)) <= codec.MAX_LINE_BYTES
    assert (tok.cut or 0) + len(tok.x.encode()) == len(text.encode())
    assert tok.n == 5
    assert isinstance(timings, ev.Timings)


def raw(*values: dict[str, Any], outcome: Outcome = "complete") -> list[ev.Event]:
    parser = CompletionStream(0, {"max_tokens": 4})
    return parser.feed(sse(*values), 0) + parser.close(0, outcome)


@pytest.mark.parametrize(
    ("last", "finish"),
    [
        ({"stopped_eos": True}, ("stop", "eos")),
        ({"stopped_word": True, "stopping_word": "END"}, ("stop", "stop-string")),
        ({"stopped_limit": True}, ("length", None)),
        ({"stopped_limit": True, "truncated": True}, ("length", "context")),
        ({"stop_type": "none"}, ("stop", None)),
    ],
)
def test_raw_replies_of_old_builds(gather: GatherFn, last: dict[str, Any], finish: tuple[str, str | None]) -> None:
    found = gather(raw({"content": "a", "stop": False}, {"content": "b", "stop": True, "tokens_evaluated": 9, **last}))
    assert (found.text, found.finish) == ("ab", finish)
    assert not found.counted


def test_raw_replies_that_break(gather: GatherFn) -> None:
    token = {"content": "a", "tokens": [5], "stop": False, "tokens_predicted": 1, "tokens_evaluated": 9}
    found = gather(raw(token, outcome="broken"))
    assert (found.text, found.tokens, found.finish) == ("a", 1, ("cut", "server-lost"))
    assert (found.timings[-1].total_n, found.timings[-1].gen_n) == (9, 1)
    found = gather(raw(token, {"error": {"code": 500, "message": "gone"}}))
    assert (found.tokens, found.finish, found.error) == (1, ("error", None), "gone")


def summary(found: Gathered) -> tuple[str, int]:
    return found.text, found.tokens


def test_text_held_back_and_gone_with_the_end(gather: GatherFn) -> None:
    """A raw chunk without text is a token; the progress chunk's placeholder is none."""
    progress = {
        "content": "",
        "tokens": [0],
        "stop": False,
        "tokens_predicted": 0,
        "prompt_progress": {"total": 4, "cache": 0, "processed": 4},
    }
    held = {"content": "", "tokens": [7], "stop": False, "tokens_predicted": 1}
    end = {"content": "", "tokens": [], "stop": True, "tokens_predicted": 3, "stop_type": "eos"}
    found = gather(raw(progress, held, end))
    assert summary(found) == ("", 3)
    assert [(tok.x, tok.n, tok.i) for tok in found.lines] == [("", msgspec.UNSET, 7), ("", 2, None)]


def test_only_the_first_of_several_prompts(gather: GatherFn) -> None:
    def token(index: int, text: str, n: int, **more: Any) -> dict[str, Any]:
        return {"index": index, "content": text, "tokens": [n], "stop": False, "tokens_predicted": n, **more}

    end = {"stop": True, "stop_type": "eos"}
    found = gather(raw(token(1, "x", 1), token(0, "a", 1), token(1, "", 2, **end), token(0, "b", 2), token(0, "", 3, **end)))
    assert summary(found) == ("ab", 3)
    assert found.finish == ("stop", "eos")


def test_text_that_comes_before_the_prefill_is_no_token(gather: GatherFn) -> None:
    opening = {"content": "<think>", "tokens": [0], "stop": False, "prompt_progress": {"total": 4, "processed": 0}}
    found = gather(raw(opening, {"content": "a", "stop": True, "tokens_predicted": 1, "stop_type": "eos"}))
    assert [(tok.x, tok.n, tok.i) for tok in found.lines] == [("<think>", 0, None), ("a", msgspec.UNSET, None)]
