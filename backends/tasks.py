"""The tasks that a viewer begins: models that are fetched, each in a thread of its own, until it ends or is cancelled."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from typing import Final

from phasetop import events as ev
from phasetop.backends.endpoint import Endpoint
from phasetop.backends.recorder import Recorder
from phasetop.backends.target import Target
from phasetop.faults import UsageError

_PARTING_S: Final = 0.5


class Tasks:
    """Those that run. Every method may be called from any thread.

    Args:
        recorder: where their progress goes.
        target: the session's server, if it has one.
        api_key: for an Ollama, where the session has no server that it was given for; insecure: likewise.
        found: called when the model came that the session's server lacked.
    """

    def __init__(
        self, recorder: Recorder, target: Target | None, api_key: str | None, found: Callable[[], None], *, insecure: bool
    ) -> None:
        self._recorder = recorder
        self._target = target
        self._api_key = api_key
        self._insecure = insecure
        self._found = found
        self._guard = threading.Lock()
        self._running: dict[int, tuple[threading.Event, threading.Thread]] = {}

    def get(self, model: str, backend: str | None, begun: Callable[[int], None], *, insecure: bool) -> None:
        """Fetch a model: a file into the cache, any other name into Ollama; ``begun`` is told the task before it begins."""
        from phasetop.backends.fetch import fetch, is_file

        pulls = backend == "ollama" or self._is_lacked(model) or (backend is None and not is_file(model))
        task, cancelled = self._recorder.new_id("task"), threading.Event()

        def work() -> None:
            try:
                if pulls:
                    self._pull(task, model, cancelled, insecure=insecure)
                else:
                    fetch(self._recorder, task, model, cancelled)
            except Exception as error:
                traceback.print_exc()  # into the collector's log
                self._failed(task, model, f"phasetop's own error: {type(error).__name__}")
            finally:
                with self._guard:
                    del self._running[task]

        thread = threading.Thread(target=work, name=f"get-{task}", daemon=True)
        with self._guard:
            self._running[task] = cancelled, thread
        begun(task)
        thread.start()

    def cancel(self, task: int) -> bool:
        """End one; False where it does not run."""
        with self._guard:
            running = self._running.get(task)
        if running is not None:
            running[0].set()
        return running is not None

    def end(self) -> None:
        """End all, and wait a moment for each to say that it was cancelled."""
        with self._guard:
            running = list(self._running.values())
        for cancelled, _ in running:
            cancelled.set()
        deadline = time.monotonic() + _PARTING_S
        for _, thread in running:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _is_lacked(self, model: str) -> bool:
        """Whether it is the model that this session's server lacks."""
        return self._target is not None and self._target.lacks == model

    def _failed(self, task: int, title: str, why: str) -> None:
        self._recorder.emit(ev.Task(t=self._recorder.now(), task=task, state="failed", title=title, why=why))

    def _pull(self, task: int, model: str, cancelled: threading.Event, *, insecure: bool) -> None:
        """Pull a model into Ollama; where it is the one that this session lacked, the session goes on with it."""
        from phasetop.backends.discover import ollama_address
        from phasetop.backends.fetch import pull
        from phasetop.backends.ollama_pull import PullError

        target, lacked = self._target, self._is_lacked(model)
        try:
            endpoint = target.endpoint if target is not None and target.is_ollama else None
            if endpoint is None:
                key = self._api_key if target is None else None  # one given for another server is none of Ollama's business
                endpoint = Endpoint.open(ollama_address(), key, insecure=self._insecure)
            pull(self._recorder, task, endpoint, model, cancelled, insecure=insecure or self._insecure)
        except PullError:
            return  # its task says so
        except UsageError as error:
            self._failed(task, f"pull {model}", str(error))
            return
        if lacked and target is not None and target.try_again(at_once=True):
            self._found()
