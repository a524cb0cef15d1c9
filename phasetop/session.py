"""The Session: everything known of a recording, in columns that are only ever appended to.

A live run, a replay and a session watched from afar are all a `Session` fed by `apply`. Nothing is removed or changed by
time: whoever draws or counts does so *as of a cursor* (`events.Ns`; `LIVE` means the end), by bisecting the columns one by
one. The figures are not here: they are pure functions of (Session, cursor) in `metrics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import intern
from typing import Any

import msgspec

from phasetop import events as ev
from phasetop.columns import LIVE, NAN, Happenings, Tokens, Versions
from phasetop.samples import Samples, stamp


class Run:
    """One request: its descriptions and the columns of what happened to it."""

    __slots__ = ("ends", "info", "progress", "prompt", "r", "slots", "states", "timings", "tokens")

    def __init__(self, r: int) -> None:
        self.r = r
        self.info: Versions[ev.Request] = Versions()
        self.prompt: Versions[ev.Prompt] = Versions()
        self.states: Happenings[ev.State] = Happenings()
        self.progress: Happenings[ev.Prog] = Happenings()
        self.timings: Happenings[ev.Timings] = Happenings()
        self.slots: Happenings[ev.Slot] = Happenings()
        self.ends: Happenings[ev.End] = Happenings()
        self.tokens = Tokens()

    def settings(self, cursor: int = LIVE) -> dict[str, Any]:
        """The settings that hold for it, by OUTPUTS' names: as asked for, until the server's answer is known.

        What was asked for and the server does not take (``-t`` of a server that runs already) holds for nothing.
        """
        info = self.info.at(cursor)
        return {} if info is None else (info.asked if info.applied is None else info.applied) or {}


class Session:
    """A recording in memory; `apply` is the only way in."""

    def __init__(self) -> None:
        self.hello: ev.Hello | None = None
        self.bye: ev.Bye | None = None
        self.bench: Versions[ev.Bench] = Versions()
        self.last_t = 0
        self._earliest = LIVE
        self.lines = 0
        self.bad_lines = 0
        self.servers: dict[int, Versions[ev.Server]] = {}
        self.models: dict[int, Versions[ev.Model]] = {}
        self.devices: dict[int, Versions[ev.Device]] = {}
        self.samples: dict[int, Samples] = {}
        self._samples_by_key: dict[str, Samples] = {}
        self.phase_samples: Happenings[ev.Smp] = Happenings()
        self.runs: dict[int, Run] = {}
        self.server_states: Happenings[ev.State] = Happenings()
        self.notices: Happenings[ev.Notice] = Happenings()
        self.marks: Happenings[ev.Mark] = Happenings()
        self.clocks: Happenings[ev.Clock] = Happenings()
        self.tasks: Happenings[ev.Task] = Happenings()
        self.findings: Happenings[ev.Finding] = Happenings()
        self.controls: Happenings[ev.Control] = Happenings()
        self.goes_on: ev.Part | None = None  # the part after those that were read, by the newest line that names one

    def take_earliest(self) -> int:
        """The earliest stamp of what came since this was asked last; `LIVE` where nothing came. Whoever draws asks it."""
        earliest, self._earliest = self._earliest, LIVE
        return earliest

    def run(self, r: int) -> Run:
        """The request ``r``, made at its first mention."""
        run = self.runs.get(r)
        if run is None:
            run = self.runs[r] = Run(r)
        return run

    def apply(self, event: ev.AnyEvent, where: tuple[int, int] | None = None) -> None:
        """Take one event; ``where`` is its line's (offset, length) in the file, where there is one."""
        self.lines += 1
        if event.t > self.last_t:
            self.last_t = event.t
        if event.t < self._earliest:
            self._earliest = event.t
        if isinstance(event, ev.Tok):
            self.run(event.r).tokens.append(event, where)
            return
        match event:
            case ev.Smp():
                self._take_samples(event)
            case ev.Prog():
                self.run(event.r).progress.add(event)
            case ev.Timings():
                self.run(event.r).timings.add(event)
            case ev.State():
                (self.server_states if event.r is None else self.run(event.r).states).add(event)
            case ev.Request():
                self.run(event.r).info.add(event)
            case ev.Prompt():
                self.run(event.r).prompt.add(_without_ids(event))
            case ev.End():
                run = self.run(event.r)
                run.ends.add(event)
                run.tokens.rest()
            case ev.Slot():
                self.run(event.r).slots.add(event)
            case ev.Hello():
                self.hello = self.hello or event
            case ev.Bye():
                self.bye = event
            case ev.Server():
                self.servers.setdefault(event.v, Versions()).add(event)
            case ev.Model():
                self.models.setdefault(event.m, Versions()).add(event)
            case ev.Device():
                self.devices.setdefault(event.d, Versions()).add(event)
            case ev.Series():
                if event.s not in self.samples:
                    self.samples[event.s] = self._samples_by_key[str(event.s)] = Samples(Versions())
                self.samples[event.s].info.add(event)
            case ev.Notice():
                self.notices.add(event)
            case ev.Mark():
                self.marks.add(event)
            case ev.Clock():
                self.clocks.add(event)
            case ev.Task():
                self.tasks.add(event)
            case ev.Finding():
                self.findings.add(event)
            case ev.Bench():
                self.bench.add(event)
            case ev.Control():
                self.controls.add(event)
            case ev.Part() if event.file is not None:
                self.goes_on = event

    def apply_tokens(self, r: int, toks: Sequence[ev.Tok], places: Sequence[tuple[int, int] | None]) -> None:
        """Take many `tok` lines of one request at once; the same as `apply` for each."""
        self.lines += len(toks)
        stamps = [tok.t for tok in toks]
        self.last_t = max(self.last_t, max(stamps))
        self._earliest = min(self._earliest, min(stamps))
        self.run(r).tokens.extend(toks, places)

    def _take_samples(self, event: ev.Smp) -> None:
        if event.phase is not None:
            self.phase_samples.add(event)
            return
        sampled: list[Samples] = []
        for key, value in event.v.items():
            series = self._samples_by_key.get(key)
            if series is None:
                continue
            if value is None and event.e and key in event.e:
                series.why[len(series.value)] = event.e[key]
            series.value.append(NAN if value is None else value)
            sampled.append(series)
        stamp(sampled, event.t0, event.t)

    def series(
        self, name: str, *, v: int | None = None, part: str | None = None, d: int = 0, cursor: int = LIVE
    ) -> Samples | None:
        """The samples called ``name`` of a device, or of a server's process, if they had been announced at the cursor."""
        for samples in self.samples.values():
            info = samples.info.at(cursor)
            if info and info.name == name and info.d == d and info.part == part and (v is None or info.v == v):
                return samples
        return None

    def last_run(self, cursor: int = LIVE) -> Run | None:
        """The newest request that had begun at the cursor."""
        begun = [run for run in self.runs.values() if run.info.at(cursor) is not None]
        return begun[-1] if begun else None

    @property
    def last_failed(self) -> bool:
        """Whether the newest request ended in an error or was cut: who shows or prints a session ends with status 1 then."""
        run = self.last_run()
        end = run.ends.last() if run is not None else None
        return end is not None and end.finish in ("error", "cut")

    def server_of(self, run: Run, cursor: int = LIVE) -> ev.Server | None:
        """The server that a request went to, as far as that was known at the cursor."""
        info = run.info.at(cursor)
        return self.servers[info.v].at(cursor) if info and info.v is not None and info.v in self.servers else None

    def model_of(self, run: Run, cursor: int = LIVE) -> ev.Model | None:
        """The model that a request ran on, as far as that was known at the cursor."""
        info = run.info.at(cursor)
        return self.models[info.m].at(cursor) if info and info.m is not None and info.m in self.models else None


def _without_ids(event: ev.Prompt) -> ev.Prompt:
    """A prompt as it is kept: every turn of a chat brings all of it again, so its pieces are kept once each.

    Its ids stay in the file: nobody asks for them, and they would take as much as all the rest.
    """
    pieces = event.pieces and [intern(piece) if type(piece) is str else piece for piece in event.pieces]
    return msgspec.structs.replace(event, ids=None, pieces=pieces)
