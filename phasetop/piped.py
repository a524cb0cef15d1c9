"""A session that comes on a pipe: `phasetop watch -`."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from typing import Final

from phasetop import codec
from phasetop import events as ev
from phasetop.alternatives import Alternative
from phasetop.faults import FormatError
from phasetop.inflow import Inflow
from phasetop.present import Present
from phasetop.recording import settle
from phasetop.session import Session
from phasetop.standing import Standing
from phasetop.unzipped import GZIP_MAGIC

JUNK_BYTES: Final = 1 << 20
"""So much may stand before the session's first line: what a login prints."""
_READ_BYTES: Final = 1 << 16
_MOST_BYTES: Final = 4 << 20
"""At most so much is taken at once: a long session must not hold up the view."""


class Piped:
    """The session that comes on a descriptor; `phasetop.tui.source.Source` has the contract.

    Args:
        fd: a pipe, or a file. It may be shared with others, so it stays as it is (blocking).
        clock: this machine's steady clock, ns.
    """

    def __init__(self, fd: int, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        self._inflow = Inflow()
        self._present = Present(clock)
        self._before = b""
        self._junk = 0
        self._begun = False
        self._ended = False

    @property
    def session(self) -> Session:
        """What is known so far."""
        return self._inflow.session

    @property
    def live(self) -> bool:
        """Whether more may come."""
        return not self._ended

    @property
    def standing(self) -> Standing | None:
        """That the session goes on in a file that does not come by here; None while it does not."""
        part = self.session.goes_on
        if not self.live or part is None or part.part <= self._inflow.part:
            return None
        here = f"part {part.part}"
        return Standing(f"goes on in {here}", f"the session goes on in {here}, another file, which did not come by here")

    def now(self) -> int:
        """The session's present, as far as it is known; see `Present`."""
        return self._present.at(self.session.last_t) if self.live else self.session.last_t

    def alternatives(self, r: int, i: int) -> tuple[tuple[Alternative, ...], ...]:
        """What each token of a line could have been, read again from the copy."""
        return self._inflow.alternatives(r, i)

    def poll(self) -> bool:
        """Take what came, without waiting; True when something did.

        Raises:
            FormatError: no session comes there.
        """
        if self._ended:
            return False
        came, taken, closed = False, 0, False
        while taken < _MOST_BYTES and not closed and self._poll.poll(0):
            data = os.read(self._fd, _READ_BYTES)
            taken += len(data)
            closed = not data
            if not self._begun:
                data = self._begin(data)
            if self._begun and data:
                came = self._inflow.take(data) or came
        if came:
            self._present.read(self.session.last_t)
        if self.session.bye is not None:
            self._ended = True
        elif closed:
            self._ended = True
            if not self._begun:
                raise FormatError("what came on stdin is no phasetop session")
            settle(self.session, self.session.last_t, "stream-ended")
            return True
        return came

    def _begin(self, data: bytes) -> bytes:
        """Leave out what stands before the session; what comes from its first line on, nothing while it has not come."""
        data = self._before + data
        if data.startswith(GZIP_MAGIC):
            raise FormatError("what comes on stdin is packed: `gzip -dc FILE | phasetop watch -`")
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            line = data[start : end + 1]
            event = None
            try:
                event = codec.decode_lean(line) if line.startswith(b"{") else None
            except codec.BadLine:
                pass
            if isinstance(event, ev.Hello):
                self._begun = True
                return data[start:]
            if event is not None:
                raise FormatError("stdin begins in the middle of a session: `tail -c +1 -f FILE` sends it whole")
            self._junk += len(line)
            start = end + 1
        self._before = data[start:]
        if self._junk + len(self._before) > JUNK_BYTES:
            raise FormatError("what comes on stdin is no phasetop session")
        return b""
