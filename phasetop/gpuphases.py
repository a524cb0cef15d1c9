"""What each GPU did in prefill and in decode: exact means where its driver gave them, else means weighted by overlap.

A pure function of (Session, request, cursor). A mean stands for a phase only where samples cover enough of it; energy is the
growth of a counter, never the mean of a power. What is unknown is None with its reason, by `run --json`'s path, which all
GPUs share.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from math import fsum, isnan
from typing import Final

from msgspec import Struct

from phasetop import events as ev
from phasetop.hostphases import HOST_PHASES, HostPhaseName, difference_over, weighed_over
from phasetop.machine import NOT_SAMPLED, SAMPLE_NS, TOO_SHORT, gpus_of, machine_of
from phasetop.phases import Band, Phases
from phasetop.samples import Samples
from phasetop.session import Run, Session

ENOUGH: Final = 0.8
"""A mean stands for a phase if samples cover this share of it."""
NEAR: Final = 0.1
NEAR_NS: Final = 25_000_000
"""An exact mean stands for a phase whose borders it meets within this share of it, or this time."""
COUNTER_NS: Final = 100_000_000
"""Energy counters step up to this seldom: shorter phases have none."""
SLOW_NS: Final = 3_000_000_000
"""A temperature so old, or so new, still stands for the phase."""
OFTEN: Final = 0.05
"""The clocks were held back in a phase if they were in this share of its samples."""
IDLE_BIT: Final = 1

_MEANS: Final = ("sm_percent", "memory_busy_percent", "dram_percent", "power_w", "sm_mhz")
_WITH_SOURCE: Final = (*_MEANS[:4], "energy_uj")


class GpuPhase(Struct, frozen=True):
    """One GPU in one phase. ``throttle_shares``: what held its clocks back, and in which share of the phase (of 1)."""

    sm_percent: float | None = None
    memory_busy_percent: float | None = None
    dram_percent: float | None = None
    power_w: float | None = None
    energy_j: float | None = None
    sm_mhz: float | None = None
    temperature_c: float | None = None
    throttle_shares: Mapping[str, float] | None = None
    coverage: float | None = None

    @property
    def throttled(self) -> list[str] | None:
        """The words, most often first; [] where nothing held it back; None: not known."""
        if self.throttle_shares is None:
            return None
        often = [(share, word) for word, share in self.throttle_shares.items() if share >= OFTEN]
        return [word for _, word in sorted(often, key=lambda each: (-each[0], each[1]))]

    def group(self) -> dict[str, object]:
        """The keys of ``gpus[].phases.…`` in `run --json`."""
        whole = {"sm_mhz", "temperature_c"}
        values: dict[str, object] = {}
        for name in ("sm_percent", "memory_busy_percent", "dram_percent", "power_w", "energy_j", "sm_mhz", "temperature_c"):
            value = getattr(self, name)
            digits = 3 if name == "energy_j" else 1
            values[name] = None if value is None else round(value) if name in whole else round(value, digits)
        values["throttled"] = self.throttled
        values["coverage_percent"] = None if self.coverage is None else round(self.coverage * 100, 1)
        return values


class Gpu(Struct, frozen=True):
    """One GPU, or MIG slice, during a request. ``in_use``: by the request's server; None: not known."""

    d: int
    index: int | None
    uuid: str | None
    name: str | None
    in_use: bool | None
    memory_total_bytes: int | None
    memory_used_bytes: int | None
    peak_bandwidth_bytes_per_s: float | None
    phases: Mapping[HostPhaseName, GpuPhase]

    def group(self) -> dict[str, object]:
        """One element of ``gpus`` in `run --json`."""
        keys = ("index", "uuid", "name", "in_use", "memory_total_bytes", "memory_used_bytes", "peak_bandwidth_bytes_per_s")
        phases = {name: phase.group() for name, phase in self.phases.items()}
        return {**{key: getattr(self, key) for key in keys}, "phases": phases}


