"""The example plug-in of docs/architecture.md: a package outside the tree, installed and run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Home, Spawn

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that pip installed it into."""
    folder = tmp_path_factory.mktemp("acme")
    source = folder / "source"
    shutil.copytree(HERE / "phasetop-acme", source, ignore=shutil.ignore_patterns("__pycache__"))
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run(
        [*argv, "--target", folder / "site", source], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.fixture
def url(spawn: Spawn) -> str:
    server = spawn([sys.executable, str(HERE / "acme_server.py")], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    return str(server.stdout.readline().split()[-1])


def phasetop(env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "phasetop", *arguments]
    return subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)


def test_a_server_a_gpu_and_a_format_of_another_package(installed: Path, url: str, state_home: Home, tmp_path: Path) -> None:
    gpu = tmp_path / "busy"
    gpu.write_text("42")
    env = {**state_home.env, "PYTHONPATH": str(installed), "PHASETOP_GPUS": "acme", "ACME_GPU": str(gpu)}
    done = phasetop(env, "run", url, "--backend", "acme", "-p", "hi", "-n", "8", "--temp", "1", "--json", "--record=acme")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["server"]["kind"] == "acme"
    assert (told["model"]["name"], told["model"]["parameters"]) == ("tiny-1", 1000)
    assert told["text"] == "café for two and a view of rivers "
    assert told["tokens"]["output"] == 8
    assert told["finish"]["reason"] == "stop"
    assert 1 <= told["latency"]["itl_ms"]["n"] <= 7  # a busy machine reads several at once
    assert [notice["code"] for notice in told["notices"]] == ["settings-ignored"]
    assert [one["name"] for one in told["gpus"]] == ["Acme GPU"]
    assert told["gpus"][0]["phases"]["decode"]["sm_percent"] == 42.0
    words = phasetop(env, "export", "acme", "--to", "words")
    assert words.returncode == 0, words.stderr
    assert [line.split("\t")[0] for line in words.stdout.splitlines()][:2] == ["café", "for"]


def test_without_it_the_names_are_refused_in_a_line(url: str, state_home: Home) -> None:
    done = phasetop(state_home.env, "run", url, "--backend", "acme", "-p", "hi")
    assert done.returncode != 0
    assert "acme" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
