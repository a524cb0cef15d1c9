"""The roofline of a request that ran: what its phases read and computed, against what its devices can do.

A pure function of (Session, request, cursor), like every figure; what cannot be known is None with its reason.
"""

from __future__ import annotations

from math import fsum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phasetop import events as ev
from phasetop.bandwidth_file import was_disturbed
from phasetop.counts import Reasons, Seen, TokenCounts
from phasetop.kv import Layout, attended_bytes
from phasetop.kv_figures import layout_of
from phasetop.phases import Phases
from phasetop.rates import Rates
from phasetop.roofline import (
    Attention,
    Machine,
    Offload,
    OneToken,
    Pass,
    Share,
    Weights,
    attention_of,
    one_token,
    prefill_flops,
    turns_bytes_per_s,
    weights_of,
)
from phasetop.run_devices import BANDWIDTH, FLOPS, Ceiling, Ran, bandwidth_of, flops_of, ran_on

NAMES: Final = (
    *("peak_bandwidth_bytes_per_s", "peak_flops", "decode_bytes_per_token", "weights_s_per_token", "cache_s_per_token"),
    *("rest_s_per_token", "mbu_percent", "mfu_percent", "predicted_decode_tok_per_s", "predicted_prefill_s"),
)
"""The keys of the group `roofline` in ``run --json``."""


class Roofline(Struct, frozen=True):
    """A request on its roofline. Shares are of 1; seconds are of one decode step, which makes one token.

    Attributes:
        device: what the peaks are of, for people.
        peak_bytes_per_s: of devices that take turns, as one.
        at_least: the bandwidth is a measured one: what can be reached at least; disturbed: measured while
            other programs were busy.
        weights_bytes, cache_bytes: what a step reads, the cache as deep as in the middle of the reply.
        read_bytes_per_s: what decode read.
        token: the time of a step against its floor.
        prefill_flops: of all its new tokens; prefill_flops_per_s: what prefill reached.
        decode_intensity, prefill_intensity: FLOPs a byte; decode_flops_per_s: what decode reached.
        ran: the devices.

    """

    ran: Ran
    device: str | None = None
    peak_bytes_per_s: float | None = None
    peak_flops: float | None = None
    at_least: bool = False
    disturbed: bool = False
    weights_bytes: float | None = None
    cache_bytes: float | None = None
    read_bytes_per_s: float | None = None
    token: OneToken | None = None
    mbu: float | None = None
    mfu: float | None = None
    prefill_flops: float | None = None
    prefill_flops_per_s: float | None = None
    decode_flops_per_s: float | None = None
    decode_intensity: float | None = None
    prefill_intensity: float | None = None
    predicted_decode_per_s: float | None = None
    predicted_prefill_s: float | None = None

    @property
    def decode_bytes_per_token(self) -> float | None:
        """Weights and cache."""
        return None if self.weights_bytes is None or self.cache_bytes is None else self.weights_bytes + self.cache_bytes

    @property
    def balance(self) -> float | None:
        """FLOPs a byte where the roof bends."""
        return Machine(self.peak_bytes_per_s, self.peak_flops).balance

    def group(self) -> dict[str, float | None]:
        """The group `roofline` of ``run --json``."""
        token = self.token
        values = (
            self.peak_bytes_per_s,
            self.peak_flops,
            None if self.decode_bytes_per_token is None else round(self.decode_bytes_per_token),
            None if token is None else round(token.weights_s, 9),
            None if token is None else round(token.cache_s, 9),
            None if token is None else round(token.rest_s, 9),
            None if self.mbu is None else round(100 * self.mbu, 2),
            None if self.mfu is None else round(100 * self.mfu, 2),
            None if self.predicted_decode_per_s is None else round(self.predicted_decode_per_s, 3),
            None if self.predicted_prefill_s is None else round(self.predicted_prefill_s, 6),
        )
        return dict(zip(NAMES, values, strict=True))


