"""The machine's lanes: what its samples say on the trace's time axis. Pure; `trace` draws them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from math import isnan
from typing import Final

from msgspec import Struct

from phasetop.figures import memory
from phasetop.session import Samples, Session
from phasetop.tui.lanes import SECOND_NS, Axis, LevelLane

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


class _Reading(Struct, frozen=True):
    """A series' mean over the second before a moment, and how old its newest sample was then."""

    value: float | None
    age_ns: int


class Machine:
    """Keeps the lanes of a session up as samples come."""

    __slots__ = ("_lanes",)

    def __init__(self) -> None:
        self._lanes: dict[str, LevelLane] = {}

    def lanes(self, session: Session, axis: Axis, at: int, areas: int, server: int | None) -> tuple[Lane, ...]:
        """The lanes: areas up to the moment ``areas``, figures of the second before ``at``; ``server``: whose."""
        return (self._cpu(session, axis, at, areas, server), self._memory(session, axis, at, areas, server))

    def _cpu(self, session: Session, axis: Axis, at: int, areas: int, server: int | None) -> Lane:
        host = session.hello.host if session.hello else None
        cores = (host.cpu_quota_cores or host.cores) if host else None
        machine = session.series("cpu_cores_used", cursor=areas)
        own = session.series("server_cpu_cores", v=server, cursor=areas)
        shown = machine or own
        used, mine = read(shown, at), read(own, at).value
        note = f"server {mine:.2f}" if mine is not None and machine is not None else ""
        return self._lane(
            "CPU", f"of {cores:g}" if cores else "", shown, cores, axis, areas, used, lambda v: (f"{v:.2f}", "cores"), note
        )

    def _memory(self, session: Session, axis: Axis, at: int, areas: int, server: int | None) -> Lane:
        host = session.hello.host if session.hello else None
        total = (host.memory_limit_bytes or host.ram_bytes) if host else None
        machine = session.series("memory_used_bytes", cursor=areas)
        own = session.series("server_rss_bytes", v=server, cursor=areas)
        shown = machine or own
        used, mine = read(shown, at), read(own, at).value
        note = " ".join(("RSS", *memory(mine))) if mine is not None and machine is not None else ""
        return self._lane("memory", "of RAM" if total else "", shown, total, axis, areas, used, memory, note)

    def _lane(
        self,
        label: str,
        full: str,
        samples: Samples | None,
        top: float | None,
        axis: Axis,
        areas: int,
        reading: _Reading,
        words: Callable[[float], tuple[str, str]],
        note: str,
    ) -> Lane:
        levels: tuple[float | None, ...] = (None,) * axis.columns
        if samples is not None and top and axis.columns:
            lane = self._lanes.setdefault(label, LevelLane())
            levels = tuple(
                None if each is None else min(1.0, max(0.0, each / top)) for each in lane.update(samples, axis, areas)
            )
        told = samples.info.at(areas) if samples is not None else None
        source = told.source or "" if told is not None else ""
        if reading.value is None:
            why = told.off if told is not None and told.off else "no samples"
            return Lane(label, full, levels, "—", "", why, source=source)
        number, unit = words(reading.value)
        if reading.age_ns > STALE_NS:
            return Lane(label, full, levels, number, unit, f"{reading.age_ns // SECOND_NS} s ago", True, source)
        return Lane(label, full, levels, number, unit, note, source=source)


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
    return _Reading(sum(values) / len(values), at - samples.t[last - 1])
