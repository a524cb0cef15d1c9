"""Counters of this machine, sampled by a thread of the collector: CPU, memory, and the server's process.

The thread is niced (on Linux a thread has a priority of its own), the stamping threads never are. It also writes the clock
every ten seconds, and at once when the wall clock moved against the monotonic one (suspend, a step).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Final

import psutil

from phasetop import events as ev
from phasetop.backends.recorder import Recorder

DEFAULT_HZ: Final = 5.0
MAX_HZ: Final = 20.0
_CLOCK_EVERY_NS: Final = 10_000_000_000
_CLOCK_STEP_NS: Final = 50_000_000
_NICE: Final = 10


class HostSampler:
    """Samples until `stop`; `watch` names the server's process."""

    def __init__(self, recorder: Recorder, hz: float = DEFAULT_HZ) -> None:
        self._recorder = recorder
        self._period_s = 1 / hz
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="host-sampler", daemon=True)
        self._guard = threading.Lock()
        self._process: psutil.Process | None = None
        self._process_series: dict[str, int] = {}
        self._process_busy = 0.0
        self._process_v = -1
        self._faults = self._faults_before = 0  # of the process so far, and of those before it: a counter never falls
        self._offsets = (0, 0)

    def start(self, host: ev.Host) -> None:
        """Declare the host and its series, then sample."""
        recorder, t = self._recorder, self._recorder.now()
        self._cpu = recorder.new_id("s")
        self._memory = recorder.new_id("s")
        device = ev.Device(t=t, d=0, vendor="host", name=host.cpu, mem_bytes=host.ram_bytes)
        cpu = ev.Series(t=t, s=self._cpu, name="cpu_cores_used", unit="cores", source="psutil")
        used = ev.Series(t=t, s=self._memory, name="memory_used_bytes", unit="B", source="psutil")
        recorder.emit(device, cpu, used)
        self._thread.start()

    def watch(self, pid: int, v: int) -> None:
        """Sample the process ``pid`` of server ``v`` too, from now on; a pid that cannot be read is left alone."""
        try:
            process = psutil.Process(pid)
            busy = sum(process.cpu_times()[:2])
        except psutil.Error:
            return
        with self._guard:
            if self._process_series and self._process_v == v:  # it was started again: the same quantities go on
                if self._process is None or self._process.pid != pid:
                    self._faults_before = self._faults - (_major_faults(pid) or 0)
                self._process, self._process_busy = process, busy
                return
        t = self._recorder.now()
        series: dict[str, int] = {}
        events: list[ev.Event] = []
        for name, unit, kind in (
            ("server_cpu_cores", "cores", "gauge"),
            ("server_rss_bytes", "B", "gauge"),
            ("server_major_faults", "", "counter"),
        ):
            if name == "server_major_faults" and sys.platform != "linux":
                continue
            series[name] = self._recorder.new_id("s")
            events.append(ev.Series(t=t, s=series[name], name=name, unit=unit or None, source="psutil", type=kind, v=v))
        self._recorder.emit_all(events)
        with self._guard:
            self._process, self._process_series, self._process_busy, self._process_v = process, series, busy, v
            self._faults_before = self._faults = 0

    def set_hz(self, hz: float) -> None:
        """Change the rate, 0.2 to 20 a second."""
        self._period_s = 1 / min(MAX_HZ, max(0.2, hz))

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(1.0)

    def _run(self) -> None:
        if sys.platform == "linux":
            try:
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
            except OSError:
                pass
        recorder = self._recorder
        busy, t0 = _busy_s(), recorder.now()
        self._offsets = _offsets()
        clock_due = t0 + _CLOCK_EVERY_NS
        while not self._stop.wait(self._period_s):
            t = recorder.now()
            span_s = max(t - t0, 1) / 1e9
            now_busy = _busy_s()
            values: dict[str, float | None] = {
                str(self._cpu): _six(max(0.0, now_busy - busy) / span_s),
                str(self._memory): _used_bytes(),
            }
            reasons = self._sample_process(values, span_s)
            recorder.emit(ev.Smp(t=recorder.now(), t0=t0, v=values, e=reasons or None))
            busy, t0 = now_busy, t
            offsets = _offsets()
            moved = max(abs(a - b) for a, b in zip(offsets, self._offsets, strict=True))
            if t >= clock_due or moved > _CLOCK_STEP_NS:
                if moved > _CLOCK_STEP_NS:
                    recorder.notice("clock-step", f"the clock moved by {moved / 1e9:.2f} s", level="warn")
                recorder.clock()
                self._offsets, clock_due = offsets, t + _CLOCK_EVERY_NS

    def _sample_process(self, values: dict[str, float | None], span_s: float) -> dict[str, str]:
        with self._guard:
            process, series = self._process, self._process_series
        if process is None:
            return {}
        try:
            with process.oneshot():
                busy = sum(process.cpu_times()[:2])
                rss = process.memory_info().rss
            faults = _major_faults(process.pid) if "server_major_faults" in series else None
        except psutil.Error:
            with self._guard:
                if self._process is process:
                    self._process = None
            for s in series.values():
                values[str(s)] = None
            return {str(s): "the server's process is gone" for s in series.values()}
        values[str(series["server_cpu_cores"])] = _six(max(0.0, busy - self._process_busy) / span_s)
        values[str(series["server_rss_bytes"])] = rss
        if faults is not None:
            self._faults = self._faults_before + faults
            values[str(series["server_major_faults"])] = self._faults
        self._process_busy = busy
        return {}


def _busy_s() -> float:
    """CPU seconds that all cores together have worked: not idle, not waiting for a disk, not stolen."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0) + getattr(times, "steal", 0.0)
    guest = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # is in user and nice already
    return float(sum(times) - idle - guest)


def _used_bytes() -> int:
    memory = psutil.virtual_memory()
    return int(memory.total - memory.available)


def _major_faults(pid: int) -> int | None:
    """Pages of the process that had to be read from disk so far: field 12 of /proc/pid/stat (proc(5))."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rsplit(b")", 1)[1].split()[9])
    except (OSError, ValueError, IndexError):
        return None


def _offsets() -> tuple[int, int]:
    """Wall and boot clock against the monotonic one, ns: they move on a clock step and on a suspend."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    mono = time.monotonic_ns()
    return time.time_ns() - mono, (time.clock_gettime_ns(boot) - mono if boot is not None else 0)


def _six(value: float) -> float:
    """At most six significant digits (EVENTS.md: gauges)."""
    return float(f"{value:.6g}")