def dram_bytes_per_s(gpus: Iterable[tuple[float | None, float | None]]) -> float | None:
    """What GPUs read and write together, bytes a second: the sum over (peak bandwidth, bytes/s; DRAM traffic, % of it).

    None where something of one is not known, and of none.
    """
    each = [None if peak is None or percent is None else peak * percent / 100 for peak, percent in gpus]
    known = [per_s for per_s in each if per_s is not None]
    return fsum(known) if known and len(known) == len(each) else None


def worst_throttles(phases: Iterable[GpuPhase]) -> dict[str, float]:
    """What held the clocks of several GPUs back in a phase: reason → share of it (of 1), the longest of them."""
    worst: dict[str, float] = {}
    for phase in phases:
        for word, held in (phase.throttle_shares or {}).items():
            worst[word] = max(held, worst.get(word, 0.0))
    return worst


class _Where(Struct, frozen=True):
    """One phase of one request on one GPU."""

    session: Session
    run: Run
    cursor: int
    name: HostPhaseName
    band: Band
    device: ev.Device
    unknown: dict[str, str]
    sources: dict[str, str]

    def series(self, name: str) -> tuple[Samples | None, ev.Series | None]:
        """A metric's samples, and what is known of it."""
        samples = self.session.series(name, d=self.device.d, cursor=self.cursor)
        return samples, samples.info.at(self.cursor) if samples is not None else None

    def explain(self, path: str, series: str, otherwise: str) -> None:
        """Why a metric has no figure: given up, or missing in the phase."""
        samples, info = self.series(series)
        unread = "this GPU's sampler does not read it" if self.device.v is None else "nvidia-smi does not tell it"
        why = unread if samples is None else otherwise
        if samples is not None and info is not None:
            i = bisect_right(samples.t, min(self.band.t1, self.cursor)) - 1
            why = info.off or samples.why.get(i) or otherwise
        self.unknown.setdefault(f"gpus.phases.{self.name}.{path}", why)

    def told_by(self, path: str, info: ev.Series | None) -> None:
        """Where a figure is from."""
        if info is not None and info.source is not None:
            self.sources.setdefault(f"gpus.phases.{self.name}.{path}", info.source)


def why_none(session: Session, cursor: int, server: ev.Server | None = None) -> str:
    """Why there is no GPU to tell of; of a far machine, where the request's ``server`` is on one."""
    far = server is not None and server.over is not None
    name = "far-gpu" if far else "nvml"
    found = [each for each in session.findings.until(cursor) if each.name == name and each.state != "ok" and each.text]
    if found and found[-1].text:
        return found[-1].text
    if far:
        return NOT_SAMPLED if machine_of(session, server, cursor).d is None else "no GPU that nvidia-smi tells of is there"
    return "no GPU that can be measured is here"


def gpu_phases(
    session: Session, run: Run, cursor: int, phases: Phases, unknown: dict[str, str], sources: dict[str, str]
) -> tuple[Gpu, ...]:
    """The GPUs of the machine that was sampled, in the order of their ids, as of ``cursor``."""
    server = session.server_of(run, cursor)
    machine = machine_of(session, server, cursor)
    devices = gpus_of(session, machine, server.v if server is not None else None, cursor)
    return tuple(_one(session, run, cursor, phases, device, unknown, sources) for device in devices)


