"""A growing session: the file from its offset, and the pipe of the collector that writes it.

The view polls once a frame, headless each 16 ms; nothing here blocks. What came through the pipe is taken before the file is
read and applied after it, since the collector turns to the pipe only when the file can take no more.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from phasetop.recording import LineFeed, notice, settle
from phasetop.session import Session

_READ_BYTES: Final = 1 << 20


class Follower:
    """Keeps a Session as long as its file.

    Args:
        path: the session file; it may not exist yet. None: the pipe alone.
        pipe: the collector's stdout, non-blocking; None for a watcher.
        now: ns since the anchor, for what has to be ended here.
    """

    def __init__(self, path: Path | None, pipe: int | None, now: Callable[[], int]) -> None:
        self.session = Session()
        self.path = path
        self._pipe = pipe
        self._now = now
        self._fd: int | None = None
        self._file = LineFeed(self.session)
        self._piped = LineFeed(self.session, placed=False)
        self._pipe_open = pipe is not None
        self._replaced = False
        self.ended = False

    def poll(self) -> bool:
        """Apply what is new; True when something came. Raises `FormatError` for a file of another format."""
        if self.ended:
            return False
        piped = self._read_pipe()
        lines = self._read_file()
        if piped:
            lines += self._piped.feed(piped)
        if self.session.bye is not None:
            self.ended = True
        elif self._pipe is not None and not self._pipe_open:
            lines += self._read_file()
            if self.session.bye is None:
                settle(self.session, max(self._now(), self.session.last_t), "collector-died")
            self.ended = True
            return True
        return lines > 0

    def _read_pipe(self) -> bytes:
        if self._pipe is None or not self._pipe_open:
            return b""
        parts: list[bytes] = []
        while True:
            try:
                data = os.read(self._pipe, _READ_BYTES)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self._pipe_open = False
                break
            parts.append(data)
        return b"".join(parts)

    def _read_file(self) -> int:
        if self.path is None:
            return 0
        if self._fd is None:
            try:
                self._fd = os.open(self.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            except FileNotFoundError:
                return 0
        lines = 0
        while True:
            at = self._file.offset + self._file.tail_bytes
            data = os.pread(self._fd, _READ_BYTES, at)
            if data:
                lines += self._file.feed(data)
                continue
            size = os.fstat(self._fd).st_size
            if size < self._file.offset:
                self._say_replaced()
            elif size < at:  # cut back to its last whole line
                self._file.forget_tail()
            return lines

    def _say_replaced(self) -> None:
        """The file lost whole lines: nothing here takes back what was shown; say it once."""
        if not self._replaced:
            self._replaced = True
            notice(self.session, "replaced", "the session file became shorter: somebody else wrote to it", level="warn")

    def close(self) -> None:
        """Let go of the file; the pipe belongs to the lifeline."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
