"""What `phasetop predict` works out: a `Scenario` (a model, a machine, a work), its prediction, the object of ``--json``.

The keys of the object are OUTPUTS.md's, a contract. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from phasetop.faults import PhasetopError
from phasetop.kv import Layout, Options, attended_bytes, bytes_per_token, layout
from phasetop.model_metadata import Metadata
from phasetop.roofline import (
    ETA_HIGH,
    ETA_LOW,
    Attention,
    Machine,
    Prediction,
    Subject,
    Weights,
    attention_of,
    predict,
    weights_of,
)
from phasetop.weight_types import bits_per_weight, is_mix

_DIGITS: Final = 15


@dataclass(frozen=True, slots=True)
class Scenario:
    """A model on a machine at a work.

    Attributes:
        metadata: of the model, where there is one.
        params, active_params: of all, and of one token's way through it; None: taken from the metadata.
        dtype: of the weights; None: as the model's file has them.
        machine: peaks; gpu: its name in the table.
        bandwidth_share, flops_share: how much of the peaks is reached; None: not given, so all, and a range is told.
        kv_bytes_per_token: of the cache, where no model tells it.
        cache_types: of K and of V.
        sources: where a figure is from, by its path in ``--json``.

    """

    machine: Machine
    metadata: Metadata | None = None
    params: int | None = None
    active_params: int | None = None
    dtype: str | None = None
    gpu: str | None = None
    prompt: int = 512
    output: int = 512
    batch: int = 1
    context: int | None = None
    kv_bytes_per_token: int | None = None
    cache_types: tuple[str | None, str | None] = (None, None)
    bandwidth_share: float | None = None
    flops_share: float | None = None
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """Tokens in the cache when decode begins."""
        return max(self.prompt, self.context or 0)

    @property
    def named(self) -> str:
        """The type of the weights, for people."""
        if self.dtype is not None:
            return self.dtype
        return (self.metadata.quant if self.metadata is not None else None) or "as in the file"


@dataclass(frozen=True, slots=True)
class Study:
    """A scenario worked out.

    Attributes:
        weight_bytes: of the whole model; bits: a weight.
        subject: the model as the roofline sees it.
        at_peak: with the efficiency that was given, else with all of the peaks.
        low, high: tokens a second of real kernels, where none was given.

    """

    scenario: Scenario
    params: int
    active_params: int
    bits: float
    weight_bytes: int
    subject: Subject
    machine: Machine
    at_peak: Prediction
    layout: Layout | None
    low: float | None
    high: float | None

    @property
    def prompt_tokens(self) -> int:
        """Of all sequences of the batch."""
        return self.scenario.prompt * self.scenario.batch

    @property
    def prefill_token_s(self) -> float | None:
        """Prefill's time a token; None without a prompt or a peak."""
        total_s = self.at_peak.prefill_s
        return total_s / self.prompt_tokens if self.prompt_tokens and total_s is not None else None

    @property
    def ratio(self) -> float | None:
        """How many tokens of the prompt are read in the time of one decoded token."""
        step_s, each_s = self.at_peak.step_s, self.prefill_token_s
        return None if not each_s or step_s is None else step_s / each_s

    @property
    def cache_bytes_per_token(self) -> int | None:
        """What a token takes in the cache; None where nothing tells it."""
        return self.scenario.kv_bytes_per_token if self.layout is None else bytes_per_token(self.layout)


def study(scenario: Scenario) -> Study:
    """Work a scenario out.

    Raises:
        PhasetopError: the model does not tell how many parameters it has.
        UsageError: its cache cannot be of that type.
    """
    metadata = scenario.metadata
    params = scenario.params or (metadata.params if metadata is not None else None)
    if params is None:
        raise PhasetopError("how many parameters the model has is not known: --params N (and --active-params N) say it")
    active = scenario.active_params or (metadata.active_params if metadata is not None else None)
    if active is None or (scenario.params is not None and scenario.active_params is None):
        active = params
    bits, weight_bytes, weights = _weights(scenario, params, active)
    found = _layout(scenario)
    attention = attention_of(found, metadata.hparams) if found is not None and metadata is not None else None
    subject = _subject(scenario, active, weights, found, attention)
    machine = scenario.machine.at(scenario.bandwidth_share or 1.0, scenario.flops_share or 1.0)
    done = _predict(scenario, subject, machine)
    low = high = None
    if scenario.bandwidth_share is None:
        flops = scenario.flops_share or 1.0
        low, high = (_predict(scenario, subject, scenario.machine.at(eta, flops)).tok_per_s for eta in (ETA_LOW, ETA_HIGH))
    return Study(scenario, params, active, bits, weight_bytes, subject, machine, done, found, low, high)


