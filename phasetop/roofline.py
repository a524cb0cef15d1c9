"""The roofline of a language model: how long a pass through it takes at least, by what it reads and what it computes.

Prefill computes 2·N FLOPs a token (N: the parameters that a token uses; a multiply and an add each) and the attention's over
all tokens before it, and reads the weights once. A decode step reads every weight that it uses, and the cache as far as its
layers look back. A pass takes the longer of both: bytes ÷ bandwidth, FLOPs ÷ FLOP/s (Williams, Waterman, Patterson,
"Roofline", 2009). Real kernels reach η = 0.6 to 0.8 of the bandwidth. Everything here is pure; nothing knows a session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import fsum
from typing import Any, Final, Literal

from msgspec import Struct

from phasetop.faults import PhasetopError
from phasetop.kv.archs import rules_of
from phasetop.kv.hparams import read_hparams
from phasetop.kv.rules import Layout

ETA_LOW: Final = 0.6
ETA_HIGH: Final = 0.8
"""What real kernels reach of a memory's bandwidth (DESIGN: the physics)."""
LOWEST_BALANCE: Final = 4.0
"""Below so many FLOPs a byte it is the memory that bounds, on any machine: their balance is 10 and more."""
EXPERTS: Final = "experts"
"""The part of a model's weights of which a token reads only those experts that it uses."""

Bound = Literal["compute", "bandwidth"]


class Machine(Struct, frozen=True):
    """What a machine can do at most; None: not known."""

    bytes_per_s: float | None
    flops: float | None

    @property
    def balance(self) -> float | None:
        """FLOPs a byte above which it is the arithmetic that takes longer."""
        return self.flops / self.bytes_per_s if self.flops and self.bytes_per_s else None

    def at(self, bandwidth: float, flops: float) -> Machine:
        """The same machine as far as it is used, by shares of its peaks."""
        return Machine(
            None if self.bytes_per_s is None else self.bytes_per_s * bandwidth,
            None if self.flops is None else self.flops * flops,
        )


class Pass(Struct, frozen=True):
    """One pass through the network: what it computes, what it reads."""

    flops: float
    read_bytes: float

    @property
    def intensity(self) -> float | None:
        """FLOPs a byte."""
        return self.flops / self.read_bytes if self.read_bytes else None

    def seconds(self, machine: Machine) -> float | None:
        """The least that it takes; None without a peak, or where the one that is known might not be what bounds it."""
        limit = self.bound(machine)
        if limit is None:
            return None
        if limit == "compute":
            assert machine.flops is not None
            return self.flops / machine.flops
        assert machine.bytes_per_s is not None
        return self.read_bytes / machine.bytes_per_s

    def flops_per_s(self, machine: Machine) -> float | None:
        """What is computed a second where it takes no longer: on the roof. None as for `seconds`."""
        seconds = self.seconds(machine)
        return self.flops / seconds if seconds else None

    def bound(self, machine: Machine) -> Bound | None:
        """What takes longer; None where a peak is missing that could be it."""
        if not machine.bytes_per_s:
            return None
        if not machine.flops:
            return "bandwidth" if self.flops <= LOWEST_BALANCE * self.read_bytes else None
        return "compute" if self.flops / machine.flops >= self.read_bytes / machine.bytes_per_s else "bandwidth"


class Weights(Struct, frozen=True):
    """Bytes of weights that a decode step reads for one token.

    Attributes:
        dense: what each step reads, whoever is in it: layers, head.
        experts: of the experts that one token uses.
        used, count: how many experts of each layer a token uses, and how many there are; (1, 1): not told.

    """

    dense: float
    experts: float = 0.0
    used: int = 1
    count: int = 1

    def read(self, tokens: int = 1) -> float:
        """Bytes that a step of so many tokens reads: experts that several of them use are read once.

        Each token is taken to choose ``used`` of ``count`` experts, all equally likely: of a layer's experts a share of
        1 − (1 − used/count)^tokens is expected to be read.
        """
        if not self.experts or self.count <= self.used:
            return self.dense + self.experts
        share = self.used / self.count
        return self.dense + self.experts * (1 - (1 - share) ** tokens) / share


def weights_of(parts: Mapping[str, int], arch: str | None, hparams: Mapping[str, Any] | None) -> Weights:
    """Weights by the parts of a `model` event (bytes that one token reads) and the model's metadata."""
    experts = parts.get(EXPERTS, 0)
    values = hparams or {}
    used, count = (values.get(f"{arch}.{name}") for name in ("expert_used_count", "expert_count"))
    dense = float(sum(parts.values()) - experts)
    if isinstance(used, int) and isinstance(count, int) and 0 < used <= count:
        return Weights(dense, float(experts), used, count)
    return Weights(dense, float(experts))


