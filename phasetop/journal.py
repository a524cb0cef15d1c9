"""The one writer of a session file: whole lines, at once, never lost.

One ``write(2)`` a call, no buffer and no timer (1 µs). When the file cannot take a line, it is cut back to its last whole
line, and that line and all later ones go to the pipe to the viewer that started the collector, beginning with a notice.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from phasetop.places import lock

_LOCK_TRIES: Final = 100
_LOCK_PAUSE_S: Final = 0.005


class Journal:
    """Appends whole lines to a session file, or to a pipe where there is no file (any more).

    Args:
        path: the file to create; None: the pipe alone.
        pipe: a non-blocking descriptor; what it cannot take is dropped and counted.
        lost: makes the notice line when the file is given up, from the reason in plain words.
    """

    def __init__(self, path: Path | None, pipe: int, lost: Callable[[str], bytes]) -> None:
        self._path = path
        self._pipe = pipe
        self._lost = lost
        self._guard = threading.Lock()
        self._fd: int | None = None
        self._size = 0
        self._unsent = b""
        self.lines = 0
        self.dropped = 0
        self.refused: str | None = None
        if path is not None:
            self._open(path)

    def _open(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        try:
            fd = os.open(path, flags, 0o600)
        except OSError as error:
            self.refused = f"cannot write {path.name}: {(error.strerror or str(error)).lower()}"
            return
        for _ in range(_LOCK_TRIES):  # the file is ours, but somebody may look right now whether it is live
            if lock(fd):
                self._fd = fd
                return
            time.sleep(_LOCK_PAUSE_S)
        os.close(fd)
        self.refused = f"another process writes {path.name}"

    def _remove_empty(self) -> None:
        """A file that never took a line is no session's."""
        try:
            if self._path is not None:
                self._path.unlink()
        except OSError:
            pass

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self._size

    @property
    def path(self) -> Path | None:
        """The file; None where there never was one."""
        return self._path

    def go_on(self, path: Path, head: bytes, last: bytes, also: Path | None = None) -> bool:
        """Go on in another file; False where it cannot be made, and then nothing changes.

        Args:
            path: the file to create.
            head: its first lines.
            last: the last line of the file so far, which leads to the new one; written when the new one is there.
            also: a second name for it.
        """
        with self._guard:
            if self._fd is None:
                return False
            before = (self._fd, self._path, self._size, self.refused)
            self._fd, self._path, self._size = None, path, 0
            self._open(path)
            if self._fd is None or not self._whole(self._fd, head):
                self._close_file()
                if self.refused == before[3]:
                    path.unlink(missing_ok=True)
                self._fd, self._path, self._size, self.refused = before
                return False
            if also is not None:
                try:
                    os.link(path, also)
                except OSError:
                    pass  # whoever keeps the session does it at the end
            old, self._size, self.lines = before[0], len(head), head.count(b"\n")
            self._whole(old, last)  # a disk that has no room for it: the new file is found by its name
            # On a busy disk this takes as long as many tokens: whoever stamps them must not wait for it.
            threading.Thread(target=_let_go, args=(old,), name="sync").start()
            return True

    @staticmethod
    def _whole(fd: int, data: bytes) -> bool:
        """Append all of it, or nothing."""
        start, written = os.fstat(fd).st_size, 0
        try:
            while written < len(data):
                written += os.write(fd, data[written:])
        except OSError:
            try:
                os.ftruncate(fd, start)
            except OSError:
                pass
            return False
        return True

    def stop(self, why: str) -> None:
        """Give the file up in good order: its last line says why, and the lines that come go to the pipe."""
        with self._guard:
            if self._fd is None:
                return
            self.lines += 1
            self.refused = why
            if not self._whole(self._fd, self._lost(why)):
                self._to_pipe(self._lost(why))
            self._close_file()

    @property
    def recording(self) -> bool:
        """Whether lines go to the file."""
        return self._fd is not None

    def write(self, data: bytes) -> None:
        """Append whole lines. Never raises for a full disk, a gone file or a full pipe."""
        with self._guard:
            self.lines += data.count(b"\n")
            if self._fd is not None:
                data = self._to_file(data)
            if data:
                self._to_pipe(data)

    def _to_file(self, data: bytes) -> bytes:
        """Write to the file; returns what has to go to the pipe instead, its notice first."""
        assert self._fd is not None
        written = 0
        try:
            while written < len(data):
                written += os.write(self._fd, data[written:])
        except OSError as error:
            whole = data.rfind(b"\n", 0, written) + 1
            try:
                os.ftruncate(self._fd, self._size + whole)
            except OSError:
                pass  # readers drop a torn tail
            self._size += whole
            self._close_file()
            why = (error.strerror or str(error)).lower()
            self.lines += 1  # the notice
            if self._size:
                self.refused = f"recording stopped: {why}"
                return self._lost(self.refused) + data[whole:]
            self.refused = f"cannot write {self._path.name if self._path else 'the session'}: {why}"
            self._remove_empty()
            first = data.find(b"\n") + 1  # whoever reads the pipe wants to see who writes before anything else
            return data[:first] + self._lost(self.refused) + data[first:]
        self._size += len(data)
        return b""

    def _to_pipe(self, data: bytes) -> None:
        data = self._unsent + data
        self._unsent = b""
        while data:
            try:
                sent = os.write(self._pipe, data)
            except BlockingIOError:
                # A line that was begun is finished later, or the reader would see two lines as one; whole ones are dropped.
                end = data.find(b"\n") + 1 if self._begun else 0
                self._unsent, rest = data[:end], data[end:]
                self.dropped += rest.count(b"\n")
                return
            except OSError:
                self.dropped += data.count(b"\n")  # nobody reads any more
                self._begun = False
                return
            self._begun = not data[:sent].endswith(b"\n")
            data = data[sent:]

    _begun = False

    def close(self) -> None:
        """Make what is there last: fsync once, then give up the lock."""
        with self._guard:
            if self._fd is not None:
                _let_go(self._fd)
                self._fd = None

    def _close_file(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _let_go(fd: int) -> None:
    """Make what is in a file last, then give up its lock. The process waits for it at its end."""
    try:
        os.fsync(fd)
    except OSError:
        pass
    os.close(fd)
