"""The limits that a process's cgroup sets, and how long they held it back: version 2 and 1 (cgroup-v2.rst, sched-bwc).

A process may be limited by any group above it, so the narrowest counts. In a container only a part of the tree is there to
be seen, whose root is then the group itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from phasetop.backends import kernel_files
from phasetop.backends.kernel_files import number

_MOST_BYTES: Final = 1 << 60
"""Version 1 writes "no limit" as the largest number that there is."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a process may use; None: not limited.

    Attributes:
        cores: its CPU time, in cores.
        throttle_file: where the group with that limit counts how long it was held back.
        memory_bytes: its memory.
        memory_folder: the group with that limit.

    """

    cores: float | None = None
    throttle_file: Path | None = None
    memory_bytes: int | None = None
    memory_folder: Path | None = None


def limits_of(pid: int | str = "self", root: Path = Path("/")) -> Limits:
    """The narrowest limits of a process's groups; none where they cannot be read."""
    cores: tuple[float, Path] | None = None
    memory: tuple[int, Path] | None = None
    for folder in _groups(pid, root, "cpu"):
        quota = _quota(folder)
        if quota is not None and (cores is None or quota < cores[0]):
            cores = quota, folder / "cpu.stat"
    for folder in _groups(pid, root, "memory"):
        limit = number(folder / "memory.max") or number(folder / "memory.limit_in_bytes")
        if limit is not None and limit < _MOST_BYTES and (memory is None or limit < memory[0]):
            memory = limit, folder
    return Limits(*(cores or (None, None)), *(memory or (None, None)))


def container_of(root: Path = Path("/")) -> str | None:
    """The runtime whose container this is (docker, podman, kubernetes, wsl, lxc …); None: none that can be told."""
    if (root / "run/.containerenv").exists():
        return "podman"
    if (root / "var/run/secrets/kubernetes.io").exists():
        return "kubernetes"
    if (root / ".dockerenv").exists():
        return "docker"
    try:
        name = (root / "run/systemd/container").read_text().strip()
    except OSError:
        return None
    return name if name.replace("-", "").isalnum() else None


def throttled_ns(file: Path) -> int | None:
    """How long a group was held back so far (`Limits.throttle_file`), ns; None where it does not say."""
    try:
        stat = kernel_files.read(file)
        microseconds = kernel_files.field(stat, b"throttled_usec")
        return kernel_files.field(stat, b"throttled_time") if microseconds is None else microseconds * 1000
    except (OSError, ValueError):
        return None


def used_bytes(folder: Path) -> int | None:
    """The memory that a group uses and could not give back at once: its usage without the page cache's inactive part."""
    used = number(folder / "memory.current")
    if used is None:
        used = number(folder / "memory.usage_in_bytes")
    if used is None:
        return None
    try:
        stat = kernel_files.read(folder / "memory.stat")
        idle = kernel_files.field(stat, b"total_inactive_file")
        if idle is None:
            idle = kernel_files.field(stat, b"inactive_file")
        return max(0, used - (idle or 0))
    except (OSError, ValueError):
        return used


def _groups(pid: int | str, root: Path, controller: str) -> Iterator[Path]:
    """The folders of a process's group and of all above it, as far as they can be seen."""
    try:
        text = (root / "proc" / str(pid) / "cgroup").read_text()
    except OSError:
        text = ""
    base = root / "sys/fs/cgroup"
    seen = False
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if number == "0" and not names:
            tops = [base] if (base / "cgroup.controllers").exists() else []
        elif controller in names.split(","):
            tops = [base / controller, base / names]
        else:
            continue
        top = next((top for top in tops if top.is_dir()), None)
        if top is None:
            continue
        seen = True
        parts = [part for part in path.split("/") if part and part != ".."]
        here = top.joinpath(*parts)
        yield from (folder for folder in (here, *here.parents) if folder.is_relative_to(top) and folder.is_dir())
    if not seen:
        yield from (folder for folder in (base, base / controller) if folder.is_dir())


def _quota(folder: Path) -> float | None:
    """Cores: quota over period of a group; None where there is no limit."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text().strip()
            period = (folder / "cpu.cfs_period_us").read_text().strip()
        return None if quota in ("max", "-1") else round(int(quota) / int(period), 3)
    except (OSError, ValueError, ZeroDivisionError):
        return None
