"""The host's counters over one phase: means weighted by overlap, differences of what counts up."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from typing import Final, Literal
from weakref import WeakKeyDictionary

from msgspec import Struct

from phasetop import events as ev
from phasetop.machine import NOT_SAMPLED, TOO_SHORT, Machine, machine_of
from phasetop.phases import Phases
from phasetop.samples import Samples
from phasetop.session import Run, Session

HostPhaseName = Literal["prefill", "decode"]
HOST_PHASES: Final[tuple[HostPhaseName, ...]] = ("prefill", "decode")
COVERED: Final = 0.5
"""A counter's difference stands for a phase if its samples span at least this share of it."""


class HostPhase(Struct, frozen=True):
    """Overlap-weighted means over one phase (CPU: 100 a core), and differences of counters."""

    cpu_percent: float | None
    server_cpu_percent: float | None
    server_rss_bytes: int | None
    major_faults: int | None
    swap_in_bytes: int | None
    throttled_s: float | None
    energy_j: float | None
    thermal_throttled_s: float | None = None


class _Sums(Struct):
    """Of one series: time and value × time of all samples before every `_SUMMED`th, ns; and of the first ``n``."""

    weights: array[float]
    values: array[float]
    n: int = 0
    weight: float = 0.0
    value: float = 0.0


_SUMMED: Final = 16
"""A sum goes on from one that is kept: to keep all of them would take two thirds of the samples' own room."""
_sums: WeakKeyDictionary[Samples, _Sums] = WeakKeyDictionary()


