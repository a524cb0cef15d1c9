"""The `run --json` object: the contract's keys, and values that were worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from phasetop.output import to_json
from phasetop.report import request_object
from phasetop.session import Session

if TYPE_CHECKING:
    from tests.core.conftest import Build

EXAMPLE: dict[str, Any] = json.loads((Path(__file__).parent.parent / "data" / "run-example.json").read_text())
MS = 1_000_000
Line = dict[str, Any]


def keys_of(value: Any, path: str = "") -> list[str]:
    """All paths of an object in their order, a list's by its first element; what is filled freely counts as one."""
    if isinstance(value, list):
        return keys_of(value[0], path) if value else []
    if not isinstance(value, dict) or path in ("unknown", "sources", "server_timings", "messages"):
        return []
    paths = {key: f"{path}.{key}" if path else key for key in value}
    return [each for key, inner in value.items() for each in (paths[key], *keys_of(inner, paths[key]))]


def hello(**keys: Any) -> Line:
    anchor = {"mono": 5, "wall": 1_796_040_000_023_456_789}
    host = {"cpu": "EPYC", "cores": 2, "ram_bytes": 67430248448}
    return {
        "k": "hello",
        "t": 0,
        "format": 1,
        "session": "0192",
        "anchor": anchor,
        "by": "phasetop 0.3.0",
        "host": host,
        **keys,
    }


def at(k: str, t: float, **keys: Any) -> Line:
    return {"k": k, "t": round(t * MS), "r": 0, **keys}


WHOLE: tuple[Line, ...] = (
    hello(),
    {
        "k": "server",
        "t": 1,
        "v": 0,
        "backend": "llamacpp",
        "version": "b1",
        "url": "http://h:1",
        "local": True,
        "options": {
            "slot_context": {"value": 4096, "from": "server"},
            "parallel": {"value": 2, "from": "server"},
            "batch": {"value": 512, "from": "default"},
            "temperature": {"value": 0.8, "from": "default"},
        },
    },
    {
        "k": "model",
        "t": 1,
        "m": 0,
        "v": 0,
        "name": "m",
        "file": "m.gguf",
        "arch": "llama",
        "params": 10,
        "quant": "Q4",
        "file_bytes": 7,
        "hparams": {"llama.block_count": 32},
        "weights": {"layers": 40, "head": 2},
        "placed": {"CUDA0": 30, "CPU": 3},
        "from": {"params": "estimate: from the file's size"},
    },
    {"k": "state", "t": 2, "v": 0, "s": "ready"},
    at(
        "request",
        90,
        v=0,
        m=0,
        api="chat",
        messages=[{"role": "user", "content": "hé"}],
        asked={"temperature": 0.2, "max_tokens": 5},
    ),
    at("state", 100.1, s="sent", at=100 * MS),
    at("state", 104.0004, s="headers"),
    at("notice", 200, code="no-progress", text="x"),
    {"k": "notice", "t": 300 * MS, "code": "throttle", "text": "y"},
    {"k": "notice", "t": 3, "code": "stamps-read", "text": "z"},
    {"k": "notice", "t": 900 * MS, "code": "found", "text": "w"},
    at("notice", 200, code="stall", text="of another", r=7),
    at("tok", 300.0006, x="hm", c="think"),
    at("tok", 310.0002, x="A"),
    at("tok", 330.0004, x="", n=1),
    at(
        "timings",
        330.0004,
        prompt_n=80,
        cached_n=20,
        prompt_ms=195.0,
        gen_n=3,
        gen_ms=30.0,
        raw={"predicted_n": 3, "x": None},
    ),
    at("end", 331.0001, finish="stop", detail="eos"),
)


def said(session: Session, **keys: Any) -> dict[str, Any]:
    value = request_object(session, session.runs[0], **{"kept_as": None, **keys})
    return dict(json.loads(to_json(value, compact=True)))


@pytest.fixture
def whole(session_of: Build) -> dict[str, Any]:
    return said(session_of(*WHOLE))


def test_no_key_of_the_contract_is_missing_and_they_keep_their_order(whole: dict[str, Any]) -> None:
    example = json.loads(json.dumps(EXAMPLE))
    example["host"]["phases"]["decode"] = example["host"]["phases"]["prefill"]  # "the same keys"
    example["gpus"], example["kv"]["caches"] = [], []  # there is none here
    wanted = keys_of(example)
    assert len(wanted) > 120
    assert [path for path in keys_of(whole) if path in set(wanted)] == wanted


