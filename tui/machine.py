"""The machine's lanes: what its samples say on the trace's time axis. Pure; `trace` draws them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from math import fsum, isnan
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phasetop.columns import Tokens, Versions
from phasetop.figures import UNKNOWN, memory, share, size
from phasetop.gpuphases import dram_bytes_per_s
from phasetop.hostphases import at_most
from phasetop.lately import lately
from phasetop.machine import Machine as Whose
from phasetop.machine import gpus_of, machine_of
from phasetop.metrics import Measures
from phasetop.samples import Samples
from phasetop.session import Run, Session
from phasetop.tui.lanes import SECOND_NS, Axis, LevelLane

GPM: Final = "GPM"
MEMORY_BUSY: Final = "mem busy"
"""A lane that says for how much of the time a GPU's memory worked: `memory` is what flows, in bytes a second."""
GIB: Final = 1 << 30
STALE_NS: Final = 2 * SECOND_NS
"""A figure whose newest sample is older than this is stale."""


class Lane(Struct, frozen=True):
    """One lane: a level from 0 to 1 a column (None: no sample), and the figures beside it."""

    label: str
    full: str  # what full height is
    levels: tuple[float | None, ...]
    number: str
    unit: str
    note: str  # the reason, where the number is a dash
    stale: bool = False
    source: str = ""  # who measures it
    held: str = ""  # what the server occupies, on the lane of memory
    others: float = 0.0  # cores that are busy with other programs, on the lane of the CPU


class _Now(Struct, frozen=True):
    """What is shown, and as of when."""

    session: Session
    axis: Axis
    at: int
    areas: int
    machine: Whose
    found: dict[tuple[str, int, int | None], Samples]

    def series(self, name: str, *, d: int | None = None, v: int | None = None) -> Samples | None:
        """A metric of a device (else of the machine), or of a server."""
        d = self.machine.d if d is None else d
        if d is None:
            return None
        known = self.found.get((name, d, v))
        if known is not None and known.info.at(self.areas) is not None:
            return known
        samples = self.session.series(name, d=d, v=v, cursor=self.areas)
        if samples is not None:
            self.found[name, d, v] = samples
        return samples

    def read(self, samples: Samples | None) -> _Reading:
        """What is shown of a series: as of ``at``; before its first beat the first sample, as the area has it already."""
        reading = read(samples, self.at)
        if reading.value is None and samples is not None:
            first, end = bisect_right(samples.t, self.at), bisect_right(samples.t, self.areas)
            return next((_Reading(value, 0) for value in samples.value[first:end] if not isnan(value)), reading)
        return reading

    def source(self, samples: Samples | None) -> str:
        """Who measures it, in a word; on another machine, how that is seen."""
        told = samples.info.at(self.areas) if samples is not None else None
        word = (told.source or "").partition(":")[0] if told is not None else ""
        return f"{word} over ssh" if word and self.machine.far else word


class _Reading(Struct, frozen=True):
    """A series' mean over the second before a moment, and how old its newest sample was then."""

    value: float | None
    age_ns: int


class Worked(Struct, frozen=True):
    """The request whose machine is shown, its figures, and its server."""

    run: Run
    measures: Measures
    server: int | None


