"""What the tests of Ollama share: its recorded exchanges, a model as it describes it, and a real one that answers."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import psutil
import pytest

from tests.conftest import take_free_port

WIRE = Path(__file__).parents[2] / "data" / "wire" / "ollama"


@dataclass(frozen=True, repr=False)
class Capture:
    """One recorded exchange: what was asked, what came when, and the right values."""

    name: str
    head: dict[str, Any]
    reads: tuple[tuple[int, bytes], ...]  # (ns since the request was sent, bytes)
    expected: dict[str, Any]

    def __repr__(self) -> str:
        return f"Capture({self.name})"

    @property
    def status(self) -> int:
        """Of its answer."""
        return int(self.head["status"])

    @property
    def path(self) -> str:
        """Its route."""
        return str(self.head["request"]["path"])

    @property
    def body(self) -> dict[str, Any]:
        """What was asked, {} where it was no JSON object."""
        body = self.head["request"].get("body")
        return body if isinstance(body, dict) else {}

    @property
    def data(self) -> bytes:
        """The answer's body."""
        return b"".join(data for _, data in self.reads)

    @property
    def json(self) -> Any:
        """The answer, where it is one object."""
        return json.loads(self.data)

    @property
    def outcome(self) -> str:
        """How the body ended."""
        return {"complete": "complete", "client closed": "cancelled"}.get(self.head["end"], "broken")


@cache
def captures() -> dict[str, Capture]:
    """All exchanges, by name; what is no exchange (``sidechannel``, ``ps-loading``) is read by its own test."""
    expected = json.loads((WIRE / "expected.json").read_text())
    found = {}
    for file in sorted(WIRE.glob("*.jsonl")):
        head, *lines = (json.loads(line) for line in file.read_text().splitlines())
        if "request" in head:
            reads = tuple((round(line["t"] * 1e6), line["text"].encode()) for line in lines)
            found[file.stem] = Capture(file.stem, head, reads, expected.get(file.stem, {}))
    return found


CapturesFn: TypeAlias = Callable[[], dict[str, Capture]]


@pytest.fixture(name="captures", scope="session")
def _captures() -> CapturesFn:
    return captures


# -- a real one -------------------------------------------------------------------------------------------------------------