def test_who_and_where(whole: dict[str, Any]) -> None:
    assert (whole["phasetop"], whole["session"], whole["session_id"], whole["request"]) == ("0.3.0", None, "0192", 0)
    assert whole["started"] == "2026-11-30T12:00:00.123456Z"  # 23.456789 ms and the 100 ms to sent
    assert whole["server"] == {"kind": "llamacpp", "version": "b1", "url": "http://h:1", "local": True, "link": "none"}
    assert whole["model"] == {
        "name": "m",
        "file": "m.gguf",
        "arch": "llama",
        "parameters": 10,
        "quantisation": "Q4",
        "file_bytes": 7,
        "tensor_bytes": None,
        "read_bytes_per_token": 42,
        "context_trained": None,
        "layers": 32,
        "gpu_layers": 30,
    }
    assert (whole["host"]["cpu"], whole["host"]["cores"], whole["host"]["memory_total_bytes"]) == ("EPYC", 2, 67430248448)
    assert whole["sources"]["model.parameters"] == "estimate: from the file's size"


def test_settings_are_the_servers_then_asked_for_then_applied(session_of: Build, whole: dict[str, Any]) -> None:
    found = whole["settings"]
    assert (found["temperature"], found["batch"], found["max_tokens"], found["context"]) == (0.2, 512, 5, None)
    assert whole["sources"]["settings.batch"] == "default"
    assert "settings.temperature" not in whole["sources"]  # asked for
    assert "settings.context" in whole["unknown"]
    assert "settings.seed" not in whole["unknown"]
    applied = said(session_of(*WHOLE, at("request", 331, applied={"temperature": 0.3, "top_k": 40})))
    assert (applied["settings"]["temperature"], applied["settings"]["top_k"]) == (0.3, 40)


def test_texts_and_their_bytes(whole: dict[str, Any]) -> None:
    assert (whole["prompt"], whole["text"], whole["thinking"]) == ("hé", "A", "hm")
    assert (whole["prompt_bytes"], whole["text_bytes"], whole["thinking_bytes"]) == (3, 1, 2)
    assert whole["messages"] == [{"role": "user", "content": "hé"}]
    assert (whole["tools"], whole["tool_calls"]) == (None, [])


def test_seconds_are_rounded_at_the_borders(whole: dict[str, Any]) -> None:
    # Borders at 4.0004, 200.0006, 230.0004, 231.0001 ms after sent: 4000, 200001, 230000, 231000 µs.
    assert whole["phases"] == {
        "queue_s": 0.004,
        "load_s": 0.0,
        "prefill_s": 0.196001,
        "decode_s": 0.029999,
        "finish_s": 0.001,
        "waiting_s": 0.0,
        "wall_s": 0.231,
        "load": "warm",
    }
    assert whole["latency"]["ttft_s"] == 0.200001
    assert whole["latency"]["first_answer_s"] == 0.21


def test_figures(whole: dict[str, Any]) -> None:
    assert whole["tokens"] == {
        "prompt": 100,
        "prompt_sent": None,
        "cached": 20,
        "prefilled": 80,
        "output": 3,
        "thinking": 1,
        "answer": 2,
        "tool": 0,
        "chunks": 2,
        "drafted": None,
        "accepted": None,
    }
    assert whole["rates"]["decode_tok_per_s"] == pytest.approx(2 / 0.0299998, abs=1e-3)
    assert whole["rates"]["server_decode_tok_per_s"] == pytest.approx(66.667)
    assert whole["rates"]["tpot_ms"] == pytest.approx(14.9999)
    assert whole["latency"]["itl_ms"]["max"] == pytest.approx(20.0002)
    assert whole["server_timings"] == {"predicted_n": 3, "x": None}
    assert (whole["kv"]["tokens"], whole["kv"]["context"], whole["kv"]["slots"]) == (102, 4096, 2)
    assert whole["kv"]["full_in_s"] is None  # of 3,994 cells that are left the reply may take few
    assert whole["unknown"]["kv.full_in_s"].startswith("the reply ends before it is full, at ")
    assert whole["finish"] == {"reason": "stop", "detail": "eos", "error": None}


def test_notices_are_the_requests_and_those_of_its_time(whole: dict[str, Any]) -> None:
    assert whole["notices"] == [
        {"code": "stamps-read", "text": "z", "at_s": -0.1},
        {"code": "no-progress", "text": "x", "at_s": 0.1},
        {"code": "throttle", "text": "y", "at_s": 0.2},
    ]


def test_what_is_not_known_says_so(whole: dict[str, Any]) -> None:
    assert whole["gpus"] == []
    for group in ("roofline", "energy"):
        assert set(whole[group].values()) == {None}
        assert all(whole["unknown"][f"{group}.{name}"] for name in whole[group])
    assert whole["verdict"]["code"] == "limit-unknown"
    assert {"kv.used_bytes", "kv.allocated_bytes", "kv.bytes_per_token", "kv.next_token_bytes"} <= set(whole["unknown"])


