"""A growing session: the file from its offset, and the pipe of the collector that writes it.

The view polls once a frame, headless each 16 ms; nothing here blocks. What came through the pipe is taken before the file is
read and applied after it, since the collector turns to the pipe only when the file can take no more.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from phasetop.faults import FormatError, PhasetopError
from phasetop.parts import number_of, part_beside
from phasetop.places import find_part
from phasetop.recording import BROKEN_PACKING, LineFeed, notice, settle
from phasetop.session import Session
from phasetop.unzipped import BROKEN, GZIP_MAGIC, Unzipped

_READ_BYTES: Final = 1 << 20
MOST_BYTES: Final = 2 << 20
"""At most so much of the file is taken in one poll (an eighth of a second): a long session must not hold up the view."""
_HEAD_BYTES: Final = 1 << 10
"""So much of the first line tells one session from another: its id stands there."""
_OPEN: Final = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)  # never wait for a FIFO's writer


class Follower:
    """Keeps a Session as long as its file.

    A watcher (no pipe) whose file was replaced by another starts over: ``session`` is a new object then, from the moment
    on at which the new file has its first line. A session that goes on in a further part is followed there: ``path`` is
    the file that is read now. A packed file grows no more: it is read to its end.

    Args:
        path: the session file; it may not exist yet. None: the pipe alone.
        pipe: the collector's stdout, non-blocking; None for a watcher.
        now: ns since the anchor, for what has to be ended here.

    Attributes:
        behind: there is more in the file than was taken so far; the next poll goes on with it.
    """

    def __init__(self, path: Path | None, pipe: int | None, now: Callable[[], int]) -> None:
        self.session = Session()
        self.path = path
        self._pipe = pipe
        self._now = now
        self._fd: int | None = None
        self._packed: Unzipped | None = None  # what reads it, where it is packed
        self._next: tuple[Path, int] | None = None  # the further part, held open until this one is read
        self._head = b""
        self._file = LineFeed(self.session)
        self._piped = LineFeed(self.session, placed=False)
        self._pipe_open = pipe is not None
        self._held = b""  # what came through the pipe while the file was still read
        self._replaced = False
        self.behind = False
        self.ended = False

    def poll(self) -> bool:
        """Apply what is new; True when something came.

        Raises:
            FormatError: the file is no session's, or of another format.
            PhasetopError: the file cannot be read. After either it has ended.
        """
        if self.ended:
            return False
        try:
            return self._poll()
        except FormatError as error:
            self.ended = True
            raise FormatError(f"{self.path}: {error}") from None
        except PhasetopError:
            self.ended = True
            raise
        except OSError as error:
            self.ended = True
            raise PhasetopError(f"cannot read {self.path}: {(error.strerror or str(error)).lower()}") from None

    def _poll(self) -> bool:
        self._held += self._read_pipe()
        lines = self._read_file()
        if self._held and not self.behind:
            lines += self._piped.feed(self._held)
            self._held = b""
        if self.session.bye is not None:
            self.ended = True
        elif self._pipe is not None and not self._pipe_open and not self.behind:
            lines += self._read_file()
            if self.behind:
                return True
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

    @property
    def share(self) -> float:
        """The share of the file that was taken, 0 to 1."""
        size = 0 if self._fd is None else os.fstat(self._fd).st_size
        taken = self._taken if self._packed is None else self._packed.packed_bytes
        return min(1.0, taken / size) if size else 1.0

    @property
    def _taken(self) -> int:
        """Bytes of the file that were read."""
        return self._file.offset - self._file.base + self._file.tail_bytes

    def _read_file(self) -> int:
        """Take what is new in the file, at most `MOST_BYTES` of it; returns how many whole lines that were."""
        if self._fd is None and not self._open():
            return 0
        assert self._fd is not None
        lines, room = 0, MOST_BYTES
        self.behind = False
        self._hold_next()
        if self._pipe is None and self._packed is None and self._is_another(self._fd):
            self._start_over()
        while True:
            at = self._taken
            data = self._read(min(_READ_BYTES, room), at)
            if data:
                self._remember_head(data, at)
                lines += self._file.feed(data)
                self._take_over()
                room -= len(data)
                if room <= 0:
                    more = self._packed is not None or self.lacks_part is not None
                    self.behind = more or os.fstat(self._fd).st_size > self._taken
                    return lines
                continue
            size = os.fstat(self._fd).st_size
            if self._packed is not None:
                if self._goes_on():
                    continue
            elif size < self._file.offset - self._file.base:
                self._start_over()
            elif size < at:  # cut back to its last whole line
                self._file.forget_tail()
            elif self._goes_on() or (self._pipe is None and self._is_elsewhere()):
                continue
            return lines

    def _read(self, size: int, at: int) -> bytes:
        """Bytes of the file from ``at`` on, unpacked where it is packed; empty at its end.

        Raises:
            FormatError: its packing is broken before its first line.
        """
        assert self._fd is not None
        if self._packed is None:
            data = os.pread(self._fd, size, at)
            if at or not data.startswith(GZIP_MAGIC):
                return data
            self._packed = Unzipped(os.fdopen(self._fd, "rb", buffering=0, closefd=False))
        try:
            return self._packed.read(size)
        except BROKEN:
            if self._file.session.hello is None:
                raise FormatError(BROKEN_PACKING) from None
            return b""

    def _hold_next(self) -> None:
        """Open the next part as soon as its name is there: the names of a run that was not kept go when it ends."""
        assert self.path is not None
        if self._next is not None:
            return
        path = part_beside(self.path, number_of(self.path) + 1)
        try:
            self._next = (path, os.open(path, _OPEN))
        except OSError:
            pass

    @property
    def lacks_part(self) -> int | None:
        """The part in which the session goes on and which is not there; None where nothing lacks."""
        part = self._file.session.goes_on
        return None if part is None or part.part <= self._file.part else part.part

    def _goes_on(self) -> bool:
        """Whether all of this file was read and the session goes on in another, which is followed then."""
        part = self._file.session.goes_on
        if part is None or part.part <= self._file.part or self._file.tail_bytes:
            return False
        assert self.path is not None
        if self._next is None:
            hello = self._file.session.hello
            found = find_part(self.path, part, None if hello is None else hello.session)
            if found is None:  # its name is not there yet
                return False
            self._next = (found, os.open(found, _OPEN))
        if self._fd is not None:
            os.close(self._fd)
        (self.path, self._fd), self._next, self._packed = self._next, None, None
        self._file = LineFeed(self._file.session, after=self._file.offset)
        self._head = b""
        return True

    def _open(self) -> bool:
        """Open the file; False while there is none."""
        if self.path is None:
            return False
        try:
            self._fd = os.open(self.path, _OPEN)
        except FileNotFoundError:
            return False
        return True

    def _remember_head(self, data: bytes, at: int) -> None:
        """Keep how the file begins, to tell when another session stands there."""
        if at == len(self._head) < _HEAD_BYTES and b"\n" not in self._head:
            self._head += data[: _HEAD_BYTES - len(self._head)]
            self._head = self._head[: self._head.find(b"\n") + 1] or self._head

    def _is_another(self, fd: int) -> bool:
        """Whether the file does not begin any more as it did."""
        head = os.pread(fd, len(self._head), 0) if self._head else b""
        return head != self._head[: len(head)]

    def _is_elsewhere(self) -> bool:
        """Whether the path leads to another file than the open one, which is followed from then on.

        From the same place if it goes on with the same session, else from its beginning. A path that is gone leads
        nowhere: the open file stays.
        """
        assert self.path is not None
        assert self._fd is not None
        try:
            there, here = os.stat(self.path), os.fstat(self._fd)
            if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino):
                return False
            fd = os.open(self.path, _OPEN)
        except OSError:
            return False
        os.close(self._fd)
        self._fd = fd
        if self._is_another(fd) or os.fstat(fd).st_size < self._file.offset - self._file.base:
            self._start_over()
        return True

    def _start_over(self) -> None:
        """Another session stands in the file, or it lost whole lines.

        A watcher reads it again from its beginning. Whoever has the writer's pipe says it, once, takes nothing back, and
        reads on where the writer goes on.
        """
        if self._pipe is None:
            self._file, self._head, self._replaced = LineFeed(Session()), b"", True
            return
        assert self._fd is not None
        self._file.offset = self._file.base + os.fstat(self._fd).st_size
        self._file.forget_tail()
        if not self._replaced:
            self._replaced = True
            notice(self.session, "replaced", "the session file became shorter: somebody else wrote to it", level="warn")

    def _take_over(self) -> None:
        """Show the session of the file that came in the old one's place, as soon as it has begun."""
        fresh = self._file.session
        if fresh is not self.session and fresh.hello is not None:
            self.session = fresh
            notice(fresh, "replaced", "the session file was replaced: this is what stands there now", level="warn")

    def close(self) -> None:
        """Let go of the file; the pipe belongs to the lifeline."""
        for fd in (self._fd, None if self._next is None else self._next[1]):
            if fd is not None:
                os.close(fd)
        self._fd = self._next = None