class Attention(Struct, frozen=True):
    """The layers that look back: (numbers in Q·K and in the sum over V, of all heads; the window, None: all) each.

    A query against t keys takes 2·t FLOPs a number: 2·t·H·d_k for the products, 2·t·H·d_v for the sum.
    """

    layers: tuple[tuple[int, int | None], ...]

    def flops(self, past: int, new: int) -> float:
        """Of ``new`` tokens after ``past``: each looks at itself and at those before it, as far as its window reaches."""
        total = 0.0
        for width, window in self.layers:
            total += 2.0 * width * _looked_at(past, new, window)
        return total


def _looked_at(past: int, new: int, window: int | None) -> float:
    """The sum over tokens past … past+new−1 of how many each looks at."""

    def upto(n: int) -> float:
        if window is None or n <= window:
            return n * (n + 1) / 2
        return window * (window + 1) / 2 + (n - window) * window

    return upto(past + new) - upto(past)


def attention_of(found: Layout, hparams: Mapping[str, Any]) -> Attention | None:
    """The attention of a model by its caches; None where its heads are not told."""
    try:
        h = read_hparams(found.arch, hparams, rules_of(found.arch)[0])
    except PhasetopError:
        return None
    layers: list[tuple[int, int | None]] = []
    for cache in found.caches:
        if cache.name in ("lid", "msa"):  # an indexer: small, and not of this form
            continue
        windowed = cache.window is not None
        width = (h.key_window + h.value_window) if windowed else (h.key + h.value)
        layers += [(h.heads[il] * width, cache.window) for il, _, _ in cache.layers if il < len(h.heads)]
    return Attention(tuple(layers)) if any(width for width, _ in layers) else None


def prefill_flops(active_params: float, new: int, past: int = 0, attention: Attention | None = None) -> float:
    """FLOPs of reading ``new`` tokens after ``past``: 2·N a token, and the attention's where it is known."""
    return 2.0 * active_params * new + (attention.flops(past, new) if attention is not None else 0.0)


class Share(Struct, frozen=True):
    """The part of a decode step on one device: bytes of weights and of cache that it reads, its bandwidth."""

    weights_bytes: float
    cache_bytes: float
    bytes_per_s: float

    @property
    def seconds(self) -> float:
        """The least that it takes."""
        return (self.weights_bytes + self.cache_bytes) / self.bytes_per_s


class OneToken(Struct, frozen=True):
    """The time of a decode step against its floor, seconds; ``rest`` is what no floor explains (below 0: faster)."""

    weights_s: float
    cache_s: float
    rest_s: float

    @property
    def floor_s(self) -> float:
        """What it takes at least."""
        return self.weights_s + self.cache_s

    @property
    def step_s(self) -> float:
        """What it took."""
        return self.floor_s + self.rest_s


def one_token(shares: Iterable[Share], step_s: float) -> OneToken:
    """A step that took ``step_s`` against the floor of devices that take turns."""
    shares = list(shares)
    weights = fsum(share.weights_bytes / share.bytes_per_s for share in shares)
    cache = fsum(share.cache_bytes / share.bytes_per_s for share in shares)
    return OneToken(weights, cache, step_s - weights - cache)


def turns_bytes_per_s(shares: Iterable[Share]) -> float | None:
    """The bandwidth of devices that take turns, as one: all bytes ÷ the sum of their times (of equal cards: one card's)."""
    shares = list(shares)
    if shares and len({share.bytes_per_s for share in shares}) == 1:
        return shares[0].bytes_per_s
    seconds = fsum(share.seconds for share in shares)
    read = fsum(share.weights_bytes + share.cache_bytes for share in shares)
    return read / seconds if seconds > 0 else None


class Offload(Struct, frozen=True):
    """How much of a model lies on GPUs: ``gpu_layers`` of ``layers``; llama.cpp counts the head as one more, the last."""

    gpu_layers: int
    layers: int

    @property
    def on_gpu(self) -> int:
        """Layers on GPUs, without the head."""
        return min(max(self.gpu_layers, 0), self.layers)

    @property
    def head_on_gpu(self) -> bool:
        """The head goes last."""
        return self.gpu_layers > self.layers

    @property
    def on_cpu(self) -> int:
        """Layers, the head as one, on the CPU."""
        return self.layers + 1 - self.on_gpu - int(self.head_on_gpu)

    @property
    def is_partial(self) -> bool:
        """Some here, some there."""
        return self.on_gpu > 0 and self.on_cpu > 0

    def bytes_on_gpu(self, layer_bytes: float, head_bytes: float) -> float:
        """Of all layers' bytes (equal parts) and the head's."""
        return layer_bytes * self.on_gpu / self.layers + (head_bytes if self.head_on_gpu else 0.0)