class Machine:
    """Keeps the lanes of a session up as samples come."""

    __slots__ = ("_found", "_lanes", "_paces")

    def __init__(self) -> None:
        self._found: dict[tuple[str, int, int | None], Samples] = {}
        self._lanes: dict[str, LevelLane] = {}
        self._paces: dict[int, TokenRate] = {}  # a request; of those looked at lately

    def lanes(
        self, session: Session, axis: Axis, at: int, areas: int, of: Worked | None, pairs: int = 1
    ) -> tuple[Lane, ...]:
        """The two lanes of what worked: areas up to the moment ``areas``, figures of the second before ``at``.

        On GPUs how busy they are and their memory, in part on the CPU, too: GPU and CPU. On the CPU alone its cores, and
        ``memory``, what flows from it, where that is or will be known; while a model is loaded, and where it will never be
        known, ``RAM``, how much of it is occupied. Several ``pairs``: two lanes a GPU.
        """
        server = of.server if of is not None else next(iter(session.servers), None)
        told = session.servers[server].at(areas) if server in session.servers else None
        now = _Now(session, axis, at, areas, machine_of(session, told, areas), self._found)
        server = of.server if of is not None else None
        ran = of.measures.roofline.ran if of is not None else None
        seen = gpus_of(session, now.machine, told.v if told is not None else None, areas) if ran is None else ran.gpus
        gpus = [gpu.d for gpu in seen]
        if len(gpus) == pairs > 1 and not (ran is not None and ran.offload is not None and ran.offload.is_partial):
            return tuple(lane for d in gpus for lane in self._pair(now, d, of))
        if gpus:
            partly = ran is not None and ran.offload is not None and ran.offload.is_partial
            other = self._cpu(now, server) if partly else self._dram(now, gpus, of)
            found = (self._busy(now, gpus), other)
        else:
            found = (self._cpu(now, server), self._flow(now, of) or self._flow_to_come(now, of) or self._ram(now, server))
        held = now.read(now.series("server_rss_bytes", v=server)).value
        return found if held is None else (found[0], replace(found[1], held=" ".join(memory(held))))

    def _pair(self, now: _Now, d: int, of: Worked | None) -> tuple[Lane, Lane]:
        """The two lanes of one of several GPUs, with its number."""
        device = now.session.devices[d].at(now.areas) if d in now.session.devices else None
        number = str(device.index if device is not None and device.index is not None else d - 1)
        made = []
        for lane in (self._busy(now, (d,)), self._dram(now, (d,), of, alone=False)):
            name = {"GPU busy": "busy", MEMORY_BUSY: "mem"}.get(lane.label, lane.label)
            made.append(replace(lane, label=f"{name[: 7 - len(number)]:<{7 - len(number)}} {number}"))
        return made[0], made[1]

    def _cpu(self, now: _Now, server: int | None) -> Lane:
        host = now.machine.host
        machine, own = now.series("cpu_cores_used"), now.series("server_cpu_cores", v=server)
        # A quota is what a container may use: of the whole machine's use it would be no share.
        cores = host.cores if machine is not None and host.cores else host.cpu_quota_cores or host.cores
        shown = machine or own

        def words(one: Sequence[float]) -> tuple[str, str]:
            return f"{min(one[0], host.cores or one[0]):.2f}", "cores"

        mine = at_most(now.read(own).value, host.cores)
        note = f"server {mine:.2f}" if mine is not None and machine is not None else ""
        lane = self._lane("CPU", f"of {cores:g}" if cores else "", [shown], cores, now, words, note)
        busy = at_most(now.read(machine).value, host.cores)
        return lane if mine is None or busy is None else replace(lane, others=busy - mine)

    def _ram(self, now: _Now, server: int | None) -> Lane:
        """How much of the machine's memory is occupied."""
        host = now.machine.host
        machine, own = now.series("memory_used_bytes"), now.series("server_rss_bytes", v=server)
        total = host.ram_bytes if machine is not None and host.ram_bytes else host.memory_limit_bytes or host.ram_bytes
        used = now.read(machine).value
        note = share(used / total) if used is not None and total else "" if machine is not None else "the server's"
        full = "" if not total else f"of {memory(total)[0]}" if total >= GIB else f"of {total / GIB:.3g}"
        return self._lane("RAM", full, [machine or own], total, now, lambda one: memory(one[0]), note)

    def _busy(self, now: _Now, gpus: Sequence[int]) -> Lane:
        """How busy the GPUs are, of several the mean."""
        samples = [now.series("sm_percent", d=d) for d in gpus]
        source = now.source(samples[0])
        label, full = ("SM", "of peak") if source == GPM else ("GPU busy", "of time")
        note = source + _of_several(gpus)
        return self._lane(label, full, samples, 100, now, lambda each: (f"{mean(each):.0f}", "%"), note)

    def _dram(self, now: _Now, gpus: Sequence[int], of: Worked | None, *, alone: bool = True) -> Lane:
        """The GPUs' memory: measured, else by what decode reads, else at most as busy as its controller is.

        Of one that is not ``alone`` it is not known how much of what decode reads it does.
        """
        peaks = {gpu.d: gpu.peak_bandwidth_bytes_per_s for gpu in of.measures.gpus} if of is not None else {}
        tops = [peaks.get(d) for d in gpus]
        dram = [now.series("dram_percent", d=d) for d in gpus]
        control = [now.series("memory_busy_percent", d=d) for d in gpus]
        percents = [now.read(each).value for each in dram]
        if all(percent is not None for percent in percents):
            flows, peak = dram_bytes_per_s(zip(tops, percents, strict=True)), dram_bytes_per_s((top, 100.0) for top in tops)
            share_of_peak = f"{100 * flows / peak:.0f} % " if flows is not None and peak else ""
            note = share_of_peak + now.source(dram[0]) + _of_several(gpus)
            return self._lane("DRAM", "of peak", dram, 100, now, lambda each: _flowing(each, tops), note, tops)
        flow = self._flow(now, of) if alone else None
        if not all(tops) and any(each is not None for each in control):  # no share of a peak: a share of the time
            note = f"{flow.number} {flow.unit} est." if flow is not None else now.source(control[0]) + _of_several(gpus)
            lane = self._lane(MEMORY_BUSY, "of time", control, 100, now, lambda each: (f"{mean(each):.0f}", "%"), note)
            return lane if flow is None else replace(lane, source=f"{lane.source}; GB/s: {flow.source}")
        if flow is not None:
            known = self._levels("control", control, 100, now, tops)
            return replace(flow, levels=tuple(a if a is not None else b for a, b in zip(flow.levels, known, strict=True)))
        if any(each is not None for each in control):
            note = "mem-ctrl" + _of_several(gpus)
            return self._lane("memory", "of peak", control, 100, now, lambda each: _flowing(each, tops, "≤ "), note, tops)
        return self._lane("memory", "of peak", dram, 100, now, lambda each: _flowing(each, tops), "")

    def _flow(self, now: _Now, of: Worked | None) -> Lane | None:
        """What decode reads from memory: its bytes a token times the rate; None where that is not known."""
        roofline = of.measures.roofline if of is not None else None
        if of is None or roofline is None or roofline.read_bytes_per_s is None:
            return None
        levels: tuple[float | None, ...] = (None,) * now.axis.columns
        peak, each = roofline.peak_bytes_per_s, roofline.decode_bytes_per_token
        if peak and each and now.axis.columns:
            rates = lately(self._paces, of.run.r, TokenRate).update(of.run.tokens, now.axis, now.areas)
            levels = tuple(None if rate is None else min(1.0, rate * each / peak) for rate in rates)
        number, unit = size(roofline.read_bytes_per_s).split()
        note = "est." if roofline.mbu is None else f"{share(roofline.mbu)} est."
        full = "of peak" if peak else "no peak"
        return Lane("memory", full, levels, number, f"{unit}/s", note, source="estimate: bytes a token × tokens a second")

    def _flow_to_come(self, now: _Now, of: Worked | None) -> Lane | None:
        """The same lane before a reply flows; None while the model is loaded, and where it is known that it never will."""
        measures = of.measures if of is not None else None
        roofline = measures.roofline if measures is not None else None
        if measures is None or roofline is None or roofline.weights_bytes is None:
            return None
        begun = measures.latency.ttft_ns is not None
        if measures.phases.running == "load" or (begun and not measures.kv.caches):
            return None
        why = "too few tokens" if begun else "not begun" if measures.finish.reason is None else "no token"
        full = "of peak" if roofline.peak_bytes_per_s else "no peak"
        return Lane("memory", full, (None,) * now.axis.columns, UNKNOWN, "GB/s", why)

    def _levels(
        self,
        key: str,
        samples: Sequence[Samples | None],
        top: float | None,
        now: _Now,
        weights: Sequence[float | None] = (),
    ) -> tuple[float | None, ...]:
        """A level from 0 to 1 a column, of several series the mean (by ``weights`` that are known) where all have one."""
        if not top or not now.axis.columns or any(each is None for each in samples):
            return (None,) * now.axis.columns
        many = [
            self._lanes.setdefault(f"{key} {i} {_device(each, now)}", LevelLane()).update(each, now.axis, now.areas)
            for i, each in enumerate(samples)
            if each is not None
        ]
        made: list[float | None] = []
        for column in zip(*many, strict=True):
            known = [value for value in column if value is not None]
            made.append(min(1.0, max(0.0, mean(known, weights) / top)) if len(known) == len(column) else None)
        return tuple(made)

    def _lane(
        self,
        label: str,
        full: str,
        samples: Sequence[Samples | None],
        top: float | None,
        now: _Now,
        words: Callable[[Sequence[float]], tuple[str, str]],
        note: str,
        weights: Sequence[float | None] = (),
    ) -> Lane:
        """``words`` says the figure of the series' values; ``weights``: of the series, for the level."""
        levels = self._levels(label, samples, top, now, weights)
        told = samples[0].info.at(now.areas) if samples[0] is not None else None
        source = told.source or "" if told is not None else ""
        readings = [now.read(each) for each in samples]
        values = [reading.value for reading in readings if reading.value is not None]
        if len(values) < len(readings):
            why = told.off if told is not None and told.off else "no sample"
            return Lane(label, full, levels, UNKNOWN, "", why, source=source)
        number, unit = words(values)
        age_ns = max(reading.age_ns for reading in readings)
        if age_ns > STALE_NS:
            return Lane(label, full, levels, number, unit, f"{age_ns // SECOND_NS} s ago", True, source)
        return Lane(label, full, levels, number, unit, note, source=source)


