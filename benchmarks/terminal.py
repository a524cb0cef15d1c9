"""A terminal for benchmarks: a command on a pty that is answered as a terminal answers, at once or over a slow link."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from collections import deque
from collections.abc import Callable, Mapping

ASKED = re.compile(rb"\x1b\]11;\?(?:\x1b\\|\x07)|\x1b\[c|\x1b\[6n")
GROUND = b"\x1b]11;rgb:0f0f/1414/1919\x1b\\"
ENVIRON = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}


def environ(**more: str) -> dict[str, str]:
    """The environment as a local terminal has it, without what a link would set."""
    left_out = ("NO_COLOR", "SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT", "PHASETOP_FPS", "PHASETOP_COLOURS")
    return {**{k: v for k, v in os.environ.items() if k not in left_out}, **ENVIRON, **more}


def cpu_s(pid: int) -> float:
    """The time that the threads of a process have run so far (Linux); those that ended do not count."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[0])
        except OSError:
            continue
    return total / 1e9


class Terminal:
    """A command on a pty.

    Args:
        command: what to run.
        size: columns and rows.
        env: its environment.
        rate: bytes a second that the link carries; None: no limit.
        rtt_s: what an answer takes.
        window: bytes that are under way at most, as a socket's buffers hold.
    """

    def __init__(
        self,
        command: list[str],
        *,
        size: tuple[int, int] = (120, 36),
        env: Mapping[str, str] | None = None,
        rate: float | None = None,
        rtt_s: float = 0.0,
        window: int = 1 << 20,
    ) -> None:
        self.began = time.monotonic()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
            os.execvpe(command[0], command, dict(env or environ()))
        self.produced = 0
        self.shown = bytearray()  # what the screen has shown, in order
        self.shown_at: list[tuple[int, float]] = []  # bytes shown, and when
        self.made_at: list[tuple[int, float]] = []  # bytes written by the command, and when they were read
        self._rate, self._rtt_s, self._window = rate, rtt_s, window
        self._way: deque[bytes] = deque()
        self._way_bytes = 0
        self._budget, self._last = 0.0, self.began
        self._answers: deque[tuple[float, bytes]] = deque()
        self._tail = b""
        self.status: int | None = None

    def send(self, keys: bytes) -> None:
        """Type."""
        os.write(self.fd, keys)

    def pump(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass; False when the command has ended. ``until`` ends it early."""
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            if until is not None and until():
                return True
            while self._answers and self._answers[0][0] <= now:
                os.write(self.fd, self._answers.popleft()[1])
            self._carry(now)
            wait = 0.002 if self._way or self._answers else min(0.05, end - now)
            room = self._window - self._way_bytes
            if select.select([self.fd] if room > 0 else [], [], [], wait)[0]:
                try:
                    data = os.read(self.fd, min(65536, room))
                except OSError:
                    data = b""
                if not data:
                    _, status = os.waitpid(self.pid, 0)
                    self.status = os.waitstatus_to_exitcode(status)
                    return False
                self.produced += len(data)
                self.made_at.append((self.produced, time.monotonic()))
                if self._rate is None:
                    self._show(data, time.monotonic())
                else:
                    self._way.append(data)
                    self._way_bytes += len(data)
        return True

    def _carry(self, now: float) -> None:
        if self._rate is None:
            return
        self._budget = min(self._budget + (now - self._last) * self._rate, max(2048.0, self._rate * 0.05))
        self._last = now
        while self._way and self._budget >= 1:
            first = self._way.popleft()
            n = min(len(first), int(self._budget))
            if n < len(first):
                self._way.appendleft(first[n:])
            self._budget -= n
            self._way_bytes -= n
            self._show(first[:n], now)

    def _show(self, data: bytes, now: float) -> None:
        self.shown += data
        self.shown_at.append((len(self.shown), now))
        looked = self._tail + data
        for match in ASKED.finditer(looked):
            if match.end() > len(self._tail):
                answer = {b"]": GROUND, b"[": b"\x1b[?62;22c" if match[0] == b"\x1b[c" else b"\x1b[1;1R"}[match[0][1:2]]
                self._answers.append((now + self._rtt_s, answer))
        self._tail = looked[-16:]

    def cpu_s(self) -> float:
        """The time that the process has run so far (Linux)."""
        return cpu_s(self.pid)

    def children(self) -> list[int]:
        """The process ids of its children and theirs (Linux)."""
        found: list[int] = []
        queue = [self.pid]
        while queue:
            pid = queue.pop()
            try:
                with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                    mine = [int(each) for each in file.read().split()]
            except OSError:
                continue
            found += mine
            queue += mine
        return found

    def close(self) -> None:
        """End it."""
        if self.status is None:
            os.kill(self.pid, 15)
            if self.pump(3.0):
                os.kill(self.pid, 9)
                os.waitpid(self.pid, 0)
        os.close(self.fd)
