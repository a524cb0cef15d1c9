"""What a bench found, by its session alone: which requests were a repeat of which cell, and what each came to. Pure.

The table that is printed when a bench ends and the one that is printed again from its recording are both made of this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, get_args

import msgspec
from msgspec import Struct

from phasetop.bench_plan import BenchPlan, Cell
from phasetop.bench_samples import Failure, Sample, sample_of
from phasetop.bench_stats import Figure
from phasetop.faults import FormatError
from phasetop.session import Run, Session

EXACT: Final = ("llamacpp", "embedded")
"""Servers that go on past the end token, and whose cache can be told off."""
BARE: Final = (*EXACT, "ollama")
"""Servers that take a prompt as it is."""
STRIKES: Final = 2
"""A cell that failed so often, and never did well, is left out."""

Stopped = Literal["narrow", "repeats", "time", "interrupted", "failed"]
"""Why a bench ended: narrow enough; all repeats done; the time was up; ctrl-C, or it was left; nothing worked."""


class Outcome(Struct, frozen=True):
    """How a bench ended: rounds that were begun, seconds since the server was ready, and why; None: it goes on."""

    rounds: int
    took_s: float
    stopped: Stopped | None


class Seen:
    """An engine under test, as its session tells: its server, and the repeats of each cell.

    Args:
        session: of its collector.
        plan: what is measured.
        swept: the settings that tell it from other engines.

    Attributes:
        samples: the repeats that count.
        failures: those that do not, and why.
        unfinished: how many of a cell were cancelled: by the time, by ctrl-C, by a key of the view.

    """

    def __init__(self, session: Session, plan: BenchPlan, swept: dict[str, int | str]) -> None:
        self.plan = plan
        self.swept = dict(swept)
        self.samples: dict[Cell, list[Sample]] = {}
        self.failures: list[Failure] = []
        self.unfinished: dict[Cell, int] = {}
        self.left_out: dict[Cell, str] = {}
        self._session = session

    @property
    def session(self) -> Session:
        """What is known so far."""
        return self._session

    @property
    def title(self) -> str:
        """``threads=4``; empty for the only engine."""
        return " ".join(f"{name}={value}" for name, value in self.swept.items())

    @property
    def backend(self) -> str | None:
        """OUTPUTS' word for the server."""
        server = next((found for versions in self.session.servers.values() if (found := versions.at())), None)
        return server.backend if server is not None else None

    @property
    def api(self) -> Literal["raw", "chat"]:
        """How prompts are sent."""
        return "raw" if self.backend in BARE and not self.plan.chat else "chat"

    def option(self, name: str) -> Any:
        """A value that the server was started with; None: not told."""
        server = next((found for versions in self.session.servers.values() if (found := versions.at())), None)
        option = (server.options or {}).get(name) if server is not None else None
        return option.value if option is not None else None

    def why_not(self, cell: Cell) -> str | None:
        """Why a cell cannot be measured here; None: it can be tried."""
        if cell in self.left_out:
            return self.left_out[cell]
        context = self.option("slot_context") or self.option("context")
        if self.backend in EXACT and isinstance(context, int) and cell.depth + cell.length + cell.output > context:
            return f"{cell.depth + cell.length + cell.output:,} tokens do not fit in the server's context of {context:,}"
        return None

    def take(self, found: Sample | Failure) -> None:
        """A repeat is over: it counts, it failed, or it was cut short and says nothing."""
        if isinstance(found, Sample):
            self.samples.setdefault(found.cell, []).append(found)
        elif found.is_unfinished and not found.repeat:
            pass  # a warm-up: nothing is lost
        elif found.is_unfinished:
            self.unfinished[found.cell] = self.unfinished.get(found.cell, 0) + 1
        else:
            self.failures.append(found)
            failed = sum(each.cell == found.cell for each in self.failures)
            if not self.samples.get(found.cell) and failed >= STRIKES:
                self.left_out[found.cell] = found.text

    def figures(self, cell: Cell) -> dict[str, Figure]:
        """What its repeats came to so far: prefill, decode, ttft."""
        samples = self.samples.get(cell, ())
        return {
            "prefill": Figure(tuple(s.prefill_per_s for s in samples if s.prefill_per_s is not None)),
            "decode": Figure(tuple(s.decode_per_s for s in samples if s.decode_per_s is not None)),
            "ttft": Figure(tuple(s.ttft_s for s in samples if s.ttft_s is not None)),
        }

    def narrow(self, cell: Cell, precision: float) -> bool:
        """Whether all that is known of a cell is known that well."""
        known = [figure for figure in self.figures(cell).values() if figure.values]
        return bool(known) and all(figure.spread is not None and figure.spread <= precision for figure in known)

    def warmed_by(self, plain: Cell) -> Cell | None:
        """The cell that a warm-up stands for: the first of its length with so many at once that fits."""
        for cell in self.plan.cells:
            alike = (cell.words, cell.tokens, cell.parallel) == (plain.words, plain.tokens, plain.parallel)
            if alike and (cell in self.left_out or self.why_not(cell) is None):
                return cell
        return None


