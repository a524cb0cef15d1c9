"""The verdict on a request: the evidence for it, gathered from its figures and the machine's counters as of a cursor."""

from __future__ import annotations

from bisect import bisect_right
from math import fsum, isnan
from typing import TYPE_CHECKING, Final

from phasetop import events as ev
from phasetop.counts import Seen
from phasetop.gpuphases import GpuPhase, worst_throttles
from phasetop.hostphases import difference_over
from phasetop.kv_figures import layout_of
from phasetop.machine import machine_of
from phasetop.phases import Band
from phasetop.run_devices import BANDWIDTH
from phasetop.samples import Samples
from phasetop.verdict import Verdict, judge
from phasetop.verdict_evidence import UNEVEN, Evidence, Judged, Throttle

if TYPE_CHECKING:
    from phasetop.metrics import Measures

QUARTER_LEAST: Final = 8
"""Gaps that a quarter of a reply must have to say how fast it was."""
MOST_GAPS: Final = 512
NO_CARD: Final = "no bandwidth counter, no peak for this device"


def verdict_of(seen: Seen, measures: Measures) -> tuple[Verdict, Evidence] | tuple[None, None]:
    """The verdict as of the cursor and what it rests on; None where nothing has run that could be judged."""
    judged = _judged(measures) if measures.finish.reason != "error" else None
    if judged is None:
        return None, None
    evidence = gather(seen, measures, judged)
    return judge(evidence), evidence


def why_none(measures: Measures) -> str:
    """Why there is no verdict."""
    return "the request failed" if measures.finish.reason == "error" else "no phase has run that could be judged"


def _judged(measures: Measures) -> Judged | None:
    """The phase that runs, else the longer of prefill and decode; the load where neither was reached."""
    phases = measures.phases
    if phases.running is not None:
        if phases.running == "load":
            return "load"
        if phases.running == "prefill":
            return "prefill"
        return "decode" if phases.running == "decode" else None
    names: tuple[Judged, ...] = ("decode", "prefill")
    took = {name: phases.ns(name) or 0 for name in names}
    longest = max(names, key=lambda name: took[name])
    if took[longest] > 0:
        return longest
    return "load" if phases.ns("load") else None