def _predict(scenario: Scenario, subject: Subject, machine: Machine) -> Prediction:
    return predict(
        subject,
        machine,
        prompt=scenario.prompt,
        output=scenario.output,
        batch=scenario.batch,
        context=scenario.context,
    )


def _weights(scenario: Scenario, params: int, active: int) -> tuple[float, int, Weights]:
    """(bits a weight, bytes of the whole model, bytes that a step reads)."""
    metadata = scenario.metadata
    parts = metadata.weights if metadata is not None and scenario.params is None else None
    if scenario.dtype is None and parts is not None and metadata is not None:
        own_bits = metadata.bits or 0.0
        whole = metadata.tensor_bytes if metadata.tensor_bytes is not None else round(params * own_bits / 8)
        return own_bits, whole, weights_of(parts, metadata.arch, metadata.hparams)
    bits = bits_per_weight(scenario.dtype or "fp16")
    read = active * bits / 8
    if parts is not None and metadata is not None:
        scale = read / sum(parts.values())
        own = weights_of(parts, metadata.arch, metadata.hparams)
        scaled = Weights(own.dense * scale, own.experts * scale, own.used, own.count)
        return bits, round(params * bits / 8), scaled
    used, count, expert_params = _experts(metadata)
    experts = min(expert_params, active) * bits / 8
    return bits, round(params * bits / 8), Weights(read - experts, experts, used, count)


def _experts(metadata: Metadata | None) -> tuple[int, int, int]:
    """(used, all, numbers of those that a token uses) by the model's metadata; (1, 1, 0) where it has none."""
    if metadata is None:
        return 1, 1, 0
    names = ("expert_used_count", "expert_count", "expert_feed_forward_length", "embedding_length", "block_count")
    values = [metadata.hparams.get(f"{metadata.arch}.{name}") for name in names]
    if not all(isinstance(value, int) and value > 0 for value in values):
        return 1, 1, 0
    used, count, width, embedding, layers = (int(value or 0) for value in values)
    return used, count, layers * used * 3 * width * embedding


def _layout(scenario: Scenario) -> Layout | None:
    """The model's cache for all that the scenario puts into it; None where its metadata do not tell it."""
    metadata = scenario.metadata
    if metadata is None or not metadata.hparams:
        return None
    kind_k, kind_v = scenario.cache_types
    options = Options(context=scenario.depth + scenario.output, slots=1, type_k=kind_k, type_v=kind_v)
    return layout(metadata.arch, metadata.hparams, options)


