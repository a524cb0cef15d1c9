"""`phasetop bench`: start the collectors, drive the bench, print what it found."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from phasetop import places
from phasetop.bench_lane import Lane
from phasetop.bench_plan import BenchPlan, read_plan
from phasetop.bench_print import check_formats, print_found
from phasetop.bench_runner import Bench
from phasetop.bench_seen import Outcome, Seen, outcome_of, seen_in
from phasetop.faults import EXIT_INTERRUPTED, PhasetopError, UsageError
from phasetop.headless import Interrupts
from phasetop.lifeline import Lifeline, Start, Target
from phasetop.output import say
from phasetop.plan import ENGINE_SETTINGS, Plan, plan
from phasetop.progress_line import ProgressLine

POLL_S: Final = 0.03
SWEEP_HZ: Final = 1.0
"""With several engines the machine is looked at less often: each has a collector of its own."""
_CONTEXT: Final = 4096
_CONTEXT_STEP: Final = 256
_SMALL_TRAINED: Final = 8192
"""Of the small model; also where a file does not tell its own."""
_BATCH: Final = 512
"""llama.cpp's own ubatch. A run of the embedded engine takes what a test at its start found, which other load disturbs."""
_BAR: Final = 16


class _NoWords:
    """A stdin that a bench does not read."""

    @staticmethod
    def isatty() -> bool:
        return True


def bench(model: str | None, given: Mapping[str, Any]) -> int:
    """Measure, and print; returns the exit status.

    Args:
        model: the MODEL argument.
        given: the options by name.

    Raises:
        UsageError: they contradict each other.
        PhasetopError: nothing can be started.
    """
    wanted = read_plan(given)
    check_formats(given)
    if given.get("no_record") and given.get("record") is not None:
        raise UsageError("--record and --no-record exclude each other")
    base = plan(model, {**given, "tui": False}, _NoWords())
    starts = list(_starts(base, wanted))
    if len(starts) > 1 and (given.get("tui") or base.record is not None):
        raise UsageError("--sweep has a session for each engine: no --tui, and a name, no path, after --record=")
    if given.get("tui"):
        from phasetop.display import has_terminal

        if not has_terminal():
            raise UsageError("--tui needs a terminal")
    places.sweep_unfinished()
    return _run(starts, base, wanted, given)


