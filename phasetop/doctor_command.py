"""`phasetop doctor`: what can be reached from here, which devices there are, and what their peaks are held to be."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from phasetop import events as ev
from phasetop.faults import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from phasetop.figures import memory
from phasetop.headless import Interrupts
from phasetop.lifeline import Lifeline, Start
from phasetop.output import print_utf8, say
from phasetop.run_devices import bandwidth_of, flops_of
from phasetop.session import Session
from phasetop.visible import harmless

LIMIT_S: Final = 60.0
POLL_S: Final = 0.03
_LABEL: Final = 14


def doctor(*, measure: bool = False, as_json: str | None = None) -> int:
    """Print what was found; returns the exit status: 1 when something is broken.

    Args:
        measure: measure what this CPU's memory can read, first.
        as_json: print one object; ``compact``: on one line.
    """
    lifeline = Lifeline(Start(target=None, argv=["doctor"]))
    try:
        with Interrupts() as interrupts:
            if measure:
                say("measuring what the memory can read: some seconds, in which the machine should rest")
            command = lifeline.measure() if measure else lifeline.discover()
            status = _wait(lifeline, "measure" if measure else "discover", command, interrupts)
            if status is None and measure:
                status = _wait(lifeline, "discover", lifeline.discover(), interrupts)
            if status is not None:
                return status
    finally:
        lifeline.close()
    session = lifeline.follower.session
    checks = [_check(finding) for finding in session.findings.items]
    if as_json is not None:
        data = msgspec.json.encode({"checks": checks, "metrics": list(_metrics(session))})
        print_utf8((data if as_json == "compact" else msgspec.json.format(data, indent=2)).decode())
    else:
        for line in _lines(session, checks):
            print(harmless(line, newlines=False))
    return EXIT_FAILED if any(check["state"] == "broken" for check in checks) else EXIT_OK


def _wait(lifeline: Lifeline, op: str, command: int, interrupts: Interrupts) -> int | None:
    """Follow until a command was obeyed; an exit status where that did not come."""
    follower = lifeline.follower
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end and not follower.ended:
        follower.poll()
        answer = next((each for each in follower.session.controls.items if each.id == command and each.op == op), None)
        if answer is not None:
            return None
        if interrupts.status is not None or interrupts.count:
            return EXIT_INTERRUPTED
        time.sleep(POLL_S)
    say("the collector did not answer" if not follower.ended else "the collector died")
    return EXIT_FAILED


def _check(finding: ev.Finding) -> dict[str, Any]:
    return {"id": finding.name, "state": finding.state, "text": finding.text, "todo": finding.todo}


def _devices(session: Session) -> Iterator[ev.Device]:
    for _, versions in sorted(session.devices.items()):
        device = versions.at()
        if device is not None:
            yield device


def _metrics(session: Session) -> Iterator[dict[str, Any]]:
    """Each device's peaks with their sources, and each series that is sampled."""
    for device in _devices(session):
        name = "host" if device.d == 0 else device.name or f"device {device.d}"
        for what, found in (("peak_bytes_per_s", bandwidth_of(device, None)), ("peak_flops", flops_of(device, None))):
            known = found.value is not None
            yield {
                "name": f"{name}.{what}",
                "value": found.value,
                "source": found.source if known else None,
                "why_not_better": None if known else found.source,
            }
    for samples in session.samples.values():
        info = samples.info.at()
        if info is not None and info.part is None:
            name = info.name if info.d == 0 else f"device {info.d}.{info.name}"
            yield {"name": name, "value": None, "source": info.source, "why_not_better": info.off}


def _lines(session: Session, checks: list[dict[str, Any]]) -> Iterator[str]:
    for check in checks:
        yield f"{check['id']:<{_LABEL}}{check['state']:<9}{check['text'] or ''}"
        if check["todo"]:
            yield f"{'':<{_LABEL}}{'':<9}{check['todo']}"
    for device in _devices(session):
        size = f", {' '.join(memory(device.mem_bytes))}" if device.mem_bytes else ""
        yield f"{'host' if device.d == 0 else 'gpu':<{_LABEL}}{device.name or 'unnamed'}{size}"
        bandwidth, flops = bandwidth_of(device, None), flops_of(device, None)
        if bandwidth.value is not None:
            yield f"{'':<{_LABEL}}reads at most {bandwidth.value / 1e9:,.1f} GB/s ({bandwidth.source})"
        else:
            yield f"{'':<{_LABEL}}{bandwidth.source}"
        if flops.value is not None:
            yield f"{'':<{_LABEL}}computes at most {flops.value / 1e12:,.1f} TFLOP/s ({flops.source})"
