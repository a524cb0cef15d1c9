"""Verdicts on what is wrong beyond the model's own work: prompt, load, stream, CPU quota, swap, disk, offload, clocks.

Each rule is a function of `Evidence`: (limit, sentence) where it holds, None where not, or where what it needs is not known.
"""

from __future__ import annotations

from typing import Final

from phasetop.figures import count, memory, share
from phasetop.verdict_evidence import Evidence, Said, computes, reads

CAPPED: Final = 0.1
"""A limit that held for less of the phase than this explains nothing."""
STRAINED: Final = 0.05
"""A quota that stopped the server for this share of the phase is felt: its threads wait for each other."""
LOADED: Final = 0.5
"""A load of this share of the wait is what one waited for."""
FAULTS_PER_S: Final = 20.0
"""Pages that a server waits for; a disk brings each in 0.1 ms to 10."""
MIB: Final = 1 << 20
IDLE_CORES: Final = 0.8
"""A server that waits for its GPU may spin on one core; one that uses so much while no GPU works computes on the CPU."""
SEEN_S: Final = 2.0
"""The driver's lists of processes are read once a second: what began just now may not be in them."""
SWAPPED_PER_S: Final = 4 * MIB


def load(e: Evidence) -> Said:
    """Loading the model goes on, or took most of a wait that is over; it says nothing of a later phase that runs."""
    if e.load_s is None:
        return None
    loading = e.running and e.judged == "load"
    if not loading and (e.running or not e.wait_s or e.load_s < LOADED * e.wait_s):
        return None
    why = f" ({e.load_why})" if e.load_why else ""
    if loading:
        return "loading the model", f"The model is being loaded, {e.load_s:.1f} s so far{why}."
    return (
        "loading the model",
        f"Loading the model took {e.load_s:.1f} s of {e.wait_s:.1f} s{why}: a model that stays loaded answers at once.",
        f"{e.load_s:.1f} of {e.wait_s:.1f} s; what stays loaded needs none.",
    )


def buffered(e: Evidence) -> Said:
    """Somebody between the server and here holds the stream back."""
    if not e.buffered:
        return None
    return (
        "the stream is held back on its way",
        (
            "The stream comes many tokens a read: something between the server and here buffers it (a proxy?), "
            "so the model's own pace cannot be seen."
        ),
        "Something between here and the server buffers it.",
    )


def cut(e: Evidence) -> Said:
    """The server left a part of the prompt out."""
    if e.prompt_cut is None:
        return None
    asked, kept = e.prompt_cut
    text = f"The server cut the prompt: {count(asked)} tokens became {count(kept)}. A larger context (-c) takes it whole."
    return "the prompt was cut", text, f"{count(asked)} tokens became {count(kept)}: -c takes it whole."


def threads(e: Evidence) -> Said:
    """The server has more threads than CPUs to run on, and that is felt."""
    if e.threads is None or e.cpus is None or e.threads <= e.cpus or e.on_cpu is False:
        return None
    if e.throttled_share is not None and e.throttled_share >= STRAINED:
        felt = f", stopped by it for {share(e.throttled_share)} of {e.judged}"
    elif e.cpus_by == "affinity" or e.threads >= 2 * e.cpus:
        felt = ""
    else:
        return None  # a quota that was never reached
    best = max(1, int(e.cpus))
    what = f"{e.threads} threads for {e.cpus:g} CPU{'' if e.cpus == 1 else 's'}"
    by = {"quota": "of quota", "affinity": "by affinity"}.get(e.cpus_by, f"of {e.cpus_by}")
    text = f"{what} {by}{felt}: they wait for each other at every layer. -t {best} is what fits."
    return what, text, f"They wait for each other: -t {best} is what fits."


def quota(e: Evidence) -> Said:
    """The quota of CPU time stops the server."""
    if e.throttled_share is None or e.throttled_share < CAPPED:
        return None
    allowed = f" of {e.cpus:g} CPUs" if e.cpus is not None else ""
    return (
        "the CPU quota",
        f"The quota{allowed} stopped the server for {share(e.throttled_share)} of {e.judged}: raise it, or use less.",
        f"It stopped the server {share(e.throttled_share)} of {e.judged}: raise it.",
    )


