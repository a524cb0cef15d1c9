"""What one repeat of a cell came to: the figures of its requests, as `metrics` has them, put together. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from phasetop import events as ev
from phasetop.bench_plan import Cell
from phasetop.metrics import Flag, Measures, measure
from phasetop.session import Run, Session
from phasetop.student import mean

TOLD_FLAGS: Final = ("implausible", "throttle", "buffered", "prompt-cut")
"""What the figures of a request have to tell that a bench passes on."""


class Sample(Struct, frozen=True):
    """One repeat of a cell: means over its requests (of one, itself); None where a figure is not known.

    Attributes:
        prompt, cached, output: tokens, of the request with the most of them.
        mbu, mfu: shares of 1.
        predicted_decode_per_s, predicted_prefill_s: by the roofline.
        aggregate_decode_per_s: tokens of all requests after the first of each ÷ the time from the first token of any to the
            last of any; aggregate_prefill_per_s: all new prompt tokens ÷ the time from the first request sent to the last
            first token.
        complete: each reply has the tokens that were asked for.
        rs: the requests.
        flags: what is odd about them.

    """

    cell: Cell
    repeat: int
    prompt: int | None
    cached: int | None
    output: int | None
    prefill_per_s: float | None
    decode_per_s: float | None
    ttft_s: float | None
    prefill_s: float | None
    mbu: float | None
    mfu: float | None
    predicted_decode_per_s: float | None
    predicted_prefill_s: float | None
    aggregate_decode_per_s: float | None
    aggregate_prefill_per_s: float | None
    complete: bool
    rs: tuple[int, ...]
    flags: tuple[Flag, ...] = ()


class Failure(Struct, frozen=True):
    """A repeat that is left out, and why."""

    cell: Cell
    repeat: int
    text: str
    end: ev.End | None = None

    @property
    def is_unfinished(self) -> bool:
        """Whether it was cancelled on this side, so that nothing failed."""
        return self.end is not None and self.end.finish == "cancelled"


def sample_of(session: Session, runs: Sequence[Run], cell: Cell, repeat: int) -> Sample | Failure:
    """The requests of one repeat, which all have ended."""
    ends = [run.ends.last() for run in runs]
    bad = [end for end in ends if end is None or end.finish not in ("stop", "length")]
    if bad:
        end = next((end for end in bad if end is not None and end.finish == "cancelled"), bad[0])
        return Failure(cell, repeat, _why(end), end)
    found = [measure(session, run) for run in runs]
    alone = found[0].roofline if len(found) == 1 else None  # the roofline of a request knows nothing of others beside it
    return Sample(
        cell=cell,
        repeat=repeat,
        prompt=_most(one.tokens.prompt for one in found),
        cached=_most(one.tokens.cached for one in found),
        output=_most(one.tokens.output for one in found),
        prefill_per_s=_mean(one.rates.prefill_per_s for one in found),
        decode_per_s=_mean(one.rates.decode_per_s for one in found),
        ttft_s=_mean(_seconds(one.latency.ttft_ns) for one in found),
        prefill_s=_mean(_seconds(one.phases.ns("prefill")) for one in found),
        mbu=alone.mbu if alone is not None else None,
        mfu=alone.mfu if alone is not None else None,
        predicted_decode_per_s=alone.predicted_decode_per_s if alone is not None else None,
        predicted_prefill_s=alone.predicted_prefill_s if alone is not None else None,
        aggregate_decode_per_s=_all_decoded(runs, found),
        aggregate_prefill_per_s=_all_read(runs, found),
        complete=all(one.tokens.output is not None and one.tokens.output >= cell.output for one in found),
        rs=tuple(run.r for run in runs),
        flags=tuple(flag for one in found for flag in one.flags if flag.code in TOLD_FLAGS),
    )


def _why(end: ev.End | None) -> str:
    if end is None:
        return "it did not end"
    if end.error is not None and isinstance(end.error.text, str):
        return end.error.text
    if end.detail == "collector-died":
        return "the collector died"
    return {"cut": "the reply was cut", "cancelled": "it was cancelled"}.get(end.finish, f"it ended with {end.finish}")


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9


def _mean(values: Iterable[float | None]) -> float | None:
    """None where one of them is not known: a mean over fewer would be another figure."""
    found = list(values)
    known = [value for value in found if value is not None]
    return mean(known) if known and len(known) == len(found) else None


def _most(values: Iterable[int | None]) -> int | None:
    found = list(values)
    known = [value for value in found if value is not None]
    return max(known) if known and len(known) == len(found) else None


def _all_decoded(runs: Sequence[Run], found: Sequence[Measures]) -> float | None:
    spans, tokens = [], 0
    for run, one in zip(runs, found, strict=True):
        columns = run.tokens
        if one.tokens.output is None or columns.first < 0:
            return None
        spans.append((columns.t[columns.first], columns.t[len(columns) - 1]))
        tokens += one.tokens.output - columns.count[columns.first]
    span = max(last for _, last in spans) - min(first for first, _ in spans)
    return tokens / span * 1e9 if span > 0 and tokens > 0 else None


def _all_read(runs: Sequence[Run], found: Sequence[Measures]) -> float | None:
    new = [one.tokens.prefilled for one in found]
    if None in new or any(run.tokens.first < 0 for run in runs):
        return None
    begin = min(one.phases.start for one in found)
    end = max(run.tokens.t[run.tokens.first] for run in runs)
    tokens = sum(n for n in new if n is not None)
    return tokens / (end - begin) * 1e9 if end > begin and tokens else None


def usual(values: Iterable[int | None]) -> int | None:
    """The most frequent of known values, the larger of equals."""
    counted = Counter(value for value in values if value is not None)
    return max(counted, key=lambda value: (counted[value], value)) if counted else None
