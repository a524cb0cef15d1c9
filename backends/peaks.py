"""The host's own peaks as `device` events: set by a person, else what a read test of its memory found before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from phasetop import bandwidth_file
from phasetop import events as ev
from phasetop.backends.recorder import Recorder, this_host

GIVEN: Final = "given"


def peaks_of(host: ev.Host, given: Mapping[str, Any], t: int) -> ev.Device | None:
    """The host's device with the peaks that are known; None where none is.

    Args:
        host: this machine.
        given: ``bytes_per_s`` and ``flops`` that a person set: they stand for whatever runs the model.
        t: now, ns since the anchor.
    """
    bandwidth, flops = _positive(given.get("bytes_per_s")), _positive(given.get("flops"))
    peak = ev.Sourced(bandwidth, GIVEN) if bandwidth is not None else _measured(host)
    if peak is None and flops is None:
        return None
    told = {"fp16": ev.Sourced(flops, GIVEN)} if flops is not None else None
    return ev.Device(t=t, d=0, peak_bytes_per_s=peak, peak_flops=told)


def measure_bandwidth(recorder: Recorder) -> str | None:
    """Run the read test, keep it, and tell: `device`, `finding`. Returns why it failed, None where it did not."""
    from phasetop.backends.bandwidth import TestFailed, measure

    host = this_host()
    try:
        test = measure(host.cpu)
    except TestFailed as error:
        recorder.emit(ev.Finding(t=recorder.now(), name="bandwidth", state="broken", text=str(error)))
        return str(error)
    todo: str | None = None
    try:
        bandwidth_file.keep(test)
    except OSError as error:
        todo = f"it could not be kept: {error.strerror or error}"
    best, middle, low = (each / 1e9 for each in (test.best_bytes_per_s, test.median_bytes_per_s, test.low_bytes_per_s))
    state = "limited" if test.disturbed else "ok"
    if state == "limited" and todo is None:
        todo = bandwidth_file.AGAIN
    text = (
        f"reads {best:.1f} GB/s with {test.threads} threads (the best of {test.rounds} rounds; median {middle:.1f}, "
        f"lowest {low:.1f})"
    )
    t = recorder.now()
    peak = ev.Sourced(test.best_bytes_per_s, test.source)
    recorder.emit(
        ev.Device(t=t, d=0, peak_bytes_per_s=peak), ev.Finding(t=t, name="bandwidth", state=state, text=text, todo=todo)
    )
    return None


def _measured(host: ev.Host) -> ev.Sourced | None:
    test = bandwidth_file.kept(host.cpu, host.cores)
    return ev.Sourced(test.best_bytes_per_s, test.source) if test is not None else None


def _positive(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None
