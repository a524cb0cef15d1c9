"""A bench printed, when it ends or again from its recording: tables and plots for people, or a shape for programs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from phasetop import places
from phasetop.bench_notices import Notice, notices_of
from phasetop.bench_plan import Cell
from phasetop.bench_points import Point, points_of
from phasetop.bench_report import bench_object
from phasetop.bench_seen import Outcome, Seen, outcome_of, seen_in
from phasetop.faults import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, EXIT_PIPE, EXIT_USAGE, PhasetopError, UsageError
from phasetop.headless import USAGE_CODES
from phasetop.output import print_utf8, say, silence_stdout, to_json
from phasetop.session import Session
from phasetop.visible import harmless

FORMATS: Final = ("as_json", "as_csv", "as_md", "as_benchstat")


def check_formats(given: Mapping[str, Any]) -> None:
    """Refuse more than one shape.

    Raises:
        UsageError: there are several.
    """
    if sum(given.get(name) not in (None, False) for name in FORMATS) > 1:
        raise UsageError("--json, --csv, --md and --benchstat exclude each other")


def print_recorded(names: Sequence[str], given: Mapping[str, Any]) -> int:
    """Print the bench of a recording, of a sweep those of its engines; returns the exit status: 0, however it went.

    Raises:
        UsageError: there is no recording of such a name, it is no bench's, or they are not of one bench.
        PhasetopError: one cannot be read.
    """
    from phasetop.opening import open_recording

    check_formats(given)
    engines: list[Seen] = []
    kept: list[str] = []
    for name in names:
        session, path = open_recording(name)
        engine = _engine(session, name)
        if engines and engine.plan != engines[0].plan:
            raise UsageError(f"{names[0]} and {name} are of different benches: `phasetop compare` compares those")
        engines.append(engine)
        kept.append(places.kept_name(path))
    return _print(engines, outcome_of([engine.session for engine in engines]), kept, given)


def _engine(session: Session, name: str) -> Seen:
    try:
        engine = seen_in(session)
    except PhasetopError as error:
        raise PhasetopError(f"{name}: {error}") from None
    if engine is None:
        raise UsageError(f"{name} is no bench's recording: `phasetop replay {name}` shows it")
    return engine


def print_found(
    engines: Sequence[Seen], outcome: Outcome, kept: Sequence[str], given: Mapping[str, Any], status: int | None
) -> int:
    """Print what a bench that has just ended found; returns the exit status.

    Args:
        engines: what each one's session tells.
        outcome: how it ended.
        kept: names or paths of the recordings.
        given: the options by name.
        status: of a signal that ended it.
    """
    failed = _failure(engines, outcome)
    if failed is not None:
        code, text = failed
        say(text)
        if code == EXIT_USAGE or given.get("as_json") is None:
            return status if status is not None else code
    elif not any(engine.samples for engine in engines) and given.get("as_json") is None:
        say("interrupted before anything was measured")
        return status if status is not None else EXIT_INTERRUPTED
    printed = _print(engines, outcome, kept, given)
    if printed != EXIT_OK or status is not None:
        return printed if status is None or printed == EXIT_PIPE else status
    points = points_of(engines, engines[0].plan.cells)
    fine = all(point.runs or point.cell in _unfit(engines) for point in points)
    return EXIT_OK if fine and failed is None else EXIT_FAILED


def _print(engines: Sequence[Seen], outcome: Outcome, kept: Sequence[str], given: Mapping[str, Any]) -> int:
    plan = engines[0].plan
    points = points_of(engines, plan.cells)
    notices = notices_of(engines, points, plan, outcome.stopped)
    told = bench_object(engines, outcome, points, notices, kept)
    try:
        for text in _texts(engines, outcome, told, points, notices, kept, given):
            print_utf8(text)
    except BrokenPipeError:
        silence_stdout()
        return EXIT_PIPE
    if given.get("as_json") is None and any(given.get(name) for name in FORMATS):
        for notice in notices:
            say(notice.text)
    return EXIT_OK


def _unfit(engines: Sequence[Seen]) -> set[Cell]:
    """Cells that no engine could take, as was said; a failure they are not."""
    struck = {failure.cell for engine in engines for failure in engine.failures}
    return {cell for engine in engines for cell in engine.plan.cells if engine.why_not(cell) is not None} - struck


def _failure(engines: Sequence[Seen], outcome: Outcome) -> tuple[int, str] | None:
    """(exit status, why) where nothing at all was measured, and nobody stopped it."""
    if any(engine.samples for engine in engines) or outcome.stopped == "interrupted":
        return None
    for engine in engines:
        for failure in reversed(engine.failures):
            code = failure.end.error.code if failure.end is not None and failure.end.error is not None else None
            return EXIT_USAGE if code in USAGE_CODES else EXIT_FAILED, failure.text
    unfit = next((why for engine in engines for cell in engine.plan.cells if (why := engine.why_not(cell))), None)
    if unfit is not None:
        return EXIT_FAILED, f"nothing can be measured: {unfit}"
    return EXIT_FAILED, "nothing was measured in the time that was given"


def _texts(
    engines: Sequence[Seen],
    outcome: Outcome,
    told: dict[str, Any],
    points: Sequence[Point],
    notices: Sequence[Notice],
    kept: Sequence[str],
    given: Mapping[str, Any],
) -> Iterator[str]:
    if given.get("as_json") is not None:
        yield to_json(told, compact=given["as_json"] == "compact")
        return
    if given.get("as_csv") or given.get("as_md") or given.get("as_benchstat"):
        from phasetop.bench_formats import benchstat_lines, csv_text, md_lines

        if given.get("as_csv"):
            yield csv_text(told, points)
        else:
            yield from (md_lines if given.get("as_md") else benchstat_lines)(told, points)
        return
    from phasetop.bench_text import plots, text_lines

    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size((80, 24)).columns
    for line in text_lines(told, points, engines[0].plan, notices, outcome.stopped, width=width if terminal else None):
        yield harmless(line, newlines=False)
    if kept:
        yield harmless(f"{'kept':<9}as {', '.join(kept)}", newlines=False)
    if given.get("with_plot", True):
        yield from plots(points, width, fine=terminal)
