"""The far machine's vitals as events: what `far_lines` reads, made devices, series and samples of that machine.

Samples are stamped when they arrive here, so they are late by half the link's round trip; their rates are by the far
machine's own clocks. They come once a second, whatever a hostile far side sends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from phasetop import events as ev
from phasetop.backends.far_gpus import FarGpus
from phasetop.backends.far_lines import About, Echo, FarLines, Process, Ps, Said, Tick, Watched
from phasetop.backends.recorder import Recorder

PROC: Final = "sysfs: /proc over ssh, 1 Hz"
_LEAST_S: Final = 0.3
"""Readings that come faster than this are not all taken: nothing there sends them so."""
_MOST_S: Final = 60.0
_TELLINGS: Final = 20
_ECHOES: Final = 5
_ECHO_EVERY: Final = 10  # ticks
_ECHO_LOST_S: Final = 5.0
_PROCESS_SERIES: Final = {"server_cpu_cores": ("cores", "gauge"), "server_rss_bytes": ("B", "gauge"),
                          "server_major_faults": (None, "counter")}  # fmt: skip
_HOST_SERIES: Final = {"cpu_cores_used": ("cores", "gauge"), "memory_used_bytes": ("B", "gauge"),
                       "swap_in_bytes": ("B", "counter")}  # fmt: skip


class FarSampler:
    """Takes what the far shell prints, over all connections of a session.

    Args:
        recorder: where the events go.
        v: the server that is asked there.
        host: the machine's name as ssh has it.
    """

    def __init__(self, recorder: Recorder, v: int, host: str) -> None:
        self._recorder = recorder
        self._v = v
        self._host = host
        self._order: Callable[[str], None] | None = None
        self._guard = threading.Lock()
        self._wanted = ""  # the port and name that are watched
        self._device = -1
        self._series: dict[tuple[int, str], int] = {}
        self._gpus = FarGpus(recorder, v, host)
        self._measured = threading.Event()  # the first echoes came
        self._arrived_ns = 0
        self._counted: dict[str, int] = {}
        self._begin()

    def _begin(self) -> None:
        """Forget what belongs to one connection."""
        self._lines = FarLines()
        self._about: dict[str, str | int] = {}
        self._told_about = False
        self._tellings = 0
        self._tick: Tick | None = None
        self._tick_t = 0
        self._ticks = 0
        self._last_ps: tuple[Ps, int] | None = None
        self._raw: dict[str, int] = {}
        self._echo: tuple[int, float] | None = None
        self._echoes = 0
        self._rtts: list[float] = []

    def connected(self, order: Callable[[str], None]) -> None:
        """A connection stands; ``order`` sends a line to its shell."""
        with self._guard:
            self._order = order
            if self._wanted:
                order(f"W {self._wanted}")
            self._ask_echo()

    def reset(self) -> None:
        """Another connection begins."""
        with self._guard:
            self._order = None
            self._begin()

    def watch(self, port: int, name: str) -> None:
        """Sample the process that listens on ``port``, or the only one called ``name``, from now on."""
        with self._guard:
            self._wanted = f"{port} {name}"
            if self._order is not None:
                self._order(f"W {self._wanted}")

    def link_ms(self, limit_s: float) -> float | None:
        """The least round trip so far, ms, of the first echoes where they come within this time; None: none came."""
        self._measured.wait(limit_s)
        with self._guard:
            return _six(min(self._rtts)) if self._rtts else None

    def heard(self, data: bytes) -> None:
        """Bytes of the far shell; called on one thread at a time."""
        arrived_ns = time.monotonic_ns()
        with self._guard:
            self._arrived_ns = arrived_ns
            for said in self._lines.feed(data):
                self._take(said, self._recorder.at(arrived_ns))

    def _take(self, said: Said, t: int) -> None:
        match said:
            case About():
                changed = any(self._about.get(name) != value for name, value in said.known.items())
                self._about.update(said.known)
                if "ram_bytes" in said.known and changed and self._may_tell():
                    self._describe(t)
            case Tick():
                self._describe(t, again=False)
                self._sample(said, t)
            case Ps():
                self._describe(t, again=False)
                self._sample_ps(said, t)
            case Echo():
                self._describe(t, again=False)
                self._echoed(said, t)
            case Watched():
                if said.pid is None and self._may_tell():
                    text = f"the server's process on {self._host} is not to be seen by this account"
                    self._recorder.emit(ev.Finding(t=t, name="far-server", state="limited", text=text))
            case _:
                self._describe(t, again=False)
                family = {each.pid for each in self._tick.processes} if self._tick is not None else set()
                self._gpus.take(said, t, family)

    def _may_tell(self) -> bool:
        """Whether this connection may still tell something that is no sample: a hostile one has no end of it."""
        self._tellings += 1
        return self._tellings <= _TELLINGS

    # -- the machine --------------------------------------------------------------------------------------------------------

    def _describe(self, t: int, *, again: bool = True) -> None:
        if self._told_about and not again:
            return
        self._told_about = True
        known = self._about
        name, kernel, cpu, system = (_text(known.get(key)) for key in ("name", "kernel", "cpu", "system"))
        cores, ram_bytes = (_count(known.get(key)) for key in ("cores", "ram_bytes"))
        host = ev.Host(name=name, os=system, kernel=kernel, cpu=cpu, cores=cores, ram_bytes=ram_bytes)
        if self._device < 0:
            self._device = self._recorder.new_id("d")
        self._recorder.emit(
            ev.Server(t=t, v=self._v, host=host),
            ev.Device(t=t, d=self._device, vendor="host", name=host.cpu, mem_bytes=host.ram_bytes, v=self._v),
        )

    def _s(self, d: int, name: str, t: int, **told: object) -> int:
        """The series of a metric, declared when it is new."""
        key = (d, name)
        if key not in self._series:
            self._series[key] = self._recorder.new_id("s")
            self._recorder.emit(ev.Series(t=t, s=self._series[key], d=d, name=name, **told))  # type: ignore[arg-type]
        return self._series[key]

    def _host_series(self, name: str, t: int) -> str:
        unit, kind = (_HOST_SERIES.get(name) or _PROCESS_SERIES[name])[:2]
        v = self._v if name in _PROCESS_SERIES else None
        return str(self._s(self._device, name, t, unit=unit, type=kind, source=PROC, v=v))

    def _sample(self, tick: Tick, t: int) -> None:
        before, t0 = self._tick, self._tick_t
        if before is not None and (t - t0) / 1e9 < _LEAST_S:
            return
        self._tick, self._tick_t = tick, t
        self._ticks += 1
        if self._ticks % _ECHO_EVERY == 0 or (self._echo is None and self._echoes < _ECHOES):
            self._ask_echo()
        values: dict[str, float | None] = {}
        if tick.memory_kib is not None:
            values[self._host_series("memory_used_bytes", t)] = (tick.memory_kib[0] - tick.memory_kib[1]) * 1024
        page = self._about.get("page")
        if tick.swapped_in is not None and isinstance(page, int):
            values[self._host_series("swap_in_bytes", t)] = self._grown("swap", tick.swapped_in * page)
        if tick.processes and isinstance(page, int):
            values[self._host_series("server_rss_bytes", t)] = sum(each.rss_pages for each in tick.processes) * page
        span_s = tick.uptime_s - before.uptime_s if before is not None else 0.0
        if before is None or not _LEAST_S / 2 <= span_s <= _MOST_S:
            t0 = t
        else:
            values |= self._rates(before, tick, span_s, t)
        if values:
            self._recorder.emit(ev.Smp(t=t, t0=t0, v=values))

    def _rates(self, before: Tick, tick: Tick, span_s: float, t: int) -> dict[str, float | None]:
        values: dict[str, float | None] = {}
        cores, ticks = self._about.get("cores"), self._about.get("ticks")
        if before.cpu is not None and tick.cpu is not None and isinstance(cores, int):
            busy, whole = (b - a for a, b in zip(before.cpu, tick.cpu, strict=True))
            if whole > 0 and 0 <= busy <= whole:
                values[self._host_series("cpu_cores_used", t)] = _six(cores * busy / whole)
        was = {(each.pid, each.started): each for each in before.processes}
        both = [(was[key], each) for each in tick.processes if (key := (each.pid, each.started)) in was]
        new = [each for each in tick.processes if (each.pid, each.started) not in was and _is_new(each, before, ticks)]
        if both and isinstance(ticks, int):
            worked = sum(now.cpu_ticks - then.cpu_ticks for then, now in both) + sum(each.cpu_ticks for each in new)
            if worked >= 0:
                used = worked / ticks / span_s  # ticks may end at other moments than the span
                values[self._host_series("server_cpu_cores", t)] = _six(min(used, cores) if isinstance(cores, int) else used)
            faults = sum(max(0, now.major_faults - then.major_faults) for then, now in both)
            self._counted["faults"] = self._counted.get("faults", 0) + faults + sum(each.major_faults for each in new)
            values[self._host_series("server_major_faults", t)] = self._counted["faults"]
        return values

    def _sample_ps(self, told: Ps, t: int) -> None:
        before = self._last_ps
        if before is not None and (t - before[1]) / 1e9 < _LEAST_S:
            return
        self._last_ps = told, t
        values: dict[str, float | None] = {self._host_series("server_rss_bytes", t): told.rss_kib * 1024}
        t0 = t
        if before is not None and before[0].pid == told.pid and told.cpu_s >= before[0].cpu_s:
            t0, span_s = before[1], (t - before[1]) / 1e9
            values[self._host_series("server_cpu_cores", t)] = _six((told.cpu_s - before[0].cpu_s) / span_s)
        self._recorder.emit(ev.Smp(t=t, t0=t0, v=values))

    def _grown(self, name: str, raw: int) -> int:
        """A counter that never falls, over restarts and connections; it begins at 0."""
        last = self._raw.get(name, raw)
        self._raw[name] = raw
        self._counted[name] = self._counted.get(name, 0) + max(0, raw - last)
        return self._counted[name]

    # -- the link -----------------------------------------------------------------------------------------------------------

    def _ask_echo(self) -> None:
        now = time.monotonic()
        if self._order is None or (self._echo is not None and now - self._echo[1] < _ECHO_LOST_S):
            return
        self._echoes += 1
        self._echo = self._echoes, now
        self._order(f"E {self._echoes}")

    def _echoed(self, echo: Echo, t: int) -> None:
        asked = self._echo
        if asked is None or asked[0] != echo.number:
            return
        self._echo = None
        rtt_ms = (self._arrived_ns / 1e9 - asked[1]) * 1e3
        self._rtts.append(rtt_ms)
        s = self._s(self._device, "link_rtt_ms", t, unit="ms", source="client: an echo over ssh", v=self._v)
        self._recorder.emit(ev.Smp(t=t, t0=t, v={str(s): _six(rtt_ms)}))
        if self._echoes < _ECHOES:
            self._ask_echo()
        else:
            self._measured.set()


def _is_new(process: Process, before: Tick, ticks: object) -> bool:
    """Whether it was started after the tick before, so that all its time lies since then."""
    return isinstance(ticks, int) and process.started >= before.uptime_s * ticks


def _text(value: str | int | None) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: str | int | None) -> int | None:
    return value if isinstance(value, int) else None


def _six(value: float) -> float:
    """At most six significant digits (gauges)."""
    return float(f"{value:.6g}")
