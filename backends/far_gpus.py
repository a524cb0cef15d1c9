"""The far machine's NVIDIA GPUs, by its nvidia-smi: readings made devices, series and samples.

nvidia-smi reads NVML, and what it says means the same; but it tells neither the memory's bus width nor energy nor GPM, and
comes once a second.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from phasetop import events as ev
from phasetop import peaks
from phasetop.backends.far_lines import MOST_GPUS, SERIES, Card, Said, SmiEnded, User, UsersTold, Word
from phasetop.backends.nvml_lines import THROTTLES
from phasetop.backends.nvml_peaks import is_unified
from phasetop.backends.recorder import Recorder

SMI: Final = "nvidia-smi over ssh, 1 Hz"
_LEAST_NS: Final = 300_000_000
"""Readings that come faster than this are not all taken: nothing there sends them so."""
_MOST_NS: Final = 10_000_000_000
"""After a pause of this length a reading stands for the second before it."""
_PERIOD_NS: Final = 1_000_000_000
_MOST_USERS: Final = 4096
_WORDS: Final = 3
_LASTING: Final = ("[N/A]", "N/A", "[Not Supported]", "[Not Found]")
_UNITS: Final = {**{name: unit for name, unit, *_ in SERIES.values()}, "throttle": None}
_FALSE: Final = "this GPU's driver says 0 whatever happens"


class FarGpus:
    """The GPUs of one far machine, over all connections of a session."""

    def __init__(self, recorder: Recorder, v: int, host: str) -> None:
        self._recorder = recorder
        self._v = v
        self._host = host
        self._cards: dict[str, int] = {}  # uuid → device
        self._described: dict[str, Card] = {}
        self._last: dict[str, int] = {}
        self._series: dict[tuple[int, str], int] = {}
        self._off: set[tuple[int, str]] = set()
        self._users: set[tuple[str, int]] = set()
        self._used: dict[str, list[int]] = {}
        self._words = 0
        self._judged = 0
        self._is_missing = False

    def take(self, said: Said, t: int, family: Collection[int]) -> None:
        """One reading; ``family``: the server's processes there."""
        match said:
            case Card():
                self._card(said, t)
            case User():
                if len(self._users) < _MOST_USERS:
                    self._users.add((said.uuid, said.pid))
            case UsersTold():
                self._judge(t, family)
            case Word():
                self._word(said.text, t)
            case SmiEnded():
                if said.status is None and not self._is_missing:
                    self._is_missing = True
                    self._finding("missing", f"{self._host} has no nvidia-smi: GPUs are not seen there", t)

    def _card(self, card: Card, t: int) -> None:
        last = self._last.get(card.uuid)
        if (last is not None and t - last < _LEAST_NS) or (last is None and len(self._cards) >= MOST_GPUS):
            return
        self._last[card.uuid] = t
        d = self._cards.get(card.uuid)
        if d is None:
            d = self._cards[card.uuid] = self._recorder.new_id("d")
            self._finding("ok", f"{self._host}: {card.name}", t)
        if not _is_described(self._described.get(card.uuid), card):
            self._described[card.uuid] = card
            self._recorder.emit(self._device(card, d, t))
        values: dict[str, float | None] = {}
        why: dict[str, str] = {}
        for name, value, reason, lasting in _readings(card):
            s = self._declared(d, name, t, reason if value is None and lasting else None)
            if s is None:
                continue
            values[s] = value
            if value is None:
                why[s] = reason
        if values:
            t0 = t - _PERIOD_NS if last is None or t - last > _MOST_NS else last
            self._recorder.emit(ev.Smp(t=t, t0=max(0, t0), v=values, e=why or None))

    def _device(self, card: Card, d: int, t: int) -> ev.Device:
        table = peaks.of_device(card.name, card.mem_bytes)
        if card.mig:
            peak = ev.Sourced(None, "the GPU is under MIG: nvidia-smi does not tell which slice the server has")
        elif "bandwidth" in table.why:
            peak = ev.Sourced(None, table.why["bandwidth"])
        elif table.peak is None:
            peak = ev.Sourced(None, "nvidia-smi tells no bus width, and the GPU is in no table")
        else:
            peak = ev.Sourced(table.peak.bytes_per_s, f"assumed: {table.peak.name} table")
        return ev.Device(
            t=t,
            d=d,
            vendor="nvidia",
            name=f"{card.name} under MIG" if card.mig else card.name,
            index=card.index,
            uuid=card.uuid,
            pci=card.pci,
            mem_bytes=card.mem_bytes,
            peak_bytes_per_s=peak,
            driver=card.driver,
            v=self._v,
        )

    def _declared(self, d: int, name: str, t: int, off: str | None) -> str | None:
        """The series of a metric, declared when it is new; None where it was not told at first, and so is given up."""
        key = (d, name)
        if key in self._off:
            return None
        if key not in self._series:
            self._series[key] = self._recorder.new_id("s")
            if off is not None:
                self._off.add(key)
            flags = THROTTLES if name == "throttle" else None
            self._recorder.emit(
                ev.Series(
                    t=t,
                    s=self._series[key],
                    d=d,
                    name=name,
                    unit=_UNITS[name],
                    source=f"{'mem-ctrl' if name == 'memory_busy_percent' else 'NVML'}: {SMI}",
                    type="flags" if flags else "gauge",
                    flags=flags,
                    off=off,
                )
            )
        return None if key in self._off else str(self._series[key])

    def _judge(self, t: int, family: Collection[int]) -> None:
        """Which GPUs the server uses, where a list of theirs has its processes; in a container's they have other numbers."""
        users, self._users = self._users, set()
        if self._judged and t - self._judged < _PERIOD_NS:
            return
        self._judged = t
        if not any(pid in family and uuid in self._cards for uuid, pid in users):
            return
        for uuid, d in self._cards.items():
            used = [self._v] if any(other == uuid and pid in family for other, pid in users) else []
            if self._used.get(uuid) != used:
                self._used[uuid] = used
                self._recorder.emit(ev.Device(t=t, d=d, used_by=used))

    def _word(self, text: str, t: int) -> None:
        if self._words >= _WORDS:
            return
        self._words += 1
        text = f"nvidia-smi on {self._host}: {text}"
        self._finding("broken", text, t)
        self._recorder.notice("far-gpu", text, level="warn")

    def _finding(self, state: str, text: str, t: int) -> None:
        self._recorder.emit(ev.Finding(t=t, name="far-gpu", state=state, text=text))


def _is_described(before: Card | None, now: Card) -> bool:
    keys = ("name", "index", "pci", "driver", "mem_bytes", "mig")
    return before is not None and all(getattr(before, key) == getattr(now, key) for key in keys)


def _readings(card: Card) -> Iterator[tuple[str, float | None, str, bool]]:
    """(series, value, why none, whether that may be for good); what its driver never tells rightly is not taken."""
    false = {"memory_busy_percent", *(("sm_percent",) if "Thor" in card.name else ())} if is_unified(card.name) else set()
    for name, value in card.values.items():
        if name in false:
            yield name, None, _FALSE, True
        else:
            why = card.why.get(name, "")
            yield name, value, why, value is None and (why.endswith(_LASTING) or not why.startswith("nvidia-smi says"))
