"""Which quantities of the machine are sampled beside its CPU and memory, and how each is read.

Often (with every sample): what can change a phase within a fraction of a second. Seldom (once a second): the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from phasetop.backends.cgroup import Limits, throttled_ns
from phasetop.backends.host_counters import (
    Heat,
    Rapl,
    allowed_cores,
    file_rss_bytes,
    frequency_files,
    frequency_mhz,
    swapped_in_bytes,
    thermal_files,
)

MOST_CORES: Final = 64
"""Above so many cores they are not told one by one: it would be most of the recording."""


@dataclass(slots=True)
class Reading:
    """One series of the host: ``read`` gives its value, None: none now. ``off``: why it gives none at all."""

    name: str
    unit: str | None
    source: str
    read: Callable[[], float | None]
    kind: str = "gauge"
    part: str | None = None
    off: str | None = None
    s: int = -1


def often(root: Path = Path("/")) -> list[Reading]:
    """Counters whose growth over a phase is told."""
    rapl = Rapl.find(root)
    swap = None if swapped_in_bytes(root) is not None else "the system does not count what it swaps"
    hot = thermal_files(root)
    cool = None if hot else "heat's throttling is not counted here (Intel's packages count it)"
    return [
        Reading("swap_in_bytes", "B", "sysfs", lambda: swapped_in_bytes(root), "counter", off=swap),
        Reading("energy_uj", "uJ", "RAPL", rapl.read, "counter", off=rapl.off),
        Reading("thermal_throttled_ns", "ns", "sysfs", Heat(hot).read, "counter", off=cool),
    ]


def throttling(limits: Limits) -> Reading | None:
    """How long the quota held the server (or this process) back; None where there is no quota."""
    file = limits.throttle_file
    if file is None or throttled_ns(file) is None:
        return None
    return Reading("throttled_ns", "ns", "sysfs: the cgroup's cpu.stat", lambda: throttled_ns(file), "counter")


def seldom(root: Path = Path("/")) -> list[Reading]:
    """Load, frequency, and the cores one by one; what the machine does not tell is left out."""
    found = []
    if hasattr(os, "getloadavg"):
        found.append(Reading("load_1m", None, "psutil", lambda: os.getloadavg()[0]))
    if frequency_mhz(cores_files := frequency_files(root)) is not None:
        found.append(Reading("cpu_mhz", "MHz", "sysfs", lambda: frequency_mhz(cores_files)))
    cores = Cores()
    if 1 < cores.count <= MOST_CORES:
        found += [Reading("cpu_percent", "%", "psutil", cores.reader(i), part=f"core {i}") for i in range(cores.count)]
    return found


def of_process(pid: int, limits: Limits, root: Path = Path("/")) -> list[Reading]:
    """What is told of the server's process once a second: its mapped weights, and what it may use."""
    found = []
    if file_rss_bytes(pid, root) is not None:
        found.append(Reading("server_file_rss_bytes", "B", "sysfs", lambda: file_rss_bytes(pid, root)))
    if allowed_cores(pid) is not None:
        found.append(Reading("server_cpus", None, "sysfs: its affinity", lambda: allowed_cores(pid)))
    if limits.cores is not None:
        found.append(Reading("server_quota_cores", None, "sysfs: its cgroup", lambda: limits.cores))
    return found


class Cores:
    """How busy each core was since its last reading."""

    def __init__(self) -> None:
        self._last = [_busy_idle(times) for times in psutil.cpu_times(percpu=True)]
        self._percent: list[float | None] = [None] * len(self._last)
        self.count = len(self._last)

    def reader(self, core: int) -> Callable[[], float | None]:
        """A read of one core; that of core 0 takes the times of all."""

        def read() -> float | None:
            if core == 0:
                self._turn()
            return self._percent[core]

        return read

    def _turn(self) -> None:
        now = [_busy_idle(times) for times in psutil.cpu_times(percpu=True)]
        if len(now) != self.count:  # a core came or went
            self._percent = [None] * self.count
            return
        for core, ((busy, idle), (busy_before, idle_before)) in enumerate(zip(now, self._last, strict=True)):
            worked, rested = max(0.0, busy - busy_before), max(0.0, idle - idle_before)
            whole = worked + rested
            self._percent[core] = round(100 * worked / whole, 1) if whole > 0 else None
        self._last = now


def _busy_idle(times: object) -> tuple[float, float]:
    """(busy, not busy) seconds of a core: waiting for a disk and stolen time are not busy."""
    rest = sum(float(getattr(times, name, 0.0)) for name in ("idle", "iowait", "steal"))
    guest = sum(float(getattr(times, name, 0.0)) for name in ("guest", "guest_nice"))  # is in user and nice already
    return sum(map(float, times)) - rest - guest, rest  # type: ignore[call-overload]
