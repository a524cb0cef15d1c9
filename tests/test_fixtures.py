"""The fixtures themselves: what they start answers, and what they promise about the environment holds."""

from __future__ import annotations

import json
import os
import socket
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from subprocess import DEVNULL
from typing import TYPE_CHECKING, Any

import platformdirs
import psutil

if TYPE_CHECKING:
    from tests.conftest import Home, LlamaServer, Metronome, Spawn

CONFTEST = Path(__file__).with_name("conftest.py")
INNER = """
import pathlib, sys
STUBBORN = "import signal; signal.signal(15, signal.SIG_IGN); print(flush=True); signal.pause()"
def test_inner(spawn):
    child = spawn([sys.executable, "-c", STUBBORN], stdout=-1)
    child.stdout.readline()
    pathlib.Path({pids!r}).write_text(str(child.pid))
    assert False
"""


def ask(url: str, body: dict[str, Any] | None = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data), timeout=30) as answer:
        return bytes(answer.read())


def test_metronome_sends_and_says_when(metronome: Callable[..., Metronome]) -> None:
    server = metronome(rate=1000, tokens=5, prefill_ms=0)
    lines = ask(f"{server.url}/completion", {"prompt": "x"}).decode().split("\n\n")
    pieces = [json.loads(line.removeprefix("data: "))["content"] for line in lines if line]
    assert pieces == [" the", " model", " reads", " every", " weight", ""]
    assert len(server.sent()) == 5
    assert server.sent() == sorted(server.sent())


def test_metronome_plays_a_script(metronome: Callable[..., Metronome]) -> None:
    server = metronome(script=[{"text": "data: caf"}, {"b64": "w6kKCg=="}])
    assert ask(f"{server.url}/completion", {}).decode() == "data: café\n\n"


def test_state_home_hides_the_developers_own(state_home: Home) -> None:
    assert platformdirs.user_state_path("phasetop").is_relative_to(state_home.path)
    assert platformdirs.user_cache_path("phasetop").is_relative_to(state_home.path)
    assert not any(name.startswith(("PHASETOP_", "OLLAMA_", "LLAMA_", "HF_")) for name in state_home.env)
    assert state_home.env["XDG_STATE_HOME"] == os.environ["XDG_STATE_HOME"] == str(state_home.state)


def test_spawned_processes_are_reaped(tmp_path: Path, spawn: Spawn) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "test_inner.py").write_text(INNER.format(pids=str(tmp_path / "pid")), encoding="utf-8")
    inner = spawn(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_inner.py"],
        cwd=tmp_path,
        stdout=DEVNULL,
        env={**os.environ, "PYTHONPATH": str(CONFTEST.parents[1])},
    )
    assert inner.wait(60) == 1  # the inner test fails on purpose, and its process ends all the same
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_llama_server_answers(llama_server: LlamaServer) -> None:
    props = json.loads(ask(f"{llama_server.url}/props"))
    assert props["default_generation_settings"]["n_ctx"] == 4096
    assert props["total_slots"] == 1


def test_free_port_can_be_bound(free_port: int) -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", free_port))
        assert s.getsockname()[1] == free_port
