"""docs/events.schema.json is what the code says, refuses what cannot be, and holds of what really is recorded."""

from __future__ import annotations

import base64
import json
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from phasetop import codec
from phasetop import events as ev

if TYPE_CHECKING:
    from tests.conftest import Held, Home, LlamaServer, Metronome

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "docs" / "events.schema.json"
EXAMPLES = ROOT / "tests" / "data" / "events-format-1.jsonl"
SECRET = "the-heron-sleeps"


def record(home: Home, file: Path, *arguments: str) -> None:
    """`phasetop run … --record=FILE`, as a process."""
    argv = [sys.executable, "-m", "phasetop", "run", *arguments, f"--record={file}"]
    done = subprocess.run(
        argv, env=home.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=90, check=False, cwd=home.path
    )
    assert done.returncode == 0, done.stderr.decode()


def lines(file: Path, kind: str) -> list[dict[str, Any]]:
    return [event for line in file.read_bytes().splitlines() if (event := json.loads(line))["k"] == kind]


def test_the_file_is_what_the_code_says() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "events_schema.py"))
    assert SCHEMA.read_text(encoding="utf-8") == made["text"](), "run: python scripts/events_schema.py"


def test_it_is_the_same_by_every_msgspec(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.21 has null first where 0.23 has it last."""
    real = msgspec.json.schema

    def with_null_first(value: Any) -> Any:
        if isinstance(value, list):
            return sorted(map(with_null_first, value), key=lambda each: each != {"type": "null"})
        return {key: with_null_first(each) for key, each in value.items()} if isinstance(value, dict) else value

    written = codec.json_schema()
    monkeypatch.setattr("msgspec.json.schema", lambda kind: with_null_first(real(kind)))
    assert json.dumps(codec.json_schema()) == json.dumps(written)


def test_it_takes_the_examples(held_to_schema: Held, tmp_path: Path) -> None:
    assert sum(held_to_schema(EXAMPLES).values()) == len(EXAMPLES.read_bytes().splitlines())


@pytest.mark.parametrize(
    "line",
    [
        {"k": "tok", "t": 1},  # whose?
        {"k": "tok", "t": -1, "r": 0},
        {"k": "tok", "t": 1.5, "r": 0},
        {"k": "tok", "t": 1, "r": 0, "x": None},
        {"k": "tok", "t": 1, "r": 0, "n": -1},
        {"k": "smp", "t": 1, "t0": 0, "v": {"0": "fast"}},
        {"k": "end", "t": 1, "r": 0},
        {"k": "bye", "t": 2**53, "reason": "done"},
        {"k": "hello", "t": 0, "format": 1},
        {"t": 0},
    ],
)
def test_it_refuses_what_cannot_be(line: dict[str, Any]) -> None:
    from jsonschema import Draft202012Validator

    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    assert not Draft202012Validator(schema).is_valid(line)
    with pytest.raises(codec.BadLine):  # and so does the reader
        codec.decode(json.dumps(line).encode())


def test_the_embedded_model(held_to_schema: Held, state_home: Home, small_model: Path, tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="the embedded engine is not installed; make setup gets it")
    file = tmp_path / "embedded.phasetop"
    record(state_home, file, str(small_model), "-p", "Name three rivers.", "-n", "8", "-t", "1", "-c", "512", "-b", "128")
    counts = held_to_schema(file)
    assert {"hello", "server", "model", "series", "request", "state", "prog", "tok", "timings", "end", "bye"} <= set(counts)
    assert lines(file, "bye")[0]["lines"] == sum(counts.values()) - 1


def test_a_llama_server_with_logprobs_redacted_and_not(
    held_to_schema: Held, state_home: Home, llama_server: LlamaServer, tmp_path: Path
) -> None:
    told, silent = tmp_path / "told.phasetop", tmp_path / "silent.phasetop"
    asked = [llama_server.url, "-p", f"Say: {SECRET}", "-n", "6", "--logprobs", "3", "--temp", "0"]
    record(state_home, told, *asked)
    record(state_home, silent, *asked, "--redact")
    assert held_to_schema(told).keys() == held_to_schema(silent).keys()
    for line in lines(told, "tok"):
        assert "p" in line
        assert len(line.get("top", [0] * 6)) == 6
    assert SECRET in told.read_text(encoding="utf-8")
    assert SECRET not in silent.read_text(encoding="utf-8")
    assert [ev.text_bytes(line["x"]) for line in lines(told, "tok")] == [line["x"] for line in lines(silent, "tok")]


def test_a_hostile_server(
    held_to_schema: Held, state_home: Home, metronome: Callable[..., Metronome], tmp_path: Path
) -> None:
    def data(**choice: Any) -> dict[str, str]:
        return {"text": f"data: {json.dumps({'choices': [{'index': 0, 'finish_reason': None, **choice}]})}\n\n"}

    def raw(data: bytes) -> dict[str, str]:
        return {"b64": base64.b64encode(data).decode()}

    cut = 'data: {"choices":[{"index":0,"delta":{"content":"é🦙"}}]}\n\n'.encode()
    at = cut.index("é".encode()) + 1  # in the middle of it
    call = {"index": 0, "id": "c1\x1b]0;x\x07", "type": "function", "function": {"name": "w\ud800", "arguments": "{"}}
    odd = {"token": "\ufffd", "bytes": [240, 159], "logprob": float("-inf"), "top_logprobs": []}
    script = [
        {"text": ": a comment\nevent: nonsense\nretry: 3\n\n"},
        data(delta={"role": "assistant", "content": None}),
        data(delta={"content": "\x1b[2J\x00\x9b31m\u202elone \ud83d surrogate\u2028"}),
        raw(cut[:at]),
        raw(cut[at:]),
        raw(b'data: {"choices":[{"index":0,"delta":{"content":"\xff\xfe"}}]}\n\n'),
        data(delta={"content": "x"}, logprobs={"content": [odd]}),
        data(delta={"reasoning_content": "hm" * 50_000}),
        data(delta={"tool_calls": [call]}),
        {"text": "data: {}\n\ndata: []\n\ndata: 1e999\n\n"},
        data(delta={}, finish_reason="banana"),
        {"text": 'data: {"usage":{"completion_tokens":-4,"prompt_tokens":99999999999999999999}}\n\ndata: [DONE]\n\n'},
    ]
    file = tmp_path / "hostile.phasetop"
    record(state_home, file, metronome(script=script, no_props=True).url, "-p", "hi \x1b[31m")
    counts = held_to_schema(file)
    assert counts["tok"] >= 6
    assert counts["end"] == 1
