"""A text handed to the person's own editor and taken back."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from phasetop.faults import PhasetopError

SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
PATIENCE_S: Final = 2.0
"""An editor that was asked to end has so long, at least."""


def command_of(environ: Mapping[str, str]) -> list[str]:
    """The editor's command: VISUAL, EDITOR, else the first usual one that is there.

    Raises:
        PhasetopError: there is none.
    """
    for name in ("VISUAL", "EDITOR"):
        if words := shlex.split(environ.get(name, "")):
            return words
    for usual in ("nano", "vim", "vi"):
        if shutil.which(usual):
            return [usual]
    raise PhasetopError("no editor: set EDITOR")


def edit(text: str, command: Sequence[str]) -> str:
    """``text`` as it is when the editor ends, without the newline that editors add at the end.

    While it runs, SIGTERM and SIGHUP end it, so that whoever waits here can obey them: their own handlers are called, too
    (asyncio's, by its wakeup), or are there again. In other threads than the main one signals are left alone.

    Raises:
        PhasetopError: the editor cannot be started, or says that it failed.
    """
    fd, name = tempfile.mkstemp(prefix="phasetop-", suffix=".txt")
    path = Path(name)
    try:
        with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        try:
            status = _run([*command, name])
        except OSError as error:
            raise PhasetopError(f"{command[0]}: {(error.strerror or str(error)).lower()}") from None
        if status != 0:
            raise PhasetopError(f"{command[0]} ended with status {status}: the prompt is as it was")
        return path.read_text(encoding="utf-8", errors="replace").removesuffix("\n")
    finally:
        path.unlink(missing_ok=True)


def _run(command: Sequence[str]) -> int:
    """Run the editor to its end; returns its status."""
    ended: list[int] = []
    child: subprocess.Popen[bytes] | None = None

    def end(number: int, _: FrameType | None) -> None:
        ended.append(number)
        if child is not None:
            child.terminate()

    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, end) for number in SIGNALS}
    try:
        child = subprocess.Popen(command)
        while True:
            try:
                return child.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                if ended:  # it was asked to end before this wait began, and did not
                    child.kill()
            except KeyboardInterrupt:  # ctrl-C is the editor's: both have the terminal
                continue
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
