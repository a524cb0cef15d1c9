"""GPM, the performance monitor that NVML has on Hopper and later: two samples, and the means between them.

A pair has to be more than 100 ms apart (nvml.h); closer ones give numbers that are not valid.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, Final

SM_UTIL: Final = 2
DRAM_BW_UTIL: Final = 10
PCIE_TX, PCIE_RX = 20, 21
NVLINK_RX, NVLINK_TX = 60, 61
IDS: Final = (SM_UTIL, DRAM_BW_UTIL, PCIE_TX, PCIE_RX, NVLINK_RX, NVLINK_TX)
NEEDS: Final = "needs GPM: Hopper, or GeForce from Blackwell on"
LEAST_NS: Final = 105_000_000
"""The least time between the samples of a pair, with some room over NVML's 100 ms."""


@dataclass(frozen=True, slots=True)
class GpmSample:
    """A snapshot of the counters and when it was taken (CLOCK_MONOTONIC, ns)."""

    t: int
    handle: Any


class Gpm:
    """The monitor of one GPU, or of one MIG slice (``instance`` of the parent's handle).

    Every method raises what NVML raises.
    """

    def __init__(self, nvml: Any, handle: Any, instance: int | None) -> None:
        self._nvml = nvml
        self._handle = handle
        self._instance = instance
        self._spare: list[Any] = []
        self._request = nvml.c_nvmlGpmMetricsGet_t()  # 19 kB: made once
        self._request.version = 1

    def supported(self) -> bool:
        """Whether the GPU has it; asked of the whole GPU also for a slice."""
        return bool(self._nvml.nvmlGpmQueryDeviceSupport(self._handle).isSupportedDevice)

    def sample(self) -> GpmSample:
        """Take a snapshot; give it back with `drop`."""
        handle = self._spare.pop() if self._spare else self._nvml.nvmlGpmSampleAlloc()
        try:
            if self._instance is None:
                self._nvml.nvmlGpmSampleGet(self._handle, handle)
            else:
                self._nvml.nvmlGpmMigSampleGet(self._handle, self._instance, handle)
        except Exception:
            self._spare.append(handle)
            raise
        return GpmSample(time.monotonic_ns(), handle)

    def drop(self, sample: GpmSample) -> None:
        """A snapshot that nobody needs any more."""
        self._spare.append(sample.handle)

    def means(self, first: GpmSample, second: GpmSample) -> dict[int, tuple[int, float]]:
        """The means between two snapshots: metric → (NVML's return code, value); NaN where there is none."""
        request = self._request
        request.numMetrics = len(IDS)
        request.sample1, request.sample2 = first.handle, second.handle
        for i, metric in enumerate(IDS):
            request.metrics[i].metricId = metric
            request.metrics[i].nvmlReturn = 0
            request.metrics[i].value = math.nan
        self._nvml.nvmlGpmMetricsGet(request)
        return {m.metricId: (int(m.nvmlReturn), float(m.value)) for m in request.metrics[: len(IDS)]}
