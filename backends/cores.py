"""How many cores this process may use: affinity, the cgroup's quota, and cores that are whole."""

from __future__ import annotations

import os

import psutil

from phasetop.backends.cgroup import limits_of


def quota_cores() -> float | None:
    """The CPU quota of this process's cgroups in cores, the narrowest; None where there is none."""
    return limits_of().cores


def usable_cores() -> int:
    """How many threads can compute at once without sharing a core: at least 1."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    whole = psutil.cpu_count(logical=False) or allowed
    quota = quota_cores()
    return max(1, min(allowed, whole, int(quota) if quota is not None else allowed))
