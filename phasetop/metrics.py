"""Every figure of a request, as a pure function of (Session, request, cursor).

The panes, the summary, `--json`, export and compare all show what `measure` returns; nothing is computed anywhere else.
What cannot be known is None, and `Measures.unknown` says why, keyed by the path that the figure has in `run --json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from phasetop.session import LIVE, Run, Session

Phase = Literal["queue", "load", "prefill", "waiting", "decode", "finish"]


@dataclass(frozen=True, slots=True)
class Band:
    """One phase's stretch [t0, t1) of a request, ns since the anchor."""

    phase: Phase
    t0: int
    t1: int


@dataclass(frozen=True, slots=True)
class Phases:
    """The bands of a request: contiguous, in time order, from the request sent to its last byte (or the cursor).

    Their lengths add up to ``wall_ns`` exactly. A band of no length is left out of ``bands``; `ns` then says 0 where the
    phase is known to have taken no time, None where nobody can tell.
    """

    start: int
    end: int
    bands: tuple[Band, ...]
    load: Literal["cold", "warm"] | None
    running: Phase | None  # what runs at the cursor; None when the request has ended
    split: bool  # False: what lies before the first token is `waiting`, and queue, load and prefill are unknown

    @property
    def wall_ns(self) -> int:
        """From sent to the last byte (or the cursor)."""
        return self.end - self.start

    def ns(self, phase: Phase) -> int | None:
        """How long a phase took so far; None when it cannot be told apart."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens by OUTPUTS' words: ``prompt`` = cached + prefilled, ``output`` = thinking + answer + tool."""

    prompt: int | None
    prompt_sent: int | None
    cached: int | None
    prefilled: int | None
    output: int | None
    thinking: int | None
    answer: int | None
    tool: int | None
    chunks: int
    drafted: int | None
    accepted: int | None


@dataclass(frozen=True, slots=True)
class Gaps:
    """Statistics of the gaps between different stamps, ns; ``per``: what a gap lies between."""

    per: Literal["token", "chunk"]
    n: int
    merged: int
    mean: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    max: float | None


@dataclass(frozen=True, slots=True)
class Latency:
    """When the first tokens came (ns after sent), the gaps, the stalls."""

    ttft_ns: int | None
    first_answer_ns: int | None
    gaps: Gaps
    stalls: int
    buffered: bool


@dataclass(frozen=True, slots=True)
class Rates:
    """Tokens per second by DESIGN's definitions, and ns a token."""

    prefill_per_s: float | None
    decode_per_s: float | None
    tpot_ns: float | None
    server_prefill_per_s: float | None
    server_decode_per_s: float | None
    last_second_per_s: float | None  # the running phase's rate over the last second before the cursor (the headline)


@dataclass(frozen=True, slots=True)
class Prefill:
    """Progress of the prompt in tokens; ``done`` includes the cached ones."""

    total: int | None
    cached: int | None
    done: int | None
    fraction_new: float | None  # (done − cached) / (total − cached); 1.0 where nothing was to be computed


@dataclass(frozen=True, slots=True)
class Kv:
    """Cells of the KV cache in use and what one request can use."""

    tokens: int | None
    context: int | None


@dataclass(frozen=True, slots=True)
class HostPhase:
    """Overlap-weighted means over one phase (CPU: 100 a core), and sums of counters."""

    cpu_percent: float | None
    server_cpu_percent: float | None
    server_rss_bytes: int | None
    major_faults: int | None
    swap_in_bytes: int | None
    throttled_s: float | None
    energy_j: float | None


@dataclass(frozen=True, slots=True)
class Finish:
    """How it ended; ``reason`` None while it runs."""

    reason: str | None
    detail: str | None
    status: int | None
    code: str | None
    text: str | None


@dataclass(frozen=True, slots=True)
class Measures:
    """Everything known of one request at a cursor."""

    r: int
    phases: Phases
    tokens: TokenCounts
    latency: Latency
    rates: Rates
    prefill: Prefill
    kv: Kv
    host: Mapping[Literal["prefill", "decode"], HostPhase]
    finish: Finish
    unknown: Mapping[str, str]
    sources: Mapping[str, str]


def measure(session: Session, run: Run, cursor: int = LIVE) -> Measures:
    """All figures of ``run`` as of ``cursor`` (ns since the anchor)."""
    raise NotImplementedError
