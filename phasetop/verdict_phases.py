"""Verdicts on what bounds decode and prefill themselves, and on what is missing to tell.

Each rule is a function of `Evidence`: (limit, sentence) where it holds, None where not, or where what it needs is not known.
"""

from __future__ import annotations

from typing import Final

from phasetop.figures import count, share, size
from phasetop.verdict_evidence import Evidence, Said, computes, reads

SMALL: Final = 64
"""Fewer new tokens than this after a cached prompt are no batch to judge the arithmetic by."""
BUSY_CORE: Final = (0.75, 1.35)
"""A server that uses so many cores keeps one busy."""
IDLE_GPU: Final = 70.0
"""A GPU that is busy for less than so many percent of the time waits for somebody."""
AGAIN: Final = 0.3
"""A prefill of what was cached before matters beside a longer decode from this share of the wait on."""
COMPUTING: Final = 0.25
"""From this share of the peak FLOP/s on, prefill is bound by arithmetic."""
WARMING: Final = 1.25
"""A reply whose first tokens took so many times as long as its last ones was warming up."""
PCIE_SHARE: Final = 0.05
"""A step that brings this share of its bytes over PCIe waits for that: the link is tens of times slower than the memory."""


def sampler(e: Evidence) -> Said:
    """One core sorts the vocabulary for each token."""
    if e.top_k != 0 or e.server_cores is None or not BUSY_CORE[0] <= e.server_cores <= BUSY_CORE[1]:
        return None
    if e.mbu is not None and not e.under:
        return None
    if e.gpus and (e.gpu_busy_percent is None or e.gpu_busy_percent >= IDLE_GPU):
        return None
    if not e.gpus and (e.threads is None or e.threads < 2 or e.mbu is None):
        return None
    waits = (
        f"the GPU waits ({e.gpu_busy_percent:.0f} % busy)" if e.gpus else f"the other {(e.threads or 2) - 1} threads wait"
    )
    return (
        "sampling, on one CPU core",
        f"{reads(e)}: one core sorts the whole vocabulary for each token (top_k 0) while {waits}. Try --top-k 40.",
        "It sorts all of the vocabulary: try --top-k 40.",
    )


def kv_on_cpu(e: Evidence) -> Said:
    """The cache is kept off the GPU."""
    if not e.gpus or not e.kv_on_cpu:
        return None
    return (
        "the cache is not on the GPU",
        f"{reads(e)}: the KV cache stays in RAM (--no-kv-offload), so that attention runs there.",
        "It stays in RAM, and attention with it.",
    )


def pcie(e: Evidence) -> Said:
    """Each token brings bytes over PCIe."""
    brought, read = e.pcie_bytes_per_token, e.decode_bytes_per_token
    if not e.gpus or brought is None or not read or brought < PCIE_SHARE * read or not e.under:
        return None
    return (
        "PCIe",
        (
            f"{reads(e)}: {size(brought)} a token come over PCIe, {share(brought / read)} of what it reads. "
            "Weights or cache lie in RAM."
        ),
        f"{size(brought)} a token come over it, {share(brought / read)} of what is read.",
    )


def cpu_bound(e: Evidence) -> Said:
    """The GPU waits for the server."""
    if not e.gpus or not e.under or e.gpu_busy_percent is None or e.gpu_busy_percent >= IDLE_GPU:
        return None
    if e.server_cores is None or e.server_cores < BUSY_CORE[0]:
        return None
    return (
        "the server's own CPU work",
        (
            f"{reads(e)}: the GPU is busy {e.gpu_busy_percent:.0f} % of the time, and the server uses "
            f"{e.server_cores:.1f} CPU cores. It waits for the server between steps (sampling, a grammar, small kernels)."
        ),
        f"The GPU is busy {e.gpu_busy_percent:.0f} %, and waits between the steps.",
    )


def turns(e: Evidence) -> Said:
    """The layers are split over GPUs, of which one works at a time."""
    if e.gpus < 2 or e.by_rows or e.mbu is None or e.peak_bytes_per_s is None or e.gpu_layers == 0:
        return None
    each = e.mbu / e.gpus
    return (
        f"{e.gpus} GPUs take turns: each moves {share(each)} of its peak",
        (
            f"The layers are split, so a token passes through one GPU after the other: {share(e.mbu)} of "
            f"{size(e.peak_bytes_per_s)}/s, shared. With --split-mode row they read at once."
        ),
        "With --split-mode row they read at once.",
    )


