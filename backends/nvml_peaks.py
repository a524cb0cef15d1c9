"""The peak bandwidth of a GPU's memory: bus width × highest memory clock, and the GPUs where that does not hold.

bits / 8 × MHz × 2 / 1000 = GB/s: NVML reports the clock of GDDR5 to 7 and HBM so that a factor of two is right for all of
them. It gives the datasheets' numbers within rounding (RTX 3090 936, RTX 4090 1008, RTX 5090 1792, A100 40 GB 1555,
H100 SXM 3352).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from phasetop import peaks


@dataclass(frozen=True, slots=True)
class Peak:
    """Bytes per second and their source; None, and ``source`` says why."""

    bytes_per_s: float | None
    source: str


_BY_TABLE: Final = ("GB10", "Thor", "H200", "B200")
"""Words of names whose peak is the table's: unified memory tells no bus, NVML's numbers of an H200 give 2.4 % more than
its datasheet, and some drivers say 8192 bit where a B200 has 7680."""
_MOST: Final = 2e13
_BOARDS: Final = ("AGX Orin", "Orin NX", "Orin Nano", "AGX Thor")
_UNIFIED: Final = ("GB10", "Thor", "Orin", "Xavier", "Tegra")


def is_unified(name: str | None) -> bool:
    """Whether the GPU has no memory of its own: it shares the host's."""
    return any(part in (name or "") for part in _UNIFIED)


def board_of(root: Path) -> str | None:
    """What the device tree calls the board (``NVIDIA Jetson Orin NX …``): NVML calls each of them Orin."""
    try:
        text = (root / "proc/device-tree/model").read_text(errors="replace")
    except OSError:
        return None
    return next((name for name in _BOARDS if name in text), None)


def peak_of(name: str | None, bus_bits: int | None, memory_mhz: int | None, board: str | None = None) -> Peak:
    """The peak of a whole GPU.

    Args:
        name: as NVML tells it.
        bus_bits: the memory bus; None or 0: not told.
        memory_mhz: the highest memory clock; None or 0: not told.
        board: which of the boards it is whose GPUs have one name; None: not told.

    """
    if "Orin" in (name or ""):
        table = peaks.of_device(board)
        if table.peak is not None and "bandwidth" not in table.why:
            return Peak(table.peak.bytes_per_s, f"assumed: {table.peak.name} table")
        return Peak(None, table.why.get("bandwidth") or "an Orin reads 34 to 205 GB/s, and it is not told which board it is")
    if set(_BY_TABLE) & set((name or "").split()) and (found := peaks.find(name or "")) is not None:
        return Peak(found.bytes_per_s, f"assumed: {found.name} table")
    if not bus_bits or not memory_mhz:
        return Peak(None, "the driver tells no bus width or no memory clock, and the GPU is in no table")
    value = bus_bits / 8 * memory_mhz * 2e6
    if value > _MOST:
        return Peak(None, f"a bus of {bus_bits} bit at {memory_mhz} MHz cannot be")
    return Peak(value, f"NVML: bus {bus_bits} bit x {memory_mhz} MHz")


def slice_of(whole: Peak, slice_bytes: int | None, whole_bytes: int | None) -> Peak:
    """The peak of a MIG slice: it has as many eighths of the bandwidth as of the memory (MIG user guide: memory slices)."""
    if whole.bytes_per_s is None or not slice_bytes or not whole_bytes:
        return Peak(None, "the slice's share of the memory is not told")
    eighths = min(8, max(1, round(8 * slice_bytes / whole_bytes)))
    return Peak(whole.bytes_per_s * eighths / 8, f"estimate: {eighths} of 8 memory slices, {whole.source}")
