"""The devices' rows: name, memory in use of all there is, temperature (or what holds the device back) and power. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from math import isnan
from typing import Final

from msgspec import Struct

from phasetop import events as ev
from phasetop.figures import UNKNOWN, memory
from phasetop.gpuphases import held_back
from phasetop.machine import Machine, gpus_of, machine_of
from phasetop.samples import Samples
from phasetop.session import Session
from phasetop.tui.cells import Area, fit
from phasetop.tui.machine import STALE_NS, Worked, read
from phasetop.visible import clean

SLOW_NS: Final = 2 * STALE_NS
"""Temperature and memory are sampled seldom: older than this they are stale."""
NAME: Final = 11
"""Columns of a name."""
# Compiled where there is a GPU.
_BRANDS: Final = r"\b(?:NVIDIA|GeForce|AMD|Radeon|Intel\(R\)|Arc\(TM\)|Graphics|Laptop GPU|Generation)\b\s*"
_SIZES: Final = r"[ -](?:SXM\d*|PCIe|NVL|HBM\d\w*|\d+GB)\b.*"
_SLICE: Final = r"\bMIG\s+(\d+g\.\d+gb)"


class DeviceRow(Struct, frozen=True):
    """One device at a moment; None: not known. ``reason``: what holds it back, or that it is lost."""

    name: str
    used_bytes: float | None = None
    total_bytes: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    reason: str = ""
    stale: bool = False
    note: str = ""  # instead of temperature and power: what else there is to say


def rows_of(session: Session, of: Worked | None, at: int, cursor: int) -> tuple[DeviceRow, ...]:
    """The GPUs that the request's server uses (nobody knows: all there are); without any the machine's own memory.

    Of a machine that nobody can look at: none.

    Figures are as of ``at``, a beat before the ``cursor``.
    """
    ran = of.measures.roofline.ran if of is not None else None
    server = next((told for versions in session.servers.values() if (told := versions.at(cursor)) is not None), None)
    if of is not None and of.server in session.servers:
        server = session.servers[of.server].at(cursor)
    machine = machine_of(session, server, cursor)
    if server is not None and server.local is False and not machine.far:
        return ()  # this machine's devices have nothing to do with it
    known = gpus_of(session, machine, server.v if server is not None else None, cursor)
    used = {gpu.d for gpu in ran.gpus} if ran is not None else set()
    gpus = [gpu for gpu in known if gpu.d in used] or ([] if ran is not None and ran.on_cpu else known)
    if not gpus:
        return _host(session, machine, at)
    names = [short_name(gpu.name) for gpu in gpus]
    several = len(names) > 1
    return tuple(
        _gpu(session, gpu, _numbered(name, gpu, i) if several else name, at)
        for i, (gpu, name) in enumerate(zip(gpus, names, strict=True))
    )


def short_name(name: str | None) -> str:
    """A card's name without its makers' and its memory's: ``RTX 4090``, ``H100``, ``1g.10gb``."""
    text = clean(name or "GPU")
    if (part := re.search(_SLICE, text, re.IGNORECASE)) is not None:
        return part[1]
    text = re.sub(_SIZES, "", re.sub(_BRANDS, "", text)).strip(" -")
    return text or "GPU"


def _numbered(name: str, gpu: ev.Device, i: int) -> str:
    """A name with its number at the end of its columns."""
    number = str(gpu.index if gpu.index is not None else i)
    return f"{fit(name, NAME - 2 - len(number)):<{NAME - 1 - len(number)}}{number}"


def _host(session: Session, machine: Machine, at: int) -> tuple[DeviceRow, ...]:
    host, d = machine.host, machine.d
    total = host.memory_limit_bytes or host.ram_bytes
    samples = session.series("memory_used_bytes", d=d, cursor=at) if d is not None else None
    if samples is None and total is None:
        return ()
    reading = read(samples, at)
    device = session.devices[d].at(at) if d is not None and d in session.devices else None
    note = clean((device.name if device is not None else None) or host.cpu or "")
    return (DeviceRow("RAM", reading.value, total, stale=reading.age_ns > SLOW_NS, note=note),)


