"""A request from the ask to its end: waits for those before it, waits for the server, then generates."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Sequence
from typing import Protocol

from phasetop import events as ev
from phasetop.backends.generation import Generation
from phasetop.backends.protocol import Ask, Scene
from phasetop.backends.recorder import Recorder
from phasetop.backends.target import Target
from phasetop.faults import PhasetopError


class Owner(Protocol):
    """What a turn needs of the session it belongs to."""

    def build(self, turn: Turn) -> Ask:
        """The ask with its history, once the server and the reply before it are there."""
        ...

    def scene(self, ask: Ask) -> Scene:
        """What a watch beside the request may do in the session."""
        ...

    def sent(self, ask: Ask) -> None:
        """The request's last byte was written."""
        ...

    def finished(self, turn: Turn) -> None:
        """It ended."""
        ...


class Turn:
    """One request; `run` is the body of its thread. ``before``: whom it waits for, the last of its history among them."""

    def __init__(self, r: int, owner: Owner, recorder: Recorder, target: Target, before: Sequence[Turn]) -> None:
        self.r = r
        self.generation: Generation | None = None
        self.done = threading.Event()
        self._owner = owner
        self._recorder = recorder
        self._target = target
        self._before = before
        self._cancelled = threading.Event()
        self._detail: str | None = None

    def cancel(self, detail: str | None = None) -> None:
        """End it from another thread, whatever it waits for."""
        self._detail = detail
        self._cancelled.set()
        generation = self.generation
        if generation is not None:
            generation.cancel(detail)

    def run(self) -> None:
        """Whatever happens, the request gets its `end`."""
        try:
            self._run()
        except PhasetopError as error:
            self._end("error", ev.Fault(text=str(error)))
        except Exception as error:
            traceback.print_exc()  # into the collector's log
            self._end("error", ev.Fault(code="internal", text=f"phasetop's own error: {type(error).__name__}"))
        finally:
            try:
                self._owner.finished(self)
            finally:
                self.generation, self._before = None, ()  # a session of days has many requests: what they held goes
                self.done.set()  # others wait for it

    def _run(self) -> None:
        recorder, target = self._recorder, self._target
        for before in self._before:
            if not before.done.is_set():
                recorder.emit(ev.State(t=recorder.now(), s="queued", r=self.r, after=before.r))
                self._wait(before.done)
        fault = target.wait_ready(self._cancelled)
        if self._cancelled.is_set():
            self._end("cancelled")
            return
        if fault is not None or target.endpoint is None or target.backend is None:
            self._end("error", fault)
            return
        ask = self._owner.build(self)
        watch = target.backend.watch(ask, self._owner.scene(ask))
        generation = self.generation = Generation(
            recorder, ask, target.endpoint, target.backend, lambda: self._owner.sent(ask), target.lost, watch
        )
        if self._cancelled.is_set():  # it came while the generation was made
            self._end("cancelled")
            return
        generation.run()

    def _wait(self, event: threading.Event) -> None:
        while not event.wait(0.05) and not self._cancelled.is_set():
            pass

    def _end(self, finish: str, fault: ev.Fault | None = None) -> None:
        self._recorder.emit(ev.End(t=self._recorder.now(), r=self.r, finish=finish, detail=self._detail, error=fault))
