"""Redaction: nothing of a text is left in a line, its length in UTF-8 bytes is, and what is no text stays (EVENTS.md)."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop import codec
from phasetop import events as ev
from phasetop.redaction import redact

SECRET = "hush-é🦙"
SIZE = 11  # h u s h - (5), é (2), 🦙 (4)


def keys(event: ev.Event) -> dict[str, Any]:
    """The event's line as it is written; it can be read back."""
    line = codec.encode(redact(event))
    assert codec.decode(line) is not None
    read: dict[str, Any] = json.loads(line)
    return read


def b64(raw: bytes) -> str:
    return b64encode(raw).decode()


def test_tokens_keep_lengths_and_numbers_only() -> None:
    one = keys(ev.Tok(t=1, r=0, x=SECRET, p=-0.5, i=279, top=[SECRET, -0.5, " a", None], n=2, c="think"))
    assert one == {"k": "tok", "t": 1, "r": 0, "x": SIZE, "p": -0.5, "top": [-0.5, None], "n": 2, "c": "think"}
    several = ev.Tok(
        t=1, r=0, x=[SECRET, "", "a"], p=[-0.1, None, -0.3], i=[1, 2, 3], b=[None, b64(b"\xff\xfe\xfd\xfc"), None]
    )
    several.top = [[SECRET, -0.1], None, [SECRET, -0.3]]
    assert keys(several) == {
        "k": "tok",
        "t": 1,
        "r": 0,
        "x": [SIZE, 4, 1],
        "p": [-0.1, None, -0.3],
        "top": [[-0.1], None, [-0.3]],
    }
    assert keys(ev.Tok(t=1, r=0, x="", b=b64(b"\xf0\x9f"))) == {"k": "tok", "t": 1, "r": 0, "x": 2}


def test_a_call_keeps_its_name_and_loses_its_id() -> None:
    call = keys(ev.Tok(t=1, r=0, x='{"a":1}', c="tool", tool=ev.Tool(index=1, id=SECRET, name="weather")))
    assert (call["x"], call["tool"]) == (7, {"index": 1, "name": "weather"})
    assert "tool" not in keys(ev.Tok(t=1, r=0, x="a"))


@given(st.binary(max_size=9))
def test_bytes_have_the_length_that_they_decode_to(raw: bytes) -> None:
    assert keys(ev.Tok(t=1, r=0, x="", b=b64(raw)))["x" if raw else "k"] == (len(raw) or "tok")
    assert keys(ev.Prompt(t=1, r=0, pieces=[{"b": b64(raw)}]))["pieces"] == [len(raw)]


def test_a_request_keeps_its_shape() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": SECRET},
        {
            "role": "user",
            "content": [{"type": "text", "text": SECRET}, {"type": "n", "detail": 3, "flag": True, "no": None}],
        },
        {"role": "assistant", "tool_calls": [{"function": {"name": SECRET, "arguments": SECRET}}]},
    ]
    settings = {
        "temperature": 0.5,
        "stop": [SECRET],
        "grammar": SECRET,
        "think": "high",
        "format": {"const": SECRET},
        "x": None,
    }
    tools = [{"type": "function", "function": {"name": SECRET}}]
    line = keys(ev.Request(t=1, r=0, api="chat", messages=messages, tools=tools, asked=settings, applied={"format": "json"}))
    assert line["messages"] == [
        {"role": "user", "content": SIZE},
        {"role": "user", "content": [{"type": "text", "text": SIZE}, {"type": "n", "detail": 3, "flag": True, "no": None}]},
        {"role": "assistant", "tool_calls": [{"function": {"name": SIZE, "arguments": SIZE}}]},
    ]
    assert line["tools"] == len(json.dumps(tools, ensure_ascii=False).encode())
    assert line["asked"] == {
        "temperature": 0.5,
        "grammar": SIZE,
        "think": "high",
        "x": None,
        "stop": len(f'["{SECRET}"]'.encode()),
        "format": len(f'{{"const": "{SECRET}"}}'.encode()),
    }
    assert line["applied"] == {"format": "json"}
    assert keys(ev.Request(t=1, r=0, prompt=SECRET)) == {"k": "request", "t": 1, "r": 0, "prompt": SIZE}
    assert keys(ev.Request(t=1, r=0, asked={"grammar": "json"}))["asked"] == {"grammar": 4}


def test_a_prompt_keeps_its_counts() -> None:
    prompt = ev.Prompt(t=1, r=0, rendered=SECRET, pieces=[SECRET, "b"], ids=[7, 8], n=2, cached=1, source="/tokenize")
    assert keys(prompt) == {
        "k": "prompt",
        "t": 1,
        "r": 0,
        "rendered": SIZE,
        "pieces": [SIZE, 1],
        "n": 2,
        "cached": 1,
        "from": "/tokenize",
    }
    assert keys(ev.Prompt(t=1, r=0, n=2)) == {"k": "prompt", "t": 1, "r": 0, "n": 2}


def test_an_end_keeps_status_and_code() -> None:
    end = keys(ev.End(t=1, r=0, finish="error", stop=SECRET, error=ev.Fault(status=400, code="too-long", text=SECRET)))
    assert end == {
        "k": "end",
        "t": 1,
        "r": 0,
        "finish": "error",
        "stop": SIZE,
        "error": {"status": 400, "code": "too-long", "text": SIZE},
    }
    assert keys(ev.End(t=1, r=0, finish="stop")) == {"k": "end", "t": 1, "r": 0, "finish": "stop"}
    assert keys(ev.End(t=1, r=0, finish="error", error=ev.Fault(status=500)))["error"] == {"status": 500}


@pytest.mark.parametrize(
    "event",
    [
        ev.Notice(t=1, code="stray-bytes", text=SECRET, about={"bytes": SECRET}),
        ev.Notice(t=1, code="finish-unknown", text=SECRET, about={"reason": SECRET}),
        ev.Model(t=1, m=0, v=0, name="m", template=SECRET),
    ],
)
def test_texts_that_stand_elsewhere_go(event: ev.Event) -> None:
    assert "hush" not in json.dumps(keys(event))


def test_what_holds_no_text_stays_as_it_is() -> None:
    for event in (ev.Prog(t=1, r=0, done=3), ev.Notice(t=1, code="stall", text="a stall"), ev.Timings(t=1, r=0, gen_n=3)):
        assert redact(event) == event
    again = redact(redact(ev.Tok(t=1, r=0, x=SECRET)))
    assert msgspec.structs.asdict(again) == msgspec.structs.asdict(redact(ev.Tok(t=1, r=0, x=SECRET)))
