"""Every figure of a request, as a pure function of (Session, request, cursor).

The panes, the summary, `--json`, export and compare all show what `measure` returns; nothing is computed anywhere else.
What cannot be known is None, and `Measures.unknown` says why, keyed by the path that the figure has in `run --json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from phasetop import events as ev
from phasetop.columns import LIVE
from phasetop.counts import CacheUse, Kv, Prefill, Seen, TokenCounts, count_tokens, kv_use, prefill_progress
from phasetop.figures import pause
from phasetop.gpuphases import Gpu, gpu_phases, worst_throttles
from phasetop.hostphases import HOST_PHASES, HostPhase, HostPhaseName, host_phases
from phasetop.machine import link_words
from phasetop.phases import Band, Borders, Phase, Phases, borders, ms_to_ns
from phasetop.rates import Gaps, Latency, Rates, latency, rates
from phasetop.session import Run, Session
from phasetop.tally import tally, timings_at

if TYPE_CHECKING:
    from phasetop.run_energy import Energy
    from phasetop.run_roofline import Roofline
    from phasetop.verdict import Verdict
    from phasetop.verdict_evidence import Evidence

__all__ = [
    "Band",
    "CacheUse",
    "Energy",
    "Finish",
    "Flag",
    "Gaps",
    "Gpu",
    "HostPhase",
    "Kv",
    "Latency",
    "Measures",
    "Phase",
    "Phases",
    "Prefill",
    "Rates",
    "Roofline",
    "TokenCounts",
    "Verdict",
    "measure",
]

DISAGREE_SHARE: Final = 0.2
DISAGREE_NS: Final = 50_000_000
"""The server's clock and ours disagree when they differ by more than both."""
INSTANT_NS: Final = 1_000_000
INSTANT_TOKENS: Final = 512
"""A prefill of more tokens than this in less time than that cannot be."""
HELD_BACK: Final = 0.2
"""What is held back for a larger share of a phase than this is told."""
NEAR_FULL: Final = 0.9
"""From this share of the context on it is nearly full."""
_THEN: Final = {"stops": "; the reply ends there", "shifts": "; then the oldest tokens go"}


class Finish(Struct, frozen=True):
    """How it ended; ``reason`` None while it runs."""

    reason: str | None
    detail: str | None
    status: int | None
    code: str | None
    text: str | None


class Flag(Struct, frozen=True):
    """Something in the figures that one should know, as a notice would say it; ``t`` in ns since the anchor."""

    code: str
    text: str
    t: int


LINKED: Final = ("phases.queue_s", "latency.ttft_s", "latency.first_answer_s", "latency.itl_ms")
"""What includes the link to the server's machine, where it is reached over ssh."""