def gather(seen: Seen, measures: Measures, judged: Judged) -> Evidence:
    """Everything that is known of a phase."""
    roofline, phases, tokens, kv = measures.roofline, measures.phases, measures.tokens, measures.kv
    session, run, cursor = seen.session, seen.run, seen.cursor
    band = phases.band(judged)
    host = measures.host[judged] if judged != "load" else None
    phase_s = (phases.ns(judged) or 0) / 1e9
    server = session.server_of(run, cursor)
    options = (server.options or {}) if server is not None else {}
    here = server is not None and server.local is True
    sampled = here or machine_of(session, server, cursor).far
    token, offload, ran, gaps = roofline.token, roofline.ran.offload, roofline.ran, measures.latency.gaps
    told = run.prompt.at(cursor)
    cpus, cpus_by = _cpus(seen) if here else (None, "quota")
    first = _is_first(seen)
    early, late = _quarters(seen) if first else (None, None)
    layout = layout_of(session, run, cursor)
    throttled = host.throttled_s if host is not None else None
    hot = host.thermal_throttled_s if host is not None else None
    percent = host.server_cpu_percent if host is not None else None
    used = host.cpu_percent if host is not None else None
    return Evidence(
        judged=judged,
        running=phases.running is not None,
        on_cpu=ran.on_cpu if ran.why is None else None,
        gpus=len(ran.gpus),
        by_rows=ran.by_rows,
        mbu=roofline.mbu,
        at_least=roofline.at_least,
        disturbed=roofline.disturbed,
        read_bytes_per_s=roofline.read_bytes_per_s,
        peak_bytes_per_s=roofline.peak_bytes_per_s,
        step_s=None if measures.rates.tpot_ns is None else measures.rates.tpot_ns / 1e9,
        uneven=bool(gaps.mean and gaps.p50 and gaps.mean >= UNEVEN * gaps.p50 and gaps.per == "token"),
        rest_s=token.rest_s if token is not None else None,
        mfu=roofline.mfu,
        prefill_flops_per_s=roofline.prefill_flops_per_s,
        phase_s=phase_s or None,
        prefill_s=(phases.ns("prefill") or 0) / 1e9 or None,
        load_s=_load_s(measures, own=server is not None and server.backend == "embedded"),
        wait_s=phases.wall_ns / 1e9,
        load_why=next((state.why for state in reversed(run.states.until(cursor)) if state.s == "loading"), None),
        new=tokens.prefilled,
        cached=tokens.cached,
        buffered=measures.latency.buffered,
        prompt_cut=(told.cut.asked, told.cut.kept) if told is not None and told.cut is not None else None,
        kv_tokens=kv.tokens,
        kv_context=kv.context,
        when_full=kv.when_full,
        threads=_number(seen, options, "threads"),
        cpus=cpus,
        machine_cpus=seen.session.hello.host.cores if here and seen.session.hello is not None else None,
        cpus_by=cpus_by,
        throttled_share=throttled / phase_s if throttled is not None and phase_s else None,
        thermal_share=hot / phase_s if hot is not None and phase_s and here else None,
        unseen_claim=_unseen_claim(seen, measures, options) if here else None,
        server_cores=None if percent is None else percent / 100,
        used_cores=None if used is None else used / 100,
        swap_in_bytes=host.swap_in_bytes if host is not None and sampled else None,
        major_faults=host.major_faults if host is not None else None,
        gpu_busy_percent=_busy(measures, judged),
        throttles=_throttles(measures, judged),
        gpu_layers=_gpu_layers(measures) if ran.gpus else None,
        cpu_layers=offload.on_cpu if offload is not None and ran.gpus and offload.is_partial else None,
        top_k=_number(seen, options, "top_k"),
        kv_on_cpu="kv_offload" in options and options["kv_offload"].value is False,
        pcie_bytes_per_token=_pcie(seen, measures, band),
        decode_bytes_per_token=roofline.decode_bytes_per_token,
        diverge=told.diverge if told is not None else None,
        cache_kind=layout.kind if layout is not None else None,
        first=first,
        first_gap_ns=early,
        last_gap_ns=late,
        why_no_mbu=_why(measures, "roofline.mbu_percent", NO_CARD),
        why_no_mfu=_why(measures, "roofline.mfu_percent", "no peak FLOP/s for this device"),
    )


def _unseen_claim(seen: Seen, measures: Measures, options: dict[str, ev.Sourced]) -> str | None:
    """What the server says to have on GPUs, where each GPU's driver tells who uses it, and the server is not among them.

    An option that nobody set claims nothing: it only says what would be done where there is a GPU.
    """
    info = seen.run.info.at(seen.cursor)
    gpus = [found for d, versions in seen.session.devices.items() if d and (found := versions.at(seen.cursor)) is not None]
    if info is None or not gpus or any(gpu.used_by is None or info.v in gpu.used_by for gpu in gpus):
        return None
    percent = options.get("gpu_percent")
    if percent is not None and isinstance(percent.value, int | float) and percent.value > 0:
        return f"{percent.value:.0f} % of the model is said"
    asked = options.get("gpu_layers")
    if asked is not None and asked.source.partition(":")[0] in ("default", "assumed", "estimate"):
        return None
    layers = _gpu_layers(measures)
    return f"{layers} layers are said" if layers else None


def _load_s(measures: Measures, *, own: bool) -> float | None:
    """A load that was waited for; one of the engine that this session started for itself only while it goes on."""
    phases = measures.phases
    ns = phases.ns("load")
    if not ns or phases.load != "cold" or (own and phases.running != "load"):
        return None
    return ns / 1e9


def _why(measures: Measures, path: str, otherwise: str) -> str:
    return measures.unknown.get(path) or measures.unknown.get(BANDWIDTH) or otherwise