def seen_in(session: Session) -> Seen | None:
    """What a session's requests came to, in the order in which they were sent; None where it is no bench's.

    Raises:
        FormatError: what stands there of the plan is none.
    """
    told = session.bench.at()
    if told is None or told.plan is None:
        return None
    try:
        plan: BenchPlan | None = msgspec.convert(told.plan, BenchPlan)
    except (msgspec.ValidationError, TypeError, ValueError):
        plan = None
    if plan is None or not plan.cells:
        raise FormatError("this is a bench whose plan cannot be read")
    swept = {name: value for name, value in (told.swept or {}).items() if isinstance(value, int | str)}
    seen = Seen(session, plan, swept)
    by_name = {cell.name: cell for cell in plan.cells}
    for labels, runs in _groups(session):
        warmup, repeat = bool(labels.get("warmup")), labels.get("repeat")
        cell = seen.warmed_by(_plain(labels)) if warmup else by_name.get(str(labels.get("cell")))
        if cell is None:
            continue
        found = sample_of(session, runs, cell, repeat if isinstance(repeat, int) and not warmup else 0)
        if isinstance(found, Failure) or not (warmup or labels.get("fill")):
            seen.take(found)
    return seen


def _groups(session: Session) -> Iterator[tuple[dict[str, Any], list[Run]]]:
    """The requests that were sent together, with their labels; without those of which some were never sent."""
    groups: dict[int, tuple[dict[str, Any], list[Run]]] = {}
    for run in session.runs.values():
        info = run.info.at()
        labels = (info.labels if info is not None else None) or {}
        if isinstance(group := labels.get("group"), int):
            groups.setdefault(group, (labels, []))[1].append(run)
    for labels, runs in groups.values():
        if len(runs) == labels.get("parallel", 1):
            yield labels, runs


def _plain(labels: dict[str, Any]) -> Cell:
    words, tokens, parallel = (labels.get(name) for name in ("words", "tokens", "parallel"))
    return Cell(
        words=words if isinstance(words, int) else None,
        tokens=tokens if isinstance(tokens, int) else None,
        parallel=parallel if isinstance(parallel, int) else 1,
    )


def outcome_of(sessions: Sequence[Session]) -> Outcome:
    """How the bench ended, as the first of its sessions tells; one that was left before it could say so was interrupted."""
    session = sessions[0]
    told = session.bench.at()
    if told is not None and told.stopped is not None:
        stopped: Stopped | None = next((word for word in get_args(Stopped) if word == told.stopped), None)
        return Outcome(told.rounds or 0, (told.took_ns or 0) / 1e9, stopped)
    repeats = [labels.get("repeat") for each in sessions for labels, _ in _groups(each)]
    ready = next((state.t for state in session.server_states.items if state.s == "ready"), 0)
    ends = [end.t for run in session.runs.values() if (end := run.ends.last()) is not None]
    rounds = max((n for n in repeats if isinstance(n, int)), default=0)
    return Outcome(rounds, (max(ends, default=ready) - ready) / 1e9, "interrupted")


def plan_told(plan: BenchPlan) -> dict[str, Any]:
    """A plan as the session's `bench` line has it, without what is as usual."""
    return {**msgspec.to_builtins(plan), "cells": [_cell_told(cell) for cell in plan.cells]}


def _cell_told(cell: Cell) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(cell)
    return {name: value for name, value in told.items() if value not in (None, False, 0) or name == "output"}
