"""The commands of the viewer: JSON lines on stdin, woken by signals, ended by the viewer's end."""

from __future__ import annotations

import os
import select
import signal
from typing import Any, Final

import msgspec

Command = dict[str, Any]
_READ_BYTES: Final = 1 << 16


class Commands:
    """The lines of stdin, as commands; a signal or the viewer's end wakes the reader."""

    def __init__(self, stdin: int) -> None:
        self._stdin = stdin
        self._buffer = b""
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self.signalled: str | None = None

    def catch_signals(self) -> None:
        """SIGTERM and SIGHUP end the session in order; ctrl-C is the viewer's to translate."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in (signal.SIGTERM, getattr(signal, "SIGHUP", None)):
            if number is not None:
                signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: object) -> None:  # noqa: ARG002
        self.signalled = "signal"
        try:
            os.write(self._wake_write, b"!")
        except BlockingIOError:
            pass

    def next(self) -> Command | None:
        """The next command; None when there will be none (see `signalled`). A line that is none is {}."""
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if newline:
                self._buffer = rest
                try:
                    command = msgspec.json.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError):
                    return {}
                return command if isinstance(command, dict) else {}
            readable, _, _ = select.select([self._stdin, self._wake_read], [], [])
            if self.signalled is not None:
                return None
            if self._stdin in readable:
                data = os.read(self._stdin, _READ_BYTES)
                if not data:
                    return None
                self._buffer += data