def _summed(samples: Samples, to: int) -> _Sums:
    sums = _sums.get(samples)
    if sums is None:
        sums = _sums[samples] = _Sums(array("d", [0.0]), array("d", [0.0]))
    while sums.n < to:
        end = min(to, (sums.n // _SUMMED + 1) * _SUMMED)
        sums.weight, sums.value = _further(samples, sums.n, end, sums.weight, sums.value)
        sums.n = end
        if end % _SUMMED == 0:
            sums.weights.append(sums.weight)
            sums.values.append(sums.value)
    return sums


def _further(samples: Samples, begin: int, end: int, weight: float, value: float) -> tuple[float, float]:
    """Sums gone on by some samples."""
    values, t0, t = samples.value, samples.t0, samples.t
    for i in range(begin, end):
        each, span = values[i], t[i] - t0[i]
        if not math.isnan(each):
            weight += span
            value += each * span
    return weight, value


def _before(samples: Samples, sums: _Sums, i: int) -> tuple[float, float]:
    """The sums of all samples before one."""
    k = i // _SUMMED
    return _further(samples, k * _SUMMED, i, sums.weights[k], sums.values[k])


def mean_over(samples: Samples, t0: int, t1: int, cursor: int) -> float | None:
    """The mean of a gauge over [t0, t1), each sample weighted by its overlap; None where no sample overlaps.

    Samples after the cursor count for nothing: they are not known there.
    """
    weight, value = weighed_over(samples, t0, t1, cursor)
    return value / weight if weight > 0 else None


def weighed_over(samples: Samples, t0: int, t1: int, cursor: int) -> tuple[float, float]:
    """The time of [t0, t1) that known samples cover, ns, and the sum of value × time over it."""
    end = bisect_right(samples.t, cursor)
    first = bisect_right(samples.t, t0, 0, end)  # the first that ends after t0
    last = bisect_left(samples.t, t1, first, end)  # the first that ends at or after t1
    sums = _summed(samples, end)
    weight = value = 0.0
    for i in {first, last}:  # these two may stand out of the phase
        if i < end and not math.isnan(samples.value[i]):
            overlap = min(samples.t[i], t1) - max(samples.t0[i], t0)
            if overlap > 0:
                weight += overlap
                value += overlap * samples.value[i]
    if last > first + 1:
        weight_after, value_after = _before(samples, sums, last)
        weight_before, value_before = _before(samples, sums, first + 1)
        weight += weight_after - weight_before
        value += value_after - value_before
    return weight, value


def difference_over(samples: Samples, t0: int, t1: int, cursor: int) -> float | None:
    """How much a counter grew over [t0, t1), interpolated at the borders.

    None where its samples span less than `COVERED` of it, where one at a border is missing, or where it fell.
    """
    end = bisect_right(samples.t, cursor)
    if not end or t1 <= t0:
        return None
    begin, until = max(t0, samples.t[0]), min(t1, samples.t[end - 1])
    if until - begin < COVERED * (t1 - t0) or until <= begin:
        return None
    grew = _value_at(samples, until, end) - _value_at(samples, begin, end)
    return grew if grew >= 0 else None  # NaN is not


def _value_at(samples: Samples, t: int, end: int) -> float:
    """A counter at a moment between its first sample and its last, NaN where a neighbour is missing."""
    i = bisect_right(samples.t, t, 0, end) - 1
    if samples.t[i] == t or i + 1 >= end:
        return samples.value[i]
    share = (t - samples.t[i]) / (samples.t[i + 1] - samples.t[i])
    return samples.value[i] + share * (samples.value[i + 1] - samples.value[i])


class _Where(Struct, frozen=True):
    """One phase of one request, as of a cursor."""

    session: Session
    run: Run
    cursor: int
    phase: HostPhaseName
    t0: int
    t1: int
    unknown: dict[str, str]
    machine: Machine

    def series(self, name: str, v: int | None = None) -> Samples | None:
        """What is sampled of the server's machine."""
        d = self.machine.d
        return None if d is None else self.session.series(name, v=v, d=d, cursor=self.cursor)

    def gauge(self, samples: Samples | None, *, level: bool = False) -> float | None:
        """A gauge's mean: the exact one of the phase where there is one, else by overlap.

        ``level``: it changes slowly, so that a sample stands for more than its own time.
        """
        if samples is None or not (level or self.machine.samples_well(self.t1 - self.t0)):
            return None
        info = samples.info.at(self.cursor)
        exact = self._exact(str(info.s)) if info is not None else None
        return exact if exact is not None else mean_over(samples, self.t0, self.t1, self.cursor)

    def _exact(self, key: str) -> float | None:
        for smp in reversed(self.session.phase_samples.until(self.cursor)):
            if smp.t < self.t0:
                break
            if smp.r == self.run.r and smp.phase == self.phase and smp.v.get(key) is not None:
                return smp.v[key]
        return None

    def counter(self, samples: Samples | None) -> float | None:
        """A counter's growth."""
        short = not self.machine.samples_well(self.t1 - self.t0)
        return None if samples is None or short else difference_over(samples, self.t0, self.t1, self.cursor)

    def step_ns(self, samples: Samples | None) -> int:
        """The span of the reading that the phase begins in; 0 where there is none."""
        if samples is None:
            return 0
        i = bisect_right(samples.t, self.t0)
        return samples.t[i] - samples.t0[i] if i < bisect_right(samples.t, self.cursor) else 0

    def path(self, name: str) -> str:
        """Where the reason of a figure's dash stands."""
        return f"host.phases.{self.phase}.{name}"

    def explain(self, name: str, samples: Samples | None, value: float | None, absent: str) -> None:
        """Say why a figure is unknown, if it is."""
        if value is not None:
            return
        why = absent
        if samples is not None:
            info = samples.info.at(self.cursor)
            i = bisect_right(samples.t, min(self.t1, self.cursor)) - 1
            few = "too few samples in the phase" if self.machine.samples_well(self.t1 - self.t0) else TOO_SHORT
            why = (info.off if info is not None else None) or samples.why.get(i) or few
        elif self.machine.far:
            why = NOT_SAMPLED if self.machine.d is None else absent
        self.unknown[self.path(name)] = why


def host_phases(
    session: Session, run: Run, cursor: int, phases: Phases, unknown: dict[str, str]
) -> dict[HostPhaseName, HostPhase]:
    """What the host did in prefill and in decode; a None is explained in ``unknown``."""
    found: dict[HostPhaseName, HostPhase] = {}
    for name in HOST_PHASES:
        band = phases.band(name)
        if band is None:
            unknown[f"host.phases.{name}"] = f"there was no {name}" if phases.ns(name) == 0 else f"{name} is not told apart"
            found[name] = HostPhase(None, None, None, None, None, None, None, None)
        else:
            machine = machine_of(session, session.server_of(run, cursor), cursor)
            found[name] = _one(_Where(session, run, cursor, name, band.t0, band.t1, unknown, machine))
    return found


def at_most(used: float | None, cores: int | None) -> float | None:
    """Cores that were used, of so many: a recording may hold a little more, from ticks that ended at other moments."""
    return min(used, float(cores)) if used is not None and cores else used


def _one(where: _Where) -> HostPhase:
    session, cursor = where.session, where.cursor
    info = where.run.info.at(cursor)
    server = session.server_of(where.run, cursor)
    v = info.v if info is not None else None
    far = where.machine.far
    away = "the server runs on another machine" if server is not None and server.local is False and not far else None
    unseen = away or ("its process is not to be seen there" if far else "the server's process was not sampled")

    cores = where.series("cpu_cores_used")
    used = at_most(where.gauge(cores), where.machine.host.cores)
    cpu = None if used is None else used * 100
    if cores is None and not far:
        parts = [samples for samples in session.samples.values() if _is_part_of_cpu(samples.info.at(cursor))]
        means = [mean for samples in parts if (mean := where.gauge(samples)) is not None]
        cpu = math.fsum(means) if means and len(means) == len(parts) else None
        cores = parts[0] if parts else None
    where.explain("cpu_percent", cores, cpu, "the host was not sampled")

    own = where.series("server_cpu_cores", v)
    server_cores = at_most(where.gauge(own), where.machine.host.cores)
    where.explain("server_cpu_percent", own, server_cores, unseen)
    memory = where.series("server_rss_bytes", v)
    rss = where.gauge(memory, level=True)
    where.explain("server_rss_bytes", memory, rss, unseen)

    faults_of = where.series("server_major_faults", v)
    faults = where.counter(faults_of)
    where.explain("major_faults", faults_of, faults, unseen)
    swap_of = where.series("swap_in_bytes")
    swap = where.counter(swap_of)
    where.explain("swap_in_bytes", swap_of, swap, "swapping was not sampled")
    throttled_of = where.series("throttled_ns")
    throttled = where.counter(throttled_of)
    quota = far or where.machine.host.cpu_quota_cores
    where.explain(
        "throttled_s", throttled_of, throttled, "throttling was not sampled" if quota else "no CPU quota is known here"
    )
    hot_of = where.series("thermal_throttled_ns")
    hot = where.counter(hot_of)
    where.explain("thermal_throttled_s", hot_of, hot, "heat's throttling was not sampled")
    energy_of = where.series("energy_uj")
    energy = where.counter(energy_of)
    step_ns = where.step_ns(energy_of)
    if energy is not None and where.t1 - where.t0 < step_ns:
        # Within one reading's span nobody knows when the energy was spent: the phase's share of it would be a guess.
        where.unknown[where.path("energy_j")] = f"the phase is shorter than the counter's step, {step_ns / 1e6:.0f} ms"
        energy = None
    else:
        where.explain("energy_j", energy_of, energy, "the CPU's energy was not measured")
    return HostPhase(
        cpu_percent=cpu,
        server_cpu_percent=None if server_cores is None else server_cores * 100,
        server_rss_bytes=None if rss is None else round(rss),
        major_faults=None if faults is None else round(faults),
        swap_in_bytes=None if swap is None else round(swap),
        throttled_s=None if throttled is None else throttled / 1e9,
        energy_j=None if energy is None else energy / 1e6,
        thermal_throttled_s=None if hot is None else hot / 1e9,
    )


def _is_part_of_cpu(info: ev.Series | None) -> bool:
    return info is not None and info.d == 0 and info.name == "cpu_percent" and info.part is not None
