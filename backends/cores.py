"""How many cores this process may use: affinity, the cgroup's quota, and cores that are whole."""

from __future__ import annotations

import os
from pathlib import Path

import psutil


def quota_cores(root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """The CPU quota of the cgroup mounted at ``root`` in cores (v2: cpu.max, v1: cfs quota); None where there is none."""
    for quota, period in ((root / "cpu.max", None), (root / "cpu" / "cpu.cfs_quota_us", root / "cpu" / "cpu.cfs_period_us")):
        try:
            words = quota.read_text().split() + (period.read_text().split() if period else [])
            return None if words[0] in ("max", "-1") else round(int(words[0]) / int(words[1]), 3)
        except (OSError, ValueError, IndexError, ZeroDivisionError):
            continue
    return None


def usable_cores() -> int:
    """How many threads can compute at once without sharing a core: at least 1."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    whole = psutil.cpu_count(logical=False) or allowed
    quota = quota_cores()
    return max(1, min(allowed, whole, int(quota) if quota is not None else allowed))
