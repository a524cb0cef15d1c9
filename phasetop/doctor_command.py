"""`phasetop doctor`: what can be reached and measured from here, by what, and what to do about the rest."""

from __future__ import annotations

import io
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from phasetop import doctor_report, doctor_text
from phasetop.capabilities import Check, Metric, checks_of, metrics_of
from phasetop.display import has_terminal
from phasetop.faults import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, PhasetopError, UsageError
from phasetop.headless import Interrupts
from phasetop.lifeline import Lifeline, Start
from phasetop.model_names import check_no_address
from phasetop.output import print_json, print_utf8, say
from phasetop.plan import plan
from phasetop.session import Session
from phasetop.visible import harmless

LIMIT_S: Final = 60.0
LOADING_S: Final = 3.0
POLL_S: Final = 0.03
REPORT: Final = "phasetop-doctor.md"


def doctor(
    url: str | None = None,
    *,
    measure: bool = False,
    as_json: str | None = None,
    report: str | None = None,
    given: Mapping[str, Any] | None = None,
) -> int:
    """Print what was found; returns the exit status: 1 when something is broken.

    Args:
        url: a server to look at beside what is usually there.
        measure: measure what this CPU's memory can read, first.
        as_json: print one object; ``compact``: on one line.
        report: write a redacted file: its path, "" for the usual name here, "-" for stdout.
        given: how that server is asked, as `run` has it: its model, a key, certificates.

    Raises:
        UsageError: the URL is none.
        PhasetopError: the report cannot be written.
    """
    terminal = _terminal()  # before a collector writes to the terminal's log, and while nobody reads keys
    start = Start(target=None, argv=["doctor"], kind="observe") if url is None else _start(url, given or {})
    lifeline = Lifeline(start)
    try:
        with Interrupts() as interrupts:
            if measure:
                say("measuring what the memory can read: some seconds, in which the machine should rest")
                status = _wait(lifeline, "measure", lifeline.measure(), interrupts)
                if status is not None:
                    return status
            if url is not None:
                status = _wait_for(lifeline, _is_settled(time.monotonic), interrupts)
                if status is not None:
                    return status
            status = _wait(lifeline, "discover", lifeline.discover(models=url is None, machine=True), interrupts)
            if status is not None:
                return status
    finally:
        lifeline.close()
    session = lifeline.follower.session
    checks, metrics = (*checks_of(session), *terminal), metrics_of(session)
    if report is not None:
        _write_report(report, session, checks, metrics)
    if as_json is not None:
        _print_json(checks, metrics, as_json)
    elif report != "-":
        for line in doctor_text.lines(checks, metrics, _width()):
            print_utf8(harmless(line, newlines=False))
    return EXIT_FAILED if any(check.state == "broken" for check in checks) else EXIT_OK


def _terminal() -> tuple[Check, ...]:
    """What the terminal can do, asked by the view's own code; nothing where there is none."""
    if not has_terminal():
        return ()
    from phasetop.live import look_at_terminal

    return look_at_terminal(os.environ)


def _width() -> int:
    return shutil.get_terminal_size((doctor_text.WIDTH, 24)).columns if sys.stdout.isatty() else doctor_text.WIDTH


def _start(url: str, given: Mapping[str, Any]) -> Start:
    """A session that looks for the server at a URL, and asks it nothing."""
    if "://" not in url:
        check_no_address(url)
        raise UsageError(f"{url[:80]} is no server's address: http://HOST:PORT, or ssh://HOST/ for one that ssh reaches")
    start = plan(url, given, io.StringIO()).start
    return replace(start, kind="observe", argv=["doctor", *start.argv[1:]])


def _is_settled(clock: Callable[[], float]) -> Callable[[Session], bool]:
    """Whether the session's server is ready, or will not be; one that loads is not waited for long."""
    began: list[float] = []

    def is_settled(session: Session) -> bool:
        last = session.server_states.last()
        if last is not None and last.s == "loading" and not began:
            began.append(clock())
        return last is not None and (last.s in ("ready", "gone") or bool(began and clock() - began[0] > LOADING_S))

    return is_settled


def _wait(lifeline: Lifeline, op: str, command: int, interrupts: Interrupts) -> int | None:
    """Follow until a command was obeyed; an exit status where that did not come."""
    return _wait_for(
        lifeline, lambda session: any(each.id == command and each.op == op for each in session.controls.items), interrupts
    )


def _wait_for(lifeline: Lifeline, what: Callable[[Session], bool], interrupts: Interrupts) -> int | None:
    """Follow until something is known; an exit status where that did not come."""
    follower = lifeline.follower
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end and not follower.ended:
        follower.poll()
        if what(follower.session):
            return None
        if interrupts.status is not None or interrupts.count:
            return EXIT_INTERRUPTED if interrupts.status is None else interrupts.status
        time.sleep(POLL_S)
    say("the collector did not answer" if not follower.ended else "the collector died")
    return EXIT_FAILED


def _print_json(checks: tuple[Check, ...], metrics: tuple[Metric, ...], how: str) -> None:
    told = {
        "checks": [{"id": check.id, "state": check.state, "text": check.text, "todo": check.todo} for check in checks],
        "metrics": [
            {
                "name": metric.name,
                "value": metric.value,
                "source": metric.source,
                "why_not_better": metric.why_not_better,
            }
            for metric in metrics
        ],
    }
    print_json(told, how)


def _write_report(where: str, session: Session, checks: tuple[Check, ...], metrics: tuple[Metric, ...]) -> None:
    """Write the report; a file that is there is never replaced."""
    text = doctor_report.report(session, checks, metrics)
    if where == "-":
        print_utf8(text.rstrip("\n"))
        return
    path = Path(where).expanduser() if where else _free(Path(REPORT))
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise PhasetopError(f"{path} exists: choose another name, or remove it") from None
    except OSError as error:
        raise PhasetopError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None
    say(f"wrote {path}: read it before you attach it to an issue")


def _free(path: Path) -> Path:
    """The path, or the first of ``name-2.md``, ``name-3.md`` that is not there."""
    number = 1
    free = path
    while free.exists():
        number += 1
        free = path.with_stem(f"{path.stem}-{number}")
    return free