def _subject(
    scenario: Scenario, active: int, weights: Weights, found: Layout | None, attention: Attention | None
) -> Subject:
    if found is not None:
        return Subject(active, weights, lambda depth: float(attended_bytes(found, depth)), attention)
    per_token = scenario.kv_bytes_per_token
    if per_token is not None:
        return Subject(active, weights, lambda depth: float(depth * per_token))
    return Subject(active, weights)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: what was varied, and what came of it."""

    scenario: Scenario
    study: Study


def table(scenarios: list[Scenario]) -> list[Row]:
    """Several scenarios, each worked out; one whose cache cannot be is left out."""
    rows = []
    for scenario in scenarios:
        try:
            rows.append(Row(scenario, study(scenario)))
        except PhasetopError:
            continue
    return rows


def predict_object(done: Study, rows: list[Row]) -> dict[str, Any]:
    """What `predict --json` prints."""
    scenario, found = done.scenario, done.at_peak
    unknown: dict[str, str] = {}
    _explain(done, unknown)
    if done.ratio is None:
        unknown["ratio"] = unknown.get("prefill.per_token_s") or unknown.get("decode.per_token_s") or "there is no prompt"
    if scenario.bandwidth_share is not None:
        unknown["range"] = "an efficiency was given"
    elif done.low is None:
        unknown["range"] = unknown["decode.tok_per_s"]
    tokens = done.prompt_tokens
    if any(value is None for row in rows for value in _row(row).values()):
        unknown["table"] = unknown.get("prefill.total_s") or unknown.get("decode.per_token_s") or "a peak is not known"
    return {
        "inputs": _inputs(done),
        "prefill": {
            "flops_per_token": _round(found.prefill.flops / tokens) if tokens else 2.0 * done.active_params,
            "per_token_s": _round(done.prefill_token_s),
            "total_s": _round(found.prefill_s),
            "bound": found.prefill_bound if tokens else None,
        },
        "decode": {
            "bytes_per_token": _round(found.step.read_bytes),
            "per_token_s": _round(found.step_s),
            "total_s": _round(found.decode_s),
            "tok_per_s": _round(found.tok_per_s),
            "bound": found.step_bound,
        },
        "ratio": _round(done.ratio),
        "ttft_s": _round(found.ttft_s),
        "machine_balance_flops_per_byte": _round(done.machine.balance),
        "decode_intensity_flops_per_byte": _round(found.step.intensity),
        "prefill_intensity_flops_per_byte": _round(found.prefill.intensity) if tokens else None,
        "range": {
            "decode_tok_per_s": None if done.low is None or done.high is None else [_round(done.low), _round(done.high)]
        },
        "table": [_row(row) for row in rows],
        "sources": _sources(done),
        "unknown": unknown,
    }


def _inputs(done: Study) -> dict[str, Any]:
    scenario = done.scenario
    return {
        "parameters": done.params,
        "active_parameters": done.active_params,
        "bits_per_weight": _round(done.bits),
        "weight_bytes": done.weight_bytes,
        "kv_bytes_per_token": done.cache_bytes_per_token,
        "prompt_tokens": scenario.prompt,
        "output_tokens": scenario.output,
        "batch": scenario.batch,
        "context": scenario.depth,
        "bandwidth_bytes_per_s": scenario.machine.bytes_per_s,
        "flops": scenario.machine.flops,
        "gpu": scenario.gpu,
        "efficiency_bandwidth": scenario.bandwidth_share or 1.0,
        "efficiency_flops": scenario.flops_share or 1.0,
    }


def _explain(done: Study, unknown: dict[str, str]) -> None:
    """Why a figure is null, by its path."""
    machine, found = done.scenario.machine, done.at_peak
    no_bandwidth = "the bandwidth is not known: --bandwidth says it"
    no_flops = "the FLOP/s are not published: --flops says them"
    why = no_bandwidth if machine.bytes_per_s is None else no_flops
    if machine.bytes_per_s is None:
        unknown["inputs.bandwidth_bytes_per_s"] = no_bandwidth
    if machine.flops is None:
        unknown["inputs.flops"] = no_flops
    if done.machine.balance is None:
        unknown["machine_balance_flops_per_byte"] = why
    if not done.scenario.prompt:
        paths = ("prefill.per_token_s", "prefill.bound", "prefill_intensity_flops_per_byte")
        unknown.update(dict.fromkeys(paths, "there is no prompt"))
    elif found.prefill_s is None:
        unknown.update(dict.fromkeys(("prefill.per_token_s", "prefill.total_s", "prefill.bound"), why))
    if found.step_s is None:
        unknown.update({f"decode.{name}": why for name in ("per_token_s", "total_s", "tok_per_s", "bound")})
    if found.ttft_s is None:
        unknown["ttft_s"] = why


def _sources(done: Study) -> dict[str, str]:
    scenario = done.scenario
    found = dict(scenario.sources)
    if scenario.dtype is not None and is_mix(scenario.dtype):
        found["inputs.bits_per_weight"] = f"estimate: what {scenario.dtype} takes of Llama 3.1 8B"
    if scenario.dtype is None and (scenario.metadata is None or scenario.metadata.weights is None):
        found["inputs.bits_per_weight"] = "default: fp16"
    if scenario.metadata is not None and scenario.params is None:
        for name, key in {"parameters": "params", "active_parameters": "active_params", "weight_bytes": "weights"}.items():
            found.setdefault(f"inputs.{name}", scenario.metadata.origin.get(key, "file"))
        if scenario.dtype is not None:
            found.pop("inputs.weight_bytes", None)
    if scenario.bandwidth_share is None:
        found["inputs.efficiency_bandwidth"] = "default: all of the peak; range holds what real kernels reach"
    return found


def _row(row: Row) -> dict[str, Any]:
    scenario, found = row.scenario, row.study.at_peak
    return {
        "dtype": scenario.named,
        "prompt_tokens": scenario.prompt,
        "output_tokens": scenario.output,
        "context": scenario.depth,
        "batch": scenario.batch,
        "prefill_s": _round(found.prefill_s),
        "ttft_s": _round(found.ttft_s),
        "per_token_s": _round(found.step_s),
        "decode_s": _round(found.decode_s),
        "tok_per_s": _round(found.tok_per_s),
        "bound": found.step_bound,
    }


def _round(value: float | None) -> float | None:
    """Fifteen significant digits: nothing that is computed is lost, and no noise of binary fractions is printed."""
    return None if value is None else float(f"{value:.{_DIGITS}g}")
