"""Run phasetop's live view on a pty that answers as a terminal does, until its first reply has ended."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import termios
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Drawn:
    """What a run put on the terminal, and what the viewer cost."""

    bytes: int
    seconds: float
    viewer_cpu_s: float
    status: int


def drive(argv: list[str], record: Path, cols: int = 120, rows: int = 36, env: dict[str, str] | None = None) -> Drawn:
    """Run ``argv`` (which records to ``record``), answer cursor reports, and leave with q half a second after the end."""
    started = time.monotonic()
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update({"TERM": "xterm-256color", "COLORTERM": "truecolor", **(env or {})})
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        os.execvp(argv[0], argv)
    done, left, total = 0.0, False, 0
    while True:
        readable, _, _ = select.select([fd], [], [], 0.05)
        if readable:
            try:
                data = os.read(fd, 65536)
            except OSError:
                break
            if not data:
                break
            total += len(data)
            if b"\x1b[6n" in data:
                os.write(fd, b"\x1b[1;1R")
        if not done and _has_ended(record):
            done = time.monotonic()
        if done and not left and time.monotonic() - done > 0.5:
            os.write(fd, b"q")
            left = True
    _, status, usage = os.wait4(pid, 0)
    cpu_s = usage.ru_utime + usage.ru_stime
    return Drawn(total, time.monotonic() - started, cpu_s, os.waitstatus_to_exitcode(status))


def _has_ended(record: Path) -> bool:
    try:
        with record.open("rb") as file:
            file.seek(max(0, record.stat().st_size - 4000))
            return b'"k":"end"' in file.read()
    except OSError:
        return False