def _one(
    session: Session,
    run: Run,
    cursor: int,
    phases: Phases,
    device: ev.Device,
    unknown: dict[str, str],
    sources: dict[str, str],
) -> Gpu:
    found: dict[HostPhaseName, GpuPhase] = {}
    for name in HOST_PHASES:
        band = phases.band(name)
        if band is None:
            why = f"there was no {name}" if phases.ns(name) == 0 else f"{name} is not told apart"
            unknown.setdefault(f"gpus.phases.{name}", why)
            found[name] = GpuPhase()
        else:
            found[name] = _phase(_Where(session, run, cursor, name, band, device, unknown, sources))
    in_use = _in_use(session, run, cursor, device)
    if in_use is None:
        unknown.setdefault(
            "gpus.in_use", "the driver does not tell which processes use it here, or the server's is not known"
        )
    peak = device.peak_bytes_per_s
    value = peak.value if peak is not None and isinstance(peak.value, int | float) else None
    if peak is not None:
        (unknown if value is None else sources).setdefault("gpus.peak_bandwidth_bytes_per_s", peak.source)
    used = _memory_used(session, device, phases.end, cursor)
    if used is None:
        samples = session.series("memory_used_bytes", d=device.d, cursor=cursor)
        info = samples.info.at(cursor) if samples is not None else None
        unknown.setdefault("gpus.memory_used_bytes", (info.off if info is not None else None) or "it was not sampled")
    if device.mem_bytes is None:
        unknown.setdefault("gpus.memory_total_bytes", "the driver does not tell")
    return Gpu(
        d=device.d,
        index=device.index,
        uuid=device.uuid,
        name=device.name,
        in_use=in_use,
        memory_total_bytes=device.mem_bytes,
        memory_used_bytes=used,
        peak_bandwidth_bytes_per_s=value,
        phases=found,
    )


def _in_use(session: Session, run: Run, cursor: int, device: ev.Device) -> bool | None:
    server, info = session.server_of(run, cursor), run.info.at(cursor)
    if server is not None and server.local is False and device.v is None:
        return False
    if device.used_by is None or info is None or info.v is None:
        return None
    return info.v in device.used_by


def _memory_used(session: Session, device: ev.Device, end: int, cursor: int) -> int | None:
    """What was used at the end of the request, by the newest sample until then, else the first after it."""
    samples = session.series("memory_used_bytes", d=device.d, cursor=cursor)
    if samples is None:
        return None
    known = bisect_right(samples.t, cursor)
    last = bisect_right(samples.t, end, 0, known)
    for i in (*range(last - 1, -1, -1), *range(last, known)):
        value: float = samples.value[i]
        if not isnan(value):
            return round(value)
    return None


def _phase(where: _Where) -> GpuPhase:
    values: dict[str, float | None] = {}
    covers: dict[str, float] = {}
    short = where.device.v is not None and where.band.t1 - where.band.t0 < 2 * SAMPLE_NS
    for name in _MEANS:
        samples, info = where.series(name)
        if short:
            values[name], covers[name] = None, 0.0
            where.explain(name, name, TOO_SHORT)
            continue
        value, cover = _mean(where, samples, info)
        covers[name] = cover
        if value is None:
            where.explain(name, name, f"samples cover {cover * 100:.0f} % of the phase")
        elif name in _WITH_SOURCE:
            where.told_by(name, info)
        values[name] = value
    shares = None if short else _throttle_shares(where)
    if shares is None:
        where.explain("throttled", "throttle", TOO_SHORT if short else "no sample lies in the phase")
    temperature = _slow(where, "temperature_c")
    if temperature is None:
        where.explain("temperature_c", "temperature_c", "no sample is near the phase")
    coverage = max(covers["sm_percent"], covers["power_w"] if values["sm_percent"] is None else 0.0)
    return GpuPhase(**values, energy_j=_energy(where), temperature_c=temperature, throttle_shares=shares, coverage=coverage)


def _mean(where: _Where, samples: Samples | None, info: ev.Series | None) -> tuple[float | None, float]:
    """The mean over the phase, exact where there is one, and the share of it that is covered."""
    if samples is None or info is None:
        return None, 0.0
    band, length = where.band, max(1, where.band.t1 - where.band.t0)
    exact = _exact(where, str(info.s))
    if exact is not None:
        overlap = min(exact.t, band.t1) - max(exact.t0, band.t0)
        return exact.v[str(info.s)], min(1.0, max(0.0, overlap / length))
    weight, total = weighed_over(samples, band.t0, band.t1, where.cursor)
    cover = min(1.0, weight / length)
    return (total / weight if cover >= ENOUGH else None), cover