class _Model(Struct, frozen=True):
    """What is known of the model's work; None with its reason."""

    weights: Weights | None
    weights_why: str
    head_bytes: float
    active: float | None
    active_why: str
    layout: Layout | None
    attention: Attention | None


def run_roofline(
    seen: Seen, tokens: TokenCounts, phases: Phases, rates: Rates, unknown: Reasons, sources: Reasons
) -> Roofline:
    """The roofline of a request as of its cursor; reasons and sources are added by their paths."""
    ran = ran_on(seen, sources)
    model = _model_of(seen)
    decode = _decode(tokens, rates, model, unknown)
    split = _split(ran, model, decode, unknown, sources)
    peak = turns_bytes_per_s(split) if split else None
    flops = _flops(ran, unknown, sources)
    found = Roofline(ran=ran, device=ran.name, peak_bytes_per_s=peak, peak_flops=flops.value)
    found = _with_decode(found, split, model, decode, rates, unknown, sources)
    found = _with_prefill(found, tokens, phases, model, unknown)
    for name, value in found.group().items():
        if value is None:
            unknown.setdefault(f"roofline.{name}", "not known yet")
    return found


class _Decode(Struct, frozen=True):
    """Bytes that a step reads, and the context in the middle of the reply."""

    weights_bytes: float | None
    cache_bytes: float | None
    depth: int | None
    why: str | None


def _model_of(seen: Seen) -> _Model:
    model = seen.session.model_of(seen.run, seen.cursor)
    layout = layout_of(seen.session, seen.run, seen.cursor)
    if model is None:
        why = "no model is described"
        return _Model(None, why, 0.0, None, why, layout, None)
    attention = attention_of(layout, model.hparams or {}) if layout is not None else None
    weights = weights_of(model.weights, model.arch, model.hparams) if model.weights else None
    experts = (model.hparams or {}).get(f"{model.arch}.expert_count")
    active = model.active_params
    active_why = "how many parameters the model has is not told"
    if active is None and experts:
        active_why = "how many of its parameters a token uses is not told"
    elif active is None:
        active = model.params
    head = float((model.weights or {}).get("head", 0))
    why = "which weights a token reads is not known: neither the model's file nor its server tells it"
    return _Model(weights, why, head, active, active_why, layout, attention)


def _decode(tokens: TokenCounts, rates: Rates, model: _Model, unknown: Reasons) -> _Decode:
    """What a step reads; the cache as it is in the middle of what has been written so far."""
    weights = model.weights.read() if model.weights is not None else None
    why: str | None = None
    if tokens.prompt is None or tokens.output is None:
        depth = None
        why = unknown.get("tokens.prompt") or unknown.get("tokens.output") or "the tokens in the cache are not known"
    else:
        depth = tokens.prompt + tokens.output // 2
    cache: float | None = None
    if model.layout is None:
        why = "the model's cache cannot be computed: its architecture is not known"
    elif depth is not None:
        cache = float(attended_bytes(model.layout, depth))
    if weights is None:
        why = model.weights_why
    if tokens.drafted:
        why = "tokens were drafted: a step made several, and what the drafts read is not told"
        weights = cache = None
    if rates.tpot_ns is None and why is None:
        why = unknown.get("rates.decode_tok_per_s", "not begun")
    return _Decode(weights, cache, depth, why)