class Measures(Struct, frozen=True):
    """Everything known of one request at a cursor; ``evidence``: what the verdict rests on."""

    r: int
    phases: Phases
    tokens: TokenCounts
    latency: Latency
    rates: Rates
    prefill: Prefill
    kv: Kv
    host: Mapping[HostPhaseName, HostPhase]
    finish: Finish
    unknown: Mapping[str, str]
    sources: Mapping[str, str]
    roofline: Roofline
    energy: Energy
    flags: tuple[Flag, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    verdict: Verdict | None = None
    evidence: Evidence | None = None

    @property
    def first_token_in_s(self) -> float | None:
        """How long the rest of the prompt takes at the rate of the last second; None where that is not known or over."""
        total, done, per_s = self.prefill.total, self.prefill.done, self.rates.last_second_per_s
        if self.phases.running != "prefill" or total is None or done is None or done >= total or not per_s:
            return None
        return (total - done) / per_s


def measure(session: Session, run: Run, cursor: int = LIVE) -> Measures:
    """All figures of ``run`` as of ``cursor`` (ns since the anchor)."""
    # With llama.cpp's rules of caches and the verdict's: 25 ms, for which no first picture waits.
    from phasetop.kv_figures import with_bytes
    from phasetop.run_energy import run_energy
    from phasetop.run_roofline import run_roofline
    from phasetop.verdict_of_run import verdict_of, why_none

    lines = run.tokens.index(cursor)
    end = run.ends.items[0] if run.ends.items and run.ends.when[0] <= cursor else None
    seen = Seen(session, run, cursor, lines, tally(run.tokens, lines), timings_at(run.timings, cursor), end)
    found = borders(session, run, cursor, lines, seen.timings, end)
    unknown, sources = dict(found.unknown), dict(found.sources)
    tokens = count_tokens(seen, unknown, sources)
    speed = rates(seen, found, tokens, unknown, sources)
    times = latency(seen, found, tokens, unknown)
    if (link := link_words(session, run, cursor)) is not None:
        sources.update(dict.fromkeys(LINKED, f"client: {link}"))
        sources["host"] = "sysfs: /proc of the server's machine, over ssh, 1 Hz"
    prefill = prefill_progress(seen, tokens)
    kv = with_bytes(seen, kv_use(seen, tokens, prefill, unknown, sources), speed.decode_per_s, unknown, sources)
    host = host_phases(session, run, cursor, found.phases, unknown)
    gpus = gpu_phases(session, run, cursor, found.phases, unknown, sources)
    finish = _finish(end)
    if finish.reason is None:
        unknown["finish.reason"] = "it runs"
    roofline = run_roofline(seen, tokens, found.phases, speed, unknown, sources)
    energy = run_energy(roofline.ran, gpus, host, tokens, unknown, sources)
    measures = Measures(
        *(run.r, found.phases, tokens, times, speed, prefill, kv, host, finish, unknown, sources, roofline, energy),
        flags=(
            *_flags(seen, found, tokens, times, kv),
            *_beyond(roofline, found.phases),
            *_throttled(roofline, found.phases, gpus, host),
        ),
        gpus=gpus,
    )
    verdict, evidence = verdict_of(seen, measures)
    if verdict is None:
        unknown["verdict"] = why_none(measures)
    return replace(measures, verdict=verdict, evidence=evidence)


def _finish(end: ev.End | None) -> Finish:
    if end is None:
        return Finish(None, None, None, None, None)
    error = end.error
    text = error.text if error is not None and isinstance(error.text, str) else None
    return Finish(end.finish, end.detail, error.status if error else None, error.code if error else None, text)


def _flags(seen: Seen, found: Borders, tokens: TokenCounts, times: Latency, kv: Kv) -> list[Flag]:
    """What the figures themselves have to tell."""
    phases, columns, flags = found.phases, seen.run.tokens, []
    if times.stalls:
        stalls = columns.stalls[: times.stalls]
        longest = max(stalls, key=lambda i: columns.gap_ns[i])
        many = "a stall" if times.stalls == 1 else f"{times.stalls} stalls, the longest"
        flags.append(Flag("stall", f"{many} of {pause(columns.gap_ns[longest])}", columns.t[longest]))
    if times.buffered:
        text = "many tokens a read: something between the server and us holds them back, so gaps are not the server's"
        flags.append(Flag("buffered", text, phases.end))
    told = seen.run.prompt.at(seen.cursor)
    if told is not None and told.cut is not None:
        text = f"the server cut the prompt: {told.cut.asked:,} tokens became {told.cut.kept:,}"
        flags.append(Flag("prompt-cut", text, told.t))
    if kv.tokens is not None and kv.context is not None and kv.tokens >= NEAR_FULL * kv.context:
        text = f"the context is nearly full: {kv.tokens:,} of {kv.context:,} tokens{_THEN.get(kv.when_full or '', '')}"
        flags.append(Flag("context-near-full", text, phases.end))
    prefill_ns, new = phases.ns("prefill"), tokens.prefilled
    if seen.prefilled and new is not None and new > INSTANT_TOKENS and prefill_ns is not None and prefill_ns < INSTANT_NS:
        text = f"{new:,} tokens of prompt in {prefill_ns / 1e6:.2f} ms cannot be"
        flags.append(Flag("implausible", text, phases.end))
    flags += _disagreements(seen, found)
    return flags


def _throttled(
    roofline: Roofline, phases: Phases, gpus: tuple[Gpu, ...], host: Mapping[HostPhaseName, HostPhase]
) -> list[Flag]:
    """What was held back for a good part of a phase: a GPU's clocks, the CPU by its heat, the server by its quota."""
    used = {device.d for device in roofline.ran.gpus}
    flags = []
    for name in HOST_PHASES:
        band = phases.band(name)
        if band is None:
            continue
        for word, share in worst_throttles(gpu.phases[name] for gpu in gpus if gpu.d in used).items():
            if share >= HELD_BACK:
                text = f"the GPU's clocks were held back in {100 * share:.0f} % of {name}: {word}"
                flags.append(Flag("throttle", text, band.t1))
        for stopped, text in (
            (host[name].throttled_s, "the CPU quota stopped the server for"),
            (host[name].thermal_throttled_s if not roofline.ran.gpus else None, "heat held the CPU back for"),
        ):
            share = stopped * 1e9 / (band.t1 - band.t0) if stopped is not None and band.t1 > band.t0 else 0.0
            if share >= HELD_BACK:
                flags.append(Flag("throttle", f"{text} {stopped:.2f} s in {name}", band.t1))
    return flags


def _beyond(roofline: Roofline, phases: Phases) -> list[Flag]:
    """What would be above a peak: it cannot be, or the peak is taken too low (one that was measured may be)."""
    flags = []
    computed, read = roofline.prefill_flops_per_s, roofline.read_bytes_per_s
    if computed is not None and roofline.mfu is not None and roofline.mfu > 1:
        above = f"prefill at {computed / 1e12:,.1f} TFLOP/s would be {100 * roofline.mfu:,.0f} % of the peak"
        flags.append(Flag("implausible", f"{above}: the server's count or time is wrong, or the peak", phases.end))
    if read is not None and roofline.mbu is not None and roofline.mbu > 1 and not roofline.at_least:
        above = f"decode at {read / 1e9:,.0f} GB/s would be {100 * roofline.mbu:,.0f} % of the peak"
        flags.append(Flag("implausible", f"{above}: the peak is taken too low, or less is read", phases.end))
    return flags


def _disagreements(seen: Seen, found: Borders) -> list[Flag]:
    """Where the server's clock and ours measured the same and found different."""
    timings, phases = seen.timings, found.phases
    if timings is None or not seen.whole:
        return []
    pairs = []
    if "phases.prefill_s" not in found.sources:
        pairs.append(("prefill", phases.ns("prefill"), ms_to_ns(timings.prompt_ms)))
    if "phases.decode_s" not in found.sources and timings.gen_n is not None and timings.gen_n > 1:
        pairs.append(("decode", phases.ns("decode"), ms_to_ns(timings.gen_ms)))
    flags = []
    for name, ours, theirs in pairs:
        if ours is None or theirs is None:
            continue
        apart = abs(ours - theirs)
        if apart > DISAGREE_NS and apart > DISAGREE_SHARE * max(ours, theirs):
            text = f"the clocks disagree: {name} took {theirs / 1e9:.2f} s by the server's, {ours / 1e9:.2f} s by ours"
            flags.append(Flag("implausible", text, phases.end))
    return flags
