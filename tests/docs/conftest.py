"""What the documents' tests share: the program run once for real, and what it printed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Real:
    """A kept run of the embedded model.

    Attributes:
        run: what `run --json` printed.
        env: with a home of its own, in which the recording ``first`` is.
        folder: where commands run; ``model.gguf`` is the small model.
    """

    run: bytes
    env: dict[str, str]
    folder: Path


@pytest.fixture(scope="session")
def real(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Real:
    """Run the embedded model once, and keep it."""
    pytest.importorskip("xllamacpp", reason="the embedded engine is not installed; make setup gets it")
    folder = tmp_path_factory.mktemp("docs")
    own = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("STATE", "CACHE", "CONFIG")}
    foreign = ("PHASETOP_", "OLLAMA_", "LLAMA_", "HF_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(foreign)} | own
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env.get('PATH', '')}"
    (folder / "model.gguf").symlink_to(small_model)
    argv = [sys.executable, "-m", "phasetop", "run", "model.gguf", "-p", "Name three rivers.", "-n", "12", "-t", "1"]
    argv += ["-c", "512", "-b", "128", "--json", "--record=first"]
    done = subprocess.run(argv, env=env, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return Real(done.stdout, env, folder)
