"""`phasetop compare`: hand-made recordings whose rates, ratios and intervals are worked out by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from math import exp, log, sqrt
from pathlib import Path
from typing import Any

import pytest

from phasetop import student
from phasetop.cli import main
from tests.core.test_kv_figures import ARGV, LLAMA

MS = 1_000_000


def record(path: Path, gaps_ms: Sequence[float], *, prompt: str = "hi", tokens: int = 20, **how: Any) -> str:
    """A recording with a request for each gap: 10 ms of prefill a prompt token, then ``tokens`` at that gap."""
    prompt_n, option = how.get("prompt_n", 10), {"value": how.get("batch", 512), "from": "argv"}
    events: list[dict[str, Any]] = [
        {"k": "hello", "t": 0, "format": 1, "session": "s", "anchor": {"mono": 5, "wall": 9}, "by": "phasetop 1"},
        {"k": "server", "t": 1, "v": 0, "backend": "llamacpp", "options": {"batch": option}},
        {"k": "model", "t": 2, "m": 0, "v": 0, "name": "m", "quant": how.get("quant", "Q8_0")},
    ]  # fmt: skip
    t = 3
    for r, gap in enumerate(gaps_ms):
        labels = {"warmup": True} if how.get("warmup") == r else {"cell": how["cells"][r]} if "cells" in how else {}
        said = [{"role": "user", "content": prompt}]
        events.append({"k": "request", "t": t, "r": r, "v": 0, "m": 0, "api": "chat", "messages": said, "labels": labels})
        events.append({"k": "state", "t": t, "r": r, "s": "sent"})
        events.append({"k": "state", "t": t, "r": r, "s": "headers"})
        events.append({"k": "prog", "t": t, "r": r, "total": prompt_n, "done": 0, "cached": 0, "from": "server"})
        t += prompt_n * 10 * MS
        for _ in range(tokens):
            events.append({"k": "tok", "t": t, "r": r, "x": "a"})
            t += round(gap * MS)
        t -= round(gap * MS)
        counted = {"prompt_n": prompt_n, "cached_n": 0, "gen_n": tokens}
        events.append(
            {"k": "timings", "t": t, "r": r, **counted, "prompt_ms": prompt_n * 10.0, "gen_ms": gap * (tokens - 1)}
        )
        events.append({"k": "end", "t": t, "r": r, "finish": how.get("finish", "stop")})
        t += MS
    events.append({"k": "bye", "t": t, "reason": "done", "lines": len(events)})
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return str(path)


def compared(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert main(["compare", *argv, "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    told["by_name"] = {metric["name"]: metric for metric in told["metrics"]}
    return told


def test_interval_is_welchs_on_the_logarithms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = record(tmp_path / "a.phasetop", [10.0, 10.5, 11.0])
    b = record(tmp_path / "b.phasetop", [5.0, 5.5, 6.5], quant="Q4_0", batch=2048)
    told = compared(capsys, a, b)
    decode = told["by_name"]["decode_tok_per_s"]
    first, second = ([log(1000 / gap) for gap in gaps] for gaps in ((10.0, 10.5, 11.0), (5.0, 5.5, 6.5)))
    means = [sum(logs) / 3 for logs in (first, second)]
    squares = [sum((x - m) ** 2 for x in logs) / 2 / 3 for logs, m in zip((first, second), means, strict=True)]
    freedom = sum(squares) ** 2 / sum(part**2 / 2 for part in squares)
    assert 2 < freedom < 3
    reach = student.quantile(0.95, freedom) * sqrt(sum(squares))
    assert decode["ratio"] == pytest.approx(exp(means[1] - means[0]), rel=1e-4)
    assert decode["ci95"] == pytest.approx([exp(means[1] - means[0] - reach), exp(means[1] - means[0] + reach)], rel=1e-4)
    assert (decode["verdict"], decode["like"], decode["runs"]) == ("better", True, {"a": 3, "b": 3})
    assert {(each["what"], each["a"], each["b"]) for each in told["differences"]} == {
        ("model.quantisation", "Q8_0", "Q4_0"),
        ("settings.batch", 512, 2048),
    }
    assert told["by_name"]["prefill_tok_per_s"]["verdict"] == "same"
    assert told["by_name"]["j_per_output_token"]["why"] == "not known of A and B"


def test_one_run_a_side_has_a_ratio_and_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = record(tmp_path / "a.phasetop", [10.0]), record(tmp_path / "b.phasetop", [8.0])
    told = compared(capsys, a, b)
    decode = told["by_name"]["decode_tok_per_s"]
    assert (decode["a"], decode["b"], decode["ratio"]) == (100.0, 125.0, 1.25)
    assert (decode["ci95"], decode["verdict"]) == (None, "too-little-data")
    assert main(["compare", a, b, "--fail-if-worse", "5%"]) == 3
    out, err = capsys.readouterr()
    assert "B decodes 1.25 times as fast as A." in out
    assert "3 runs a side are needed (there are 1 and 1)" in out
    assert "too little data" in err


def test_figures_of_several_requests_are_told_as_means(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = record(tmp_path / "a.phasetop", [10.0, 30.0]), record(tmp_path / "b.phasetop", [10.0])
    assert main(["compare", a, b]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^A .* 2 requests \(mean of 2\)", text, re.M)
    assert re.search(r"^B .* 1 request  ", text, re.M)


def test_worse_beyond_the_noise_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = record(tmp_path / "a.phasetop", [10.0, 10.01, 10.02])
    b = record(tmp_path / "b.phasetop", [10.8, 10.81, 10.82])  # 7.4 % slower
    assert main(["compare", a, b, "--fail-if-worse", "5%"]) == 1
    assert "decode_tok_per_s is worse by at least 7." in capsys.readouterr().err
    assert main(["compare", a, b, "--fail-if-worse", "10%"]) == 0
    assert main(["compare", b, a, "--fail-if-worse", "5%"]) == 0
    assert main(["compare", a, b, "--fail-if-worse", "5"]) == 2
    assert "a share of A's figure" in capsys.readouterr().err


def test_several_files_a_side_and_warm_ups_and_failures_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gaps = (10.0, 10.1, 10.2, 5.0, 5.1, 5.2)
    files = [record(tmp_path / f"{gap}.phasetop", [90.0, gap], warmup=0) for gap in gaps]
    failed = record(tmp_path / "f.phasetop", [70.0], finish="cut")
    told = compared(capsys, *files[:3], failed, "--", *files[3:])
    decode = told["by_name"]["decode_tok_per_s"]
    assert decode["runs"] == {"a": 3, "b": 3}
    assert decode["ratio"] == pytest.approx((10.0 * 10.1 * 10.2 / (5.0 * 5.1 * 5.2)) ** (1 / 3), rel=1e-4)


def test_cells_are_compared_with_their_own_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Cell y is ten times slower than x, on both sides: only B's 2 against A's is left, and it has no spread."""
    a = record(tmp_path / "a.phasetop", [10.0, 10.0, 100.0, 100.0], cells=["x", "x", "y", "y"])
    b = record(tmp_path / "b.phasetop", [5.0, 50.0, 50.0, 5.0], cells=["x", "y", "y", "x"])
    decode = compared(capsys, a, b)["by_name"]["decode_tok_per_s"]
    assert decode["ratio"] == pytest.approx(2.0)
    assert decode["ci95"] == pytest.approx([2.0, 2.0])
    assert decode["verdict"] == "better"


