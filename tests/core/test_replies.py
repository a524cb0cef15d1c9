"""Texts put together again: by channel, over split bytes; tool calls, and the chat that led to a request."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from phasetop.columns import ANSWER, THINK, TOOL
from phasetop.replies import channel_text, chat, prompt_of, tool_calls

if TYPE_CHECKING:
    from tests.core.conftest import Build


def tok(t: int, **keys: Any) -> dict[str, Any]:
    return {"k": "tok", "t": t, "r": keys.pop("r", 0), **keys}


def coded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def test_text_by_channel_and_by_lines(session_of: Build) -> None:
    run = session_of(tok(1, x="hm", c="think"), tok(2, x="Hé"), tok(3, x="!"), tok(4, x="{", c="tool")).runs[0]
    assert channel_text(run, ANSWER, 4) == ("Hé!", 4)
    assert channel_text(run, ANSWER, 2) == ("Hé", 3)
    assert channel_text(run, THINK, 4) == ("hm", 2)
    assert channel_text(run, ANSWER, 0) == ("", 0)


def test_bytes_are_joined_over_tokens(session_of: Build) -> None:
    llama = "🦙".encode()
    run = session_of(
        *(tok(1, x="a"), tok(2, x="", b=coded(llama[:2])), tok(3, x="", b=coded(llama[2:])), tok(4, x="b")),
        *(tok(5, x="", b=coded(llama[:3])), tok(6, x="c")),
    ).runs[0]
    assert channel_text(run, ANSWER, 4) == ("a🦙b", 6)
    assert channel_text(run, ANSWER, 6) == ("a🦙b\N{REPLACEMENT CHARACTER}c", 10)  # never finished


def test_redacted_text_is_its_length(session_of: Build) -> None:
    run = session_of(tok(1, x=6), tok(2, x=[1, 2]), tok(3, x=3, c="tool", tool={"index": 0, "name": "f"})).runs[0]
    assert channel_text(run, ANSWER, 3) == (None, 9)
    assert tool_calls(run, 3) == [{"index": 0, "id": None, "name": "f", "arguments": None}]


def test_tool_calls_are_put_together(session_of: Build) -> None:
    run = session_of(
        *(tok(1, x="", c="tool", tool={"index": 0, "id": "a", "name": "weather"}), tok(2, x='{"city":', c="tool")),
        *(tok(3, x='"Paris"}', c="tool"), tok(4, x="{", c="tool", tool={"index": 1, "id": "b", "name": "time"})),
        *(tok(5, x="}", c="tool", tool={"index": 1}), tok(6, x="", n=1, c="tool")),
    ).runs[0]
    assert tool_calls(run, 6) == [
        {"index": 0, "id": "a", "name": "weather", "arguments": '{"city":"Paris"}'},
        {"index": 1, "id": "b", "name": "time", "arguments": "{}"},
    ]
    assert tool_calls(run, 2)[0]["arguments"] == '{"city":'
    assert tool_calls(session_of(tok(1, x="{}", c="tool")).runs[0], 1)[0]["name"] is None


def request(t: int, r: int, content: Any, **keys: Any) -> dict[str, Any]:
    return {"k": "request", "t": t, "r": r, "messages": [{"role": "user", "content": content}], **keys}


def test_a_chat_is_its_chain(session_of: Build) -> None:
    session = session_of(
        {"k": "request", "t": 1, "r": 0, "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]},
        *(tok(2, x="A"), tok(3, x="{}", c="tool", tool={"index": 0, "id": "i", "name": "f"})),
        *(request(10, 1, "q2", parent=0), tok(11, r=1, x="B"), request(20, 2, "q3", parent=1)),
    )
    call = {"id": "i", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    first = [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]
    answered = [*first, {"role": "assistant", "content": "A", "tool_calls": [call]}, {"role": "user", "content": "q2"}]
    assert chat(session, session.runs[0]) == first
    assert chat(session, session.runs[1]) == answered
    assert chat(session, session.runs[2])[4:] == [{"role": "assistant", "content": "B"}, {"role": "user", "content": "q3"}]
    assert TOOL == 2


def test_a_chain_that_bites_its_tail_ends(session_of: Build) -> None:
    session = session_of(request(1, 0, "a", parent=1), request(2, 1, "b", parent=0), request(3, 2, "c", parent=9))
    assert [message["content"] for message in chat(session, session.runs[0])] == ["b", "a"]
    assert [message["content"] for message in chat(session, session.runs[2])] == ["c"]


def test_what_was_asked(session_of: Build) -> None:
    def asked(**keys: Any) -> Any:
        return prompt_of(session_of({"k": "request", "t": 1, "r": 0, **keys}).runs[0])

    assert asked(api="raw", prompt="Once") == "Once"
    assert (
        asked(
            messages=[{"role": "user", "content": "a"}, {"role": "user", "content": "b"}, {"role": "system", "content": "c"}]
        )
        == "b"
    )
    parts = [
        {"type": "text", "text": "look: "},
        {"type": "image_url", "image_url": {"url": "data:"}},
        {"type": "text", "text": "what?"},
    ]
    assert asked(messages=[{"role": "user", "content": parts}]) == "look: what?"
    assert asked(messages=[{"role": "user", "content": [{"type": "text", "text": 5}, {"type": "text", "text": 2}]}]) == 7
    assert asked(messages=[{"role": "user", "content": 12}]) == 12
    assert asked(messages=[{"role": "system", "content": "s"}]) is None
    assert asked() is None
    assert prompt_of(session_of(tok(1, x="a")).runs[0]) is None
