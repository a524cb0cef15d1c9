"""What the far machine prints (`far_script`), read. It is another machine's word: every line is taken as hostile.

Pure: bytes in, readings out. A line that is not of its form is dropped, however it is cut; numbers are bounded, texts are
made harmless and short, and of lists only so many are taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from phasetop.backends.far_script import FIELDS
from phasetop.visible import harmless

LONGEST_LINE: Final = 4096
MOST_PROCESSES: Final = 16
MOST_GPUS: Final = 64
_WORD: Final = 80
_MOST: Final = 2**53


@dataclass(frozen=True, slots=True)
class About:
    """What the machine is, a key a line: system, cores, ticks (a second), page (bytes), name, kernel, cpu, ram_bytes."""

    known: Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the server: identity (id, start), CPU time so far, memory, pages read from disk so far."""

    pid: int
    started: int
    cpu_ticks: int
    rss_pages: int
    major_faults: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Counters at one moment: uptime; CPU ticks (worked, all); kB of memory (total, available); pages swapped in."""

    uptime_s: float
    cpu: tuple[int, int] | None = None
    memory_kib: tuple[int, int] | None = None
    swapped_in: int | None = None
    processes: tuple[Process, ...] = ()


@dataclass(frozen=True, slots=True)
class Ps:
    """A process as ``ps`` tells it, where there is no /proc: memory, CPU time so far."""

    pid: int
    rss_kib: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Watched:
    """Which process is taken for the server; None: none that may be seen. ``by``: port or name."""

    pid: int | None
    by: str


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU at one moment, by nvidia-smi. ``values``: series' names; None where it says a word instead (``why``)."""

    index: int
    uuid: str
    name: str
    pci: str | None
    driver: str | None
    mem_bytes: int | None
    mig: bool
    values: Mapping[str, float | None]
    why: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class User:
    """A process that computes on a GPU."""

    uuid: str
    pid: int


@dataclass(frozen=True, slots=True)
class UsersTold:
    """The list of those processes is whole."""


@dataclass(frozen=True, slots=True)
class Word:
    """What nvidia-smi says that is no reading: an error."""

    text: str


@dataclass(frozen=True, slots=True)
class SmiEnded:
    """nvidia-smi ended with this status; None: there is none."""

    status: int | None


@dataclass(frozen=True, slots=True)
class Echo:
    """The answer to an ``E``."""

    number: int


Said: TypeAlias = About | Tick | Ps | Watched | Card | User | UsersTold | Word | SmiEnded | Echo


class FarLines:
    """The lines of one connection, as they come."""

    def __init__(self) -> None:
        self._rest = b""
        self._skipping = False
        self._tick: Tick | None = None

    def feed(self, data: bytes) -> list[Said]:
        """What the bytes bring; a line that is not whole yet waits, one that is too long goes."""
        *lines, rest = (self._rest + data).split(b"\n")
        found: list[Said] = []
        for line in lines:
            if self._skipping:
                self._skipping = False
            elif len(line) <= LONGEST_LINE and (said := self._line(line.decode("utf-8", "replace"))) is not None:
                found.append(said)
        if len(rest) > LONGEST_LINE:
            rest, self._skipping = b"", True
        self._rest = rest
        return found

    def _line(self, line: str) -> Said | None:
        if len(line) < 2 or line[0] != "@":
            return None
        text = line[2:].strip()
        match line[1]:
            case "T" | "c" | "m" | "w" | "s":
                self._gather(line[1], text)
            case "e":
                tick, self._tick = self._tick, None
                return tick
            case "H" | "N" | "K" | "C" | "M":
                return _about(line[1], text)
            case "p":
                return _ps(text)
            case "X":
                return _watched(text)
            case "G":
                return _card(text) or (Word(_word(text)) if text else None)
            case "A":
                return _user(text)
            case "a":
                return UsersTold()
            case "g":
                return SmiEnded(_whole(text))
            case "E":
                number = _whole(text)
                return Echo(number) if number is not None else None
        return None

    def _gather(self, kind: str, text: str) -> None:
        """A line of a tick; one without its beginning counts for nothing."""
        if kind == "T":
            uptime = _number(text)
            self._tick = Tick(uptime) if uptime is not None else None
            return
        tick = self._tick
        if tick is None:
            return
        numbers = [_whole(word) for word in text.split()[:64]]
        if kind == "s":
            process = _process(text)
            if process is not None and len(tick.processes) < MOST_PROCESSES:
                self._tick = _with(tick, processes=(*tick.processes, process))
        elif kind == "c":
            self._tick = _with(tick, cpu=_cpu(text))
        elif kind == "m" and len(numbers) == 2 and numbers[0] is not None and numbers[1] is not None:
            if numbers[1] <= numbers[0]:
                self._tick = _with(tick, memory_kib=(numbers[0], numbers[1]))
        elif kind == "w" and numbers:
            self._tick = _with(tick, swapped_in=numbers[-1])


def _with(tick: Tick, **more: object) -> Tick:
    values: dict[str, object] = {name: getattr(tick, name) for name in Tick.__slots__}
    return Tick(**{**values, **more})  # type: ignore[arg-type]


