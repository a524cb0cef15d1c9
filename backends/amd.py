"""AMD GPUs, by what the kernel's driver (amdgpu) tells in sysfs: the same lanes as NVIDIA's, as far as it tells them.

Needs no library and no rights. Nothing is read of a card that sleeps: a read would wake it. Intel's and Apple's GPUs tell
nothing that can be read without rights or private interfaces.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from phasetop import events as ev
from phasetop.backends.gpu_presence import amd_cards
from phasetop.backends.kernel_files import number
from phasetop.backends.nvml_use import family, process_of
from phasetop.backends.recorder import Recorder

_PERIOD_S: Final = 0.2
_SENTINEL: Final = 0xFFFF
_USERS_EVERY: Final = 5
Convert = Callable[[int], float]


def _micro(value: int) -> float:
    return float(f"{value / 1e6:.6g}")


def _milli(value: int) -> float:
    return float(f"{value / 1e3:.6g}")


def _same(value: int) -> float:
    return value


METRICS: Final[tuple[tuple[str, str, str, tuple[str, ...], Convert], ...]] = (
    ("sm_percent", "%", "gauge", ("gpu_busy_percent",), _same),
    ("memory_busy_percent", "%", "gauge", ("mem_busy_percent",), _same),
    ("power_w", "W", "gauge", ("hwmon/*/power1_average", "hwmon/*/power1_input"), _micro),
    ("energy_uj", "uJ", "counter", ("hwmon/*/energy1_input",), _same),
    ("sm_mhz", "MHz", "gauge", ("hwmon/*/freq1_input",), _micro),
    ("memory_mhz", "MHz", "gauge", ("hwmon/*/freq2_input",), _micro),
    ("temperature_c", "C", "gauge", ("hwmon/*/temp1_input",), _milli),
    ("memory_used_bytes", "B", "gauge", ("mem_info_vram_used",), _same),
)
"""Name, unit, type, the first of these files that can be read, and what makes its number the unit (kernel: amdgpu)."""
NOT_TOLD: Final = {
    "dram_percent": "amdgpu tells no bandwidth in sysfs",
    "throttle": "amdgpu tells its throttling in a binary table only",
}


def read_number(file: Path) -> int | None:
    """A file's whole number; None for one that is not there, that cannot be read, or that holds amdgpu's "no value"."""
    value = number(file)
    return None if value in (_SENTINEL, 0xFFFFFFFF) else value


@dataclass(slots=True)
class Card:
    """One card: its folder in sysfs, its files by metric, and its ids in the session."""

    folder: Path
    d: int = 0
    files: dict[str, tuple[Path, Convert]] = field(default_factory=dict)
    series: dict[str, int] = field(default_factory=dict)
    used_by: list[int] | None = None

    @property
    def asleep(self) -> bool:
        """Runtime suspended."""
        return _text(self.folder / "power/runtime_status") in ("suspended", "suspending")

    @property
    def pci(self) -> str:
        """The PCI address."""
        return self.folder.resolve().name.lower()


def cards(root: Path = Path("/")) -> list[Card]:
    """The AMD cards, awake or not."""
    return [Card(folder) for folder in amd_cards(root)]


def _text(file: Path) -> str | None:
    try:
        return file.read_text().strip() or None
    except OSError:
        return None


def sampler(recorder: Recorder) -> AmdSampler | None:
    """The vendor's entry: a sampler where an AMD card is here."""
    found = cards()
    return AmdSampler(recorder, found) if found else None


