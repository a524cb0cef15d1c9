"""The ticks of the process that asks NVML: opens the driver, reads groups of metrics, and prints what it finds as lines.

A driver that is not there, is lost or comes back, a GPU that sleeps, phases whose exact means GPM gives, and the cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from phasetop.backends import nvml_lines as lines
from phasetop.backends.nvml_devices import PciGpu, driver_version, find, library_version, pci_gpus, versions_in_words
from phasetop.backends.nvml_errors import LIBRARY_NOT_FOUND, UNKNOWN, words_for
from phasetop.backends.nvml_gpm import LEAST_NS, GpmSample
from phasetop.backends.nvml_quantity import Lost, Quantity
from phasetop.backends.nvml_read import GpuReader

PERIOD_S: Final = 0.11
"""A tick: over GPM's 100 ms, and no tenth of a second, which would beat against it."""
SLOWEST_S: Final = 0.88
MEDIUM, SLOW = 2, 9
"""Every so-manieth tick reads those groups too."""
MOST_TICK_S: Final = 0.002
MOST_CORE: Final = 0.01
WINDOW_S: Final = 2.0
BEAT_S: Final = 1.0
RETRY_S: Final = 1.0
RETRY_MOST_S: Final = 60.0
CLOSE_AFTER_S: Final = 30.0
"""Without a request for so long, a GPU that may sleep is let go: an open handle keeps it awake."""
ANNOUNCED_TICKS: Final = 12
"""After so many ticks each group was read; a metric that gave nothing until then is only a gap."""
_NO_ATTACH: Final = 2  # nvml.h, NVML_INIT_FLAG_NO_ATTACH


@dataclass(slots=True)
class _Phase:
    """A phase that runs: the snapshots of its beginning, by GPU."""

    name: str
    samples: dict[int, GpmSample]


