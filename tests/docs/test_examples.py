"""The examples of every --help, run as they stand there; what needs another machine or minutes is skipped by name."""

from __future__ import annotations

import gzip
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from phasetop.cli import phasetop

if TYPE_CHECKING:
    from tests.docs.conftest import Real

ROOT = Path(__file__).parents[2]
MADE: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "commands_page.py"))
LINES = sorted({line for _, command in MADE["walk"](phasetop) for line in MADE["examples"](command)})
NEEDS = {
    "http://127.0.0.1:8080": "a server",
    "http://box": "another machine",
    "gpubox": "another machine",
    "llama3.1:8b": "Ollama",
    "qwen3:8b": "Ollama",
    "models get": "the network",
    "phasetop watch": "a session that runs",
    "phasetop bench": "minutes",
    "--measure-bandwidth": "a machine that rests",
}
STATUS = {
    "phasetop replay before --at 1:02": 2,  # the view, which needs a terminal
    "phasetop sessions rm before @3": 2,  # somebody who is asked
    "phasetop compare base new --fail-if-worse 5%": 3,  # one run a side says too little
}
NAMES = ("before", "after", "base", "new", "q8-1", "q8-2", "q8-3", "q4-1", "q4-2", "q4-3")
"""Recordings that the examples speak of."""


@pytest.mark.parametrize("line", LINES)
def test_it_runs_as_it_stands(line: str, real: Real, tmp_path: Path) -> None:
    command = line.partition("  #")[0].strip()
    for words, needs in NEEDS.items():
        if words in command:
            pytest.skip(f"needs {needs}")
    state = tmp_path / "state"
    shutil.copytree(real.env["XDG_STATE_HOME"], state)
    recordings = state / "phasetop" / "recordings"
    first = (recordings / "first.phasetop").read_bytes()
    for name in () if "rename" in command else NAMES:
        (recordings / f"{name}.phasetop").write_bytes(first)
    (tmp_path / "model.gguf").symlink_to((real.folder / "model.gguf").resolve())
    (tmp_path / "run.phasetop.gz").write_bytes(gzip.compress(first))
    more = {"PHASETOP_MAX_TOKENS": "2", "PHASETOP_THREADS": "1", "PHASETOP_CONTEXT": "512", "PHASETOP_BATCH": "64"}
    env = {**real.env, **more, "XDG_STATE_HOME": str(state)}
    done = subprocess.run(
        ["bash", "-c", command],
        env=env,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == STATUS.get(command, 0), done.stderr.decode()
