"""`phasetop kv` against what llama-server really allocated and used: every case, every field."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from phasetop.cli import main

DATA = Path(__file__).parents[1] / "data" / "kv"
SMALL = "SmolLM2-135M-Instruct.Q4_1.gguf"
CASES: list[dict[str, Any]] = [json.loads(line) for line in (DATA / "truth.jsonl").read_text().splitlines()]
POINTS: list[dict[str, Any]] = [json.loads(line) for line in (DATA / "fill.jsonl").read_text().splitlines()]


def file_of(name: str, request: pytest.FixtureRequest) -> str:
    path = request.getfixturevalue("small_model") if name == SMALL else DATA / "headers" / name
    return str(path)


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    status = main(["kv", *argv])
    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    return dict(json.loads(out))


def check(found: dict[str, Any], truth: dict[str, Any]) -> None:
    """Every field of the truth: those of the options stand in ``options``, and kv_unified is a word there."""
    options = {name: truth[name] for name in ("n_ctx", "n_ctx_seq", "n_seq_max", "n_ubatch")}
    options["kv_unified"] = {"true": True, "false": False}[truth["kv_unified"]]
    assert {name: found["options"][name] for name in options} == options
    rest = {name: value for name, value in truth.items() if name not in options}
    assert {name: found[name] for name in rest} == rest
    assert "arch-unknown" not in found["assumed"]


def test_there_are_as_many_cases_as_there_should_be() -> None:
    assert (len(CASES), len(POINTS)) == (241, 154)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_what_is_allocated(case: dict[str, Any], capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> None:
    check(said(capsys, file_of(case["gguf"], request), "--json", "--", *case["argv"]), case["truth"])


def test_what_is_occupied(capsys: pytest.CaptureFixture[str]) -> None:
    for point in POINTS:
        file = str(DATA / "headers" / point["gguf_file"])
        server = ["-np", "1", "-c", str(point["n_ctx"]), "-ub", str(point["n_ubatch"])]
        found = said(capsys, file, "--json=compact", "--fill", str(point["n_past"]), "--", *server)
        expected = {"n_past": point["n_past"], "caches": point["caches"], "occupied_bytes": point["occupied_bytes"]}
        assert found["fill"] == expected, point


def test_the_next_token_adds_what_the_points_say(capsys: pytest.CaptureFixture[str]) -> None:
    """Between two measured points the occupied bytes grow by so much a token; past its window gemma3 has one dense layer."""
    file = str(DATA / "headers" / "gemma3.gguf")
    options = ["--", "-np", "1", "-c", "4096"]
    early, late = (said(capsys, file, "--json", "--fill", n, *options) for n in ("100", "2000"))
    assert (
        early["next_token_bytes"] == early["bytes_per_token"] == (403456 - 204800) // (197 - 100)
    )  # two lines of fill.jsonl
    assert late["next_token_bytes"] == early["bytes_per_token"] // 8


@pytest.mark.parametrize("id_", ["gemma3.ub2048", "llama-gqa.perslot", "qwen35-nextn.mtp", "deepseek32-dsa.C", "mimo2.F"])
def test_as_a_process(id_: str, request: pytest.FixtureRequest) -> None:
    case = next(case for case in CASES if case["id"] == id_)
    command = [sys.executable, "-m", "phasetop", "kv", file_of(case["gguf"], request), "--json", "--", *case["argv"]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    check(json.loads(done.stdout), case["truth"])