def test_replies_are_cut_to_the_shortest_for_decode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A's long reply slows down after B's end: only its like part counts."""
    a = record(tmp_path / "a.phasetop", [10.0], tokens=10)
    slow = (tmp_path / "a.phasetop").read_text().splitlines()
    at = max(i for i, line in enumerate(slow) if '"tok"' in line)
    last = json.loads(slow[at])
    late = [json.dumps({**last, "t": last["t"] + i * 1000 * MS}) for i in range(1, 6)]
    end = last["t"] + 5000 * MS
    tail = [json.dumps({**json.loads(line), "t": end}) for line in slow[at + 1 :] if '"timings"' not in line]
    (tmp_path / "a.phasetop").write_text("\n".join([*slow[: at + 1], *late, *tail]) + "\n")
    b = record(tmp_path / "b.phasetop", [10.0], tokens=10)
    decode = compared(capsys, a, b)["by_name"]["decode_tok_per_s"]
    assert decode["ratio"] == pytest.approx(1.0)


def test_unlike_prompts_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = record(tmp_path / "a.phasetop", [10.0])
    b = record(tmp_path / "b.phasetop", [10.0], prompt="something else", prompt_n=40)
    assert not compared(capsys, a, b)["by_name"]["prefill_tok_per_s"]["like"]
    assert main(["compare", a, b]) == 0
    assert "The prompts differ" in capsys.readouterr().out
    for gap in (10.0, 20.0):  # neither good nor bad can be said
        a = record(tmp_path / "a.phasetop", [10.0, 10.0, 10.0])
        b = record(tmp_path / "b.phasetop", [gap, gap, gap], prompt="something else")
        assert main(["compare", a, b, "--fail-if-worse", "5%"]) == 3
        assert "the same prompts" in capsys.readouterr().err


def changed(path: Path, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> str:
    """The recording with each event changed, or (None) left out."""
    events = [change(json.loads(line)) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(event) + "\n" for event in events if event is not None))
    return str(path)


def test_what_a_bench_put_into_the_cache_first_is_no_run_of_its_cell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def label(event: dict[str, Any]) -> dict[str, Any]:
        return {**event, "labels": {"cell": "4@8", "fill": event["r"] == 0}} if event["k"] == "request" else event

    record(tmp_path / "a.phasetop", [10.0, 20.0, 20.0])
    a = changed(tmp_path / "a.phasetop", label)
    decode = compared(capsys, a, a)["by_name"]["decode_tok_per_s"]
    assert (decode["runs"], decode["a"]) == ({"a": 2, "b": 2}, pytest.approx(50.0))


def test_redacted_prompts_of_unknown_length_are_not_taken_for_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def redact(event: dict[str, Any]) -> dict[str, Any] | None:
        if event["k"] == "request":
            return {**event, "messages": [{"role": "user", "content": 5}]}
        return None if event["k"] in ("prog", "timings") else event

    for name in ("a", "b"):
        record(tmp_path / f"{name}.phasetop", [10.0])
    a, b = (changed(tmp_path / f"{name}.phasetop", redact) for name in ("a", "b"))
    assert not compared(capsys, a, b)["by_name"]["decode_tok_per_s"]["like"]


@pytest.mark.parametrize("redacted", ["ab", "b"])
def test_redacted_prompts_of_as_many_tokens_count_as_the_same_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], redacted: str
) -> None:
    def redact(event: dict[str, Any]) -> dict[str, Any]:
        return {**event, "messages": [{"role": "user", "content": 5}]} if event["k"] == "request" else event

    paths = {name: record(tmp_path / f"{name}.phasetop", [step]) for name, step in (("a", 10.0), ("b", 20.0))}
    for name in redacted:
        changed(Path(paths[name]), redact)
    found = compared(capsys, paths["a"], paths["b"])
    assert found["like_by"] == ["tokens"]
    assert found["by_name"]["decode_tok_per_s"]["like"]
    assert main(["compare", paths["a"], paths["b"]]) == 0
    assert capsys.readouterr().out.startswith(
        "Texts were left out of a recording (--redact): prompts of as many tokens count as the same.\n"
    )


def test_redacted_prompts_of_other_lengths_are_no_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def redact(more: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
        def change(event: dict[str, Any]) -> dict[str, Any]:
            if event["k"] == "request":
                return {**event, "messages": [{"role": "user", "content": 5}]}
            return {**event, "prompt_n": event["prompt_n"] + more} if event["k"] == "timings" else event

        return change

    paths = [record(tmp_path / f"{name}.phasetop", [10.0]) for name in ("a", "b")]
    a, b = (changed(Path(path), redact(more)) for path, more in zip(paths, (0, 3), strict=True))
    assert compared(capsys, a, b)["like_by"] == []
    assert main(["compare", a, b]) == 0
    assert "The prompts' texts were left out, and their lengths differ" in capsys.readouterr().out


def test_one_run_a_side_has_no_verdict_on_what_is_allocated_either(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The contract; the words for people say what there is all the same."""
    options = {name: {"value": value, "from": source} for name, (value, source) in ARGV.items()}

    def with_cache(event: dict[str, Any]) -> dict[str, Any]:
        if event["k"] == "model":
            return {**event, "arch": "llama", "hparams": LLAMA}
        return {**event, "options": options} if event["k"] == "server" else event

    for runs, verdict in ((1, "too-little-data"), (2, "same")):
        record(tmp_path / "a.phasetop", [10.0] * runs)
        a = changed(tmp_path / "a.phasetop", with_cache)
        found = compared(capsys, a, a)["by_name"]["kv_bytes_per_token"]
        assert (found["ratio"], found["verdict"]) == (1.0, verdict)
        assert main(["compare", a, a]) == 0
        (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("KV a token"))
        assert row.endswith("equal")


def test_a_side_without_a_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = record(tmp_path / "a.phasetop", []), record(tmp_path / "b.phasetop", [10.0])
    assert main(["compare", a, b]) == 0
    assert "A has no request that came to its end" in capsys.readouterr().out
    assert main(["compare", a]) == 2
    assert "two recordings" in capsys.readouterr().err
