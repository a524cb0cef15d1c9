"""What a backend's watch may do in the session: write events, name what it learned of the server, say who does the work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phasetop import events as ev
from phasetop.backends.protocol import Ask, Pieces
from phasetop.backends.recorder import Recorder
from phasetop.backends.samplers import Samplers
from phasetop.backends.target import Target


class RequestScene:
    """A `protocol.Scene` of one request.

    Args:
        ask: the request.
        applied: the settings that were taken to hold for it.
        prompt: writes down the prompt's tokens.
    """

    def __init__(
        self,
        ask: Ask,
        recorder: Recorder,
        target: Target,
        sampler: Samplers,
        applied: Mapping[str, Any],
        prompt: Callable[[Ask, Pieces], None],
    ) -> None:
        self._ask = ask
        self._recorder = recorder
        self._target = target
        self._sampler = sampler
        self._applied = dict(applied)
        self._prompt = prompt

    @property
    def r(self) -> int:
        """The request."""
        return self._ask.r

    def now(self) -> int:
        """The time since the anchor, ns."""
        return self._recorder.now()

    def emit(self, *events: ev.Event) -> None:
        """Write events in one go."""
        self._recorder.emit_all(events)

    def new_task(self) -> int:
        """An id for `task` events."""
        return self._recorder.new_id("task")

    def server(self, **keys: Any) -> None:
        """What is known anew of the server."""
        self._recorder.emit(ev.Server(t=self._recorder.now(), v=self._target.v, **keys))

    def applied(self, settings: Mapping[str, Any]) -> None:
        """The settings as the server really applied them."""
        self._applied.update(settings)
        self._recorder.emit(ev.Request(t=self._recorder.now(), r=self._ask.r, applied=dict(self._applied)))

    def prompt(self, pieces: Pieces) -> None:
        """The prompt as the model sees it."""
        self._prompt(self._ask, pieces)

    def works(self, pid: int) -> None:
        """The process that does the server's work."""
        self._sampler.watch(pid, self._target.v)