def _exact(where: _Where, key: str) -> ev.Smp | None:
    """The pair of snapshots at the phase's borders; those of a border that turned out to lie elsewhere count for nothing."""
    band = where.band
    for smp in reversed(where.session.phase_samples.until(where.cursor)):
        if smp.t < band.t0:
            return None
        if smp.r == where.run.r and smp.phase == where.name and smp.v.get(key) is not None:
            off = abs(smp.t0 - band.t0) + abs(smp.t - band.t1)
            return smp if off <= max(2 * NEAR_NS, NEAR * (band.t1 - band.t0)) else None
    return None


def _energy(where: _Where) -> float | None:
    samples, info = where.series("energy_uj")
    band = where.band
    if samples is not None and band.t1 - band.t0 < COUNTER_NS:
        where.explain("energy_j", "energy_uj", "the phase is too short for the energy counter")
        return None
    grew = None if samples is None else difference_over(samples, band.t0, band.t1, where.cursor)
    if grew is None:
        where.explain("energy_j", "energy_uj", "too few samples of the counter in the phase")
        return None
    where.told_by("energy_j", info)
    return grew / 1e6


def _slow(where: _Where, name: str) -> float | None:
    """What changes slowly and is read once a second: the mean in the phase, else the nearest reading."""
    samples, _ = where.series(name)
    if samples is None:
        return None
    band = where.band
    weight, total = weighed_over(samples, band.t0, band.t1, where.cursor)
    if weight > 0:
        return total / weight
    known = bisect_right(samples.t, where.cursor)
    near = [
        (max(band.t0 - samples.t[i], samples.t[i] - band.t1, 0), samples.value[i])
        for i in range(known)
        if not isnan(samples.value[i])
    ]
    distance, value = min(near, default=(SLOW_NS + 1, 0.0))
    return value if distance <= SLOW_NS else None


def _throttle_shares(where: _Where) -> dict[str, float] | None:
    """How much of the phase each reason held the clocks back, by word. A bit that is set also at rest is no throttling."""
    samples, info = where.series("throttle")
    if samples is None or info is None or not info.flags:
        return None
    band, known = where.band, bisect_right(samples.t, where.cursor)
    constant = _at_rest(samples, known)
    total = 0
    held: dict[str, int] = dict.fromkeys(info.flags.values(), 0)
    for i in range(bisect_right(samples.t, band.t0, 0, known), known):
        overlap = min(samples.t[i], band.t1) - max(samples.t0[i], band.t0)
        if samples.t0[i] >= band.t1:
            break
        if overlap <= 0 or isnan(samples.value[i]):
            continue
        total += overlap
        bits = int(samples.value[i]) & ~constant
        for bit, word in info.flags.items():
            if bit.isdigit() and bits & int(bit):
                held[word] += overlap
    return {word: ns / total for word, ns in held.items()} if total else None


def _at_rest(samples: Samples, known: int) -> int:
    """The bits that are set in each of the first ``known`` samples in which the GPU rested: settings, no throttling."""
    at_rest = [int(v) for v in samples.value[:known] if not isnan(v) and int(v) & IDLE_BIT]
    constant = 0
    for i, value in enumerate(at_rest):
        constant = value if i == 0 else constant & value
    return constant


def held_back(samples: Samples, flags: Mapping[str, str], at: int) -> list[str]:
    """What holds a GPU's clocks back by the newest sample of its flags until ``at``; nothing where that is a gap."""
    known = bisect_right(samples.t, at)
    if not known or isnan(samples.value[known - 1]):
        return []
    bits = int(samples.value[known - 1]) & ~_at_rest(samples, known)
    return [word for bit, word in flags.items() if bit.isdigit() and bits & int(bit)]
