"""Counters of the machine that the kernel keeps in files: swap, energy, thermal throttling, frequency. Pure reads.

Each takes the root of the file system, so that tests can bring their own; None means that the machine does not tell.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import fsum
from pathlib import Path
from typing import Final

from phasetop.backends import kernel_files
from phasetop.backends.kernel_files import number

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_MANY_CORES: Final = 16
"""Above so many cores their frequencies are not read one by one: each read interrupts its core."""


def swapped_in_bytes(root: Path = Path("/")) -> int | None:
    """Bytes that were read back from swap since the machine started (/proc/vmstat, pswpin)."""
    try:
        pages = kernel_files.field(kernel_files.read(os.path.join(root, "proc/vmstat")), b"pswpin")
    except (OSError, ValueError):
        return None
    return None if pages is None else pages * _PAGE_BYTES


def frequency_files(root: Path = Path("/")) -> list[Path]:
    """Where the frequency of each core is told (cpufreq); of the first ones where there are many."""
    return sorted((root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))[:_MANY_CORES]


def frequency_mhz(files: Sequence[Path]) -> float | None:
    """The mean frequency of the cores now."""
    found = [value for file in files if (value := number(file)) is not None]
    return round(fsum(found) / len(found) / 1000, 1) if found else None


def thermal_files(root: Path = Path("/")) -> list[Path]:
    """Where each package's time held back by heat is counted (Intel, thermal_throttle): the file of its first core."""
    found: dict[str, Path] = {}
    folders = (root / "sys/devices/system/cpu").glob("cpu[0-9]*")
    for folder in sorted(folders, key=lambda folder: int(folder.name[3:])):
        file = folder / "thermal_throttle/package_throttle_total_time_ms"
        package = _text(folder / "topology/physical_package_id") or folder.name
        if package not in found and number(file) is not None:
            found[package] = file
    return list(found.values())


def thermal_throttled_ns(root: Path = Path("/")) -> int | None:
    """How long the hottest package was held back by its heat since the start; None where nobody counts that."""
    found = [value for file in thermal_files(root) if (value := number(file)) is not None]
    return max(found) * 1_000_000 if found else None


class Heat:
    """How long heat held the CPU back, counted on: in each step by the package that it held back longest.

    The greatest of the packages' own counters will not do: the one that was hot last week hides the one that is hot now.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._last: dict[Path, int] = {}
        self._ms: int | None = None

    def read(self) -> int | None:
        """Ns; None where no package tells."""
        now = {file: value for file in self._files if (value := number(file)) is not None}
        if not now:
            return None
        if self._ms is None:
            self._ms = max(now.values())
        else:
            self._ms += max(0, *(value - self._last.get(file, value) for file, value in now.items()))
        self._last = now
        return self._ms * 1_000_000


def file_rss_bytes(pid: int, root: Path = Path("/")) -> int | None:
    """The part of a process's resident memory that is mapped from files: of a llama.cpp server its weights."""
    try:
        status = kernel_files.read(os.path.join(root, "proc", str(pid), "status"))
        return int(status.partition(b"\nRssFile:")[2].split(None, 1)[0]) * 1024
    except (OSError, ValueError, IndexError):
        return None


def allowed_cores(pid: int) -> int | None:
    """How many CPUs a process may run on (its affinity)."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    try:
        return len(os.sched_getaffinity(pid))
    except OSError:
        return None


@dataclass(slots=True)
class Rapl:
    """The energy counters of the CPU packages (Intel's RAPL, which AMD's have too), as one that never wraps.

    ``off``: why there are none.
    """

    packages: Sequence[Path]
    off: str | None = None
    _last: dict[Path, int] = field(default_factory=dict)
    _wraps: dict[Path, int] = field(default_factory=dict)
    _total: int = 0

    @classmethod
    def find(cls, root: Path = Path("/")) -> Rapl:
        """The packages that can be read."""
        zones = sorted((root / "sys/class/powercap").glob("intel-rapl:[0-9]*"))
        packages = [zone for zone in zones if zone.name.count(":") == 1 and _text(zone / "name").startswith("package")]
        if not packages:
            return cls((), "the CPU tells no energy here (no RAPL: a virtual machine, or another CPU)")
        if any(number(zone / "energy_uj") is None for zone in packages):
            return cls((), "RAPL is readable by root only")
        return cls(packages)

    def read(self) -> int | None:
        """µJ since the first reading, all packages together; None where a package cannot be read any more."""
        for zone in self.packages:
            value = number(zone / "energy_uj")
            if value is None:
                return None
            last = self._last.get(zone, value)
            if (wrap := self._wraps.get(zone)) is None:
                wrap = self._wraps[zone] = number(zone / "max_energy_range_uj") or 0
            self._total += value - last if value >= last else max(0, value - last + wrap)
            self._last[zone] = value
        return self._total if self.packages else None


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