def swap(e: Evidence) -> Said:
    """Memory comes back from swap."""
    if e.swap_in_bytes is None or not e.phase_s or e.swap_in_bytes / e.phase_s < SWAPPED_PER_S:
        return None
    read = " ".join(memory(e.swap_in_bytes))
    return (
        "memory that was swapped out",
        f"{read} came back from swap during {e.judged}: the model needs more RAM than is free.",
        f"{read} came back from swap: more RAM is needed.",
    )


def disk(e: Evidence) -> Said:
    """Pages of the server come from disk."""
    if e.major_faults is None or not e.phase_s or e.major_faults / e.phase_s < FAULTS_PER_S:
        return None
    return (
        "weights on disk",
        (
            f"{count(e.major_faults)} page faults of the server's went to disk during {e.judged}: its weights do not stay "
            "in RAM (too little of it, or the first read of the file)."
        ),
        f"{count(e.major_faults)} pages came from there: too little RAM?",
    )


def throttled(e: Evidence) -> Said:
    """A GPU's clocks are held down."""
    worst = max(e.throttles, key=lambda each: each.share, default=None)
    if worst is None or worst.share < CAPPED or (e.judged == "decode" and e.mbu is not None and not e.under):
        return None
    what = reads(e) if e.judged == "decode" else computes(e)
    return f"GPU clocks: {worst.word}", f"{what}: the {worst.word} was active for {share(worst.share)} of it."


def heat(e: Evidence) -> Said:
    """The CPU's clocks are held down by its heat."""
    if e.on_cpu is not True or e.thermal_share is None or e.thermal_share < CAPPED:
        return None
    return (
        "the CPU's heat",
        (
            f"Heat held the CPU back for {share(min(1.0, e.thermal_share))} of {e.judged}: its clocks fall in long runs. "
            "Better cooling, or fewer threads (-t), keep them."
        ),
    )


def gpu_unseen(e: Evidence) -> Said:
    """The server says that it computes on a GPU, and the driver sees nothing of it there."""
    if e.unseen_claim is None or e.server_cores is None or e.server_cores < IDLE_CORES:
        return None
    if e.phase_s is None or e.phase_s < SEEN_S:
        return None
    return (
        "the GPU is not used",
        (
            f"The model runs on the CPU: {e.unseen_claim} to be on a GPU, but the driver sees no process of the server on "
            f"any, and it uses {e.server_cores:.1f} CPU cores. Its log says why (no device, no library)."
        ),
        f"The model runs on {e.server_cores:.1f} CPU cores; its log says why.",
    )


def offload(e: Evidence) -> Said:
    """Some layers run on the CPU."""
    if not e.gpu_layers or not e.cpu_layers:
        return None
    whole = e.gpu_layers + e.cpu_layers
    busy = f" The GPU is busy {e.gpu_busy_percent:.0f} % of the time." if e.gpu_busy_percent is not None else ""
    return (
        f"{e.cpu_layers} of {whole} layers on the CPU",
        (
            f"{e.cpu_layers} of {whole} layers run on the CPU, whose memory is many times slower, and each token waits for "
            f"them.{busy} A smaller quantisation or context leaves room for more on the GPU."
        ),
        "Fewer bits a weight put more of them on the GPU.",
    )


def gpu_idle(e: Evidence) -> Said:
    """The GPU that is said to do the work does none."""
    claimed = e.gpus > 0 and bool(e.gpu_layers) and not e.cpu_layers
    if not claimed or e.gpu_busy_percent is None or e.server_cores is None:
        return None
    if e.gpu_busy_percent > 5 or e.server_cores < IDLE_CORES:
        return None
    return (
        "the GPU is idle",
        (
            f"The model runs on the CPU: all layers are said to be on the GPU, but it is busy {e.gpu_busy_percent:.0f} % of "
            f"the time and the server uses {e.server_cores:.1f} CPU cores. Its log says why (no device, no library)."
        ),
        f"The model runs on {e.server_cores:.1f} CPU cores; its log says why.",
    )