class NvmlTicks:
    """Opens NVML, reads in ticks, prints; ``write`` takes whole lines."""

    def __init__(self, nvml: Any, write: Callable[[bytes], None], root: Path = Path("/")) -> None:
        self._nvml = nvml
        self._write = write
        self._root = root
        self._readers: dict[str, GpuReader] = {}
        self._numbers: dict[str, int] = {}
        self._metrics = 0
        self._open = False
        self._retry_at = 0.0
        self._retry_s = RETRY_S
        self._missing: set[str] = set()
        self._last: dict[str, int] = {}
        self._users: dict[int, tuple[list[int] | None, str | None]] = {}
        self._phases: dict[int, _Phase] = {}
        self._busy_until = time.monotonic() + CLOSE_AFTER_S
        self._said: str | None = None
        self.period_s = PERIOD_S
        self._window_at, self._window_cpu = time.monotonic(), time.process_time()
        self._spent: list[float] = []
        self._tick = 0
        self._focus: frozenset[str] = frozenset()
        self._driver = ""
        self._announced_by: int | None = None  # the tick at which what was announced until then is all

    def _print(self, *told: lines.Line) -> None:
        self._write(b"".join(map(lines.encode, told)))

    def _say(self, code: str, state: str, text: str, *, last: bool = False) -> None:
        """Tell how it goes, once for each change."""
        if self._said != text:
            self._said = text
            self._print(lines.Word(code=code, state=state, text=text, last=last))  # type: ignore[arg-type]

    def step(self) -> bool:
        """One tick; False where there will never be anything to read."""
        now = time.monotonic()
        if not self._open and now >= self._retry_at and not self._try_open():
            return False
        if self._open:
            self._look_after_missing(now)
            began = time.perf_counter()
            self._read_groups(everything=False)
            self._account(time.perf_counter() - began)
            self._say_ready()
            if now > self._busy_until and not self._phases and self._may_sleep():
                self._close()
                self._say("gpu-released", "off", "the GPU may sleep now: it is read again with the next request")
                self._retry_at = float("inf")
        self._tick += 1
        return True

    def _say_ready(self) -> None:
        """Say, once after each opening, that all metrics were announced, as far as they ever gave a value."""
        if self._announced_by is None:
            return
        told = all(each.told for reader in self._readers.values() for each in reader.quantities.values())
        if self._open and (told or self._tick >= self._announced_by):
            self._announced_by = None
            n = len(self._readers)
            text = f"{self._driver}, {n} GPU{'s' if n != 1 else ''}"
            self._print(lines.Word(code=lines.READY, state="ok", text=text))

    def _try_open(self) -> bool:
        """Open NVML; False: there is nothing and never will be."""
        here = pci_gpus(self._root)
        asleep = [gpu for gpu in here if gpu.asleep]
        if asleep and len(asleep) == len(here):
            self._say("gpu-asleep", "off", "the GPU sleeps, and is not woken to be measured")
            self._retry_at = time.monotonic() + BEAT_S
            return True
        self._print(lines.Opening())
        only = [gpu.address for gpu in here if not gpu.asleep] if asleep else None
        try:
            if only is None:
                self._nvml.nvmlInit()
            else:
                self._nvml.nvmlInitWithFlags(_NO_ATTACH)
            gpus = find(self._nvml, self._root, only)
        except self._nvml.NVMLError as error:
            code = int(error.value)
            if code == LIBRARY_NOT_FOUND:
                self._say("no-nvml", "missing", words_for(code), last=True)
                return False
            why = "the GPU's device files are gone or broken here" if code == UNKNOWN else words_for(code)
            self._say("nvml-broken", "broken", f"NVIDIA GPUs cannot be read: {why}")
            self._later()
            return True
        if not gpus and not self._numbers:
            self._say("no-gpu", "missing", "the NVIDIA driver is here, and has no GPU that NVML can read", last=True)
            return False
        self._open, self._said = True, None
        self._announced_by = self._tick + ANNOUNCED_TICKS
        self._take(gpus)
        return True

    def _take(self, gpus: list[Any]) -> None:
        """Announce GPUs that are new or back; their metrics are announced as they are read."""
        driver = driver_version(self._nvml)
        self._driver = versions_in_words(driver, library_version(self._nvml))
        for gpu in gpus:
            if gpu.uuid in self._readers:
                continue
            try:
                reader = GpuReader(self._nvml, gpu, self._root)
            except Lost:
                continue
            g = self._numbers.setdefault(gpu.uuid, len(self._numbers))
            self._readers[gpu.uuid] = reader
            self._missing.discard(gpu.uuid)
            told = {name: getattr(gpu, name) for name in ("uuid", "name", "index", "pci", "minor", "mem_bytes")}
            peak = gpu.peak
            self._print(lines.Gpu(g=g, **told, peak_bytes_per_s=peak.bytes_per_s, peak_source=peak.source, driver=driver))
        self._users.clear()
        self._last.clear()
        self._window_at, self._window_cpu, self._spent = time.monotonic(), time.process_time(), []

    def _later(self) -> None:
        self._retry_at = time.monotonic() + self._retry_s
        self._retry_s = min(self._retry_s * 2, RETRY_MOST_S)

    def _may_sleep(self) -> bool:
        here: list[PciGpu] = pci_gpus(self._root)
        return any(gpu.may_sleep for gpu in here)

    def _close(self) -> None:
        """Let the driver go; what runs keeps no snapshot of it."""
        self._open = False
        self._readers.clear()
        self._phases.clear()
        try:
            self._nvml.nvmlShutdown()
        except self._nvml.NVMLError:
            pass

    def _dead(self, code: int) -> None:
        """The driver is gone: tear down, and open again later."""
        self._close()
        self._say("nvml-broken", "broken", f"NVIDIA GPUs cannot be read any more: {words_for(code)}")
        self._later()

    def _gone(self, uuid: str, lost: Lost) -> None:
        """One GPU is gone: the others go on, and it is looked for by its UUID."""
        reader = self._readers.pop(uuid)
        reader.lost = True
        self._missing.add(uuid)
        name = reader.gpu.name or f"GPU {reader.gpu.index}"
        told = [str(each.number) for each in reader.quantities.values() if each.told and each.off is None]
        if told:
            t = time.monotonic_ns()
            self._print(lines.Sample(t0=t, t=t, v=dict.fromkeys(told), e=dict.fromkeys(told, str(lost))))
        self._print(lines.Word(code="gpu-lost", state="broken", text=f"{name}: {lost}; the run goes on without its figures"))
        self._later()

    def _look_after_missing(self, now: float) -> None:
        if not self._missing or now < self._retry_at:
            return
        try:
            self._take(find(self._nvml, self._root))
        except (self._nvml.NVMLError, Lost) as error:
            self._dead(int(getattr(error, "value", UNKNOWN)))
            return
        if self._missing:
            self._later()
        else:
            self._retry_s = RETRY_S
            self._say("gpu-back", "ok", "the GPU is back")

    def _read_groups(self, *, everything: bool) -> None:
        first = not self._last
        gpm = any(reader.has_gpm for reader in self._readers.values())
        for group, every in (("gpm", 1), ("util", MEDIUM if gpm else 1), ("medium", MEDIUM), ("slow", SLOW)):
            if first or everything or self._tick % every == 0:
                if group == "gpm" and self._last.get(group, 0) > time.monotonic_ns() - LEAST_NS:
                    continue
                self._read_group(group)
                if group == "slow":
                    self._read_users()

    def _read_group(self, group: str) -> None:
        values: dict[str, float | int | None] = {}
        reasons: dict[str, str] = {}
        for uuid, reader in list(self._readers.items()):
            if group != "slow" and not self._watched(uuid):
                continue
            try:
                found = reader.read(group)
            except Lost as lost:
                self._lose(uuid, lost)
                if not self._open:
                    return
                continue
            g = self._numbers[uuid]
            for quantity in reader.quantities.values():
                if not quantity.told and (quantity.off is not None or quantity.name in found.values):
                    self._print(self._metric(g, quantity))
            for name, value in found.values.items():
                key = str(reader.quantities[name].number)
                values[key] = float(f"{value:.6g}") if isinstance(value, float) else value
                if name in found.reasons:
                    reasons[key] = found.reasons[name]
        t = time.monotonic_ns()
        if values:
            self._retry_s = self._retry_s if self._missing else RETRY_S
            self._print(lines.Sample(t0=self._last.get(group, t), t=t, v=values, e=reasons or None))
        self._last[group] = t

    def _watched(self, uuid: str) -> bool:
        """Whether a GPU is one of those in use; all are, as long as nobody said, and until their metrics were announced."""
        announced = all(each.told for each in self._readers[uuid].quantities.values())
        return not self._focus or uuid in self._focus or not announced

    def _lose(self, uuid: str, lost: Lost) -> None:
        if lost.code in (15, 16):
            self._gone(uuid, lost)
        else:
            self._dead(lost.code)

    def _metric(self, g: int, quantity: Quantity) -> lines.Metric:
        if quantity.number < 0:
            quantity.number, self._metrics = self._metrics, self._metrics + 1
        quantity.told = True
        return lines.Metric(
            m=quantity.number,
            g=g,
            name=quantity.name,
            unit=quantity.unit,
            source=quantity.source,
            type=quantity.kind,
            flags=dict(quantity.flags) if quantity.flags else None,
            off=quantity.off,
        )

    def _read_users(self) -> None:
        for uuid, reader in list(self._readers.items()):
            try:
                told = reader.users()
            except Lost as lost:
                self._lose(uuid, lost)
                if not self._open:
                    return
                continue
            g = self._numbers[uuid]
            if self._users.get(g) != told:
                self._users[g] = told
                self._print(lines.Users(g=g, pids=told[0], why=told[1]))

    def _account(self, spent_s: float) -> None:
        """What it costs; over the budget the time between ticks doubles.

        The budget is held against the lower quartile: where every core is busy, a tick may wait for one, which costs nobody.
        """
        self._spent.append(spent_s)
        now = time.monotonic()
        wall = now - self._window_at
        if wall < WINDOW_S:
            return
        cpu = time.process_time()
        self._spent.sort()
        tick_s, core = self._spent[len(self._spent) // 4], (cpu - self._window_cpu) / wall
        self._window_at, self._window_cpu, self._spent = now, cpu, []
        if (tick_s > MOST_TICK_S or core > MOST_CORE) and self.period_s < SLOWEST_S:
            self.period_s *= 2
            cost = f"{tick_s * 1e3:.1f} ms a tick, {core * 100:.1f} % of a core"
            text = f"reading the GPU costs {cost}: half as often from now on"
            self._print(lines.Word(code="gpu-slow", state="limited", text=text))
        self._print(
            lines.Beat(
                tick_ms=float(f"{tick_s * 1e3:.4g}"),
                core_percent=float(f"{core * 100:.4g}"),
                period_ms=self.period_s * 1e3,
            )
        )

    def obey(self, order: lines.Order) -> bool:
        """One order; False: it was to stop."""
        if order.op == "stop":
            if self._open:
                self._read_groups(everything=True)
            return False
        if order.op == "focus":
            self._focus = frozenset(order.uuids)
            return True
        self._busy_until = time.monotonic() + CLOSE_AFTER_S
        if not self._open and self._retry_at == float("inf"):
            self._retry_at = 0.0  # it was let go: a request runs, so the GPU is awake or will be
        if self._open:
            self._border(order.r, order.phase)
            self._read_groups(everything=True)
        return True

    def _border(self, r: int, phase: str) -> None:
        """End the phase of ``r`` that runs, with its exact means, and begin the next."""
        samples: dict[int, GpmSample] = {}
        for uuid, reader in self._readers.items():
            sample = reader.border() if not self._focus or uuid in self._focus else None
            if sample is not None:
                samples[self._numbers[uuid]] = sample
        before = self._phases.pop(r, None)
        by_number = {self._numbers[uuid]: reader for uuid, reader in self._readers.items()}
        # A prefill that begins again (headers after sent) had not begun.
        if before is not None and before.name != phase:
            self._print_means(r, before, samples, by_number)
        for g, sample in (before.samples if before is not None else {}).items():
            if g in by_number:
                by_number[g].forget(sample)
        if phase:
            self._phases[r] = _Phase(phase, samples)
        else:
            for g, sample in samples.items():
                by_number[g].forget(sample)

    def _print_means(self, r: int, phase: _Phase, samples: dict[int, GpmSample], readers: dict[int, GpuReader]) -> None:
        for g, first in phase.samples.items():
            second, reader = samples.get(g), readers.get(g)
            if second is None or reader is None:
                continue
            means = reader.between(first, second)
            values: dict[str, float | int | None] = {
                str(reader.quantities[name].number): value
                for name, value in means.items()
                if reader.quantities[name].number >= 0
            }
            if values:
                self._print(lines.Sample(t0=first.t, t=second.t, v=values, r=r, phase=phase.name))

    def beat(self) -> None:
        """Say that it lives."""
        self._print(lines.Beat())
