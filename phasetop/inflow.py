"""The bytes of a session that come through a pipe or a link: applied as they come, and copied, to be read again.

The copy has no name: it is gone with the process. What of a token the columns do not hold (its alternatives) is read there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Final

from phasetop import places
from phasetop.alternatives import Alternative, read_alternatives
from phasetop.recording import LineFeed, notice
from phasetop.reread import Reread
from phasetop.session import Session

HEAD_BYTES: Final = 4096
"""So much of the first line tells one session from another."""


class Inflow:
    """Takes a session's bytes in order."""

    def __init__(self) -> None:
        self._feed = LineFeed(Session())
        self._head = b""
        self._replaced = False
        self._copy: IO[bytes] | None = None
        try:
            self._copy = places.unnamed_file()
        except OSError:
            pass  # what the columns do not hold is not shown

    @property
    def session(self) -> Session:
        """What is known so far; another object after `start_over`."""
        return self._feed.session

    @property
    def whole(self) -> int:
        """The bytes of whole lines of the file that comes: what follows them is asked for after a cut."""
        return self._feed.offset - self._feed.base

    @property
    def part(self) -> int:
        """The part of the session that comes."""
        return self._feed.part

    @property
    def size(self) -> int:
        """All bytes of the file that comes, those of a line without an end too."""
        return self.whole + self._feed.tail_bytes

    @property
    def first(self) -> bytes:
        """The first line, without its newline, as far as it is known: at most 4096 bytes."""
        return self._head.partition(b"\n")[0]

    def take(self, data: bytes) -> bool:
        """Apply what comes next; True when there was a whole line in it.

        Raises:
            FormatError: it is no session's, or of a newer format.
        """
        if len(self._head) < HEAD_BYTES and self.size == len(self._head):
            self._head += data[: HEAD_BYTES - len(self._head)]
        if self._copy is not None:
            self._write(data, self._feed.base + self.size)
        lines = self._feed.feed(data)
        if self._replaced and self.session.hello is not None:
            self._replaced = False
            notice(self.session, "replaced", "the session file was replaced: this is what stands there now", level="warn")
        return lines > 0

    def _write(self, data: bytes, at: int) -> None:
        assert self._copy is not None
        try:
            view = memoryview(data)
            while view:
                written = os.pwrite(self._copy.fileno(), view, at)
                view, at = view[written:], at + written
        except OSError:  # a full disk: what the columns do not hold is not shown
            self._copy.close()
            self._copy = None

    def resume(self) -> None:
        """What comes next stands behind the last whole line."""
        self._head = self._head[: self.whole]
        self._feed.forget_tail()
        if self._copy is not None:
            os.ftruncate(self._copy.fileno(), self._feed.offset)

    def go_on(self) -> None:
        """What comes next is a further part of the session, from the part's beginning."""
        self._feed, self._head = LineFeed(self.session, after=self._feed.offset), b""

    def start_over(self) -> None:
        """What comes next is another session, from its beginning."""
        self._feed, self._head, self._replaced = LineFeed(Session()), b"", True
        self.resume()

    def alternatives(self, r: int, i: int) -> tuple[tuple[Alternative, ...], ...]:
        """What each token of a line could have been, read again."""
        lines = None if self._copy is None else Reread(Path(f"/dev/fd/{self._copy.fileno()}"))
        return read_alternatives(self.session, lines, r, i)

    def copied(self) -> bytes | None:
        """All that came, of all parts; None where there was no place for it."""
        return None if self._copy is None else os.pread(self._copy.fileno(), self._feed.base + self.size, 0)
