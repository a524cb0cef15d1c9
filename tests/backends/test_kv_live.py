"""The cache's bytes of real runs against the server's own numbers: its log, and its slots."""

from __future__ import annotations

import http.client
import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from phasetop.backends.identified import Identified
from phasetop.backends.llamacpp import LlamaCpp
from phasetop.backends.local_model import describe, read_process, with_local_knowledge
from phasetop.cli import main
from phasetop.lifeline import Start, Target
from phasetop.metrics import measure

if TYPE_CHECKING:
    from tests.conftest import Collected, Home, LlamaServer, Spawn

Collect = Callable[..., "Collected"]
LOGGED = re.compile(r"llama_kv_cache: size = +([\d.]+) MiB \( *(\d+) cells, +(\d+) layers, +(\d+)/(\d+) seqs\)")


KEY = "sk-never-kept"


@pytest.fixture
def talkative(
    llama_server: LlamaServer, small_model: Path, tmp_path: Path, spawn: Spawn, free_port: int
) -> Callable[..., tuple[str, Path]]:
    """Start a llama-server that logs its caches, on a file that it knows by a relative path: (url, log)."""

    def start(*options: str, **environment: str) -> tuple[str, Path]:
        log = tmp_path / "server.log"
        own = ["-t", "1", "-lv", "4", "--offline", "--no-webui", "--host", "127.0.0.1", "--port", str(free_port)]
        (tmp_path / "m.gguf").symlink_to(small_model)
        argv = [str(llama_server.binary), "-m", "m.gguf", *options, *own, "--api-key", KEY]
        with log.open("wb") as out:
            process = spawn(argv, stdout=out, stderr=out, cwd=tmp_path, env={**os.environ, **environment})
        end = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end and b"listening on http" not in log.read_bytes():
            time.sleep(0.02)
        return f"http://127.0.0.1:{free_port}", log

    return start


def slots_of(url: str) -> Any:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    connection.request("GET", "/slots", headers={"Authorization": f"Bearer {KEY}"})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def check_log(text: str, kv: Any) -> None:
    """Sizes, cells, layers and streams of the first cache that the log speaks of (the fit's trial is logged elsewhere)."""
    size, cells, _, _, streams = LOGGED.findall(text)[-1]
    assert (kv.caches[0].cells, kv.caches[0].streams) == (int(cells), int(streams))
    assert kv.allocated_bytes / 2**20 == pytest.approx(float(size), abs=0.005)


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        (["-c", "1500", "-np", "2", "-ctk", "q8_0", "-ctv", "q8_0"], {}),
        (["-c", "1024"], {"LLAMA_ARG_CACHE_TYPE_K": "q4_0", "LLAMA_ARG_FLASH_ATTN": "on"}),
    ],
)
def test_a_llama_server(
    collect: Collect, talkative: Callable[..., tuple[str, Path]], options: list[str], environment: dict[str, str]
) -> None:
    url, log = talkative(*options, **environment)
    one = collect(Start(target=Target(None, url), api_key=KEY))
    run = one.ended(one.ask("Name three rivers.", settings={"max_tokens": 8, "temperature": 0}))
    found = measure(one.session, run)
    kv = found.kv
    check_log(log.read_text(errors="replace"), kv)
    held = max(slot.get("n_prompt_tokens", 0) for slot in slots_of(url))
    assert kv.tokens == held
    assert kv.bytes_per_token is not None
    assert kv.used_bytes == held * kv.bytes_per_token
    assert found.sources["kv.allocated_bytes"] == "argv: the server's"
    server, model = one.session.server_of(run), one.session.model_of(run)
    assert server is not None
    assert model is not None
    assert (model.arch, model.file, model.tensor_bytes) == ("llama", "m.gguf", 96_576_768)
    assert model.weights is not None
    assert KEY not in repr((server, model))
    assert str(log.parent) not in repr((server, model))


def test_the_embedded_engine(collect: Collect, small_model: Path) -> None:
    settings = {"context": 2048, "batch": 512, "threads": 1, "cache_type_k": "q8_0", "cache_type_v": "q4_0"}
    one = collect(Start(target=Target("embedded"), engine={"file": str(small_model), "settings": settings}))
    run = one.ended(one.ask("Name three rivers.", settings={"max_tokens": 8, "temperature": 0}))
    kv = measure(one.session, run).kv
    state = Path(os.environ["XDG_STATE_HOME"])
    log = next(state.rglob("engine-*.log")).read_text(errors="replace")
    check_log(log, kv)
    assert kv.bytes_per_token == 30 * (192 // 32 * 34 + 192 // 32 * 18)
    assert kv.used_bytes == (kv.tokens or 0) * kv.bytes_per_token


def test_phasetop_kv_asks_a_server_that_runs(
    state_home: Home, talkative: Callable[..., tuple[str, Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    url, log = talkative("-c", "1500", "-np", "2", "-ub", "128")
    assert state_home.state.is_dir()
    assert main(["kv", url, "--json", "--api-key", KEY]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["options"] | {"n_ctx": 1536, "n_seq_max": 2, "n_ubatch": 128} == said["options"]
    assert said["sources"]["options.n_ubatch"] == "argv"
    logged = float(LOGGED.findall(log.read_text(errors="replace"))[-1][0])
    assert said["kv_bytes_total"] / 2**20 == pytest.approx(logged, abs=0.005)
    assert main(["kv", url, "--json", "--api-key", KEY, "--", "-ctk", "q8_0"]) == 0  # what if
    assert json.loads(capsys.readouterr().out)["k_bytes"] == said["k_bytes"] * 34 // 64


def identified(**more: Any) -> Identified:
    backend = LlamaCpp(endpoint=None, model="m")  # type: ignore[arg-type]
    return replace(Identified(backend, {"options": None}, {"name": "m"}), **more)


def test_a_file_that_is_not_the_servers_model(small_model: Path) -> None:
    """The file was replaced after the server had started: its parameters are others."""
    assert describe(small_model, 134_515_008) is not None
    assert describe(small_model, 5) is None
    assert describe(small_model.parent, None) is None


def test_another_program_on_the_port() -> None:
    """What a wrapper's command line leaves out is no default of llama-server's."""
    assert read_process(os.getpid()) is None
    assert read_process(None) is None
    assert with_local_knowledge(identified(), os.getpid()).server["options"] is None


def test_a_file_is_read_only_where_the_server_is_on_this_machine(small_model: Path) -> None:
    assert "arch" not in with_local_knowledge(identified(file=str(small_model)), None).model
    assert with_local_knowledge(identified(file=str(small_model)), os.getpid()).model["arch"] == "llama"
