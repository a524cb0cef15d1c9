"""Ollama's "100 % GPU" held against what the machine did: two estimates of its own, and a lost device shows in neither.

Public reports of it: ollama#7323, #10445, #12586. NVIDIA cards are NVML's to measure; here is what the kernel's files tell.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil

from phasetop.backends.ollama_model import Loaded

_FULL_CORES: Final = 0.8
"""A runner that uses more than this computes on the CPU: one that waits for a GPU may still spin on one core."""
_IDLE_PERCENT: Final = 5.0


def claimed_percent(line: Loaded) -> int | None:
    """The share of the model that Ollama says is on GPUs; None where it does not say (or says 0 of 0)."""
    if not line.size_bytes or line.vram_bytes is None:
        return None
    return min(100, round(100 * line.vram_bytes / line.size_bytes))


def contradiction(claimed: int | None, gpu_busy: Sequence[float] | None, cores: float | None) -> str | None:
    """What to say where a model that is said to be all on the GPU was decoded by the CPU; None: no contradiction is seen.

    Args:
        claimed: Ollama's share on GPUs, percent.
        gpu_busy: how busy each GPU was, percent; empty: there is none; None: not known.
        cores: CPU cores that the runner used meanwhile.

    """
    if claimed is None or claimed < 100 or gpu_busy is None or cores is None or cores < _FULL_CORES:
        return None
    if any(percent > _IDLE_PERCENT for percent in gpu_busy):
        return None
    gpus = "the GPU idles" if gpu_busy else "no GPU is here"
    return f"Ollama says that the model is {claimed} % on the GPU, but {gpus} and its runner uses {cores:.1f} CPU cores"


def gpu_busy_percent(root: Path = Path("/")) -> list[float] | None:
    """How busy each GPU is by the kernel's own files; [] where there is none at all; None where it cannot be told."""
    if sys.platform != "linux":
        return None
    if any((root / "dev").glob("nvidia[0-9]*")) or (root / "dev/dxg").exists():
        return None  # NVML's to tell
    found = []
    for file in sorted((root / "sys/class/drm").glob("card[0-9]*/device/gpu_busy_percent")):
        try:
            found.append(float(file.read_text()))
        except (OSError, ValueError):
            return None
    if found:
        return found
    return None if any((root / "dev/dri").glob("renderD*")) or (root / "dev/kfd").exists() else []


def busy_s(pid: int) -> float | None:
    """CPU seconds of a process so far."""
    try:
        return float(sum(psutil.Process(pid).cpu_times()[:2]))
    except psutil.Error:
        return None
