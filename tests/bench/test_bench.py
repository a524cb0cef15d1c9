"""`phasetop bench` as a process: over the metronome, the embedded engine, and a real llama-server."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from phasetop.cli import main
from phasetop.metrics import measure
from phasetop.recording import load
from phasetop.session import Session
from tests.tui.ptyterm import Terminal

if TYPE_CHECKING:
    from tests.conftest import Collected, Home, LlamaServer, Metronome, Spawn

Beat = Callable[..., "Metronome"]
Bench = Callable[..., subprocess.CompletedProcess[str]]
COMMAND = [sys.executable, "-m", "phasetop", "bench"]
SHORT = ["-G", "4", "-r", "2", "--precision", "none"]


@pytest.fixture
def bench(state_home: Home) -> Bench:
    """Run it with a home of its own, no terminal."""

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *arguments],
            env=state_home.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    return call


def recorded(home: Home) -> list[Session]:
    return [load(path) for path in sorted((home.state / "phasetop" / "recordings").glob("*.phasetop"))]


def labels(session: Session) -> list[dict[str, Any]]:
    return [dict((run.info.at() and run.info.at().labels) or {}) for run in session.runs.values()]  # type: ignore[union-attr]


def nulls(value: Any, path: str = "") -> set[str]:
    if isinstance(value, dict):
        return {each for key, inner in value.items() for each in nulls(inner, f"{path}.{key}".strip("."))}
    if isinstance(value, list):
        return {each for inner in value for each in nulls(inner, path)}
    return {path} if value is None else set()


def check_shape(told: dict[str, Any]) -> None:
    """What OUTPUTS.md promises of it, and that every null has its reason."""
    assert {"model", "server", "host", "gpus", "plan", "points", "fit", "predicted", "notices"} <= told.keys()
    assert set(told["fit"]) == {"ttft_s_per_token", "ttft_intercept_s", "r2"}
    for point in told["points"]:
        wanted = {"prompt_tokens", "prompt_words", "output_tokens", "depth", "parallel", "cached", "runs"}
        assert wanted <= point.keys()
        for name in ("prefill_tok_per_s", "decode_tok_per_s", "ttft_s"):
            assert list(point[name]) == ["mean", "sd", "ci95", "values"]
            assert len(point[name]["values"]) <= point["runs"]
    unknown, sources = told.pop("unknown"), told.pop("sources")
    by_nature = ("file", "cpu_quota_cores", "session")
    missing = {path for path in nulls(told) if path.rpartition(".")[2] not in by_nature} - unknown.keys()
    assert missing == set()
    assert all(unknown.values())
    assert all(sources.values())


def test_values_are_the_figures_of_the_kept_session(bench: Bench, metronome: Beat, state_home: Home) -> None:
    """The metronome: 512 tokens in 40 ms, then 9 tokens 5 ms apart, whatever is asked."""
    url = metronome(rate=200, tokens=9, prefill_ms=40, prompt=512).url
    done = bench(url, "--prompt-words", "20,60", *SHORT, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    check_shape(told)
    assert told["plan"]["stopped"] == "repeats"
    assert told["sessions"][0].endswith("llama3.1-8b-bench")
    (session,) = recorded(state_home)
    assert session.hello is not None
    assert session.hello.kind == "bench"
    assert session.bye is not None
    assert session.bye.reason in ("done", "stopped")
    found = labels(session)
    assert Counter((one["cell"], bool(one.get("warmup"))) for one in found) == {
        **{(cell, False): 2 for cell in ("20w", "60w")},
        **{(cell, True): 1 for cell in ("20w", "60w")},
    }
    for point in told["points"]:
        runs = [
            run
            for run, one in zip(session.runs.values(), found, strict=True)
            if one["words"] == point["prompt_words"] and not one.get("warmup")
        ]
        figures = [measure(session, run) for run in runs]
        assert point["runs"] == 2
        assert point["prefill_tok_per_s"]["values"] == pytest.approx([one.rates.prefill_per_s for one in figures], rel=1e-6)
        rates = [one.rates.decode_per_s for one in figures if one.rates.decode_per_s is not None]
        assert point["decode_tok_per_s"]["values"] == pytest.approx(rates, rel=1e-6)
        assert point["ttft_s"]["values"] == pytest.approx([(one.latency.ttft_ns or 0) / 1e9 for one in figures], rel=1e-6)
        assert point["prompt_tokens"] == 512
        assert point["output_tokens"] == 9
        took_ns = [run.tokens.t[len(run.tokens) - 1] - run.tokens.t[0] for run in runs]
        by_hand = [8e9 / ns for ns in took_ns if ns]  # a busy machine may read all of a reply at once: it has no rate
        assert point["decode_tok_per_s"]["values"] == pytest.approx(by_hand, rel=1e-6)
    prompts = [run.info.at().prompt for run in session.runs.values()]  # type: ignore[union-attr]
    assert all(isinstance(prompt, str) for prompt in prompts)
    assert len({str(prompt).split()[0] for prompt in prompts}) == len(prompts)  # nothing for a cache to find
    assert sorted(len(str(prompt).split()) for prompt in prompts) == [20] * 3 + [60] * 3


SHAPES = [[], ["--no-plot"], ["--json"], ["--json=compact"], ["--csv"], ["--md"], ["--benchstat"]]


def again(home: Home, *names: str, shape: list[str]) -> subprocess.CompletedProcess[bytes]:
    """A kept bench printed from its recordings."""
    argv = [*COMMAND, *(word for name in names for word in ("--from", name)), *shape]
    return subprocess.run(argv, env=home.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "".join(shape) or "text")
def test_the_recording_alone_prints_the_same_again(
    bench: Bench, metronome: Beat, state_home: Home, shape: list[str]
) -> None:
    """To the last byte, with a failure, several at once, and a reply that is too short."""
    script = [{"status": 500, "times": 3}, {"text": '{"error":{"code":500,"message":"out of luck","type":"server_error"}}'}]
    url = metronome(script=script, rate=1000, tokens=6, prefill_ms=5, prompt=77).url
    done = bench(url, "--prompt-words", "20,30", "--parallel", "1,2", *SHORT, "--redact", "--record=kept", *shape)
    read = again(state_home, "kept", shape=shape)
    assert read.returncode == 0
    assert read.stdout.decode() == done.stdout
    assert "out of luck" not in done.stdout  # the server's words, redacted
    if shape[:1] in (["--csv"], ["--md"], ["--benchstat"]):
        assert read.stderr.decode() == done.stderr


def test_what_was_interrupted_is_told_so_again(metronome: Beat, state_home: Home, spawn: Spawn) -> None:
    url = metronome(rate=50, tokens=40, prefill_ms=5).url
    more = [url, "--prompt-words", "20", "-r", "100", "--json=compact", "--record=left"]
    process = spawn([*COMMAND, *more], env=state_home.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    live = state_home.state / "phasetop" / "live"
    while not any(path.read_bytes().count(b'"k":"tok"') > 90 for path in live.glob("*.phasetop")):
        assert process.poll() is None  # a warm-up and a repeat of 40, and a part of the next
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    told = json.loads(out)
    assert (told["plan"]["stopped"], told["points"][0]["unfinished"], told["points"][0]["failed"]) == ("interrupted", 1, 0)
    assert again(state_home, "left", shape=["--json=compact"]).stdout.decode() == out


def test_a_recording_of_something_else_is_no_bench(
    metronome: Beat, state_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    url = metronome(rate=1000, tokens=4, prefill_ms=5).url
    run = [sys.executable, "-m", "phasetop", "run", url, "-p", "hi", "--record=a-run"]
    assert subprocess.run(run, env=state_home.env, capture_output=True, timeout=60, check=False).returncode == 0
    for arguments, says in (
        (["--from", "a-run"], "a-run is no bench's recording: `phasetop replay a-run` shows it"),
        (["--from", "a-rnu"], "is a-run meant?"),
        (["--from", "a-run", "-P", "64"], "--from measures nothing: --prompt-tokens has no part in it"),
        (["--from", "a-run", url], "--from measures nothing: a MODEL has no part in it"),
        (["--from", "a-run", "--csv", "--md"], "exclude each other"),
    ):
        assert main(["bench", *arguments]) == 2
        told = capsys.readouterr()
        assert says in told.err
        assert told.out == ""


def test_what_people_read(bench: Bench, metronome: Beat, state_home: Home) -> None:
    done = bench(metronome(rate=500, tokens=5, prefill_ms=20, prompt=100).url, "--prompt-words", "20", *SHORT, "--no-record")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert re.search(
        r"^prompt +100 tok · prefill +[\d.]+ ms \( *\d+ tok/s\) · decode 5 tok at +[\d.]+ tok/s$", done.stdout, re.M
    )
    assert any(line.split()[:3] == ["words", "prompt", "prefill"] for line in lines)
    assert any(line.startswith("repeats  2 of each") for line in lines)
    assert "Prefill reads" in done.stdout
    assert "kept" not in done.stdout
    assert recorded(state_home) == []


def test_tokens_that_nobody_counts_are_told_to_be_near(bench: Bench, metronome: Beat) -> None:
    """A plain OpenAI server: no counts beforehand, bare prompts have no way in, and the metronome always says 512."""
    url = metronome(rate=1000, tokens=4, prefill_ms=5, no_props=True).url
    done = bench(url, "-P", "64", *SHORT, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    check_shape(told)
    assert told["plan"]["api"] == "chat"
    near = [notice["text"] for notice in told["notices"] if notice["code"] == "prompt-near"]
    assert near == ["64: the prompt has 512 tokens, 64 were asked for"]


def test_a_request_that_fails_is_left_out(bench: Bench, metronome: Beat) -> None:
    """The first two requests get a 500, the warm-up among them; the others are counted."""
    script = [{"status": 500, "times": 2}, {"text": '{"error":{"code":500,"message":"out of luck","type":"server_error"}}'}]
    url = metronome(script=script, rate=1000, tokens=4, prefill_ms=5, no_props=True).url
    done = bench(url, "--prompt-words", "20,30", *SHORT, "--json")
    told = json.loads(done.stdout)
    failed = [notice["text"] for notice in told["notices"] if notice["code"] == "run-failed"]
    assert len(failed) == 2
    assert all("out of luck" in text for text in failed)
    assert [point["runs"] for point in told["points"]] == [2, 2]
    assert [point["failed"] for point in told["points"]] == [1, 1]
    assert done.returncode == 0, done.stderr


def test_nothing_but_failures_is_1(bench: Bench, metronome: Beat, free_port: int, state_home: Home) -> None:
    chunk = 'data: {"choices":[{"index":0,"delta":{"content":"half"}}]}\n\n'
    cut = bench(metronome(script=[{"text": chunk}, {"close": True}], no_props=True).url, "--prompt-words", "20", *SHORT)
    assert cut.returncode == 1
    assert cut.stdout == ""
    assert "closed the connection before the reply was whole" in cut.stderr
    nobody = bench(f"http://127.0.0.1:{free_port}", "--json=compact", *SHORT)
    assert nobody.returncode == 1
    assert nobody.stderr.count("\n") == 1
    assert "nothing listens" in nobody.stderr
    assert [point["runs"] for point in json.loads(nobody.stdout)["points"]] == [0, 0, 0]
    assert recorded(state_home) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--json", "--csv"], "exclude each other"),
        (["--record=x", "--no-record"], "exclude each other"),
        (["http://127.0.0.1:9", "--sweep", "threads=1,2"], "engines of its own"),
        (["--sweep", "threads=1,2", "--record=./x.phasetop"], "a session for each engine"),
        (["--tui", "http://127.0.0.1:9"], "terminal"),
        (["no model at all"], "-p"),
        (["--time", "never"], "--time"),
    ],
)
def test_wrong_usage_is_2(arguments: list[str], says: str, state_home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *arguments]) == 2
    told = capsys.readouterr()
    assert says in told.err
    assert told.out == ""
    assert not list(state_home.state.rglob("*.phasetop"))  # nothing was started


def test_ctrl_c_prints_what_there_is(metronome: Beat, state_home: Home, spawn: Spawn) -> None:
    url = metronome(rate=1000, tokens=4, prefill_ms=5).url
    more = [url, "--prompt-words", "20", "-r", "100", "--json=compact", "--record=cut-short"]
    process = spawn([*COMMAND, *more], env=state_home.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    live = state_home.state / "phasetop" / "live"
    while not any(path.read_bytes().count(b'"k":"end"') > 3 for path in live.glob("*.phasetop")):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    told = json.loads(out)
    assert told["plan"]["stopped"] == "interrupted"
    assert 2 <= told["points"][0]["runs"] < 100
    assert told["sessions"] == ["cut-short"]
    assert len(recorded(state_home)) == 1


def test_the_live_view_drives_it(metronome: Beat, state_home: Home) -> None:
    """It stays when all is done; what was found stands where the view was."""
    url = metronome(rate=1000, tokens=4, prefill_ms=5, prompt=77).url
    more = [url, "--prompt-words", "20", "-r", "3", "--precision", "none", "--no-plot", "--tui"]
    env = {**state_home.env, "TERM": "xterm-256color"}
    live = state_home.state / "phasetop" / "live"
    with Terminal([*COMMAND, *more], size=(100, 30), env=env) as terminal:
        terminal.until(lambda: "bench" in terminal.text and "quit" in terminal.text, 30)
        terminal.until(lambda: any(b'"k":"bye"' in path.read_bytes() for path in live.glob("*.phasetop")), 30)
        terminal.send("q")
        terminal.until(lambda: b"kept     as" in terminal.raw, 30)
        text = terminal.raw.decode(errors="replace")
    assert "prompt   77 tok" in text
    assert "repeats  3 of each" in text


def test_the_time_is_up(bench: Bench, metronome: Beat) -> None:
    url = metronome(rate=100, tokens=11, prefill_ms=100).url
    done = bench(url, "--prompt-words", "20", "-r", "100", "--time", "0.5s", "--json")
    told = json.loads(done.stdout)
    assert told["plan"]["stopped"] == "time"
    assert told["points"][0]["runs"] < 100


def test_a_request_that_goes_on_when_the_time_is_up_is_cancelled(bench: Bench, metronome: Beat, state_home: Home) -> None:
    """The server writes for ten minutes: not even the warm-up ends."""
    url = metronome(rate=10, tokens=6000, prefill_ms=1, no_props=True).url
    script = ["--prompt-words", "20", "-r", "3", "--time", "1s", "-G", "5000", "--chat", "--record=cut", "--json=compact"]
    done = bench(url, *script)
    told = json.loads(done.stdout)
    assert told["plan"]["stopped"] == "time"
    (point,) = told["points"]
    assert (point["runs"], point["failed"]) == (0, 0)
    assert point["decode_tok_per_s"]["values"] == []
    assert done.returncode == 1
    assert recorded(state_home) == []
    assert "nothing was measured in the time that was given" in done.stderr


def test_the_embedded_engine(bench: Bench, small_model: Path, state_home: Home) -> None:
    """Exact lengths, a filled context, the cache told off and used; and the bare lengths in other formats."""
    engine = ["-t", "1", "-b", "64", "-c", "1024"]
    done = bench(str(small_model), "-P", "40", "-d", "0,96", "--cached", *SHORT, *engine, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    check_shape(told)
    assert [(p["prompt_tokens"], p["depth"], p["cached"], p["output_tokens"]) for p in told["points"]] == [
        *((40, 0, 0, 4), (40, 96, 96, 4), (40, 0, 24, 4)),
    ]
    assert told["server"]["kind"] == "embedded"
    assert told["settings"]["batch"] == 64
    assert not {"prompt-near", "cache-hit", "cache-missed", "reply-short"} & {n["code"] for n in told["notices"]}
    (session,) = recorded(state_home)
    for run, one in zip(session.runs.values(), labels(session), strict=True):
        found = measure(session, run)
        if not one.get("fill"):
            wished = (one.get("depth") or 0) + one["tokens"]
            assert found.tokens.prompt == wished
            assert found.tokens.cached == (one.get("depth") or (24 if one.get("cached") else 0))
        info = run.info.at()
        assert info is not None
        assert (info.asked or {})["ignore_eos"] is True
        assert found.tokens.output == one["output"]
        assert found.finish.reason == "length"


def test_a_sweep_has_an_engine_for_each_value(bench: Bench, small_model: Path, state_home: Home) -> None:
    engine = ["-t", "1", "-c", "512"]
    done = bench(str(small_model), "-P", "48", "-G", "12", "-r", "1", "--sweep", "ubatch=16,48", *engine, "--md")
    assert done.returncode == 0, done.stderr
    rows = [re.split(r" *\| *", line)[1:-1] for line in done.stdout.splitlines() if line.startswith("| Smol")]
    assert [row[:-1] for row in rows] == [
        ["SmolLM2-135M-Instruct.Q4_1", "92.10 MiB", "134.52 M", "embedded", "1", ubatch, test]
        for ubatch in ("16", "48")
        for test in ("pp48", "tg12 @ d48")
    ]
    sessions = recorded(state_home)
    started = []
    for session in sessions:
        assert {one["ubatch"] for one in labels(session)} == {started_with(session, "ubatch")}
        started.append(started_with(session, "ubatch"))
    assert sorted(started) == [16, 48]
    names = sorted(path.stem for path in (state_home.state / "phasetop" / "recordings").glob("*.phasetop"))
    assert [name.rpartition("-")[2] for name in names] == ["16", "48"]
    assert again(state_home, *names, shape=["--md"]).stdout.decode() == done.stdout


def started_with(session: Session, name: str) -> Any:
    server = session.servers[0].at()
    assert server is not None
    assert server.options is not None
    return server.options[name].value


def test_a_real_llama_server(bench: Bench, llama_server: LlamaServer, collect: Callable[..., Collected]) -> None:
    """One slot: two at once wait for each other, and the bench says so; what it counts is what a request has."""
    told = json.loads(bench(llama_server.url, "-P", "24", "--parallel", "1,2", *SHORT, "--json").stdout)
    check_shape(told)
    alone, both = told["points"]
    assert (alone["prompt_tokens"], alone["cached"], alone["output_tokens"]) == (24, 0, 4)
    assert both["parallel"] == 2
    assert both["mbu_percent"]["values"] == []
    assert both["aggregate"]["decode_tok_per_s"]["mean"] > 0
    assert [notice["code"] for notice in told["notices"] if notice["code"] == "few-slots"] == ["few-slots"]
    assert told["model"]["parameters"] == 134_515_008
    counted = collect(llama_server.url)
    counted.until(lambda s: s.server_states.items and s.server_states.items[-1].s == "ready")
    text = "water time year people"
    asked = counted.ended(counted.ask(text, api="raw", settings={"max_tokens": 1}))
    prompt = measure(counted.session, asked).tokens.prompt
    command = counted.lifeline.count(api="raw", messages=None, prompt=text)
    answer = counted.until(lambda s: next((c for c in s.controls.items if c.id == command), None))
    assert (answer.ok, answer.n) == (True, prompt)


def test_a_length_beyond_the_trained_context_is_refused_and_takes_no_memory(bench: Bench, small_model: Path) -> None:
    """SmolLM2-135M was trained for 8,192; a cache of 999,999 cells would be 22 GB."""
    done = bench(str(small_model), "-P", "999999", "-G", "8", "--no-record", "-t", "1", "-b", "64")
    assert done.returncode == 1, done.stderr
    assert "1,000,007 tokens do not fit in the server's context of 8,192" in done.stderr