def _about(kind: str, text: str) -> About | None:
    words = text.split()
    if kind == "H":
        known: dict[str, str | int] = {"system": _word(words[0])} if words else {}
        for name, word in zip(("cores", "ticks", "page"), words[1:4], strict=False):
            if (number := _whole(word)) is not None and 0 < number < 2**24:
                known[name] = number
        return About(known) if known else None
    if kind == "M":
        kib = _whole(text)
        return About({"ram_bytes": kib * 1024}) if kib and kib < _MOST >> 10 else None
    name = {"N": "name", "K": "kernel", "C": "cpu"}[kind]
    text = _word(text.partition(":")[2].strip() if kind == "C" and text.startswith("model name") else text)
    return About({name: text}) if text else None


def _cpu(text: str) -> tuple[int, int] | None:
    """(worked, all) of ``cpu user nice system idle iowait irq softirq steal guest guest_nice`` (proc(5)).

    Worked is what is neither idle, nor waits for a disk, nor was taken by another guest; guest time is in user already.
    """
    words = text.split()
    if not 5 <= len(words) <= 20 or words[0] != "cpu":
        return None
    numbers = [_whole(word) for word in words[1:9]]
    if any(number is None for number in numbers):
        return None
    known = [number for number in numbers if number is not None] + [0] * (8 - len(numbers))
    total = sum(known)
    return total - known[3] - known[4] - known[7], total


def _process(text: str) -> Process | None:
    """A line of /proc/PID/stat (proc(5)); the name in brackets may hold anything."""
    head, bracket, tail = text.rpartition(")")
    pid = _whole(head.partition(" ")[0])
    words = tail.split()
    if not bracket or pid is None or len(words) < 22:
        return None
    numbers = [_whole(words[i]) for i in (9, 11, 12, 19, 21)]
    if any(number is None for number in numbers):
        return None
    faults, user, system, started, rss = (number or 0 for number in numbers)
    return Process(pid, started, user + system, rss, faults)


_TIME: Final = re.compile(r"(?:(\d{1,4})-)?(?:(\d{1,4}):)?(\d{1,6}):(\d{1,2})(\.\d{1,3})?")


def _ps(text: str) -> Ps | None:
    words = text.split()
    time = _TIME.fullmatch(words[2]) if len(words) == 3 else None
    pid, rss = (_whole(word) for word in words[:2]) if time is not None else (None, None)
    if time is None or pid is None or rss is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in time.groups()[:4])
    return Ps(pid, rss, ((days * 24 + hours) * 60 + minutes) * 60 + seconds + float(time[5] or 0))


def _watched(text: str) -> Watched | None:
    pid, _, by = text.partition(" ")
    if by not in ("port", "name"):
        return None
    return Watched(None if pid == "-" else _whole(pid), by)


SERIES: Final = {
    "memory.used": ("memory_used_bytes", "B", 1 << 20, 2e7),
    "utilization.gpu": ("sm_percent", "%", 1, 100),
    "utilization.memory": ("memory_busy_percent", "%", 1, 100),
    "power.draw": ("power_w", "W", 1, 1e5),
    "clocks.sm": ("sm_mhz", "MHz", 1, 1e5),
    "clocks.mem": ("memory_mhz", "MHz", 1, 1e5),
    "temperature.gpu": ("temperature_c", "C", 1, 500),
}
"""Field → series: its name, unit, how many of the unit one is, and what nobody believes any more."""
_UUID: Final = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]{1,60}")


def _card(text: str) -> Card | None:
    parts = text.split(", ", len(FIELDS) + 2)
    if len(parts) != len(FIELDS) + 3:
        return None
    told = dict(zip(FIELDS, parts, strict=False))
    mig, throttle, name = parts[len(FIELDS) :]
    index = _whole(told["index"])
    if index is None or index >= MOST_GPUS or not _UUID.fullmatch(told["uuid"]):
        return None
    values: dict[str, float | None] = {}
    why: dict[str, str] = {}
    for field_name, (series, _, unit, most) in SERIES.items():
        number = _number(told[field_name])
        if number is not None and number <= most:
            values[series] = number * unit
        else:
            values[series], why[series] = None, f"nvidia-smi says {_word(told[field_name])}"
    bits = int(throttle, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", throttle) else None
    values["throttle"] = float(bits) if bits is not None and bits < _MOST else None
    if values["throttle"] is None:
        why["throttle"] = (
            f"nvidia-smi says {_word(throttle)}" if throttle.startswith("[") else "this nvidia-smi does not tell"
        )
    total = _number(told["memory.total"])
    return Card(
        index=index,
        uuid=told["uuid"],
        name=_word(name) or "GPU",
        pci=_word(told["pci.bus_id"]).lower() or None,
        driver=_word(told["driver_version"]) or None,
        mem_bytes=round(total) << 20 if total is not None and 0 < total < 2e7 else None,
        mig=mig.strip() == "Enabled",
        values=values,
        why=why,
    )


def _user(text: str) -> User | None:
    uuid, comma, pid = text.partition(", ")
    number = _whole(pid)
    return User(uuid, number) if comma and number is not None and _UUID.fullmatch(uuid) else None


def _whole(text: str) -> int | None:
    """A count: digits only, below 2^53."""
    text = text.strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 16):
        return None
    value = int(text)
    return value if value < _MOST else None


def _number(text: str) -> float | None:
    """A number as programs print one: no sign, no exponent."""
    return float(text) if len(text) <= 20 and re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII) else None


def _word(text: str) -> str:
    return harmless(text.strip(), newlines=False)[:_WORD]
