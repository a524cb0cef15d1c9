"""Which NVIDIA GPUs are here: what NVML tells of them, and what the kernel tells without waking one that sleeps."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from phasetop.backends.nvml_errors import fate_of
from phasetop.backends.nvml_peaks import Peak, board_of, is_unified, peak_of, slice_of

_NVIDIA: Final = "0x10de"
_MAX_CLOCK_MEM: Final = 2


@dataclass(frozen=True, slots=True)
class FoundGpu:
    """A GPU, or a MIG slice: then ``handle`` is the slice's, ``whole`` its GPU's, ``instance`` the GPU instance."""

    handle: Any
    whole: Any
    instance: int | None
    index: int
    uuid: str
    name: str | None
    pci: str | None
    minor: int | None
    mem_bytes: int | None
    peak: Peak
    unified: bool


@dataclass(frozen=True, slots=True)
class PciGpu:
    """A GPU as the kernel sees it: ``asleep`` (runtime suspended), and whether it may be put to sleep at all."""

    address: str
    asleep: bool
    may_sleep: bool


def pci_gpus(root: Path = Path("/")) -> list[PciGpu]:
    """NVIDIA's display controllers on the PCI bus, by files alone: nothing is woken."""
    found = []
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        if _word(device / "vendor") == _NVIDIA and (_word(device / "class") or "").startswith("0x03"):
            asleep = _word(device / "power/runtime_status") in ("suspended", "suspending")
            found.append(PciGpu(device.name.lower(), asleep, _word(device / "power/control") == "auto"))
    return found


def _word(file: Path) -> str | None:
    try:
        return file.read_text().strip()
    except OSError:
        return None


def driver_version(nvml: Any) -> str | None:
    """The driver's version, where it tells."""
    try:
        return _text(nvml.nvmlSystemGetDriverVersion())
    except nvml.NVMLError:
        return None


def library_version(nvml: Any) -> str | None:
    """The version of the NVML library that was loaded (``13.610.43``), where it tells."""
    try:
        return _text(nvml.nvmlSystemGetNVMLVersion())
    except (AttributeError, nvml.NVMLError):
        return None


def versions_in_words(driver: str | None, library: str | None) -> str:
    """Driver and library in words; NVML's version is the driver's behind its own major number, and should be."""
    if driver is None:
        return f"NVML {library}" if library else "the driver does not tell its version"
    if library is None or library.partition(".")[2] == driver:
        return f"driver {driver}" + (f", NVML {library}" if library else "")
    return f"driver {driver}, NVML {library} (another one than the driver's)"


def find(nvml: Any, root: Path, only: Collection[str] | None = None) -> list[FoundGpu]:
    """The GPUs that answer, in NVML's order (by PCI address), a GPU under MIG as its slices; one that is lost is left out.

    Args:
        nvml: the binding, initialised.
        root: where /proc lies.
        only: ask these PCI addresses alone (the others sleep); None: all.

    Raises:
        NVMLError: how many there are cannot be told.

    """
    handles = []
    if only is not None:
        for index, address in enumerate(sorted(only)):
            handles.append((index, _or_none(nvml, "nvmlDeviceGetHandleByPciBusId", address.encode())))
    else:
        for index in range(nvml.nvmlDeviceGetCount()):
            handles.append((index, _or_none(nvml, "nvmlDeviceGetHandleByIndex", index)))
    found = []
    for index, handle in handles:
        if handle is not None:
            found += _one(nvml, handle, index, root)
    return found


def _one(nvml: Any, handle: Any, index: int, root: Path) -> list[FoundGpu]:
    uuid = _or_none(nvml, "nvmlDeviceGetUUID", handle)
    if uuid is None:
        return []
    name = _or_none(nvml, "nvmlDeviceGetName", handle)
    name = _text(name) if name is not None else None
    pci = _or_none(nvml, "nvmlDeviceGetPciInfo", handle)
    address = _text(pci.busId).lower() if pci is not None else None
    unified = is_unified(name)
    memory = _or_none(nvml, "nvmlDeviceGetMemoryInfo", handle)
    mem_bytes = int(memory.total) if memory is not None and memory.total else None
    if mem_bytes is None and unified:
        mem_bytes = _host_memory(root)
    bus = _or_none(nvml, "nvmlDeviceGetMemoryBusWidth", handle)
    clock = _or_none(nvml, "nvmlDeviceGetMaxClockInfo", handle, _MAX_CLOCK_MEM)
    whole = FoundGpu(
        handle=handle,
        whole=handle,
        instance=None,
        index=index,
        uuid=_text(uuid),
        name=name,
        pci=address,
        minor=_or_none(nvml, "nvmlDeviceGetMinorNumber", handle),
        mem_bytes=mem_bytes,
        peak=peak_of(name, bus, clock, board_of(root) if unified else None),
        unified=unified,
    )
    slices = _slices(nvml, whole)
    return [whole] if slices is None else slices


def _slices(nvml: Any, gpu: FoundGpu) -> list[FoundGpu] | None:
    """The MIG slices of a GPU; None where it is not under MIG."""
    mode = _or_none(nvml, "nvmlDeviceGetMigMode", gpu.handle)
    if not mode or not mode[0]:
        return None
    found = []
    for i in range(_or_none(nvml, "nvmlDeviceGetMaxMigDeviceCount", gpu.handle) or 0):
        handle = _or_none(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", gpu.handle, i)
        uuid = _or_none(nvml, "nvmlDeviceGetUUID", handle) if handle is not None else None
        instance = _or_none(nvml, "nvmlDeviceGetGpuInstanceId", handle) if handle is not None else None
        if uuid is None or instance is None:
            continue  # a place without a slice
        memory = _or_none(nvml, "nvmlDeviceGetMemoryInfo", handle)
        size = int(memory.total) if memory is not None and memory.total else None
        name = _or_none(nvml, "nvmlDeviceGetName", handle)
        found.append(
            FoundGpu(
                handle=handle,
                whole=gpu.handle,
                instance=int(instance),
                index=gpu.index,
                uuid=_text(uuid),
                name=_text(name) if name else f"{gpu.name or 'GPU'} MIG {i}",
                pci=gpu.pci,
                minor=gpu.minor,
                mem_bytes=size,
                peak=slice_of(gpu.peak, size, gpu.mem_bytes),
                unified=False,
            )
        )
    return found


def _or_none(nvml: Any, name: str, *arguments: Any) -> Any:
    """What a call gives, None where it fails: nothing here is needed by anything else. A dead driver is raised."""
    try:
        return getattr(nvml, name)(*arguments)
    except AttributeError:
        return None
    except nvml.NVMLError as error:
        code = int(error.value)
        if fate_of(code) == "lost" and code not in (15, 16):  # one lost GPU is no dead driver
            raise
        return None


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _host_memory(root: Path) -> int | None:
    try:
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemTotal:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None
