"""`phasetop run` and `phasetop replay`: choose the way to show a session, and hand over."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from phasetop import places
from phasetop.display import Display, display_of
from phasetop.faults import EXIT_OK, UsageError
from phasetop.lifeline import Lifeline
from phasetop.output import print_utf8, say, tell
from phasetop.plan import Plan, begun_plan, plan
from phasetop.session import Session

__all__ = ["plan", "replay", "run"]


def has_terminal() -> bool:
    """Whether a live view can be drawn: stdin, stdout and stderr are terminals and TERM is usable."""
    usable = os.name != "nt" and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
    return usable and all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def run(wanted: Plan) -> int:
    """Run a plan; returns the exit status.

    Raises:
        UsageError: there is nothing to ask and no terminal to type it.
        PhasetopError: the session cannot be started.
    """
    view = (has_terminal() and not wanted.plain) or wanted.tui
    if not view and not wanted.asks:
        raise UsageError('no prompt: give one with -p "…", -f FILE or on stdin')
    places.sweep_unfinished()
    lifeline = Lifeline(wanted.start, record=wanted.record, keep_as=wanted.keep_as)
    if not view:
        from phasetop.headless import run_headless

        return run_headless(lifeline, wanted)
    from phasetop.live import run_view

    return run_view(lifeline, wanted)


def start(given: Mapping[str, Any], settings: Mapping[str, Any]) -> int:
    """The start screen; returns the exit status. The caller sees to it that there is a terminal.

    Args:
        given: how the view looks, from the command line.
        settings: the options of `run`, from the configuration and the environment: what is begun there has them.

    Raises:
        UsageError: the settings contradict each other.
    """
    from phasetop.live import start_view

    chosen, usual = display_of(given), display_of(settings)
    looks = {name: getattr(usual, name) for name in Display.__struct_fields__ if getattr(chosen, name) is None}
    return start_view(replace(chosen, **looks), begun_plan(settings))


def replay(name: str, *, as_json: str | None, plain: bool, display: Display | None = None) -> int:
    """Open a recording at its end.

    Raises:
        UsageError: there is none of that name.
        PhasetopError: it cannot be read.
    """
    from phasetop.opening import open_recording

    session, path = open_recording(name)
    if as_json is None and not plain and has_terminal():
        from phasetop.live import replay_view

        return replay_view(session, path, display or Display())
    return _print(session, path, as_json)


def _print(session: Session, path: Path, as_json: str | None) -> int:
    from phasetop import report, summary
    from phasetop.headless import TextOut

    kept = places.kept_name(path)
    runs = [one for one in session.runs.values() if one.info.at() is not None]
    if as_json is not None:
        objects = [report.request_object(session, one, kept_as=kept) for one in runs]
        print_utf8(report.to_json({"session": kept, "requests": objects}, compact=as_json == "compact"))
        return EXIT_OK
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
    return EXIT_OK