class Subject(Struct, frozen=True):
    """A model, as far as its speed depends on it.

    Attributes:
        active_params: that a token uses.
        weights: what a step reads of them.
        cache_bytes: tokens in the cache → bytes that one step reads of it for one sequence; None: not known.

    """

    active_params: float
    weights: Weights
    cache_bytes: Callable[[int], float] | None = None
    attention: Attention | None = None

    def prefill(self, new: int, past: int = 0, batch: int = 1) -> Pass:
        """Reading ``new`` tokens of ``batch`` prompts after ``past`` cached ones: one read of the weights."""
        flops = batch * prefill_flops(self.active_params, new, past, self.attention)
        cached = batch * self.cache_bytes(past) if self.cache_bytes is not None and past else 0.0
        return Pass(flops, self.weights.read(new * batch) + cached)

    def step(self, depth: int, batch: int = 1) -> Pass:
        """One decode step of ``batch`` sequences of ``depth`` tokens each."""
        flops = 2.0 * self.active_params
        if self.attention is not None and depth:
            flops += self.attention.flops(depth - 1, 1)
        cached = batch * self.cache_bytes(depth) if self.cache_bytes is not None else 0.0
        return Pass(batch * flops, self.weights.read(batch) + cached)


class Prediction(Struct, frozen=True):
    """What a machine should take for a prompt and a reply; seconds are None where a peak is missing.

    Attributes:
        prefill: all of it; prefill_s: its time.
        step: of decode, at the depth where it begins; step_s: the mean over the output.
        tok_per_s: of all sequences of the batch together.
        ttft_s: prefill and the first step.

    """

    prefill: Pass
    prefill_s: float | None
    prefill_bound: Bound | None
    step: Pass
    step_s: float | None
    step_bound: Bound | None
    decode_s: float | None
    tok_per_s: float | None
    ttft_s: float | None

    @property
    def total_s(self) -> float | None:
        """Prefill and decode."""
        return None if self.prefill_s is None or self.decode_s is None else self.prefill_s + self.decode_s


def predict(
    subject: Subject, machine: Machine, *, prompt: int, output: int, batch: int = 1, context: int | None = None
) -> Prediction:
    """What a prompt of ``prompt`` new tokens and ``output`` generated ones should take.

    Args:
        subject: the model.
        machine: what it runs on, already reduced to what real kernels reach, if so wished.
        prompt: tokens of each sequence that are read.
        output: tokens of each sequence that are generated.
        batch: sequences at once.
        context: tokens of each sequence in the cache when decode begins; None, or fewer than the prompt: the prompt's.
    """
    depth = max(prompt, context or 0)
    whole = subject.prefill(prompt, depth - prompt, batch)
    prefill_s = whole.seconds(machine) if prompt else 0.0
    first = subject.step(depth, batch)
    first_s, step_s = first.seconds(machine), mean_step_s(subject, machine, depth, output, batch)
    return Prediction(
        prefill=whole,
        prefill_s=prefill_s,
        prefill_bound=whole.bound(machine),
        step=first,
        step_s=step_s,
        step_bound=first.bound(machine),
        decode_s=None if step_s is None else step_s * output,
        tok_per_s=None if not step_s else batch / step_s,
        ttft_s=None if prefill_s is None or first_s is None else prefill_s + first_s,
    )


def mean_step_s(subject: Subject, machine: Machine, depth: int, output: int, batch: int = 1) -> float | None:
    """The mean time of ``output`` steps that begin ``depth`` tokens deep, by Simpson's rule over the growing cache."""
    if subject.cache_bytes is None or output <= 1:
        return subject.step(depth, batch).seconds(machine)
    middle = (output - 1) // 2, output // 2
    points = [subject.step(depth + shift, batch).seconds(machine) for shift in (0, *middle, output - 1)]
    known = [point for point in points if point is not None]
    if len(known) < len(points):
        return None
    return (known[0] + 2 * (known[1] + known[2]) + known[3]) / 6
