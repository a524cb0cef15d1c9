"""The `get` command: a download as a task of the session."""

from __future__ import annotations

import threading
import time
from typing import Final

from phasetop import events as ev
from phasetop.backends import download
from phasetop.backends.recorder import Recorder
from phasetop.faults import PhasetopError

_SAY_EVERY_S: Final = 0.1


def fetch(recorder: Recorder, task: int, spec: str, cancelled: threading.Event) -> None:
    """Fetch ``spec``; progress, the file's path and what went wrong are `task` events."""
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