def over(e: Evidence) -> Said:
    """Decode reads more than was taken for the ceiling."""
    if e.mbu is None or e.mbu <= 1:
        return None
    if e.at_least:
        text = (
            f"{reads(e)}: the ceiling is at least that. The weights may lie in the CPU's cache, or the machine was busy "
            "when it was measured; `phasetop doctor --measure-bandwidth` measures again."
        )
    else:
        text = f"{reads(e)}, which cannot be: the peak is set too low, or not all of these bytes are read."
    short = "The ceiling is at least that: measure it again." if e.at_least else "The peak is set too low, or less is read."
    return "above what was taken for the ceiling", text, short


def near(e: Evidence) -> Said:
    """Decode is bound by memory bandwidth."""
    if e.mbu is None or e.read_bytes_per_s is None or e.under:
        return None
    return (
        f"memory bandwidth: {size(e.read_bytes_per_s)}/s, {share(e.mbu)} of peak",
        (
            f"{reads(e)}: bound by memory bandwidth, and near what real kernels reach. "
            "Only fewer bytes a token help: a smaller quantisation, or drafts."
        ),
        "Fewer bytes a token help: a smaller quantisation.",
    )


def contended(e: Evidence) -> Said:
    """Other programs take the CPUs."""
    if not e.on_cpu or not e.under or e.used_cores is None or e.server_cores is None or e.cpus is None:
        return None
    others, cpus = e.used_cores - e.server_cores, e.machine_cpus or e.cpus  # what the machine uses is no share of a quota
    if others < 0.4 or e.used_cores < 0.85 * cpus:
        return None
    return (
        "other programs on the CPU",
        f"{reads(e)}: other programs use {others:.1f} of {cpus:g} CPUs meanwhile, and the slowest thread sets the pace.",
    )


def few_threads(e: Evidence) -> Said:
    """The server leaves CPUs unused."""
    if not e.on_cpu or not e.under or e.threads is None or e.cpus is None or e.threads >= int(e.cpus):
        return None
    return (
        f"{e.threads} thread{'s' if e.threads > 1 else ''} for {e.cpus:g} CPUs",
        (
            f"{reads(e)}, with {e.threads} thread{'s' if e.threads > 1 else ''} for {e.cpus:g} CPUs: "
            f"-t {int(e.cpus)} may read more at once."
        ),
        f"-t {int(e.cpus)} may read more at once.",
    )


def first(e: Evidence) -> Said:
    """The first run after a start, which was seen to warm up."""
    if not e.under or not e.first or not e.first_gap_ns or not e.last_gap_ns:
        return None
    if e.first_gap_ns < WARMING * e.last_gap_ns:
        return None
    return (
        "the first run after a start",
        (
            f"{reads(e)}: the first run after a start, {e.first_gap_ns / 1e6:.1f} ms a token at first and "
            f"{e.last_gap_ns / 1e6:.1f} at the end. Ask again for the usual pace."
        ),
        f"{e.first_gap_ns / 1e6:.1f} ms a token at first, {e.last_gap_ns / 1e6:.1f} at last: ask again.",
    )


def under(e: Evidence) -> Said:
    """Far under the bandwidth, and nothing that is measured says why."""
    if not e.under or e.read_bytes_per_s is None:
        return None
    rest = f", {1e3 * e.rest_s:.1f} of {1e3 * e.step_s:.1f} ms a token" if e.rest_s is not None and e.step_s else ""
    seen = "; ".join(_seen(e))
    return (
        f"not the memory: {size(e.read_bytes_per_s)}/s, {share(e.mbu)} of peak",
        f"{reads(e)}: what takes the rest{rest}, no counter here tells{f' ({seen})' if seen else ''}.",
        "What takes the rest of the time no counter tells.",
    )