def test_an_explanation_stands_only_for_a_null(whole: dict[str, Any]) -> None:
    def leaf(path: str) -> Any:
        value: Any = whole
        for key in path.split("."):
            value = value[key]
        return value

    for path in whole["unknown"]:
        value = leaf(path)
        assert value is None or value == [] or None in value.values(), path


def test_what_could_not_be_split_is_waiting(session_of: Build) -> None:
    session = session_of(
        *(
            hello(),
            {"k": "server", "t": 1, "v": 0},
            at("request", 10, v=0),
            {"k": "state", "t": 11 * MS, "v": 0, "s": "loading"},
        ),
        *({"k": "state", "t": 60 * MS, "v": 0, "s": "ready"}, at("state", 61, s="sent"), at("end", 110, finish="cancelled")),
    )
    phases = said(session)["phases"]
    assert (phases["queue_s"], phases["load_s"], phases["prefill_s"], phases["waiting_s"]) == (None, None, None, 0.1)
    assert (phases["wall_s"], phases["load"]) == (0.1, "cold")
    assert {"phases.queue_s", "phases.load_s", "phases.prefill_s"} <= set(said(session)["unknown"])


def test_errors_and_tool_calls(session_of: Build) -> None:
    failed = said(session_of(hello(), at("request", 10), at("end", 11, finish="error", error={"status": 400, "text": "no"})))
    assert failed["finish"] == {"reason": "error", "detail": None, "error": {"status": 400, "code": None, "text": "no"}}
    assert "finish.error.code" in failed["unknown"]
    assert "finish.error.text" not in failed["unknown"]
    call = at("tok", 20, x="{}", c="tool", tool={"index": 0, "name": "f"})
    called = said(session_of(hello(), at("request", 10), call, at("end", 21, finish="tool_calls")))
    assert called["tool_calls"] == [{"index": 0, "id": None, "name": "f", "arguments": "{}"}]
    assert "tool_calls" in called["unknown"]


def test_redacted_texts_are_null_and_their_bytes_stay(session_of: Build) -> None:
    found = said(
        session_of(
            hello(redacted=True),
            at("request", 10, messages=[{"role": "user", "content": 412}], tools=90),
            *(
                at("tok", 20, x=6),
                at("tok", 30, x=[1, 2], c="think"),
                at("tok", 31, x=4, c="tool", tool={"index": 0, "id": "i", "name": "f"}),
            ),
            at("end", 40, finish="error", error={"status": 500, "text": 8}),
        )
    )
    assert [found[key] for key in ("prompt", "messages", "tools", "text", "thinking")] == [None] * 5
    assert (found["prompt_bytes"], found["text_bytes"], found["thinking_bytes"]) == (412, 6, 3)
    assert found["tool_calls"] == [{"index": 0, "id": "i", "name": "f", "arguments": None}]
    assert found["finish"]["error"]["text"] is None
    assert {"prompt", "messages", "text", "tool_calls.arguments"} <= set(found["unknown"])


def test_nothing_is_known_of_a_session_without_descriptions(session_of: Build) -> None:
    found = said(session_of(at("tok", 20, x="a")))
    assert (found["started"], found["session_id"], found["model"]["name"], found["prompt"]) == (None, None, None, None)
    assert found["finish"]["reason"] is None
    assert {"started", "session_id", "prompt", "finish.reason"} <= set(found["unknown"])


def test_a_clock_that_cannot_be_is_unknown(session_of: Build) -> None:
    absurd = {**hello(), "anchor": {"mono": 0, "wall": 10**40}}
    assert said(session_of(absurd, at("request", 10), at("end", 11, finish="cut")))["started"] is None


def test_kept_under_a_name(session_of: Build) -> None:
    session = session_of(*WHOLE)
    assert said(session, kept_as="2026-m")["session"] == "2026-m"
    assert said(session, kept_as="bad\udcff")["session"] == "bad\N{REPLACEMENT CHARACTER}"


def test_as_of_a_cursor(session_of: Build) -> None:
    found = said(session_of(*WHOLE), cursor=305 * MS)
    assert (found["finish"]["reason"], found["tokens"]["output"], found["text"], found["thinking"]) == (None, 1, "", "hm")
    assert found["notices"][-1]["code"] == "throttle"


def test_one_line_or_indented() -> None:
    assert to_json({"a": [1, "é\n"]}, compact=True) == '{"a":[1,"é\\n"]}'
    assert to_json({"a": [1], "b": float("inf")}, compact=False) == '{\n  "a": [\n    1\n  ],\n  "b": null\n}'
