"""A real Ollama behind a real sshd: named, left to be found, and missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from phasetop.backends import over_ssh

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.backends.ollama.conftest import RealOllama
    from tests.conftest import Collected
    from tests.tools.sshd import FarMachine


def run(*arguments: str) -> tuple[int, dict[str, Any], str]:
    argv = [sys.executable, "-m", "phasetop", "run", *arguments, "-p", "Name a river.", "-n", "8", "--json=compact"]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=100, env={**os.environ}, stdin=subprocess.DEVNULL
    )
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def test_a_model_by_its_name(far: FarMachine, ollama: RealOllama) -> None:
    port = ollama.url.rpartition(":")[2]
    status, found, said = run(f"ssh://far/:{port}", "--model", "smollm2")
    assert status == 0, said
    assert (found["server"]["kind"], found["server"]["url"]) == ("ollama", f"ssh://far/{ollama.url}")
    assert (found["server"]["local"], found["server"]["link"]) == (False, "ssh")
    assert found["model"]["name"].startswith("smollm2")
    assert found["tokens"]["output"] == 8
    assert found["kv"]["bytes_per_token"] == 23040  # Ollama tells of its model what a llama-server does not
    status, _, said = run(f"ssh://far/:{port}", "--model", "nosuch")
    assert status == 1
    assert f"no model 'nosuch' in the Ollama at ssh://far/{ollama.url}" in said
    far.nothing_left()


@pytest.mark.parametrize("asked", ["ssh://far/smollm2", "ssh://far/"])
def test_at_its_usual_place(
    far: FarMachine,
    ollama: RealOllama,
    collect: Callable[..., Collected],
    monkeypatch: pytest.MonkeyPatch,
    asked: str,
) -> None:
    from phasetop.backends.recorder import Recorder
    from phasetop.backends.target import Target
    from phasetop.backends.wanted import wanted_from
    from phasetop.plan import plan

    monkeypatch.setattr(over_ssh, "USUAL", (("ollama", ollama.url), ("llamacpp", "http://127.0.0.1:1")))
    start = plan(asked, {"prompt": "x"}).start
    assert start.target is not None
    read, write = os.pipe()
    os.set_blocking(write, False)
    recorder = Recorder(None, write)
    target = Target(recorder, wanted_from({"target": {"ssh": "far", "model": start.target.model}}), None)  # type: ignore[arg-type]
    try:
        target.resolve()
        assert target.fault is None
        assert target.endpoint is not None
        assert not target.endpoint.local
        assert target.endpoint.shown == f"ssh://far/{ollama.url}"
    finally:
        target.close()
        os.close(read)
        os.close(write)
    far.nothing_left()
