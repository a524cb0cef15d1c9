"""Sums over sessions: requests, tokens, energy and time by model or by day. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from math import fsum
from typing import Final, Literal

from msgspec import Struct, field

from phasetop.metrics import measure
from phasetop.session import Session

By = Literal["model", "day"]
SUMMED: Final = ("prompt_tokens", "cached_tokens", "output_tokens", "energy_j")


class Spent(Struct, frozen=True):
    """What one request took; None is not known. ``day`` is the local date on which it was sent."""

    model: str | None
    day: str | None
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    energy_j: float | None
    wall_s: float


class Sum(Struct, frozen=True):
    """The sum over the requests of a key; ``missing`` says of how many a figure is not known."""

    key: str | None
    requests: int
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    energy_j: float | None
    wall_s: float
    missing: dict[str, int] = field(default_factory=dict)


def spent(session: Session) -> Iterator[Spent]:
    """What each request of a session that has ended took."""
    for run in session.runs.values():
        if run.info.at() is None or not run.ends.items:
            continue
        figures = measure(session, run)
        model = session.model_of(run)
        energy = (figures.energy.prefill_j, figures.energy.decode_j)
        yield Spent(
            model=model.name if model is not None else None,
            day=_day(session, figures.phases.start),
            prompt_tokens=figures.tokens.prompt,
            cached_tokens=figures.tokens.cached,
            output_tokens=figures.tokens.output,
            energy_j=None if None in energy else round(fsum(each or 0.0 for each in energy), 3),
            wall_s=(figures.phases.end - figures.phases.start) / 1e9,
        )


def _day(session: Session, start: int) -> str | None:
    if session.hello is None:
        return None
    try:
        return f"{datetime.fromtimestamp((session.hello.anchor.wall + start) / 1e9):%Y-%m-%d}"
    except (OverflowError, OSError, ValueError):
        return None


def sums(requests: Iterable[Spent], by: By) -> list[Sum]:
    """The sums by key: models by what they wrote, days from the newest on; what has no key comes last."""
    groups: dict[str | None, list[Spent]] = {}
    for one in requests:
        groups.setdefault(one.model if by == "model" else one.day, []).append(one)
    rows = [_sum(key, each) for key, each in groups.items()]
    if by == "day":
        return sorted(rows, key=lambda row: row.key or "", reverse=True)
    return sorted(rows, key=lambda row: (row.key is None, -(row.output_tokens or 0), row.key or ""))


def _sum(key: str | None, requests: list[Spent]) -> Sum:
    known = {name: [v for one in requests if (v := getattr(one, name)) is not None] for name in SUMMED}
    missing = {name: len(requests) - len(values) for name, values in known.items() if len(values) < len(requests)}
    found = {name: sum(values) if values else None for name, values in known.items()}
    energy = fsum(known["energy_j"]) if known["energy_j"] else None
    return Sum(
        key=key,
        requests=len(requests),
        prompt_tokens=found["prompt_tokens"],
        cached_tokens=found["cached_tokens"],
        output_tokens=found["output_tokens"],
        energy_j=None if energy is None else round(energy, 3),
        wall_s=round(fsum(one.wall_s for one in requests), 6),
        missing=missing,
    )