class TokenRate:
    """How many tokens a second came, one value a column: each gap counts for the time that it took."""

    __slots__ = ("_lane", "_samples", "_upto")

    def __init__(self) -> None:
        self._lane = LevelLane()
        self._samples = Samples(Versions())
        self._upto = 0

    def update(self, tokens: Tokens, axis: Axis, cursor: int) -> tuple[float | None, ...]:
        """As of the cursor; what is known of later tokens is kept for later cursors."""
        samples, i, n = self._samples, self._upto, len(tokens)
        while i < n:
            end = i + 1
            while end < n and tokens.t[end] == tokens.t[i]:
                end += 1
            if i and tokens.t[i] == tokens.t[i - 1]:  # the rest of a read whose lines did not come at once
                if samples.t and samples.t[-1] == tokens.t[i]:
                    took = samples.t[-1] - samples.t0[-1]
                    samples.value[-1] += (tokens.count[end - 1] - tokens.count[i - 1]) * SECOND_NS / took
            elif i and (gap := tokens.gap_ns[i]) > 0:
                samples.t0.append(tokens.t[i] - gap)
                samples.t.append(tokens.t[i])
                samples.value.append((tokens.count[end - 1] - tokens.count[i - 1]) * SECOND_NS / gap)
            i = end
        self._upto = n
        return self._lane.update(samples, axis, cursor)


