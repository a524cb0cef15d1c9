"""Real generations end to end: the embedded llama.cpp, and a real llama-server."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psutil
import pytest

from phasetop.lifeline import Start, Target
from phasetop.metrics import measure
from phasetop.recording import load
from phasetop.session import Run, Session

if TYPE_CHECKING:
    from tests.conftest import Collected, Home, LlamaServer, Spawn

Collect = Callable[..., "Collected"]
ENGINE = {"context": 2048, "batch": 512, "threads": 1}
PROMPT = "Name three rivers in Europe."


def embedded(model: Path, **settings: Any) -> Start:
    return Start(target=Target("embedded"), engine={"file": str(model), "settings": {**ENGINE, **settings}})


def plainly(url: str, prompt: str, **more: Any) -> dict[str, Any]:
    """The same request without phasetop, not streamed."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    body = {"messages": [{"role": "user", "content": prompt}], "temperature": 0, "cache_prompt": False, **more}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return dict(answer)


def text_of(run: Run) -> str:
    return "".join(part for part in run.tokens.text if isinstance(part, str))


def check_against_the_server(session: Session, run: Run, plain: dict[str, Any]) -> None:
    """Text, counts, bands and rates against the server's own words."""
    found = measure(session, run)
    usage = plain["usage"]
    assert text_of(run) == plain["choices"][0]["message"]["content"]
    assert found.tokens.output == usage["completion_tokens"]
    assert found.tokens.prompt == usage["prompt_tokens"]
    assert run.prompt.at() is not None
    assert run.prompt.at().n == usage["prompt_tokens"]  # type: ignore[union-attr]
    lengths = [band.t1 - band.t0 for band in found.phases.bands]
    assert sum(lengths) == found.phases.wall_ns
    # The last token and the end may come in one read: then there is no finish.
    shown = [band.phase for band in found.phases.bands if band.phase not in ("load", "finish")]
    assert shown == ["queue", "prefill", "decode"]
    timings = run.timings.last()
    assert timings is not None
    assert timings.prompt_ms is not None
    assert timings.gen_ms is not None
    waited = (found.phases.ns("queue") or 0) + (found.phases.ns("prefill") or 0)
    assert waited >= timings.prompt_ms * 1e6 - 2e6  # a busy machine may send the headers late, never the first token early
    decode = found.phases.ns("decode") or 0
    assert decode == pytest.approx(timings.gen_ms * 1e6, rel=0.25, abs=30e6)  # exact agreement: the recorded streams' tests


def test_the_embedded_model_end_to_end(collect: Collect, small_model: Path) -> None:
    one = collect(embedded(small_model))
    settings = {"temperature": 0, "max_tokens": 24, "cache_prompt": False}
    run = one.ended(one.ask(PROMPT, settings=settings))
    server = one.session.server_of(run)
    assert server is not None
    assert (server.backend, server.local) == ("embedded", True)
    assert server.url is not None
    check_against_the_server(one.session, run, plainly(server.url, PROMPT, max_tokens=24))
    found = measure(one.session, run)
    assert found.phases.load == "cold"
    assert (found.phases.ns("load") or 0) > 50_000_000
    assert found.kv.context == 2048
    again = one.ended(one.ask(PROMPT, settings={"temperature": 0, "max_tokens": 4}))
    assert measure(one.session, again).phases.load == "warm"
    assert measure(one.session, again).tokens.cached == (found.tokens.prompt or 0) - 1
    rss = one.session.series("server_rss_bytes")
    assert rss is None or all(value > 50_000_000 for value in rss.value)


def test_a_long_prompt_shows_its_progress_batch_by_batch(collect: Collect, small_model: Path) -> None:
    one = collect(embedded(small_model, batch=128))
    run = one.ended(one.ask("word " * 500, settings={"max_tokens": 2}))
    done = [p.done for p in run.progress.items]
    total = run.progress.items[0].total
    assert total is not None
    assert done[:4] == [0, 128, 256, 384]
    assert done[-1] == total
    assert all(p.total == total for p in run.progress.items)


def test_the_engine_dies_with_kill_9_and_the_reply_says_so(collect: Collect, small_model: Path) -> None:
    one = collect(embedded(small_model))
    r = one.ask("Tell a very long story.", settings={"max_tokens": 1500})
    one.until(lambda s: len(s.runs[r].tokens) >= 3)
    server = one.session.server_of(one.session.runs[r])
    assert server is not None
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    end = one.ended(r, 15).ends.last()
    assert end is not None
    assert (end.finish, end.detail) == ("cut", "server-lost")
    assert len(one.session.runs[r].tokens) >= 3