def _gpu(session: Session, gpu: ev.Device, name: str, at: int) -> DeviceRow:
    def series(metric: str) -> Samples | None:
        return session.series(metric, d=gpu.d, cursor=at)

    used, temperature, power = (series(metric) for metric in ("memory_used_bytes", "temperature_c", "power_w"))
    throttle = series("throttle")
    reason = _lost(used, at) or _lost(temperature, at)
    if not reason and throttle is not None:
        told = throttle.info.at(at)
        words = held_back(throttle, told.flags or {}, at) if told is not None else []
        reason = ", ".join(word.partition(" (")[0] for word in words)
    newest = min((read(each, at).age_ns for each in (used, temperature, power) if each is not None), default=0)
    return DeviceRow(
        name,
        read(used, at).value,
        gpu.mem_bytes,
        read(temperature, at).value,
        read(power, at).value,
        reason,
        newest > SLOW_NS,
    )


def _lost(samples: Samples | None, at: int) -> str:
    """``lost`` where the newest sample is none because the device is gone."""
    last = bisect_right(samples.t, at) - 1 if samples is not None else -1
    if samples is None or last < 0 or not isnan(samples.value[last]):
        return ""
    why = samples.why.get(last, "")
    return "lost" if any(word in why for word in ("fell off", "needs a reset", "not there", "driver")) else ""


def shown_rows(rows: tuple[DeviceRow, ...], room: int) -> tuple[list[DeviceRow], int]:
    """Those that fit, and how many do not: of too many the hottest, a lost one before all."""
    if len(rows) <= room:
        return list(rows), 0
    if room <= 1:
        worst = max(rows, key=lambda row: (row.reason == "lost", row.temperature_c or 0.0))
        return [worst] if room else [], len(rows) - 1
    return list(rows[:room]), len(rows) - room


def paint(area: Area, rows: tuple[DeviceRow, ...]) -> int:
    """A row a device as far as there is room; returns how many rows that took."""
    shown, more = shown_rows(rows, area.height)
    for y, row in enumerate(shown):
        _paint_row(area, y, row, f"+{more}" if more and y == len(shown) - 1 else "")
    return len(shown)


def _paint_row(area: Area, y: int, row: DeviceRow, more: str) -> None:
    unit = memory(row.total_bytes)[1] if row.total_bytes else memory(row.used_bytes)[1]
    scale = 1 << 30 if unit == "GiB" else 1 << 20
    used = UNKNOWN if row.used_bytes is None else _digits(row.used_bytes / scale)
    area.put(0, y, fit(row.name, NAME), "soft")
    area.right(17, y, used, "faint" if row.stale else "ink")
    edge = area.width - (len(more) + 1 if more else 0)
    heat, power = row.reason or _degrees(row), "" if row.power_w is None or row.reason == "lost" else f"{row.power_w:.0f} W"
    total = unit
    if row.total_bytes:
        total = f"of {' '.join(memory(row.total_bytes))}"
        if 18 + len(total) + 1 + len(heat) + 1 + len(power) > edge:  # what it does says more than its last digit
            total = f"of {row.total_bytes / scale:,.0f} {unit}"
    end = area.put(18, y, total, "soft")
    if more:
        area.right(area.width, y, more, "faint")
    if not heat and not power:
        note = row.note or ("no sample" if row.used_bytes is None else "")
        area.right(edge, y, fit(note, max(0, edge - end - 1)), "faint")
        return
    for blanks in (2, 1):
        if len(heat) + blanks + len(power) <= edge - end - 1:
            break
    else:
        power = ""
    x = edge - len(power)
    area.put(x, y, power, "faint")
    area.right(x - (blanks if power and heat else 0), y, fit(heat, max(0, edge - end - 1)), "ink" if row.reason else "faint")


def _degrees(row: DeviceRow) -> str:
    return "" if row.temperature_c is None else f"{row.temperature_c:.0f} °C"


def _digits(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 999.5 else f"{value:,.0f}"