def mean(values: Sequence[float], weights: Sequence[float | None] = ()) -> float:
    """The mean of some, weighted where all weights are known; `statistics` would take 15 ms of the first picture."""
    known = [weight for weight in weights if weight]
    if len(known) < len(values):
        return fsum(values) / len(values)
    return fsum(value * weight for value, weight in zip(values, known, strict=True)) / fsum(known)


def _device(samples: Samples, now: _Now) -> int:
    info = samples.info.at(now.areas)
    return info.d if info is not None else 0


def _flowing(percents: Sequence[float], peaks: Sequence[float | None], at_most: str = "") -> tuple[str, str]:
    """Shares of peaks as bytes a second together, where the peaks are known."""
    per_s = dram_bytes_per_s(zip(peaks, percents, strict=True))
    if per_s is None:
        return f"{at_most}{mean(percents):.0f}", "%"
    number, unit = size(per_s).split()
    return at_most + number, f"{unit}/s"


def _of_several(gpus: Sequence[int]) -> str:
    return f", {len(gpus)} GPUs" if len(gpus) > 1 else ""


def read(samples: Samples | None, at: int) -> _Reading:
    """The mean of the second before ``at``; of an older newest sample that one, with its age."""
    if samples is None:
        return _Reading(None, 0)
    last = bisect_right(samples.t, at)
    while last and isnan(samples.value[last - 1]):
        last -= 1
    if not last:
        return _Reading(None, 0)
    first = bisect_right(samples.t, at - SECOND_NS, 0, last)
    values = [v for v in samples.value[min(first, last - 1) : last] if not isnan(v)]
    return _Reading(fsum(values) / len(values), at - samples.t[last - 1])