class RealOllama:
    """A real Ollama with SmolLM2 in it, its own home and models; its runner has one thread."""

    def __init__(self, binary: Path, home: Path, model: Path) -> None:
        self.binary, self.home, self.model = binary, home, model
        self.port = take_free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = home / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._runners: set[psutil.Process] = set()

    def start(self) -> None:
        """Start it and wait until it answers."""
        env = {name: value for name, value in os.environ.items() if not name.startswith(("OLLAMA_", "LLAMA_"))}
        env |= {"HOME": str(self.home), "OLLAMA_HOST": f"127.0.0.1:{self.port}", "OLLAMA_MODELS": str(self.home / "models")}
        env |= {"OLLAMA_NO_CLOUD": "1", "LLAMA_ARG_THREADS": "1", "OLLAMA_DEBUG": "1"}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen([self.binary, "serve"], env=env, stdout=log, stderr=log)
        end = time.monotonic() + 30
        while time.monotonic() < end and self._process.poll() is None:
            try:
                if self.call("GET", "/api/version"):
                    return
            except OSError:
                time.sleep(0.02)
        pytest.fail(f"Ollama did not start: {self.log.read_text(errors='replace')[-600:]}")

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Ask it something that is answered with JSON (the last line, where several come)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, data)
            answer = connection.getresponse().read().strip().splitlines()
            return json.loads(answer[-1]) if answer else None
        finally:
            connection.close()

    def create(self, name: str, **more: Any) -> None:
        """Make a model of the small GGUF."""
        if "from" not in more:
            digest = f"sha256:{sha256(self.model.read_bytes()).hexdigest()}"
            self.call("POST", f"/api/blobs/{digest}", self.model.read_bytes())
            more["files"] = {"model.gguf": digest}
        assert self.call("POST", "/api/create", {"model": name, **more}) == {"status": "success"}

    def write_native(self, name: str) -> None:
        """A model of the same GGUF without a template layer, written into the store by hand: its runner applies its own."""
        blobs = self.home / "models" / "blobs"
        config = {"model_format": "gguf", "model_family": "llama", "model_families": ["llama"], "model_type": "134M"}
        raw = json.dumps({**config, "file_type": "Q4_1", "architecture": "amd64", "os": "linux"}).encode()
        digest = sha256(raw).hexdigest()
        (blobs / f"sha256-{digest}").write_bytes(raw)
        model = sha256(self.model.read_bytes()).hexdigest()
        kind = "application/vnd.docker.distribution.manifest.v2+json"
        manifest = {
            "schemaVersion": 2,
            "mediaType": kind,
            "config": {
                "mediaType": "application/vnd.docker.container.image.v1+json",
                "digest": f"sha256:{digest}",
                "size": len(raw),
            },
            "layers": [
                {
                    "mediaType": "application/vnd.ollama.image.model",
                    "digest": f"sha256:{model}",
                    "size": self.model.stat().st_size,
                }
            ],
        }
        folder = self.home / "models" / "manifests" / "registry.ollama.ai" / "library" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "latest").write_text(json.dumps(manifest))

    def chat(self, prompt: str, **options: Any) -> dict[str, Any]:
        """Ask plainly, not streamed; the whole answer."""
        body = {"model": "smollm2", "messages": [{"role": "user", "content": prompt}], "stream": False, "options": options}
        return dict(self.call("POST", "/api/chat", body))

    def unload(self, name: str = "smollm2") -> None:
        """Let a model go, and wait until it is gone."""
        runners = self.runners()
        self.call("POST", "/api/generate", {"model": name, "keep_alive": 0})
        psutil.wait_procs(runners, timeout=10)
        end = time.monotonic() + 10
        while self.call("GET", "/api/ps")["models"] and time.monotonic() < end:
            time.sleep(0.02)

    def runners(self) -> list[psutil.Process]:
        """Its runner processes that hold a model."""
        found = []
        for child in psutil.Process(self.pid).children():
            try:
                if "--model" in child.cmdline():
                    found.append(child)
            except psutil.Error:
                continue
        self._runners.update(found)
        return found

    def truth(self) -> list[dict[str, int]]:
        """What its runner logged of each request that it finished reading: computed and cached tokens of the prompt."""
        found = []
        cached: int | None = None
        for line in self.log.read_text(errors="replace").splitlines():
            if "| new prompt," in line:
                cached = None
            elif "cached n_tokens = " in line and cached is None:  # told again with each batch, those before it included
                cached = int(line.split("cached n_tokens = ")[1].split(",")[0])
            elif "prompt eval time =" in line:
                found.append({"computed": int(line.split("/")[1].split()[0]), "cached": cached or 0})
        return found

    def last_truth(self, prompt: int | None) -> dict[str, int]:
        """The newest of `truth`, once it is of a prompt of so many tokens: the log is written a moment after the reply."""
        end = time.monotonic() + 5
        while True:
            found = self.truth()[-1]
            if sum(found.values()) == prompt or time.monotonic() > end:
                return found
            time.sleep(0.02)

    def stop(self, how: int = signal.SIGTERM) -> None:
        """End it and every runner that it had."""
        if self._process is None:
            return
        self.runners()
        self._process.send_signal(how)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for runner in self._runners:
            try:
                runner.kill()
            except psutil.Error:
                continue
        psutil.wait_procs(list(self._runners), timeout=5)
        self._process = None


@pytest.fixture(scope="session")
def ollama(ollama_binary: Path, small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealOllama]:
    """A real Ollama 0.32.5 over a real llama-server, with the model smollm2; one for each test worker."""
    home = tmp_path_factory.mktemp("ollama")
    one = RealOllama(ollama_binary, home, small_model)
    try:
        one.start()
        one.create("smollm2")
        yield one
    finally:
        one.stop()
        shutil.rmtree(home / "models", ignore_errors=True)
