"""Small files that the kernel writes when they are read (/proc, /sys): often read here, so with few system calls."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_READ_BYTES: Final = 1 << 14


def read(file: Path | str) -> bytes:
    """All of a file, in four system calls where Python's own files take nine or more.

    Raises:
        OSError: it is not there, or cannot be read.

    """
    fd = os.open(file, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        data = os.read(fd, _READ_BYTES)
        while more := os.read(fd, _READ_BYTES):  # some come a page at a time
            data += more
        return data
    finally:
        os.close(fd)


def number(file: Path | str) -> int | None:
    """The number that a file holds alone; None where there is none."""
    try:
        return int(read(file))
    except (OSError, ValueError):
        return None


def field(data: bytes, name: bytes) -> int | None:
    """The number behind ``name`` at the beginning of a line, as /proc/vmstat and cgroups have it; None: no such line.

    Raises:
        ValueError: what stands there is no number.

    """
    _, found, rest = (b"\n" + data).partition(b"\n" + name + b" ")
    return int(rest.partition(b"\n")[0]) if found else None