def test_kill_9_of_the_collector_takes_the_engine_along(collect: Collect, small_model: Path) -> None:
    one = collect(embedded(small_model))
    r = one.ask("Tell a very long story.", settings={"max_tokens": 1500})
    one.until(lambda s: len(s.runs[r].tokens) >= 2)
    server = one.session.server_of(one.session.runs[r])
    assert server is not None
    assert server.pid is not None
    engine = psutil.Process(server.pid)
    os.kill(one.lifeline.pid, signal.SIGKILL)
    assert psutil.wait_procs([engine], timeout=10)[1] == []


def test_a_broken_file_is_one_line(collect: Collect, tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(2000))
    one = collect(embedded(broken))
    end = one.ended(one.ask()).ends.last()
    assert end is not None
    assert end.finish == "error"
    assert end.error is not None
    assert "broken.gguf" in str(end.error.text)
    assert "\n" not in str(end.error.text)


def test_a_real_llama_server_end_to_end(collect: Collect, llama_server: LlamaServer) -> None:
    one = collect(llama_server.url)
    settings = {"temperature": 0, "max_tokens": 24, "cache_prompt": False, "logprobs": 3}
    run = one.ended(one.ask(PROMPT, settings=settings))
    check_against_the_server(one.session, run, plainly(llama_server.url, PROMPT, max_tokens=24))
    found = measure(one.session, run)
    assert found.phases.load == "warm"
    assert found.kv.context == 4096
    assert all(p <= 0 for p in run.tokens.logp[:-1])
    server = one.session.server_of(run)
    assert server is not None
    assert server.pid == llama_server.pid
    again = one.ended(one.ask(PROMPT, settings={"temperature": 0, "max_tokens": 2}))
    assert measure(one.session, again).tokens.cached is not None


def test_errors_of_a_real_llama_server(collect: Collect, llama_server: LlamaServer) -> None:
    one = collect(llama_server.url)
    end = one.ended(one.ask("word " * 6000)).ends.last()
    assert end is not None
    assert end.error is not None
    assert end.error.status == 400
    assert "4096" in str(end.error.text).replace(",", "")


def test_a_real_loading_server_is_waited_for(
    collect: Collect, llama_server: LlamaServer, small_model: Path, free_port: int, spawn: Spawn, tmp_path: Path
) -> None:
    argv = [str(llama_server.binary), "-m", str(small_model), "-c", "512", "-np", "1", "-t", "1", "--offline", "--no-webui"]
    with (tmp_path / "log").open("wb") as log:
        server = spawn([*argv, "--port", str(free_port)], stdout=log, stderr=log)
    address = f"http://127.0.0.1:{free_port}"
    end = time.monotonic() + 20
    while time.monotonic() < end:  # 503 from the first moment that it listens
        try:
            http.client.HTTPConnection("127.0.0.1", free_port, timeout=2).request("GET", "/health")
            break
        except OSError:
            time.sleep(0.01)
    one = collect(address)
    run = one.ended(one.ask("hi", settings={"max_tokens": 2}))
    assert run.ends.last().finish == "length"  # type: ignore[union-attr]
    assert server.poll() is None


def test_kills_at_random_moments_of_a_real_run_leave_nothing(state_home: Home, spawn: Spawn, small_model: Path) -> None:
    """phasetop run on the embedded model, killed with -9 while it starts, loads, and generates: no process stays."""
    argv = [sys.executable, "-m", "phasetop", "run", str(small_model), "-p", PROMPT, "-t", "1", "-b", "512", "-n", "400"]
    for moment_s in (0.1, 0.4, 0.9, 1.6):
        running = spawn(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=state_home.env
        )
        time.sleep(moment_s)  # the moment is the point
        family = psutil.Process(running.pid).children(recursive=True)
        running.kill()
        running.wait()
        assert psutil.wait_procs(family, timeout=15)[1] == []
    for path in (state_home.state / "phasetop" / "live").glob("*.phasetop"):
        if path.stat().st_size:
            session = load(path)
            assert session.bye is not None
            assert session.bad_lines == 0
