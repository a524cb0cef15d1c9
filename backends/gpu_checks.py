"""What the doctor looks at of GPUs beyond what their samplers tell: cards that no driver, or nothing here, can read."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from phasetop.backends.gpu_presence import amd_cards, nvidia_is_here
from phasetop.backends.nvml_devices import pci_gpus
from phasetop.capabilities import Check

_INTEL: Final = "0x8086"
_VERSION: Final = re.compile(r"\b(\d{3}\.\d+(?:\.\d+)?)\b")


def kernel_driver(root: Path = Path("/")) -> str | None:
    """The version of the NVIDIA driver that the kernel runs; also told in a container. None: it runs none."""
    try:
        found = _VERSION.search((root / "proc/driver/nvidia/version").read_text())
    except OSError:
        return None
    return found[1] if found is not None else "of an unknown version"


def unread(root: Path = Path("/"), *, container: bool = False) -> Check | None:
    """A GPU that is here and that nothing reads, and why; None where a sampler has the word, or there is no GPU."""
    if nvidia_is_here(root, {}):
        return None
    driver = kernel_driver(root)
    if driver is not None:
        text = f"the kernel runs the NVIDIA driver {driver}, and its library and device files are not here"
        if container:
            return Check(
                "nvml", "missing", f"{text}: this container was given no GPU", "docker run --gpus all … (or podman's)"
            )
        return Check("nvml", "missing", text, "install the driver's user part (libnvidia-ml.so.1: Debian's libnvidia-ml1)")
    if pci_gpus(root):
        return Check("nvml", "missing", "an NVIDIA GPU is on the bus, and no driver is loaded", "install NVIDIA's driver")
    return None


def other_vendors(root: Path = Path("/")) -> Check | None:
    """GPUs whose counters are not read: Intel's need root, Apple's are private; None where there is another, or none."""
    if sys.platform == "darwin":
        text = "Apple's GPU counters are private interfaces: not read; the CPU and the memory, which both share, are"
        return Check("gpu", "limited", text)
    if amd_cards(root) or nvidia_is_here(root, {}) or pci_gpus(root):
        return None
    for folder in sorted((root / "sys/class/drm").glob("card[0-9]*/device")):
        try:
            if (folder / "vendor").read_text().strip() == _INTEL:
                return Check("gpu", "limited", "an Intel GPU is here: its counters need root, so they are not read")
        except OSError:
            continue
    return None


def gpu_checks(*, container: bool) -> list[Check]:
    """Both."""
    return [check for check in (unread(container=container), other_vendors()) if check is not None]
