"""One connection to the far side of a watched session: the ssh that carries it, and what it says. It never blocks."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Final

from phasetop import far, ssh
from phasetop.ssh import Address, Failure

_OPTIONS: Final = ("-C",)
"""Compressed, a token's line takes half of what it does else, packets and all: `benchmarks/far_screen.py`."""
READY_S: Final = 30.0
"""So long the far shell may take to come up, after the time that connecting may take."""
_READ_BYTES: Final = 1 << 16
_MOST_BYTES: Final = 4 << 20
"""At most so much is taken at once: a long session must not hold up the view."""
_PARTING_S: Final = 0.5
"""The end of its stdin ends what runs there, and ssh with it; where that takes longer, ssh is ended."""
_WORDS_BYTES: Final = 1 << 14


class Connection:
    """An ssh that runs `far`'s script.

    Its stdin is a pipe of ours: whatever ends this process closes it, which ends what runs there. It is in a session of its
    own, so that ctrl-C and ctrl-Z at the terminal are not its affair.

    Args:
        address: the far machine.
        argv: makes another command line than ssh's, from the word that the script's lines begin with.
    """

    def __init__(self, address: Address, argv: Callable[[str], Sequence[str]] | None = None) -> None:
        self.address = address
        self.ready = False
        self._failure: Failure | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._said = b""  # on stderr, the newest
        self._began = time.monotonic()
        self._nonce = nonce = far.new_nonce()
        self._reader = far.FarReader(nonce)
        try:
            self._process = subprocess.Popen(
                argv(nonce) if argv is not None else ssh.command(address, *far.words(nonce), options=_OPTIONS, stdin=True),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                bufsize=0,
            )
        except OSError:
            self._failure = ssh.not_installed()
            return
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        self.send(far.script_line())

    @property
    def failure(self) -> Failure | None:
        """Why it ended; None while it goes on."""
        return self._failure

    @property
    def freed_at(self) -> int | None:
        """The file's size when its writer let go of it; None while it has not, or nobody there can tell."""
        return far.freed_at(self._said, self._nonce)

    def send(self, line: bytes) -> None:
        """Say a line to the script; it is short, and the pipe takes it whole."""
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
        except (BrokenPipeError, ValueError):
            pass  # it ended: `read` finds out why

    def read(self) -> list[far.Said]:
        """What came since the last call, without waiting."""
        process = self._process
        if process is None or self._failure is not None:
            return []
        assert process.stdout is not None
        assert process.stderr is not None
        ended = process.poll() is not None  # before reading: what it had said by then is all read below
        self._said = (self._said + b"".join(_available(process.stderr.fileno())))[-_WORDS_BYTES:]
        said: list[far.Said] = []
        taken = 0
        for data in _available(process.stdout.fileno()):
            said += self._reader.feed(data)
            taken += len(data)
        for one in said:
            if isinstance(one, far.Ready):
                self.ready = True
            elif isinstance(one, far.Broken):
                self._fail(Failure("far", f"{self.address} cannot be watched: {one.why}"))
        if self._failure is None and ended and taken < _MOST_BYTES:
            self._fail(ssh.why_it_ended(self.address, process.returncode, self._said))
        elif self._failure is None and not self.ready and time.monotonic() - self._began > ssh.CONNECT_S + READY_S:
            self._fail(Failure("far", f"{self.address} was reached, but no shell came up there within {READY_S:.0f} s"))
        return said

    def _fail(self, failure: Failure) -> None:
        self._failure = failure
        self.close()

    def close(self) -> None:
        """End it, here and there; never hangs."""
        process = self._process
        if process is None:
            return
        self._process = None
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        for end in (process.terminate, process.kill):
            try:
                process.wait(_PARTING_S)
                return
            except subprocess.TimeoutExpired:
                end()
        process.wait()


def _available(fd: int) -> list[bytes]:
    """What a non-blocking descriptor has now, at most `_MOST_BYTES`."""
    parts: list[bytes] = []
    taken = 0
    while taken < _MOST_BYTES:
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            break
        if not data:
            break
        parts.append(data)
        taken += len(data)
    return parts
