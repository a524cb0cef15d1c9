"""Starting a server that is installed: in a session of its own, and only what can be started without further words."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from phasetop.backends.launch import is_installed, launch
from phasetop.faults import UsageError


def test_it_runs_in_a_session_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "told"
    program = tmp_path / "ollama"
    program.write_text(
        f"#!{sys.executable}\nimport os, sys, pathlib, time\n"
        f"path = pathlib.Path({str(told)!r})\n"
        "path.with_suffix('.part').write_text(f'{sys.argv[1]} {os.getsid(0)} {os.getpid()}')\n"
        "path.with_suffix('.part').rename(path)\n"
        "time.sleep(60)\n"
    )
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert is_installed("ollama")
    pid = launch("ollama")
    try:
        end = time.monotonic() + 20
        while not told.exists() and time.monotonic() < end:
            time.sleep(0.02)
        assert told.read_text() == f"serve {pid} {pid}"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_what_cannot_be_started_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not is_installed("ollama")
    with pytest.raises(UsageError, match="not installed"):
        launch("ollama")
    with pytest.raises(UsageError, match="cannot be started from here"):
        launch("rm")
