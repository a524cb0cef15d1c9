"""`phasetop replay`: the view over a recording, a picture of it, or its requests printed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from phasetop import places
from phasetop.display import Display, has_terminal
from phasetop.faults import EXIT_FAILED, EXIT_OK, PhasetopError, UsageError
from phasetop.output import print_json, print_utf8, say, tell
from phasetop.parts import is_of
from phasetop.session import Session

if TYPE_CHECKING:
    from phasetop.moments import Moment

SIZE: Final = (120, 36)
LARGEST: Final = 1000
"""Columns and rows that a picture may have."""


def replay(
    name: str,
    *,
    as_json: str | None,
    plain: bool,
    display: Display,
    at: Moment | None = None,
    speed: float = 1.0,
) -> int:
    """Open a recording at its start, or at a moment; returns the exit status: 1 where its last request failed or was cut.

    Raises:
        UsageError: there is none of that name; or a moment is given where there is no view.
        PhasetopError: it cannot be read.
    """
    from phasetop.opening import open_recording

    view = as_json is None and not plain and has_terminal()
    if at is not None and not view:
        raise UsageError("--at needs the view, at a terminal, or --screenshot OUT.svg")
    session, path = open_recording(name)
    if view:
        from phasetop.live import replay_view

        return replay_view(session, path, display, at, speed)
    return _print(session, path, as_json)


def screenshot(name: str, out: str, *, display: Display, at: Moment | None, size: tuple[int, int]) -> int:
    """Write a picture of a recording as of a moment (None: its end): SVG, or its characters where ``out`` ends in .txt.

    Raises:
        UsageError: there is no recording of that name; or the picture's name says neither.
        PhasetopError: it cannot be read, or written.
    """
    from phasetop.opening import open_recording

    if not out.endswith((".svg", ".txt")) and out != "-":
        raise UsageError(f"--screenshot {out}: a picture is an .svg, or a .txt with its characters alone")
    session, path = open_recording(name)
    from phasetop.live import screenshot as picture

    text = picture(session, path.name, display, at, size, svg=not out.endswith(".txt"))
    if out == "-":
        print_utf8(text.rstrip("\n"))
        return EXIT_OK
    target = Path(out).expanduser()
    try:
        if is_of(target, path):
            raise PhasetopError(f"{out} is the recording itself: it is not written over")
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0), 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise PhasetopError(f"cannot write {out}: {(error.strerror or str(error)).lower()}") from None
    return EXIT_OK


def size_of(text: str) -> tuple[int, int]:
    """Columns and rows of ``120x36``.

    Raises:
        ValueError: it is none.
    """
    columns, _, rows = text.lower().replace("×", "x").partition("x")
    if not (columns.strip().isdecimal() and rows.strip().isdecimal()):
        raise ValueError(f"{text!r} is no size: columns and rows, like 120x36")
    size = int(columns), int(rows)
    if not (20 <= size[0] <= LARGEST and 5 <= size[1] <= LARGEST):
        raise ValueError(f"{text!r} is too small or too large: 20x5 to {LARGEST}x{LARGEST}")
    return size


def _print(session: Session, path: Path, as_json: str | None) -> int:
    from phasetop import report, summary
    from phasetop.headless import TextOut

    kept = places.kept_name(path)
    runs = [one for one in session.runs.values() if one.info.at() is not None]
    status = EXIT_FAILED if session.last_failed else EXIT_OK
    if as_json is not None:
        objects = [report.request_object(session, one, kept_as=kept) for one in runs]
        print_json({"session": kept, "requests": objects}, as_json)
        return status
    for notice in session.notices.items:
        if notice.r is None and notice.level != "info":
            say(notice.text)
    if not runs:
        say(f"{path.name}: no request in it")
    for one in runs:
        out = TextOut(run_json=False, show_thinking=False)
        out.write_new(one)
        out.end()
        for line in summary.lines(session, one, kept):
            tell(line)
    return status
