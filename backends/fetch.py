"""The `get` command: a model fetched as a task of the session, a file into the cache or a name into Ollama."""

from __future__ import annotations

import threading
import time
from typing import Final

from phasetop import events as ev
from phasetop import model_store
from phasetop.backends import download, ollama_pull
from phasetop.backends.endpoint import Endpoint
from phasetop.backends.ollama_pull import Layer, PullReader
from phasetop.backends.recorder import Recorder
from phasetop.faults import PhasetopError, UsageError

_SAY_EVERY_S: Final = 0.1


def is_file(spec: str) -> bool:
    """Whether ``spec`` is a file that can be downloaded: a well-known model, a URL, ``hf:…``; any other name is Ollama's."""
    try:
        model_store.source(spec)
    except UsageError:
        return spec.startswith("hf:") or "://" in spec
    return True


def fetch(recorder: Recorder, task: int, spec: str, cancelled: threading.Event) -> None:
    """Download ``spec``; progress, the file's path and what went wrong are `task` events."""
    last = 0.0

    def progress(done: int, total: int | None) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _SAY_EVERY_S or done == total:
            last = now
            recorder.emit(ev.Task(t=recorder.now(), task=task, state="run", title=spec, done=done, total=total, unit="B"))

    try:
        path = download.get(spec, on_progress=progress, cancelled=cancelled.is_set)
    except PhasetopError as error:
        state = "cancelled" if cancelled.is_set() else "failed"
        recorder.emit(ev.Task(t=recorder.now(), task=task, state=state, title=spec, why=str(error)))
        return
    recorder.emit(ev.Task(t=recorder.now(), task=task, state="ok", title=spec, why=str(path)))


class Pulled:
    """A pull's progress as events: a task for all of it, and one for each layer (``pull NAME: 2df68bc8c465``)."""

    def __init__(self, recorder: Recorder, task: int, name: str) -> None:
        self._recorder, self._task, self._title = recorder, task, f"pull {name}"
        self._layers: dict[str, int] = {}
        self._open: dict[int, ev.Task] = {}  # the last word on layers that are not whole
        self._due = ollama_pull.Pace()

    def moved(self, reader: PullReader, layers: list[Layer]) -> None:
        """Tell what came, at most ten times a second each."""
        events: list[ev.Event] = []
        t = self._recorder.now()
        for layer in layers:
            whole = layer.total is not None and layer.done >= layer.total
            if layer.total is None or not self._due.due(layer.digest, last=whole):
                continue
            number = self._layers.get(layer.digest)
            if number is None:
                number = self._layers[layer.digest] = self._recorder.new_id("task")
            told = self._event(t, number, f"{self._title}: {layer.short}", layer.done, layer.total, whole=whole)
            events.append(told)
            self._open[number] = told
            if whole:
                del self._open[number]
        if self._due.due("", last=False):
            events.append(self._event(t, self._task, self._title, reader.fetched, reader.total, whole=False))
        self._recorder.emit_all(events)

    def _event(self, t: int, task: int, title: str, done: int, total: int | None, *, whole: bool) -> ev.Task:
        return ev.Task(t=t, task=task, state="ok" if whole else "run", title=title, done=done, total=total, unit="B")

    def ended(self, state: str, why: str | None, reader: PullReader | None = None) -> None:
        """Tell how it ended, and its layers with it: of a small one the last line often has not come."""
        t = self._recorder.now()
        left = [ev.Task(t=t, task=number, state=state, title=each.title) for number, each in self._open.items()]
        self._open.clear()
        self._recorder.emit_all(left)
        done, total = (reader.fetched, reader.total) if reader is not None else (None, None)
        event = ev.Task(t=self._recorder.now(), task=self._task, state=state, title=self._title, why=why)
        if total is not None:
            event.done, event.total, event.unit = done, total, "B"
        self._recorder.emit(event)


def pull(
    recorder: Recorder, task: int, endpoint: Endpoint, name: str, cancelled: threading.Event, *, insecure: bool
) -> None:
    """Pull ``name`` into the Ollama at ``endpoint``; progress, success and what went wrong are `task` events.

    Raises:
        PullError: it did not come; why, in one line (`PullCancelled` where that was wanted).
    """
    told = Pulled(recorder, task, name)
    newest: PullReader | None = None

    def progress(reader: PullReader, layers: list[Layer]) -> None:
        nonlocal newest
        newest = reader
        told.moved(reader, layers)

    try:
        ollama_pull.pull(endpoint, name, insecure=insecure, cancelled=cancelled, progress=progress)
    except PhasetopError as error:
        told.ended("cancelled" if isinstance(error, ollama_pull.PullCancelled) else "failed", str(error), newest)
        raise
    told.ended("ok", f"{name} is in the Ollama at {endpoint.shown}", newest)
