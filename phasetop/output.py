"""What is printed: JSON for machines as UTF-8 whatever the locale, words for people that never break the command."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from phasetop.faults import PhasetopError
from phasetop.visible import harmless


def print_utf8(text: str) -> None:
    """Text and a newline on stdout, UTF-8 whatever the locale says; made harmless where that is a terminal.

    Raises:
        BrokenPipeError: nobody reads any more.
        PhasetopError: it cannot be written (a full disk).
    """
    with writing():
        sys.stdout.buffer.write(for_stdout(text) + b"\n")
        sys.stdout.flush()


@contextmanager
def writing() -> Iterator[None]:
    """While something is written on stdout.

    Raises:
        BrokenPipeError: nobody reads any more.
        PhasetopError: it cannot be written (a full disk).
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        silence_stdout()
        raise PhasetopError(f"cannot write the output: {(error.strerror or str(error)).lower()}") from None


def print_json(value: Any, how: str) -> None:
    """Print a ``--json`` object: on one line where ``how`` is "compact", else indented.

    Raises:
        BrokenPipeError, PhasetopError: as `print_utf8`.
    """
    print_utf8(to_json(value, compact=how == "compact"))


def to_json(value: Any, *, compact: bool) -> str:
    """Text of a ``--json`` object: one line where it is compact, else indented. No newline at the end."""
    import msgspec  # `phasetop --help` prints, too, and needs none of it

    data = msgspec.json.encode(value)
    return (data if compact else msgspec.json.format(data, indent=2)).decode()


def utc(ns: int) -> str | None:
    """A moment in a ``--json`` object: ns since 1970 as UTC with microseconds; None where no calendar has it."""
    from datetime import UTC, datetime

    whole_s, rest = divmod(ns, 1_000_000_000)
    try:
        moment = datetime.fromtimestamp(whole_s, UTC)
    except (OverflowError, OSError, ValueError):
        return None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest // 1000:06d}Z"


def for_stdout(text: str) -> bytes:
    """What stdout is given of a text that may hold a model's, a server's or a file's: a pipe all of it as it is."""
    return (harmless(text) if sys.stdout.isatty() else text).encode("utf-8", "replace")


def say(text: str) -> None:
    """One line for a person on stderr; a stderr that takes nothing is no reason to stop."""
    tell(f"phasetop: {harmless(text, newlines=False)}")


def tell(line: str) -> None:
    """A line on stderr as it is (it must be harmless already)."""
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        pass


def silence_stdout() -> None:
    """Nobody reads stdout any more: keep the interpreter from complaining about it at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError:
        pass


def open_closed_streams() -> None:
    """Give descriptors 0, 1 and 2 something to stand on where a shell closed them (``>&-``).

    Else the next file that is opened, the session's perhaps, would become stdout.
    """
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(fd, mode, encoding="utf-8", errors="replace", closefd=False))  # noqa: SIM115


def print_anything() -> None:
    """Make stdout take every character, as UTF-8 like `print_utf8`, whatever the locale or PYTHONIOENCODING says."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
