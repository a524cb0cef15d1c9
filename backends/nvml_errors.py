"""What an error of NVML means for the metric that was asked: off for good, a gap, or a GPU that is lost.

Codes: nvml.h, nvmlReturn_t. Which environment gives which is told in docs/counters.md.
"""

from __future__ import annotations

from typing import Final, Literal

Fate = Literal["off", "gap", "lost"]

UNINITIALIZED: Final = 1
NOT_SUPPORTED: Final = 3
NO_PERMISSION: Final = 4
DRIVER_NOT_LOADED: Final = 9
LIBRARY_NOT_FOUND: Final = 12
FUNCTION_NOT_FOUND: Final = 13
GPU_IS_LOST: Final = 15
VERSION_MISMATCH: Final = 18
UNKNOWN: Final = 999

_OFF: Final = {
    2: "not valid for this device",
    NOT_SUPPORTED: "not supported by this GPU or driver",
    NO_PERMISSION: "no permission",
    FUNCTION_NOT_FOUND: "this driver does not know the call",
    25: "this driver has another version of the call",
    26: "this driver has given the call up",
}
_LOST: Final = {
    UNINITIALIZED: "NVML was shut down under us",
    DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    LIBRARY_NOT_FOUND: "there is no NVML library (libnvidia-ml.so.1)",
    GPU_IS_LOST: "the GPU fell off the bus",
    16: "the GPU needs a reset",
    VERSION_MISMATCH: "the driver was upgraded and not reloaded: library and kernel module differ (a reboot mends it)",
}
_GAPS: Final = {
    6: "nothing newer was measured",
    10: "the driver did not answer in time",
    11: "the GPU has an interrupt problem",
    17: "the operating system refused",
    19: "the GPU is in use",
    20: "the driver is out of memory",
    21: "no data",
    23: "the driver is short of resources",
    27: "not ready",
    28: "the GPU is not there",
    UNKNOWN: "the driver gives an unknown error",
}


def fate_of(code: int) -> Fate:
    """What becomes of a metric whose call ended with ``code``; what nobody knows is a gap."""
    return "off" if code in _OFF else "lost" if code in _LOST else "gap"


def words_for(code: int) -> str:
    """The error in plain words."""
    return _OFF.get(code) or _LOST.get(code) or _GAPS.get(code) or f"NVML error {code}"
