"""What a session knows of one Ollama from request to request: its processes, what it loaded last, who is at its runner."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Final, NamedTuple

import httpx
import psutil

from phasetop.backends.endpoint import Endpoint, json_of
from phasetop.backends.locality import listening_pid
from phasetop.backends.ollama_model import Loaded, OllamaModel, blob_of, is_listed, loaded_of
from phasetop.backends.ollama_runner import Runner, find_runners
from phasetop.backends.ollama_standing import Last

_LOOK_S: Final = 2.0


class Abandoned(NamedTuple):
    """A request that was cancelled while the runner read its prompt: the runner finishes what it has under way."""

    r: int
    runner: tuple[int, float]


class Known:
    """The memory of a session about one Ollama. Every method may be called from any thread."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.local = endpoint.local
        self._guard = threading.Lock()
        self._pid: int | None = None
        self._last: dict[str, Last] = {}
        self._blobs: dict[str, str | None] = {}  # manifest digest → SHA-256 of the GGUF
        self._at_work: set[int] = set()  # requests under way
        self._working: tuple[int, float] | None = None  # the runner that is sampled
        self._abandoned: Abandoned | None = None
        self._reloads = 0
        self._said_logprobs = False

    def look(self) -> tuple[list[Loaded] | None, list[Runner] | None]:
        """(/api/ps, the runner processes) at this moment; None for what cannot be seen."""
        return self.listed(), self.runners()

    def listed(self) -> list[Loaded] | None:
        """What /api/ps says, with the GGUF of each name; None where it does not answer."""
        try:
            answer = self.endpoint.get("/api/ps", _LOOK_S)
            found = loaded_of(json_of(answer)) if answer.status_code == 200 else None
            return None if found is None else [replace(one, blob=self._blob(one)) for one in found]
        except httpx.HTTPError:
            return None

    def _blob(self, one: Loaded) -> str | None:
        key = one.digest or one.name
        if key not in self._blobs:
            self._blobs[key] = blob_of(json_of(self.endpoint.post("/api/show", {"model": one.name}, _LOOK_S)))
        return self._blobs[key]

    def runners(self) -> list[Runner] | None:
        """The runner processes; None on another machine, or where nobody may look."""
        if not self.local:
            return None
        with self._guard:
            if self._pid is None or not psutil.pid_exists(self._pid):
                self._pid = listening_pid(self.endpoint.base)
            pid = self._pid
        return find_runners(pid)

    def last(self, model: OllamaModel) -> Last | None:
        """How this model stood when it was asked last."""
        with self._guard:
            return self._last.get(_key(model))

    def remember(self, model: OllamaModel, runner: Runner | None) -> None:
        """How a model stands after a request to it."""
        options = {} if runner is None else {**runner.options, "context": runner.context}
        with self._guard:
            self._last[_key(model)] = Last(None if runner is None else runner.key, options)

    def look_when_it_unloads(self, model: OllamaModel) -> None:
        """Ask when the model would be unloaded: each request puts that off."""
        line = is_listed(model, self.listed() or ())
        with self._guard:
            last = self._last.get(_key(model))
            if last is not None and line is not None:
                self._last[_key(model)] = replace(last, expires_s=line.expires_s)

    def begin(self, r: int) -> bool:
        """A request is about to be sent; True when it is the only one of this session."""
        with self._guard:
            alone = not self._at_work
            self._at_work.add(r)
            return alone

    def end(self, r: int) -> None:
        """It ended."""
        with self._guard:
            self._at_work.discard(r)

    def attached(self, runner: Runner) -> bool:
        """Take a runner for the one that works; True when it was another one, or none, before."""
        with self._guard:
            new = self._working != runner.key
            self._working = runner.key
            return new

    def abandon(self, r: int, runner: Runner) -> None:
        """A request was cancelled before its first token: its runner may read on."""
        with self._guard:
            self._abandoned = Abandoned(r, runner.key)

    def abandoned(self, runner: Runner, *, busy: bool) -> int | None:
        """The cancelled request that a busy runner still works on; an idle one has forgotten it."""
        with self._guard:
            found = self._abandoned
            if found is None:
                return None
            if not busy or found.runner != runner.key:
                self._abandoned = None
                return None
            return found.r

    def says_logprobs(self) -> bool:
        """Whether it has not been said yet what log-probabilities cost."""
        with self._guard:
            first, self._said_logprobs = not self._said_logprobs, True
            return first

    def another_reload(self) -> bool:
        """Another client had the model loaded with other options, again; True from the second time on."""
        with self._guard:
            self._reloads += 1
            return self._reloads >= 2


def _key(model: OllamaModel) -> str:
    return model.blob or model.digest or model.name
