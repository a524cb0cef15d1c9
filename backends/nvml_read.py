"""Reads the metrics of one GPU: each has its own state, and one that fails never takes another with it.

A metric has ways, best first (`GPM`, then NVML's coarser call). One that is not supported is left for the next before the
metric gave a value; after that the metric is off for good, with the reason. What is only missing now is a gap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from phasetop.backends.nvml_devices import FoundGpu
from phasetop.backends.nvml_errors import GPU_IS_LOST, NOT_SUPPORTED, UNKNOWN, fate_of, words_for
from phasetop.backends.nvml_gpm import (
    DRAM_BW_UTIL,
    LEAST_NS,
    NEEDS,
    NVLINK_RX,
    NVLINK_TX,
    PCIE_RX,
    PCIE_TX,
    SM_UTIL,
    Gpm,
    GpmSample,
)
from phasetop.backends.nvml_lines import THROTTLES
from phasetop.backends.nvml_quantity import Gap, Lost, Off, Quantity, Read, Way, age_s

MIB: Final = 1 << 20
STALE_S: Final = 3.0
_PATIENCE: Final = 20
"""So many unknown errors in a row, and never a value: it will give none."""
_ENERGY, _POWER_INSTANT, _PCIE_TX, _PCIE_RX = 83, 186, 197, 198  # nvml.h, NVML_FI_DEV_*
_FIELDS: Final = (_ENERGY, _POWER_INSTANT, _PCIE_TX, _PCIE_RX)
_UNSIGNED_INT: Final = 1  # nvmlValueType_t: 0 double, 1 unsigned int, 2 unsigned long, 3 unsigned long long, …
_MEM_CLOCK, _SM_CLOCK = 2, 1
_SLICE: Final = "not told for one MIG slice, only for the whole GPU"


class GpuReader:
    """The metrics of ``gpu``, read in groups: gpm, util, medium (power, energy, clocks, throttling), slow."""

    def __init__(self, nvml: Any, gpu: FoundGpu, root: Path = Path("/")) -> None:
        self.gpu = gpu
        self.lost = False
        self._nvml = nvml
        self._root = root
        self._memo: dict[str, Any] = {}
        self._last: GpmSample | None = None
        self._gpm_s = 0.0
        self._gpm_off: str | None = None
        self._totals: dict[str, int] = {}
        self._raw: dict[str, int] = {}
        self._gpm = self._open_gpm()
        self.quantities = {each.name: each for each in self._quantities()}

    @property
    def has_gpm(self) -> bool:
        """Whether GPM is there and was not given up."""
        return self._gpm is not None and self._gpm_off is None

    def _open_gpm(self) -> Gpm | None:
        gpu = self.gpu
        try:
            gpm = Gpm(self._nvml, gpu.whole, gpu.instance)
            if gpm.supported():
                return gpm
            self._gpm_off = NEEDS
        except Exception as error:
            code = getattr(error, "value", NOT_SUPPORTED)
            if code == GPU_IS_LOST:
                raise Lost(code) from error
            told = code in (NOT_SUPPORTED, 13, 25) or not isinstance(code, int)
            self._gpm_off = NEEDS if told else f"GPM: {words_for(code)}"
        return None

    def _quantities(self) -> list[Quantity]:
        gpu = self.gpu
        gpm: list[Way] = [("GPM", lambda: self._gpm_value(SM_UTIL))]
        dram: list[Way] = [("GPM", lambda: self._gpm_value(DRAM_BW_UTIL))]
        sm = [*gpm, ("NVML: share of time in which any kernel ran", lambda: self._utilization("gpu"))]
        if gpu.unified:
            sm.append(("sysfs: the GPU's load", self._load))
        memory: list[Way] = [("NVML", self._memory)]
        if gpu.unified:
            memory.append(("sysfs: the host's, the GPU has none of its own", self._host_memory))
        power: list[Way] = [
            ("NVML: at the moment", lambda: self._field(_POWER_INSTANT) / 1000),
            ("NVML: the driver's mean, of up to 1 s", lambda: self._call("nvmlDeviceGetPowerUsage") / 1000),
        ]
        energy: list[Way] = [
            ("NVML", lambda: self._rising("energy", self._field(_ENERGY) * 1000)),
            ("NVML", lambda: self._rising("energy", self._call("nvmlDeviceGetTotalEnergyConsumption") * 1000)),
        ]
        clocks: dict[str, list[Way]] = {
            "sm_mhz": [("NVML", lambda: self._clock(_SM_CLOCK))],
            "memory_mhz": [("NVML", lambda: self._clock(_MEM_CLOCK))],
        }
        counters: dict[str, list[Way]] = {
            "pcie_rx_bytes": [
                ("NVML", lambda: self._rising("rx", self._field(_PCIE_RX))),
                ("GPM", lambda: self._moved(PCIE_RX)),
            ],
            "pcie_tx_bytes": [
                ("NVML", lambda: self._rising("tx", self._field(_PCIE_TX))),
                ("GPM", lambda: self._moved(PCIE_TX)),
            ],
            "nvlink_rx_bytes": [("GPM", lambda: self._moved(NVLINK_RX))],
            "nvlink_tx_bytes": [("GPM", lambda: self._moved(NVLINK_TX))],
        }
        found = [
            Quantity("sm_percent", "%", sm, "gpm" if self.has_gpm else "util"),
            Quantity("dram_percent", "%", dram, "gpm"),
            Quantity("memory_busy_percent", "%", [("mem-ctrl", lambda: self._utilization("memory"))], "util"),
            Quantity("power_w", "W", power, "medium"),
            Quantity("energy_uj", "uJ", energy, "medium", "counter"),
            *(Quantity(name, "MHz", ways, "medium") for name, ways in clocks.items()),
            Quantity("throttle", None, [("NVML", self._throttle)], "medium", "flags", THROTTLES),
            *(
                Quantity(name, "B", ways, "gpm" if ways[0][0] == "GPM" else "medium", "counter")
                for name, ways in counters.items()
            ),
            Quantity("temperature_c", "C", [("NVML", self._temperature)], "slow"),
            Quantity("memory_used_bytes", "B", memory, "slow"),
        ]
        for each in found:
            if gpu.instance is not None and each.name in ("power_w", "energy_uj", "pcie_rx_bytes", "pcie_tx_bytes"):
                each.off = _SLICE
        return found

    def read(self, group: str) -> Read:
        """Read a group once. Raises `Lost`."""
        self._memo.clear()
        if group == "gpm":
            self._turn_gpm()
        found = Read()
        for quantity in self.quantities.values():
            if quantity.group == group and quantity.off is None:
                self._take(quantity, found)
        return found

    def _take(self, quantity: Quantity, found: Read) -> None:
        while quantity.off is None:
            try:
                value = quantity.ways[0][1]()
            except Off as why:
                self._next_way(quantity, str(why))
                continue
            except Gap as why:
                if str(why):
                    found.values[quantity.name], found.reasons[quantity.name] = None, str(why)
                return
            except Lost:
                raise
            except Exception as error:
                code = getattr(error, "value", None)
                if not isinstance(code, int):  # the binding is older, or the driver's answer is none
                    self._next_way(quantity, "this version of nvidia-ml-py does not know the call")
                    continue
                fate = fate_of(code)
                if fate == "lost":
                    raise Lost(code) from error
                if code == UNKNOWN and not quantity.ever:
                    quantity.unknown += 1
                    fate = "off" if quantity.unknown >= _PATIENCE else "gap"
                if fate == "off":
                    self._next_way(quantity, words_for(code))
                    continue
                found.values[quantity.name], found.reasons[quantity.name] = None, words_for(code)
                return
            if quantity.unit == "%" and not 0 <= value <= 100:
                found.values[quantity.name], found.reasons[quantity.name] = None, f"the driver said {value:g} %"
                return
            quantity.ever = True
            found.values[quantity.name] = value
            return

    def _next_way(self, quantity: Quantity, why: str) -> None:
        if len(quantity.ways) > 1 and not quantity.ever:
            quantity.ways.pop(0)
            if quantity.source == "GPM":
                quantity.group = "gpm"
            elif quantity.group == "gpm":
                quantity.group = "util"
            return
        quantity.off, quantity.told = why, False

    def _once(self, name: str, call: Callable[[], Any]) -> Any:
        """A call made once a reading; what it raised is raised again."""
        if name not in self._memo:
            try:
                self._memo[name] = call()
            except Exception as error:
                self._memo[name] = error
        found = self._memo[name]
        if isinstance(found, Exception):
            raise found
        return found

    def _call(self, name: str, *arguments: Any) -> Any:
        return getattr(self._nvml, name)(self.gpu.handle if name in _OF_SLICE else self.gpu.whole, *arguments)

    def _utilization(self, which: str) -> int:
        if which == "memory" and self.gpu.unified:
            raise Off("this GPU shares the host's memory, and its driver says 0 whatever happens")
        if "Thor" in (self.gpu.name or ""):
            raise Off("this GPU's driver says 0 whatever happens")
        if self.gpu.instance is not None:
            raise Off("not supported under MIG")
        rates = self._once("util", lambda: self._nvml.nvmlDeviceGetUtilizationRates(self.gpu.handle))
        return int(getattr(rates, which))

    def _load(self) -> float:
        """A Tegra's load, per mille (sysfs)."""
        for file in sorted((self._root / "sys/devices/platform").glob("*gpu*/load")):
            try:
                return int(file.read_text()) / 10
            except (OSError, ValueError):
                continue
        raise Off("the driver tells no load")

    def _memory(self) -> int:
        info = self._call("nvmlDeviceGetMemoryInfo")
        if not info.total:
            raise Off("the driver tells no memory")
        if info.used > info.total:
            raise Gap("the driver said more than there is")
        return int(info.used)

    def _host_memory(self) -> int:
        import psutil

        memory = psutil.virtual_memory()
        return int(memory.total - memory.available)

    def _clock(self, which: int) -> int:
        return int(self._call("nvmlDeviceGetClockInfo", which))

    def _temperature(self) -> int:
        try:
            return int(self._call("nvmlDeviceGetTemperatureV", 0))
        except (AttributeError, self._nvml.NVMLError) as error:
            if fate_of(getattr(error, "value", 13)) != "off":
                raise
        return int(self._call("nvmlDeviceGetTemperature", 0))

    def _throttle(self) -> int:
        try:
            return int(self._call("nvmlDeviceGetCurrentClocksEventReasons"))
        except (AttributeError, self._nvml.NVMLError) as error:
            if fate_of(getattr(error, "value", 13)) != "off":
                raise
        return int(self._call("nvmlDeviceGetCurrentClocksThrottleReasons"))

    def _field(self, wanted: int) -> int:
        values = self._once("fields", lambda: self._nvml.nvmlDeviceGetFieldValues(self.gpu.whole, list(_FIELDS)))
        value = values[_FIELDS.index(wanted)]
        if value.nvmlReturn:
            raise self._nvml.NVMLError(value.nvmlReturn)
        age = age_s(int(value.timestamp))
        if age is not None and age > STALE_S:
            raise Gap(f"stale: the driver's value is {age:.0f} s old")
        kind = int(value.valueType)
        found = value.value.uiVal if kind == _UNSIGNED_INT else value.value.dVal if kind == 0 else value.value.ullVal
        if kind == _UNSIGNED_INT and wanted in (_PCIE_TX, _PCIE_RX):
            found = self._unwrapped(str(wanted), int(found))
        return int(found)

    def _unwrapped(self, name: str, raw: int) -> int:
        """A counter of 32 bits as one that goes on."""
        last = self._raw.get(name)
        before = self._totals.get(name, 0)
        total = raw if last is None else before + (raw - last) % (1 << 32)
        self._raw[name], self._totals[name] = raw, total
        return total

    def _rising(self, name: str, value: int) -> int:
        """A counter that never falls: one that began anew (driver reload, wrap of 64 bits) goes on from where it was."""
        name = f"rising {name}"
        last = self._raw.get(name, value)
        total = self._totals.get(name, value)
        if value >= last:
            total += value - last
        self._raw[name], self._totals[name] = value, total
        return total

    def _turn_gpm(self) -> None:
        """Take the next snapshot and the means since the one before; what went wrong is told by the values."""
        if self._gpm is None or self._gpm_off is not None:
            return
        try:
            sample = self._gpm.sample()
        except Exception as error:
            self._memo["gpm"] = error
            return
        last = self._last
        if last is not None and sample.t - last.t < LEAST_NS:
            self._gpm.drop(sample)
            return
        self._last = sample
        if last is None:
            return
        self._gpm_s = (sample.t - last.t) / 1e9
        try:
            self._memo["gpm"] = self._gpm.means(last, sample)
        except Exception as error:
            self._memo["gpm"] = error
        self._gpm.drop(last)

    def _gpm_value(self, metric: int) -> float:
        if self._gpm is None or self._gpm_off is not None:
            raise Off(self._gpm_off or NEEDS)
        found = self._memo.get("gpm")
        if found is None:
            raise Gap("")
        if isinstance(found, Exception):
            code = getattr(found, "value", NOT_SUPPORTED)
            if fate_of(code) != "off":
                raise found
            self._gpm_off = f"GPM: {words_for(code)}"
            raise Off(self._gpm_off)
        code, value = found[metric]
        if code:
            if fate_of(code) == "off":
                raise Off(f"GPM: {words_for(code)}")
            raise self._nvml.NVMLError(code)
        if math.isnan(value):
            raise Gap("GPM gave no number")
        return float(f"{value:.6g}")

    def _moved(self, metric: int) -> int:
        """Bytes moved so far: GPM's MiB/s times the time between the snapshots, added up."""
        name = f"moved {metric}"
        rate = self._gpm_value(metric)
        self._totals[name] = self._totals.get(name, 0) + round(rate * MIB * self._gpm_s)
        return self._totals[name]

    def border(self) -> GpmSample | None:
        """A snapshot at the border of a phase; None where there is no GPM."""
        if self._gpm is None or self._gpm_off is not None or self.lost:
            return None
        try:
            return self._gpm.sample()
        except Exception:
            return None  # the next reading says why

    def between(self, first: GpmSample, second: GpmSample) -> dict[str, float]:
        """The exact means between two borders, by name; nothing where they are too near, or GPM gave none."""
        if self._gpm is None or second.t - first.t < LEAST_NS:
            return {}
        try:
            found = self._gpm.means(first, second)
        except Exception:
            return {}
        names = {"sm_percent": SM_UTIL, "dram_percent": DRAM_BW_UTIL}
        means = {name: found[metric] for name, metric in names.items() if self.quantities[name].source == "GPM"}
        return {name: float(f"{value:.6g}") for name, (code, value) in means.items() if not code and 0 <= value <= 100}

    def forget(self, sample: GpmSample) -> None:
        """A border's snapshot that nobody needs any more."""
        if self._gpm is not None:
            self._gpm.drop(sample)

    def users(self) -> tuple[list[int] | None, str | None]:
        """The driver's ids of the processes that use the GPU; None and why where it does not tell. Raises `Lost`."""
        pids: set[int] = set()
        why: str | None = None
        told = False
        for name in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"):
            try:
                pids.update(int(process.pid) for process in self._call(name))
                told = True
            except Exception as error:
                code = getattr(error, "value", 13)
                if fate_of(code) == "lost":
                    raise Lost(code) from error
                why = why or words_for(code)
        return (sorted(pids), None) if told else (None, why)


_OF_SLICE: Final = frozenset(
    ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses")
)
"""Calls that a MIG slice answers for itself; the others are its whole GPU's."""
