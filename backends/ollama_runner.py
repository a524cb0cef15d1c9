"""Ollama's runner from outside: the llama-server that Ollama started for a model, found as a process and asked over HTTP.

Ollama tells neither how far a prefill is, nor what came from the cache, nor with which options a model was loaded; its
runner does, to anybody on the same machine. Of its command line only an allow-list's options are read (`server_options`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
import psutil

from phasetop import events as ev
from phasetop.backends.server_json import count, load
from phasetop.backends.stamped import plain_client
from phasetop.server_options import DEFAULTS, ENV_PREFIX, read_argv

ARGV: Final = "argv: the runner's"
_DEFAULTED: Final = ("cache_type_k", "cache_type_v", "flash_attention", "batch", "ubatch", "swa_full")
_TIMEOUT_S: Final = 2.0
_TOKENIZE_TIMEOUT_S: Final = 30.0
_BLOB: Final = re.compile(r"sha256-([0-9a-f]{64})$")


@dataclass(frozen=True, slots=True)
class Runner:
    """A runner process and the options that it was started with.

    Attributes:
        started: when, Unix time: with the pid it is an identity, a pid alone is not.
        blob: the SHA-256 of its GGUF.
        options: by OUTPUTS' names, and where each is from.
    """

    pid: int
    started: float
    port: int
    blob: str | None
    options: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[int, float]:
        """What tells it from every other process, also one that gets its pid later."""
        return self.pid, self.started

    @property
    def context(self) -> int | None:
        """What one request can use, tokens."""
        whole, slots = self.options.get("context"), self.options.get("parallel", 1)
        return whole // max(slots, 1) if isinstance(whole, int) and isinstance(slots, int) else None

    def sourced(self) -> dict[str, ev.Sourced]:
        """Its options as a `server` event has them, and the defaults of those that its cache depends on."""
        found = {name: ev.Sourced(value, self.sources.get(name, ARGV)) for name, value in self.options.items()}
        for name in _DEFAULTED:
            found.setdefault(name, ev.Sourced(DEFAULTS[name], "default"))
        return found


def read_runner(pid: int, started: float, argv: Sequence[str], environment: Mapping[str, str]) -> Runner | None:
    """The runner that a command line starts; None where it holds no model (Ollama starts some to look for GPUs)."""
    found = read_argv(argv, environment)
    places = [i for i, word in enumerate(argv[:-1]) if word == "--port"]
    port = argv[places[-1] + 1] if places else ""
    if found.model is None or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        return None
    blob = _BLOB.search(found.model)
    sources = {
        name: source.replace("argv", ARGV, 1) if source == "argv" else source for name, source in found.sources.items()
    }
    return Runner(pid, started, int(port), blob[1] if blob else None, found.values, sources)


def _environment(process: psutil.Process) -> dict[str, str]:
    """Its LLAMA_ARG_* variables, which are options too; none where nobody may look."""
    try:
        return {name: value for name, value in process.environ().items() if name.startswith(ENV_PREFIX)}
    except psutil.Error:
        return {}


def find_runners(server_pid: int | None) -> list[Runner] | None:
    """The runners of an Ollama server on this machine; None where nobody may look, or another process stands in for it.

    Args:
        server_pid: the process that listens; None where that is somebody else's secret (a service's, for a plain user): then
            every process that is called ollama and serves counts. One of another name (a container's proxy) has none.

    """
    try:
        known = server_pid is not None
        candidates = [psutil.Process(server_pid)] if known else psutil.process_iter()
        servers = [process for process in candidates if _serves(process, named=known)]
        if not servers:
            return None
        processes = [child for server in servers for child in server.children()]
    except psutil.Error:
        return None
    found = []
    hidden = False
    for process in processes:
        try:
            runner = read_runner(process.pid, process.create_time(), process.cmdline(), _environment(process))
            if runner is not None:
                found.append(runner)
        except psutil.AccessDenied:
            hidden = True
        except psutil.Error:
            continue
    return None if hidden and not found else found


def _serves(process: psutil.Process, *, named: bool) -> bool:
    """Whether a process is an Ollama server; ``named``: it listens where one was recognised, so that its name is enough."""
    try:
        return process.name().lower().startswith("ollama") and (named or "serve" in process.cmdline()[1:2])
    except psutil.Error:
        return False


def runner_of(runners: Sequence[Runner], blob: str | None) -> Runner | None:
    """The runner of a GGUF, the newest; where the GGUF is not known, the only one there is."""
    if blob is None:
        return runners[0] if len(runners) == 1 else None
    fitting = [runner for runner in runners if runner.blob == blob]
    return max(fitting, key=lambda runner: runner.started, default=None)


def is_alive(runner: Runner) -> bool:
    """Whether this very process still runs."""
    try:
        process = psutil.Process(runner.pid)
        return bool(process.create_time() == runner.started and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def bytes_read(runner: Runner) -> int | None:
    """How much of its file a loading runner has taken in: what it read, else what is resident; None: nobody may look."""
    try:
        process = psutil.Process(runner.pid)
        try:
            read = getattr(process.io_counters(), "read_chars", 0)
        except (psutil.Error, AttributeError, NotImplementedError, OSError):
            read = 0
        return max(int(read), int(process.memory_info().rss))
    except psutil.Error:
        return None


@dataclass(frozen=True, slots=True)
class RunnerSlot:
    """One slot of a runner at one moment.

    Attributes:
        task: the id of the request that it works on, or worked on last.
        held: cells in use: cached, computed, the batch under way, decoded.
        computed: prompt tokens computed so far, without the cached ones.
        cached: prompt tokens that were in the cache; only while it is busy.
        params: sampling settings as they were applied.
    """

    index: int
    ctx: int | None
    busy: bool
    task: int | None
    held: int
    computed: int
    cached: int
    decoded: int
    params: Mapping[str, Any] = field(default_factory=dict)


def read_slots(value: Any) -> list[RunnerSlot] | None:
    """The answer of /slots; None where it is none."""
    if not isinstance(value, list):
        return None
    slots = []
    for at, entry in enumerate(value):
        if not isinstance(entry, dict):
            return None
        following = entry.get("next_token")
        following = following[0] if isinstance(following, list) and following else following
        decoded = following.get("n_decoded") if isinstance(following, dict) else 0
        params = entry.get("params")
        slots.append(
            RunnerSlot(
                index=count(entry.get("id")) or at,
                ctx=count(entry.get("n_ctx")) or None,
                busy=entry.get("is_processing") is True,
                task=count(entry.get("id_task")),
                held=count(entry.get("n_prompt_tokens")) or 0,
                computed=count(entry.get("n_prompt_tokens_processed")) or 0,
                cached=count(entry.get("n_prompt_tokens_cache")) or 0,
                decoded=count(decoded) or 0,
                params=params if isinstance(params, dict) else {},
            )
        )
    return slots


class RunnerClient:
    """Questions to one runner, on a kept connection; every method returns None where it does not answer as it should."""

    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}"
        self._client = plain_client(None, timeout_s=_TIMEOUT_S)

    def slots(self) -> list[RunnerSlot] | None:
        """What its slots do."""
        answer = self._ask("GET", "/slots")
        return None if answer is None or answer.status_code != 200 else read_slots(load(answer.content))

    def health(self) -> int | None:
        """200 ready, 503 loading."""
        answer = self._ask("GET", "/health")
        return None if answer is None else answer.status_code

    def tokenize(self, text: str) -> list[dict[str, Any]] | None:
        """The tokens of a text as its /completion would take them: ``{"id", "piece"}`` each."""
        body = {"content": text, "add_special": True, "parse_special": True, "with_pieces": True}
        answer = self._ask("POST", "/tokenize", body)
        value = None if answer is None or answer.status_code != 200 else load(answer.content)
        tokens = value.get("tokens") if isinstance(value, dict) else None
        return tokens if isinstance(tokens, list) and all(isinstance(token, dict) for token in tokens) else None

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response | None:
        timeout = _TIMEOUT_S if body is None else _TOKENIZE_TIMEOUT_S
        for again in (True, False):
            try:
                return self._client.request(method, self._base + path, json=body, timeout=timeout)
            except httpx.RemoteProtocolError:  # a kept connection that it had closed
                if not again:
                    return None
            except httpx.HTTPError:
                return None
        return None

    def close(self) -> None:
        """Let the connection go."""
        self._client.close()