def _seen(e: Evidence) -> list[str]:
    """What the counters do show, where they prove nothing."""
    found = []
    if e.gpu_busy_percent is not None:
        found.append(f"GPU busy {e.gpu_busy_percent:.0f} % of the time")
    if e.server_cores is not None:
        found.append(f"server on {e.server_cores:.1f}{f' of {e.cpus:g}' if e.cpus is not None else ''} CPU cores")
    return found


def near_full(e: Evidence) -> Said:
    """The context is nearly full."""
    if e.kv_tokens is None or not e.kv_context or e.kv_tokens < 0.95 * e.kv_context or e.running:
        return None
    then = {"stops": " The reply ends there.", "shifts": " Then the oldest tokens go."}.get(e.when_full or "", "")
    text = f"The context is nearly full: {count(e.kv_tokens)} of {count(e.kv_context)} tokens.{then} A larger one is -c N."
    return "the context is nearly full", text, f"{count(e.kv_tokens)} of {count(e.kv_context)} tokens; a larger one is -c N."


def rewind(e: Evidence) -> Said:
    """The cache cannot go back to where the prompt differs."""
    if e.diverge is None or e.cached is None or e.new is None or e.diverge < SMALL or e.cached * 2 > e.diverge:
        return None
    if e.judged == "decode" and (e.running or not e.prefill_s or not e.wait_s or e.prefill_s < AGAIN * e.wait_s):
        return None
    kinds = {"iswa": "a sliding window", "recurrent": "a recurrent state", "hybrid": "a recurrent state"}
    kind = kinds.get((e.cache_kind or "").partition("_")[0])
    if kind is None:
        return None
    return (
        "the cache cannot go back",
        (
            f"{count(e.diverge)} tokens of the prompt are as before, yet {count(e.new)} were read again: this model's cache "
            f"has {kind} and cannot go back to an earlier place. --swa-full or more --ctx-checkpoints keep what it needs."
        ),
        f"{count(e.new)} tokens read again: --ctx-checkpoints help.",
    )


def small_batch(e: Evidence) -> Said:
    """After a cached prompt too few tokens are left to be a batch."""
    if not e.new or not e.cached or e.new >= SMALL:
        return None
    new = f"{count(e.new)} new token{'s' if e.new != 1 else ''}"
    return (
        f"a small batch: {new}",
        (
            f"Only {new} after {count(e.cached)} from the cache: so small a batch reads all weights for little arithmetic, "
            "and its rate says nothing about longer prompts."
        ),
        "All weights for few tokens: its rate says little.",
    )


def computing(e: Evidence) -> Said:
    """Prefill is bound by arithmetic."""
    if e.mfu is None or e.mfu < COMPUTING:
        return None
    over = " That cannot be: the peak is set too low, or not all of it was computed." if e.mfu > 1 else ""
    return (
        f"arithmetic: {share(e.mfu)} of the peak FLOP/s",
        f"{computes(e)}: bound by arithmetic, as prefill is. A shorter or cached prompt helps, or faster units.{over}",
        "A shorter or cached prompt helps, or faster units." if not over else "That cannot be: the peak is set too low.",
    )


def not_computing(e: Evidence) -> Said:
    """Prefill is far from the arithmetic peak."""
    if e.mfu is None:
        return None
    return (
        f"not the arithmetic: {share(e.mfu)} of the peak FLOP/s",
        (
            f"{computes(e)}, far from the peak: larger batches (-ub), flash attention or another quantisation may reach "
            "more; no counter here tells which."
        ),
        "Larger batches (-ub) may reach more.",
    )


def unknown_prefill(e: Evidence) -> Said:
    """What prefill cannot be held against."""
    why = e.why_no_mfu or "no peak FLOP/s for this device"
    known = e.prefill_flops_per_s is not None
    return "limit unknown", f"{computes(e)}; limit unknown: {why}." if known else f"Limit unknown: {why}."


def unknown_decode(e: Evidence) -> Said:
    """What decode cannot be held against."""
    why = e.why_no_mbu or "no bandwidth counter, no peak for this device"
    known = e.read_bytes_per_s is not None
    return "limit unknown", f"{reads(e)}; limit unknown: {why}." if known else f"Limit unknown: {why}."


def unknown_load(e: Evidence) -> Said:
    """A load of which no more is known."""
    return "loading the model", f"The model was loaded{f' ({e.load_why})' if e.load_why else ''}."
