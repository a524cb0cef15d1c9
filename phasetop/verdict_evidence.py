"""What a verdict may rest on: everything known of one phase of a request. `verdict_of_run` gathers it, rules look at it."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from phasetop.figures import share, size

Judged = Literal["load", "prefill", "decode"]

NEAR: Final = 0.6
"""From this share of the peak bandwidth on, decode is bound by it: what real kernels reach begins here."""
SLACK: Final = 0.05
"""A verdict that stands goes on standing so far beyond that border: at the border itself it would flicker."""
UNEVEN: Final = 1.25
"""A mean gap so many times the median one: most steps are faster than what all of them read says."""
Said = tuple[str, str] | tuple[str, str, str] | None
"""Where a rule holds the limit in a few words, the sentence, and one of 52 columns at most that goes on from the limit."""


class Throttle(Struct, frozen=True):
    """A reason why clocks were held down, and for what share of the phase."""

    word: str
    share: float


class Evidence(Struct, frozen=True, kw_only=True):
    """What is known of one phase of a request; None: not known. Shares are of 1, CPU is in cores.

    Attributes:
        judged: the phase that the verdict is about.
        on_cpu: it ran on the CPU alone; gpus: how many GPUs it used, by_rows: at once.
        mbu, mfu: of the peaks; at_least: the bandwidth is a measured one; disturbed: while other programs were busy.
        read_bytes_per_s, step_s: of decode, the mean; uneven: most steps are faster than that; rest_s: of a step, what no
            floor explains.
        near_from: the share of the peak from which on decode is bound by it.
        phase_s: how long it took; new, cached: tokens of the prompt.
        threads: of the server; cpus: that it may use, by quota and affinity; machine_cpus: that there are.
        throttled_share: of the phase in which the quota stopped the server.
        thermal_share: of the phase in which heat held the CPU back.
        unseen_claim: what is said to be on a GPU, where the driver sees no process of the server on any.
        server_cores, used_cores: what the server and the whole machine used.
        gpu_busy_percent: of the time; throttles: of the GPUs.
        gpu_layers, cpu_layers: where they run.
        pcie_bytes_per_token: received by the GPUs.
        diverge: the first token of the prompt that differs from what the slot had; cache_kind: of the model's cache.
        first_gap_ns, last_gap_ns: medians of the reply's first and last quarter; first: the server's first request.
        why_no_mbu, why_no_mfu: what is missing.

    """

    judged: Judged
    running: bool = False
    on_cpu: bool | None = None
    gpus: int = 0
    by_rows: bool = False
    mbu: float | None = None
    at_least: bool = False
    disturbed: bool = False
    read_bytes_per_s: float | None = None
    peak_bytes_per_s: float | None = None
    step_s: float | None = None
    uneven: bool = False
    near_from: float = NEAR
    rest_s: float | None = None
    mfu: float | None = None
    prefill_flops_per_s: float | None = None
    phase_s: float | None = None
    prefill_s: float | None = None
    load_s: float | None = None
    wait_s: float | None = None
    load_why: str | None = None
    new: int | None = None
    cached: int | None = None
    buffered: bool = False
    prompt_cut: tuple[int, int] | None = None
    kv_tokens: int | None = None
    kv_context: int | None = None
    when_full: str | None = None
    threads: int | None = None
    cpus: float | None = None
    machine_cpus: int | None = None
    cpus_by: str = "quota"
    throttled_share: float | None = None
    thermal_share: float | None = None
    unseen_claim: str | None = None
    server_cores: float | None = None
    used_cores: float | None = None
    swap_in_bytes: int | None = None
    major_faults: int | None = None
    gpu_busy_percent: float | None = None
    throttles: tuple[Throttle, ...] = ()
    gpu_layers: int | None = None
    cpu_layers: int | None = None
    top_k: int | None = None
    kv_on_cpu: bool = False
    pcie_bytes_per_token: float | None = None
    decode_bytes_per_token: float | None = None
    diverge: int | None = None
    cache_kind: str | None = None
    first: bool = False
    first_gap_ns: float | None = None
    last_gap_ns: float | None = None
    why_no_mbu: str = ""
    why_no_mfu: str = ""

    @property
    def under(self) -> bool:
        """Decode stays far under the bandwidth."""
        return self.mbu is not None and self.mbu < self.near_from

    def standing(self, *, near: bool) -> Evidence:
        """The same, for a verdict that stands already: it says that decode is near the bandwidth, or another thing."""
        return replace(self, near_from=NEAR - SLACK if near else NEAR + SLACK)


def reads(e: Evidence) -> str:
    """``Decode reads 397 GB/s, 39 % of peak``, as far as it is known."""
    if e.read_bytes_per_s is None:
        return "Decode"
    ceiling = "a ceiling measured on a busy machine" if e.disturbed else "the measured ceiling" if e.at_least else "peak"
    of = f", {share(e.mbu)} of {ceiling}" if e.mbu is not None else ""
    mean = " on average" if e.uneven else ""
    return f"Decode reads {size(e.read_bytes_per_s)}/s{mean}{of}"


def computes(e: Evidence) -> str:
    """``Prefill computes 28.6 TFLOP/s, 17 % of peak``."""
    if e.prefill_flops_per_s is None:
        return "Prefill"
    of = f", {share(e.mfu)} of peak" if e.mfu is not None else ""
    per_s = e.prefill_flops_per_s
    said = f"{per_s / 1e12:.1f} TFLOP/s" if per_s >= 0.95e12 else f"{per_s / 1e9:.0f} GFLOP/s"
    return f"Prefill computes {said}{of}"