class AmdSampler:
    """A `gpu_vendors.GpuSampler`: a thread that reads a few files five times a second."""

    def __init__(self, recorder: Recorder, found: Sequence[Card], root: Path = Path("/")) -> None:
        self._recorder = recorder
        self._cards = list(found)
        self._root = root
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="amdgpu", daemon=True)
        self._process: tuple[psutil.Process | None, int] | None = None
        self._last = 0
        self.settled = threading.Event()  # the cards and their series were told

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def watch(self, pid: int, v: int) -> None:
        """The process whose GPUs are to be told."""
        self._process = (process_of(pid), v)

    def seen(self, events: Sequence[ev.Event]) -> None:
        """Nothing here hangs on the phases' borders."""

    def stop(self) -> None:
        """A last reading, and the end."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(0.5)

    def _run(self) -> None:
        try:
            for index, card in enumerate(self._cards):
                self._declare(card, index)
            self.settled.set()
            ticks = 0
            while True:
                ending = self._stop.wait(_PERIOD_S)
                self.read_once()
                if ticks % _USERS_EVERY == 0:
                    self._judge()
                if ending:
                    return
                ticks += 1
        except Exception:  # counters are no reason to end a session
            traceback.print_exc()
        finally:
            self.settled.set()

    def _declare(self, card: Card, index: int) -> None:
        recorder, folder = self._recorder, card.folder
        card.d = recorder.new_id("d")
        t = recorder.now()
        name = _text(folder / "product_name") or f"AMD GPU {(_text(folder / 'device') or '')[2:]}".strip()
        told: list[ev.Event] = [
            ev.Device(
                t=t,
                d=card.d,
                vendor="amd",
                name=name,
                index=index,
                uuid=_text(folder / "unique_id"),
                pci=card.pci,
                mem_bytes=read_number(folder / "mem_info_vram_total"),
                peak_bytes_per_s=ev.Sourced(value=None, source="amdgpu tells no memory bus: --peak-bandwidth"),
            )
        ]
        asleep = card.asleep
        for metric, unit, kind, patterns, convert in METRICS:
            files = [file for pattern in patterns for file in sorted(folder.glob(pattern))]
            file = next((file for file in files if asleep or read_number(file) is not None), None)
            off = None if file is not None else "this card, or its driver, does not tell it in sysfs"
            if file is not None:
                card.files[metric] = (file, convert)
            s = card.series[metric] = recorder.new_id("s")
            told.append(ev.Series(t=t, s=s, d=card.d, name=metric, unit=unit, source="sysfs", type=kind, off=off))
        for metric, why in NOT_TOLD.items():
            told.append(ev.Series(t=t, s=recorder.new_id("s"), d=card.d, name=metric, source="sysfs", off=why))
        self._last = t
        recorder.emit_all(told)

    def read_once(self) -> None:
        """One reading of all cards, as one line."""
        values: dict[str, float | None] = {}
        reasons: dict[str, str] = {}
        for card in self._cards:
            asleep = card.asleep
            for metric, (file, convert) in card.files.items():
                key = str(card.series[metric])
                number = None if asleep else read_number(file)
                values[key] = None if number is None else convert(number)
                if number is None:
                    reasons[key] = "the card sleeps" if asleep else "no value"
                elif metric.endswith("_percent") and not 0 <= number <= 100:
                    values[key], reasons[key] = None, f"the driver said {number} %"
        t = self._recorder.now()
        self._recorder.emit(ev.Smp(t=t, t0=self._last, v=values, e=reasons or None))
        self._last = t

    def _judge(self) -> None:
        if self._process is None:
            return
        process, v = self._process
        used = devices_of(family(process), self._root)
        for card in self._cards:
            users = None if used is None else [v] if card.pci in used else []
            if users is not None and users != card.used_by:
                card.used_by = users
                self._recorder.emit(ev.Device(t=self._recorder.now(), d=card.d, used_by=users))


def devices_of(pids: frozenset[int], root: Path = Path("/")) -> frozenset[str] | None:
    """PCI addresses of the GPUs on which these processes hold memory or ran anything (DRM fdinfo); None: not readable."""
    found: set[str] = set()
    told = False
    for pid in pids:
        try:
            files = list((root / "proc" / str(pid) / "fdinfo").iterdir())
        except OSError:
            continue
        told = True
        for file in files:
            try:
                text = file.read_text()
            except OSError:
                continue
            if "drm-pdev:" in text and any(_used(line) for line in text.splitlines()):
                found.add(text.split("drm-pdev:", 1)[1].split()[0].lower())
    return frozenset(found) if told else None


def _used(line: str) -> bool:
    name, _, value = line.partition(":")
    return name.startswith(("drm-engine-", "drm-memory-vram")) and value.split()[:1] not in ([], ["0"])
