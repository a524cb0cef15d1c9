"""`phasetop models`: what can be run from here, and fetching the small model. All of it is asked of a collector."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

from phasetop import tasks
from phasetop.faults import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from phasetop.figures import UNKNOWN, count, size
from phasetop.headless import Interrupts
from phasetop.lifeline import Lifeline, Start
from phasetop.offers import PLACES
from phasetop.output import print_json
from phasetop.progress_line import ProgressLine
from phasetop.session import Session
from phasetop.visible import harmless

POLL_S: Final = 0.05


def get(spec: str, *, backend: str | None = None, insecure: bool = False) -> int:
    """Fetch a model, with its progress on stderr and its path (or that it is there) on stdout; returns the exit status.

    Args:
        spec: a well-known small model, a URL, ``hf:REPO/FILE``; any other name is pulled into Ollama.
        backend: "ollama" pulls whatever the name is.
        insecure: take a server or a registry without (trusted) TLS.
    """
    lifeline = Lifeline(Start(target=None, argv=["models", "get"], insecure=insecure))
    command = lifeline.get(spec, backend)
    try:
        with Interrupts() as interrupts:
            return _follow_task(lifeline, command, interrupts)
    finally:
        lifeline.close()


def _follow_task(lifeline: Lifeline, command: int, interrupts: Interrupts) -> int:
    follower = lifeline.follower
    line = ProgressLine()
    asked_to_stop = False
    while not follower.ended:
        came = follower.poll()
        session = follower.session
        answer = next((each for each in session.controls.items if each.id == command and each.op == "get"), None)
        if answer is not None and not answer.ok:
            print(f"phasetop: {harmless(answer.why or 'refused', newlines=False)}", file=sys.stderr)
            return EXIT_FAILED
        if answer is not None and answer.task is not None:
            last = tasks.newest(session.tasks.items, answer.task)
            if interrupts.count and not asked_to_stop:
                asked_to_stop = True
                lifeline.cancel_task(answer.task)
            if last is not None and last.state == "run" and came:
                line.show(session, answer.task)
            if last is not None and last.state != "run":
                line.clear()
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
        print_json({"models": found, "unreachable": unreachable}, as_json)
        return EXIT_OK
    for text in _table(found):
        print(text)
    for other in unreachable:
        print(f"phasetop: {harmless(other['why'], newlines=False)}", file=sys.stderr)
    return EXIT_OK


def _table(found: list[dict[str, Any]]) -> list[str]:
    """Aligned lines: name, backend, loaded or not, size, quantisation, trained context, address."""
    rows = [
        (
            harmless(str(model["name"]), newlines=False),
            str(model["backend"] or UNKNOWN),
            "loaded" if model["loaded"] else "",
            size(model["file_bytes"]) if model["file_bytes"] else UNKNOWN,
            harmless(model["quantisation"] or UNKNOWN, newlines=False),
            f"{count(model['context_trained'])} tok" if model["context_trained"] else UNKNOWN,
            str(model["url"] or ""),
        )
        for model in found
    ]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(7)]
    right = (False, False, False, True, False, True, False)
    return [
        "  ".join(cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(row, widths, right, strict=True)).rstrip()
        for row in rows
    ]


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
                "loaded": model.loaded,
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
        elif finding.state != "ok" and finding.name in PLACES:
            unreachable.append({"url": finding.url, "why": f"{finding.name}: {finding.text}"})
    return found, unreachable