def _number(seen: Seen, options: dict[str, ev.Sourced], name: str) -> int | None:
    """A whole number of the request's settings, else of its server's."""
    value = seen.run.settings(seen.cursor).get(name)
    if value is None and name in options:
        value = options[name].value
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _cpus(seen: Seen) -> tuple[float | None, str]:
    """How many CPUs the server may use, and what says so."""
    info = seen.run.info.at(seen.cursor)
    v = info.v if info is not None else None
    host = seen.session.hello.host if seen.session.hello is not None else ev.Host()
    quota, allowed = (
        _newest(seen.session.series(name, v=v, cursor=seen.cursor), seen.cursor)
        for name in ("server_quota_cores", "server_cpus")
    )
    found = [
        (quota or host.cpu_quota_cores, "quota"),
        (allowed if allowed and (not host.cores or allowed < host.cores) else None, "affinity"),
        (host.cores, "this machine"),
    ]
    known = [(float(cpus), by) for cpus, by in found if cpus]
    return min(known, key=lambda each: each[0], default=(None, "quota"))


def _newest(samples: Samples | None, cursor: int) -> float | None:
    if samples is None:
        return None
    last = bisect_right(samples.t, cursor)
    return next((samples.value[i] for i in range(last - 1, -1, -1) if not isnan(samples.value[i])), None)


def _phases_of_gpus(measures: Measures, judged: Judged) -> list[GpuPhase]:
    """What the request's GPUs did in a phase; none for a load, or on the CPU."""
    used = {gpu.d for gpu in measures.roofline.ran.gpus}
    return [gpu.phases[judged] for gpu in measures.gpus if judged != "load" and gpu.d in used and judged in gpu.phases]


def _busy(measures: Measures, judged: Judged) -> float | None:
    """How busy the GPUs are, percent: of those that take turns the sum, of those that work at once the mean."""
    found = [phase.sm_percent for phase in _phases_of_gpus(measures, judged)]
    known = [percent for percent in found if percent is not None]
    if not known or len(known) < len(found):
        return None
    total = fsum(known)
    return total / len(known) if measures.roofline.ran.by_rows else min(total, 100.0)


def _throttles(measures: Measures, judged: Judged) -> tuple[Throttle, ...]:
    """Why clocks were held down, and for what share of the phase; of several GPUs the worst."""
    worst = worst_throttles(_phases_of_gpus(measures, judged))
    return tuple(Throttle(word, held) for word, held in worst.items() if held > 0)


def _pcie(seen: Seen, measures: Measures, band: Band | None) -> float | None:
    """Bytes that the GPUs receive for each token of the reply."""
    output, roofline = measures.tokens.output, measures.roofline
    if band is None or not roofline.ran.gpus or not output:
        return None
    total = 0.0
    for gpu in roofline.ran.gpus:
        samples = seen.session.series("pcie_rx_bytes", d=gpu.d, cursor=seen.cursor)
        grew = difference_over(samples, band.t0, band.t1, seen.cursor) if samples is not None else None
        if grew is None:
            return None
        total += grew
    return total / output


def _gpu_layers(measures: Measures) -> int | None:
    offload = measures.roofline.ran.offload
    return None if offload is None else offload.on_gpu + int(offload.head_on_gpu)


def _is_first(seen: Seen) -> bool:
    """Whether it is the first request that this session sent to its server, which had been started just before."""
    info = seen.run.info.at(seen.cursor)
    own = [run for run in seen.session.runs.values() if (other := run.info.at(seen.cursor)) and info and other.v == info.v]
    states = [state.s for state in seen.session.server_states.until(seen.cursor) if info and state.v == info.v]
    return bool(own) and own[0] is seen.run and any(word in ("starting", "loading") for word in states)


def _quarters(seen: Seen) -> tuple[float | None, float | None]:
    """Medians of the first and the last quarter of the gaps, of `MOST_GAPS` at most; None where there are too few."""
    gaps = seen.run.tokens.gap_ns
    n = min(seen.lines // 4, MOST_GAPS)
    if n < QUARTER_LEAST:
        return None, None
    early, late = (sorted(gap for gap in part if gap >= 0) for part in (gaps[:n], gaps[seen.lines - n : seen.lines]))
    if min(len(early), len(late)) < QUARTER_LEAST:
        return None, None
    return float(early[len(early) // 2]), float(late[len(late) // 2])
