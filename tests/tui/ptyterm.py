"""A terminal for tests: a command on a pty, its screen in pyte, and the answers that a real one gives.

As a program it measures one:  python tests/tui/ptyterm.py --size 120x36 --seconds 10 -- COMMAND …
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import re
import resource
import select
import struct
import sys
import termios
import time
from collections.abc import Callable, Mapping
from types import TracebackType

import pyte

_ASKED = re.compile(rb"\x1b\]11;\?(?:\x1b\\|\x07)|\x1b\[c|\x1b\[6n|\x1b\[\?2026\$p")
_UNKNOWN_TO_PYTE = re.compile(rb"\x1b\[[<>=?][0-9;]*[a-zA-Z]|\x1b\[\?[0-9;]*\$p|\x1b\]11;\?(?:\x1b\\|\x07)")
MODES = {"alternate": "1049", "mouse": "1000", "motion": "1003", "sgr": "1006", "paste": "2004", "focus": "1004"}


class Terminal:
    """A pty with a command in it; use as a context manager.

    Args:
        command: what to run.
        size: columns and rows.
        env: the whole environment.
        ground: what OSC 11 answers, ``r/g/b`` in hexadecimal; None: nothing.
        answers: False: a terminal that answers nothing at all.
        late_s: so long after a question its answer comes (while the terminal is pumped).
        sync: it has synchronized output (mode 2026), and says so.

    """

    def __init__(
        self,
        command: list[str],
        *,
        size: tuple[int, int] = (80, 24),
        env: Mapping[str, str] | None = None,
        ground: str | None = "0f0f/1414/1919",
        answers: bool = True,
        late_s: float = 0.0,
        sync: bool = False,
    ) -> None:
        self._sync = sync
        self._late_s = late_s
        self._to_come: list[tuple[float, bytes]] = []
        self.raw = bytearray()
        self.screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self.screen)
        self._ground, self._answers = ground, answers
        self.status: int | None = None
        self.reads: list[tuple[float, int]] = []
        self._began = time.monotonic()
        self.before: list[object] = []
        pid, self.fd = pty.fork()
        if pid == 0:
            os.execve(command[0], command, dict(env if env is not None else os.environ))
        self.pid = pid
        self.resize(*size)
        self.before = termios.tcgetattr(self.fd)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def resize(self, columns: int, rows: int) -> None:
        """Another size, with the signal that goes with it."""
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)

    def send(self, keys: str) -> None:
        """Type."""
        os.write(self.fd, keys.encode())

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        os.kill(self.pid, number)

    @property
    def text(self) -> str:
        """The screen, a line a row."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def pump(self, seconds: float) -> bool:
        """Read for at most so long; False when the command has ended."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            while self._to_come and self._to_come[0][0] <= time.monotonic():
                os.write(self.fd, self._to_come.pop(0)[1])
            if self._to_come:
                left = min(left, max(0.0, self._to_come[0][0] - time.monotonic()))
            if not select.select([self.fd], [], [], left)[0]:
                continue
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            if not data:
                self._reap()
                return False
            self.raw += data
            self.reads.append((time.monotonic() - self._began, len(data)))
            self._answer(data)
            self._stream.feed(_UNKNOWN_TO_PYTE.sub(_known, data))
        return True

    def until(self, true: Callable[[], bool], patience: float = 10.0) -> None:
        """Read until something is so; fails with the screen when it does not become so."""
        end = time.monotonic() + patience
        while not true():
            if not self.pump(0.02) or time.monotonic() > end:
                if true():
                    return
                raise AssertionError(
                    f"it did not come to that; the screen:\n{self.text}\nthe end: {bytes(self.raw[-400:])!r}"
                )

    def until_shown(self, words: str, patience: float = 10.0) -> None:
        """Read until the screen shows these words."""
        self.until(lambda: words in self.text, patience)

    def wait(self, patience: float = 10.0) -> int:
        """Read until the command has ended; its exit status."""
        end = time.monotonic() + patience
        while self.status is None:
            self.pump(0.1)
            if time.monotonic() > end:
                raise AssertionError(f"it did not end; the screen:\n{self.text}")
        return self.status

    def modes_left_on(self) -> list[str]:
        """The modes that were set and not reset."""
        left = []
        for name, code in MODES.items():
            switches = re.findall(r"\x1b\[\?" + code + "([hl])", self.raw.decode("utf-8", "replace"))
            if switches and switches[-1] == "h":
                left.append(name)
        cursor = re.findall(r"\x1b\[\?25([hl])", self.raw.decode("utf-8", "replace"))
        return left + (["cursor hidden"] if cursor and cursor[-1] == "l" else [])

    def close(self) -> None:
        """End the command, whatever it does."""
        if self.status is None:
            try:
                os.kill(self.pid, 9)
            except ProcessLookupError:
                pass
            self._reap()
        try:
            os.close(self.fd)
        except OSError:
            pass

    def _reap(self) -> None:
        if self.status is None:
            _, status = os.waitpid(self.pid, 0)
            self.status = os.waitstatus_to_exitcode(status)

    def _answer(self, data: bytes) -> None:
        if not self._answers:
            return
        for asked in _ASKED.findall(data):
            if asked.startswith(b"\x1b]11") and self._ground:
                self._say(f"\x1b]11;rgb:{self._ground}\x1b\\".encode())
            elif asked == b"\x1b[?2026$p" and self._sync:
                self._say(b"\x1b[?2026;2$y")
            elif asked == b"\x1b[c":
                self._say(b"\x1b[?62;22c")
            elif asked == b"\x1b[6n":
                self._say(f"\x1b[{self.screen.cursor.y + 1};{self.screen.cursor.x + 1}R".encode())

    def _say(self, answer: bytes) -> None:
        if self._late_s:
            self._to_come.append((time.monotonic() + self._late_s, answer))
        else:
            os.write(self.fd, answer)


def _known(match: re.Match[bytes]) -> bytes:
    """What pyte understands of the private sequences: setting and resetting modes."""
    sequence = match[0]
    return sequence if sequence[2:3] == b"?" and sequence[-1:] in b"hl" else b""


def main() -> int:
    """Measure a command: bytes a second, CPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="120x36")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--skip", type=float, default=3.0, help="seconds at the start that do not count")
    parser.add_argument("--no-ground", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    columns, rows = map(int, given.size.split("x"))
    command = given.command[1:] if given.command[:1] == ["--"] else given.command
    env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    env.pop("NO_COLOR", None)
    ground = None if given.no_ground else "0f0f/1414/1919"
    with Terminal(command, size=(columns, rows), env=env, ground=ground) as terminal:
        terminal.pump(given.skip)
        before, start = len(terminal.raw), _cpu_of(terminal.pid)
        began = time.monotonic()
        terminal.pump(given.seconds)
        took = time.monotonic() - began
        bytes_s, cpu = (len(terminal.raw) - before) / took, (_cpu_of(terminal.pid) - start) / took
        terminal.send("\x03\x03")
        terminal.pump(2)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    print(json.dumps({"bytes_per_s": round(bytes_s), "cpu_percent": round(cpu * 100, 1), "rss_mib": peak}))
    return 0


def _cpu_of(pid: int) -> float:
    """User and system time of a process, s (Linux)."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