def _split(ran: Ran, model: _Model, decode: _Decode, unknown: Reasons, sources: Reasons) -> list[Share]:
    """The parts of a step by device; without a peak of one of them: none, and the reason."""
    weights, cache = decode.weights_bytes or 0.0, decode.cache_bytes or 0.0
    given = ran.host
    ceilings = [bandwidth_of(gpu, given) for gpu in ran.gpus]
    if ran.why is not None or not ran.gpus:
        ceiling = bandwidth_of(ran.host if ran.why is None else None, given)
        if ran.why is not None and ceiling.value is None:
            ceiling = Ceiling(None, f"{ran.why}: --peak-bandwidth sets the peak")
        return _one(ceiling, weights, cache, unknown, sources)
    missing = next((ceiling for ceiling in ceilings if ceiling.value is None), None)
    if missing is not None:
        unknown[BANDWIDTH] = missing.source
        return []
    on_gpu = _gpu_share(ran.offload, weights, cache, model)
    speeds = [ceiling.value or 0.0 for ceiling in ceilings]
    if ran.by_rows and len(speeds) > 1:
        shares = [Share(on_gpu[0], on_gpu[1], fsum(speeds))]
        sources[BANDWIDTH] = f"estimate: {len(speeds)} GPUs at once, each {ceilings[0].source}"
    else:
        n = len(speeds)
        shares = [Share(on_gpu[0] / n, on_gpu[1] / n, speed) for speed in speeds]
        sources[BANDWIDTH] = ceilings[0].source if n == 1 else f"{ceilings[0].source}; {n} GPUs take turns"
    left = weights - on_gpu[0], cache - on_gpu[1]
    if ran.offload is not None and ran.offload.is_partial and left[0] > 0:
        host = bandwidth_of(ran.host, given)
        if host.value is None:
            sources.pop(BANDWIDTH, None)
            unknown[BANDWIDTH] = f"{ran.offload.on_cpu} layers run on the CPU; {host.source}"
            return []
        shares.append(Share(left[0], left[1], host.value))
        sources[BANDWIDTH] = f"estimate: GPU ({ceilings[0].source}) and CPU ({host.source}) take turns"
    return shares


def _one(ceiling: Ceiling, weights: float, cache: float, unknown: Reasons, sources: Reasons) -> list[Share]:
    if ceiling.value is None:
        unknown[BANDWIDTH] = ceiling.source
        return []
    sources[BANDWIDTH] = ceiling.source
    return [Share(weights, cache, ceiling.value)]


def _gpu_share(offload: Offload | None, weights: float, cache: float, model: _Model) -> tuple[float, float]:
    """(weights, cache) on the GPUs: all where nobody tells otherwise."""
    if offload is None or not offload.is_partial:
        return weights, cache
    head = min(model.head_bytes, weights)
    return offload.bytes_on_gpu(weights - head, head), cache * offload.on_gpu / offload.layers


def _flops(ran: Ran, unknown: Reasons, sources: Reasons) -> Ceiling:
    """The peak FLOP/s of one device at a time; layers on two kinds of device have no single one."""
    device: ev.Device | None = ran.gpus[0] if ran.gpus else (ran.host if ran.why is None else None)
    found = flops_of(device, ran.host)
    if ran.gpus and ran.offload is not None and ran.offload.is_partial and not found.source.startswith("given"):
        found = Ceiling(None, f"{ran.offload.on_cpu} layers run on the CPU: --peak-flops sets what both reach")
    if found.value is not None and ran.by_rows and len(ran.gpus) > 1 and not found.source.startswith("given"):
        found = Ceiling(found.value * len(ran.gpus), f"{found.source}; {len(ran.gpus)} GPUs at once")
    if found.value is None:
        unknown[FLOPS] = f"{ran.why}: --peak-flops sets it" if ran.why is not None else found.source
    else:
        sources[FLOPS] = found.source
    return found


