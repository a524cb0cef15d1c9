"""What a model waits for, in one sentence that a person can act on: rules in one table, the first that holds speaks.

A rule looks at `Evidence` alone and says nothing where a figure that it needs is not known. Where no other rule holds, the
last one says what is missing. Codes are listed in docs/verdicts.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from phasetop import verdict_machine as machine
from phasetop import verdict_phases as phases
from phasetop.verdict_evidence import Evidence, Judged, Said


class Verdict(Struct, frozen=True):
    """A code for scripts, the limit in a few words, the sentence with the numbers that prove it.

    ``short`` goes on from the limit where the sentence has 52 columns; "": what is left of the sentence does.
    """

    code: str
    limit: str
    text: str
    short: str = ""


class Rule(Struct, frozen=True):
    """One rule: what it is called, for which phases it speaks, when and what."""

    code: str
    judged: tuple[Judged, ...]
    say: Callable[[Evidence], Said]


def judge(evidence: Evidence) -> Verdict:
    """The verdict of the first rule that holds; the last ones always do."""
    for rule in RULES:
        if evidence.judged in rule.judged and (said := rule.say(evidence)) is not None:
            return Verdict(rule.code, *said)
    raise AssertionError(f"no rule holds for {evidence.judged}")


def again(code: str, evidence: Evidence) -> Verdict | None:
    """A verdict that was given before, in the words of newer evidence; None where it does not hold of that.

    Others may hold too, and speak first in `judge`; whoever shows verdicts decides for how long the old one stands.
    """
    standing = evidence.standing(near=code == AT_BANDWIDTH)
    for rule in RULES:
        if rule.code == code and standing.judged in rule.judged and (said := rule.say(standing)) is not None:
            return Verdict(rule.code, *said)
    return None


AT_BANDWIDTH: Final = "decode-at-bandwidth"
_BOTH: Final[tuple[Judged, ...]] = ("prefill", "decode")
_ALL: Final[tuple[Judged, ...]] = ("load", "prefill", "decode")
_DECODE: Final[tuple[Judged, ...]] = ("decode",)
_PREFILL: Final[tuple[Judged, ...]] = ("prefill",)
RULES: Final = (
    Rule("prompt-cut", _ALL, machine.cut),
    Rule("threads-over-quota", _BOTH, machine.threads),
    Rule("load-cold", _ALL, machine.load),
    Rule("stream-buffered", _DECODE, machine.buffered),
    # what stops the machine
    Rule("cpu-quota", _BOTH, machine.quota),
    Rule("swapping", _BOTH, machine.swap),
    Rule("weights-on-disk", _BOTH, machine.disk),
    Rule("gpu-idle", _BOTH, machine.gpu_idle),
    Rule("gpu-unseen", _BOTH, machine.gpu_unseen),
    Rule("partial-offload", _BOTH, machine.offload),
    Rule("gpu-throttled", _BOTH, machine.throttled),
    Rule("cpu-throttled", _BOTH, machine.heat),
    Rule("cache-cannot-rewind", _BOTH, phases.rewind),
    # decode
    Rule("sampler-bound", _DECODE, phases.sampler),
    Rule("cache-on-cpu", _DECODE, phases.kv_on_cpu),
    Rule("pcie-bound", _DECODE, phases.pcie),
    Rule("decode-over-ceiling", _DECODE, phases.over),
    Rule("context-near-full", _DECODE, phases.near_full),
    Rule(AT_BANDWIDTH, _DECODE, phases.near),
    Rule("cpu-bound-server", _DECODE, phases.cpu_bound),
    Rule("gpus-take-turns", _DECODE, phases.turns),
    Rule("cpu-contended", _DECODE, phases.contended),
    Rule("threads-too-few", _DECODE, phases.few_threads),
    Rule("first-run", _DECODE, phases.first),
    Rule("decode-under-bandwidth", _DECODE, phases.under),
    # prefill
    Rule("prefill-small-batch", _PREFILL, phases.small_batch),
    Rule("prefill-compute-bound", _PREFILL, phases.computing),
    Rule("prefill-under-compute", _PREFILL, phases.not_computing),
    # what is missing
    Rule("limit-unknown", _PREFILL, phases.unknown_prefill),
    Rule("limit-unknown", _DECODE, phases.unknown_decode),
    Rule("load-cold", ("load",), phases.unknown_load),
)
"""In this order: what is wrong beyond the model's own work first, then what bounds it, then what is not known."""
