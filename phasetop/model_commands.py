"""`phasetop models`: what can be run from here, and fetching the small model. All of it is asked of a collector."""

from __future__ import annotations

import json
import sys
import time
from typing import Any, Final

from phasetop.faults import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from phasetop.figures import size
from phasetop.headless import Interrupts
from phasetop.lifeline import Lifeline, Start
from phasetop.session import Session
from phasetop.visible import harmless

POLL_S: Final = 0.05


def get(spec: str) -> int:
    """Fetch a model, with its progress on stderr and its path on stdout; returns the exit status."""
    lifeline = Lifeline(Start(target=None, argv=["models", "get"]))
    command = lifeline.get(spec)
    try:
        with Interrupts() as interrupts:
            return _follow_task(lifeline, command, interrupts)
    finally:
        lifeline.close()


def _follow_task(lifeline: Lifeline, command: int, interrupts: Interrupts) -> int:
    follower = lifeline.follower
    terminal = sys.stderr.isatty()
    started = time.monotonic()
    asked_to_stop = False
    while not follower.ended:
        came = follower.poll()
        session = follower.session
        task = _task_of(session, command)
        if task is not None:
            last = next((each for each in reversed(session.tasks.items) if each.task == task), None)
            if interrupts.count and not asked_to_stop:
                asked_to_stop = True
                lifeline.cancel_task(task)
            if last is not None and came and last.state == "run" and terminal:
                print(f"\r\x1b[K{_progress(last.done, last.total, time.monotonic() - started)}", end="", file=sys.stderr)
            if last is not None and last.state != "run":
                if terminal:
                    print("\r\x1b[K", end="", file=sys.stderr)
                if last.state == "ok":
                    print(last.why or "")
                    return EXIT_OK
                print(f"phasetop: {harmless(last.why or 'it failed', newlines=False)}", file=sys.stderr)
                return EXIT_INTERRUPTED if last.state == "cancelled" else EXIT_FAILED
        if interrupts.status is not None:
            return interrupts.status
        if not came:
            time.sleep(POLL_S)
    print("phasetop: the collector died", file=sys.stderr)
    return EXIT_FAILED


def _task_of(session: Session, command: int) -> int | None:
    return next((each.task for each in session.controls.items if each.id == command and each.op == "get"), None)


def _progress(done: float | None, total: float | None, seconds: float) -> str:
    amount = done or 0
    rate = f"{size(amount / seconds)}/s" if seconds > 0 else ""
    if not total:
        return f"{size(amount)}   {rate}"
    return f"{size(amount)} of {size(total)}   {100 * amount / total:3.0f} %   {rate}"


def list_models(as_json: str | None) -> int:
    """Print what every backend that can be reached has; returns the exit status."""
    lifeline = Lifeline(Start(target=None, argv=["models"]))
    command = lifeline.discover()
    follower = lifeline.follower
    try:
        while not follower.ended:
            follower.poll()
            if any(each.id == command and each.op == "discover" for each in follower.session.controls.items):
                break
            time.sleep(POLL_S)
    finally:
        lifeline.close()
    session = follower.session
    found, unreachable = _found(session)
    if as_json is not None:
        text = json.dumps({"models": found, "unreachable": unreachable}, indent=None if as_json else 2, ensure_ascii=False)
        print(text)
        return EXIT_OK
    for model in found:
        print(f"{harmless(model['name'], newlines=False):40} {model['backend']:10} {model['url'] or ''}".rstrip())
    for other in unreachable:
        print(f"phasetop: {harmless(other['why'], newlines=False)}", file=sys.stderr)
    return EXIT_OK


def _found(session: Session) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    found: list[dict[str, Any]] = []
    for versions in session.models.values():
        model = versions.at()
        if model is None:
            continue
        server = session.servers[model.v].at() if model.v in session.servers else None
        found.append(
            {
                "name": model.name,
                "backend": server.backend if server else None,
                "url": server.url if server else None,
                "loaded": None,
                "file_bytes": model.file_bytes,
                "quantisation": model.quant,
                "context_trained": model.context_trained,
            }
        )
    unreachable: list[dict[str, Any]] = []
    for finding in session.findings.items:
        if finding.name == "embedded" and finding.state == "ok":
            found.append(
                {
                    "name": finding.text,
                    "backend": "embedded",
                    "url": None,
                    "loaded": False,
                    "file_bytes": None,
                    "quantisation": None,
                    "context_trained": None,
                }
            )
        elif finding.state != "ok":
            unreachable.append({"url": finding.url, "why": f"{finding.name}: {finding.text}"})
    return found, unreachable