def _starts(base: Plan, wanted: BenchPlan) -> Iterator[tuple[Start, dict[str, int | str]]]:
    """What each lane's collector is started with, and the settings that tell it from others."""
    start = replace(base.start, kind="bench", argv=["bench", *base.start.argv[1:]])
    engine = dict(start.engine or {})
    settings: dict[str, Any] = dict(engine.get("settings") or {})
    need = -(-wanted.most_tokens // _CONTEXT_STEP) * _CONTEXT_STEP
    if "context" not in settings:
        settings["context"] = max(_CONTEXT, min(need, _trained(engine.get("file")))) * wanted.most_parallel
    if "batch" not in settings and (wanted.sweep is None or wanted.sweep.name not in ("batch", "ubatch")):
        settings["batch"] = _BATCH
    if wanted.most_parallel > 1:
        settings.setdefault("parallel", wanted.most_parallel)
    target = start.target or Target()
    if wanted.sweep is None:
        yield (
            replace(start, engine=None if target.url or target.ssh else {"file": engine.get("file"), "settings": settings}),
            {},
        )
        return
    named = target.backend not in (None, "embedded") or any((target.url, target.model, target.ssh))
    if named:
        raise UsageError("--sweep starts engines of its own: a .gguf file as MODEL, or none for the small model")
    for value in wanted.sweep.values:
        own = {wanted.sweep.name: value}
        each = {"file": engine.get("file"), "settings": {**settings, **own}}
        yield replace(start, target=Target("embedded"), engine=each), own


def _trained(file: str | None) -> int:
    """The context that a model was trained for: no engine is started with more than that unless -c says so.

    A cell that does not fit is refused by its lane then, with the context; without a limit a mistyped length would take all
    memory there is.
    """
    if file is None:
        return _SMALL_TRAINED
    from phasetop.model_metadata import from_file

    try:
        return from_file(Path(file)).context_trained or _SMALL_TRAINED
    except (PhasetopError, OSError):  # what the engine says of the file is said when it starts
        return _SMALL_TRAINED


def _run(
    starts: Sequence[tuple[Start, dict[str, int | str]]], base: Plan, wanted: BenchPlan, given: Mapping[str, Any]
) -> int:
    lanes: list[Lane] = []
    kept: list[str] = []
    settings = base.settings
    if wanted.sweep is not None:  # each engine was started with its own
        settings = {name: value for name, value in settings.items() if name not in ENGINE_SETTINGS}
    status: int | None = None
    with Interrupts() as interrupts:
        try:
            for start, swept in starts:
                lane = Lane(Lifeline(start, record=base.record), wanted, settings, swept)
                lanes.append(lane)
                if len(starts) > 1:  # one after the other: so none disturbs another's start
                    lane.lifeline.set(sample_hz=SWEEP_HZ)
                    status = _wait_ready(lane, interrupts)
                    if status is not None:
                        break
            work = Bench(lanes, wanted)
            if status is not None:
                work.interrupt()
            elif given.get("tui"):
                status = _view(work, base)
            else:
                status = _drive(work, interrupts)
            if any(lane.samples for lane in lanes) and not given.get("no_record"):
                kept = [name for lane in lanes if (name := _keep(lane, base.keep_as)) is not None]
        finally:
            for lane in lanes:
                lane.lifeline.close()
    sessions = [lane.session for lane in lanes]
    told = all(session.bench.at() is not None for session in sessions)  # not where a collector died at once
    outcome = outcome_of(sessions) if told else Outcome(work.rounds, work.took_s, work.stopped)
    return print_found([_seen(lane) for lane in lanes], outcome, kept, given, status)


def _seen(lane: Lane) -> Seen:
    """What its session tells, as a recording of it would; and of what never became a request."""
    seen = seen_in(lane.session) or Seen(lane.session, lane.plan, lane.swept)
    for failure in lane.failures:
        if failure.end is None:
            seen.take(failure)
    return seen


def _wait_ready(lane: Lane, interrupts: Interrupts) -> int | None:
    """Until its engine is loaded (or will not be); a status where a signal decided it."""
    while not lane.lifeline.follower.ended and lane.state[0] not in ("ready", "gone"):
        lane.lifeline.follower.poll()
        if interrupts.count or interrupts.status is not None:
            return EXIT_INTERRUPTED if interrupts.status is None else interrupts.status
        time.sleep(POLL_S)
    return None


def _drive(work: Bench, interrupts: Interrupts) -> int | None:
    """Until it is over; a status where a signal decided it."""
    from phasetop import priority

    priority.step_back(priority.DRAWING)  # the collectors run already: they must not inherit it
    line = ProgressLine()
    told = 0
    try:
        while work.advance():
            came = [lane.lifeline.follower.poll() for lane in work.lanes]
            told = _tell_found(work.lanes[0], told)
            if interrupts.count or interrupts.status is not None:
                work.interrupt()
                return EXIT_INTERRUPTED if interrupts.status is None else interrupts.status
            line.draw(_progress(work))
            if not any(came):
                time.sleep(POLL_S)
    finally:
        line.clear()
    return None


def _progress(work: Bench) -> str:
    done, asked = work.progress()
    minutes, seconds = divmod(int(work.took_s), 60)
    filled = _BAR * done // asked if asked else 0
    bar = f"{'█' * filled}{'·' * (_BAR - filled)}  {done} of {asked} repeats · " if asked else ""
    more = " · on until the intervals are narrow" if asked and done >= asked else ""
    return f"bench    {bar}{work.now}{more} · {minutes}:{seconds:02d}"


def _tell_found(lane: Lane, told: int) -> int:
    """Which server was taken, where none was named."""
    notices = lane.session.notices.items
    for notice in notices[told:]:
        if notice.code == "found" and isinstance(notice.text, str):
            say(notice.text)
    return len(notices)


def _view(work: Bench, base: Plan) -> int | None:
    """The live view over it; it stays until it is left."""
    from phasetop.live import Driven, serves_here, watch_view

    status = watch_view(Driven(work.lanes[0].lifeline, work.advance), base.display, "bench", here=serves_here(base))
    if work.stopped is None:
        work.interrupt()
        return EXIT_INTERRUPTED
    return status or None


def _keep(lane: Lane, name: str | None) -> str | None:
    """Keep the session; what it is called."""
    model = next((m.name for versions in lane.session.models.values() if (m := versions.at()) and m.name), None)
    swept = "".join(f"-{key}-{value}" for key, value in lane.swept.items())
    try:
        lane.lifeline.keep(f"{name or f'{places.recording_stem(model)}-bench'}{swept}")
    except PhasetopError as error:
        say(str(error))
        return None
    return lane.lifeline.kept_as