def _with_decode(
    found: Roofline, split: list[Share], model: _Model, decode: _Decode, rates: Rates, unknown: Reasons, sources: Reasons
) -> Roofline:
    """What decode read, against the floor."""
    known = decode.weights_bytes is not None and decode.cache_bytes is not None
    if not known:
        unknown["roofline.decode_bytes_per_token"] = decode.why or "the model is not known"
    no_peak = unknown.get(BANDWIDTH, "the peak bandwidth is not known")
    why = unknown["roofline.decode_bytes_per_token"] if not known else no_peak if not split else decode.why
    if why is not None:
        for name in ("weights_s_per_token", "cache_s_per_token", "rest_s_per_token", "mbu_percent"):
            unknown[f"roofline.{name}"] = why
        if not known or not split:
            unknown["roofline.predicted_decode_tok_per_s"] = why
    weights, cache = decode.weights_bytes, decode.cache_bytes
    if not known or weights is None or cache is None:
        return replace(found, weights_bytes=weights, cache_bytes=cache)
    step_s = None if rates.tpot_ns is None else rates.tpot_ns / 1e9
    read_per_s = (weights + cache) / step_s if step_s else None
    flops = None
    if model.active is not None:
        depth = decode.depth or 0
        flops = 2.0 * model.active + (model.attention.flops(depth - 1, 1) if model.attention is not None and depth else 0.0)
    token = one_token(split, step_s) if split and step_s else None
    floor = fsum(share.seconds for share in split)
    mbu = token.floor_s / step_s if token is not None and step_s else None
    source = sources.get(BANDWIDTH, "")
    at_least = bool(split) and "read test" in source
    if mbu is not None and mbu > 1:
        sources["roofline.mbu_percent"] = (
            "estimate: above the measured ceiling, which is therefore at least what decode read"
            if at_least
            else "estimate: above the peak, so the peak or the weights that are read are taken wrong"
        )
    changed = {
        "weights_bytes": weights,
        "cache_bytes": cache,
        "read_bytes_per_s": read_per_s,
        "token": token,
        "mbu": mbu,
        "at_least": at_least,
        "disturbed": bool(split) and was_disturbed(source),
        "predicted_decode_per_s": 1 / floor if floor > 0 else None,
        "decode_intensity": flops / (weights + cache) if flops and weights + cache else None,
        "decode_flops_per_s": flops / step_s if flops and step_s else None,
    }
    return replace(found, **changed)


def _with_prefill(found: Roofline, tokens: TokenCounts, phases: Phases, model: _Model, unknown: Reasons) -> Roofline:
    """What prefill computed, against the roof."""
    new, past, ns = tokens.prefilled, tokens.cached, phases.ns("prefill")
    why: str | None = None
    flops: float | None = None
    if new is None or past is None:
        why = unknown.get("tokens.prefilled", "the tokens that it read are not known")
    elif model.active is None:
        why = model.active_why
    elif new == 0:
        why = "nothing was computed: the whole prompt came from the cache"
    else:
        flops = prefill_flops(model.active, new, past, model.attention)
    if flops is None:
        unknown["roofline.mfu_percent"] = unknown["roofline.predicted_prefill_s"] = why or "not known"
        return found
    per_s = None if not ns or phases.running == "prefill" else flops / ns * 1e9
    if per_s is None:
        unknown["roofline.mfu_percent"] = unknown.get("phases.prefill_s", "the prefill is not over, or took no time")
    elif found.peak_flops is None:
        unknown["roofline.mfu_percent"] = unknown[FLOPS]
    cached = float(attended_bytes(model.layout, past or 0)) if model.layout is not None else 0.0
    read = model.weights.read(new or 1) + cached if model.weights is not None else None
    predicted = None
    if read is None:
        unknown["roofline.predicted_prefill_s"] = model.weights_why
    else:
        predicted = Pass(flops, read).seconds(Machine(found.peak_bytes_per_s, found.peak_flops))
        if predicted is None:
            unknown["roofline.predicted_prefill_s"] = unknown.get(FLOPS) or unknown.get(BANDWIDTH, "a peak is not known")
    changed = {
        "prefill_flops": flops,
        "prefill_flops_per_s": per_s,
        "mfu": per_s / found.peak_flops if per_s is not None and found.peak_flops else None,
        "prefill_intensity": flops / read if read else None,
        "predicted_prefill_s": predicted,
    }
    return replace(found, **changed)
