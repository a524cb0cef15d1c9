"""Counters of this machine, sampled by a thread of the collector: CPU, memory, and the server's process.

The thread is niced (on Linux a thread has a priority of its own), the stamping threads never are. It also writes the clock
every ten seconds, and at once when the wall clock moved against the monotonic one (suspend, a step).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import replace
from typing import Final

import psutil

from phasetop import events as ev
from phasetop.backends import kernel_files
from phasetop.backends.cgroup import Limits, limits_of, used_bytes
from phasetop.backends.host_series import Reading, of_process, often, seldom, throttling
from phasetop.backends.recorder import Recorder

DEFAULT_HZ: Final = 5.0
MAX_HZ: Final = 20.0
_SELDOM_NS: Final = 1_000_000_000
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
        self._limits = Limits()  # this process's
        self._often: list[Reading] = []
        self._seldom: list[Reading] = []
        self._of_process: list[Reading] = []
        self._throttling: Reading | None = None
        self._counted: dict[int, tuple[int, int]] = {}  # series → last raw value, what lies before it

    def start(self, host: ev.Host) -> None:
        """Declare the host and its series, then sample."""
        recorder, t = self._recorder, self._recorder.now()
        self._cpu = recorder.new_id("s")
        self._memory = recorder.new_id("s")
        self._limits = limits_of()
        if host.memory_limit_bytes is None:  # none, or more than the machine has
            self._limits = replace(self._limits, memory_folder=None)
        folder = self._limits.memory_folder
        limited = folder is not None and used_bytes(folder) is not None
        device = ev.Device(
            t=t, d=0, vendor="host", name=host.cpu, mem_bytes=host.memory_limit_bytes if limited else host.ram_bytes
        )
        cpu = ev.Series(t=t, s=self._cpu, name="cpu_cores_used", unit="cores", source="psutil")
        source = "sysfs: the cgroup's, which is limited" if limited else "psutil"
        used = ev.Series(t=t, s=self._memory, name="memory_used_bytes", unit="B", source=source)
        self._often, self._seldom, self._throttling = often(), seldom(), throttling(self._limits)
        more = [*self._often, *self._seldom, *([self._throttling] if self._throttling is not None else ())]
        recorder.emit(device, cpu, used, *(self._declared(each, t) for each in more))
        self._thread.start()

    def _declared(self, reading: Reading, t: int, v: int | None = None) -> ev.Series:
        if reading.s < 0:
            reading.s = self._recorder.new_id("s")
        return ev.Series(
            t=t,
            s=reading.s,
            name=reading.name,
            unit=reading.unit,
            source=reading.source,
            type=reading.kind,
            part=reading.part,
            off=reading.off,
            v=v,
        )

    def watch(self, pid: int, v: int) -> None:
        """Sample the process ``pid`` of server ``v`` too, from now on; a pid that cannot be read is left alone."""
        try:
            process = psutil.Process(pid)
            busy = sum(process.cpu_times()[:2])
        except psutil.Error:
            return
        self._watch_limits(pid, v)
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

    def _watch_limits(self, pid: int, v: int) -> None:
        """What the server's own cgroup and affinity allow it: its series go on where it was started again."""
        limits = limits_of(pid)
        found = of_process(pid, limits)
        held = throttling(limits)
        with self._guard:
            known = {each.name: each.s for each in self._of_process} if self._process_v == v else {}
            for each in found:
                each.s = known.get(each.name, -1)
            if held is not None and self._throttling is not None:
                held.s = self._throttling.s
        t = self._recorder.now()
        self._recorder.emit(
            *(self._declared(each, t, v) for each in found), *([self._declared(held, t)] if held is not None else ())
        )
        values = self._read(found)
        if values:  # at once: a short run ends before the second is over
            t = self._recorder.now()
            self._recorder.emit(ev.Smp(t=t, t0=t, v=values))
        with self._guard:
            self._of_process = found
            self._throttling = held or self._throttling

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
        (busy, whole), t0 = _busy_s(), recorder.now()
        cores = psutil.cpu_count() or 1
        self._offsets = _offsets()
        clock_due = t0 + _CLOCK_EVERY_NS
        seldom_t0 = t0
        self._read(self._seldom)
        while not self._stop.wait(self._period_s):
            t = recorder.now()
            span_s = max(t - t0, 1) / 1e9
            now_busy, now_whole = _busy_s()
            values: dict[str, float | None] = {
                str(self._cpu): _six(cores_used(now_busy - busy, now_whole - whole, cores)),
                str(self._memory): self._used_bytes(),
            }
            reasons = self._sample_process(values, span_s)
            with self._guard:
                held, of_server = self._throttling, list(self._of_process)
            values |= self._read([*self._often, *([held] if held is not None else ())])
            recorder.emit(ev.Smp(t=recorder.now(), t0=t0, v=values, e=reasons or None))
            busy, whole, t0 = now_busy, now_whole, t
            if t - seldom_t0 >= _SELDOM_NS:
                found = self._read([*self._seldom, *of_server])
                if found:
                    recorder.emit(ev.Smp(t=recorder.now(), t0=seldom_t0, v=found))
                seldom_t0 = t
            offsets = _offsets()
            moved = max(abs(a - b) for a, b in zip(offsets, self._offsets, strict=True))
            if t >= clock_due or moved > _CLOCK_STEP_NS:
                if moved > _CLOCK_STEP_NS:
                    recorder.notice("clock-step", f"the clock moved by {moved / 1e9:.2f} s", level="warn")
                recorder.clock()
                self._offsets, clock_due = offsets, t + _CLOCK_EVERY_NS

    def _read(self, readings: list[Reading]) -> dict[str, float | None]:
        """Values by series; what has none now is left out. A counter that began anew goes on from where it was."""
        found: dict[str, float | None] = {}
        for each in readings:
            try:
                value = each.read() if each.off is None else None
            except OSError:
                continue
            if value is None:
                continue
            if each.kind == "counter":
                raw = int(value)
                last, before = self._counted.get(each.s, (raw, 0))
                if raw < last:
                    before += last - raw
                self._counted[each.s] = (raw, before)
                found[str(each.s)] = raw + before
            else:
                found[str(each.s)] = value if isinstance(value, int) else _six(value)
        return found

    def _used_bytes(self) -> int:
        """Of a limited cgroup its own, else the machine's."""
        folder = self._limits.memory_folder
        used = used_bytes(folder) if folder is not None else None
        return _used_bytes() if used is None else used

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
        most = float(psutil.cpu_count() or 1)  # ticks of 10 ms over a span that is not whole ticks may come out above
        values[str(series["server_cpu_cores"])] = _six(min(most, max(0.0, busy - self._process_busy) / span_s))
        values[str(series["server_rss_bytes"])] = rss
        if faults is not None:
            self._faults = self._faults_before + faults
            values[str(series["server_major_faults"])] = self._faults
        self._process_busy = busy
        return {}


def cores_used(busy_s: float, whole_s: float, cores: int) -> float:
    """How many cores worked: their share of all CPU time that was counted, which cannot be more than there are.

    Over the time that passed instead it can: both are counted in ticks of 10 ms, which end at other moments.
    """
    return cores * min(1.0, max(0.0, busy_s) / whole_s) if whole_s > 0 else 0.0


def _busy_s() -> tuple[float, float]:
    """CPU seconds that all cores together have worked (not idle, not waiting for a disk, not stolen), and all of them."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0) + getattr(times, "steal", 0.0)
    guest = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # is in user and nice already
    whole = float(sum(times) - guest)
    return whole - idle, whole


def _used_bytes() -> int:
    memory = psutil.virtual_memory()
    return int(memory.total - memory.available)


def _major_faults(pid: int) -> int | None:
    """Pages of the process that had to be read from disk so far: field 12 of /proc/pid/stat (proc(5))."""
    try:
        return int(kernel_files.read(f"/proc/{pid}/stat").rsplit(b")", 1)[1].split(None, 10)[9])
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
