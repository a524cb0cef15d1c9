"""What a request would have taken, had something been different: its own model and machine with a few values changed.

Every figure is `predict_report.study`'s; here a `Scenario` is made of a request, and its values are moved. Pure.
"""

from __future__ import annotations

from math import log10

from msgspec import Struct
from msgspec.structs import replace

from phasetop.columns import LIVE
from phasetop.faults import PhasetopError
from phasetop.knobs import BEGIN, DTYPES, NAMES, PEAKS, RANGES, Name, Values, nearest, stepped
from phasetop.kv_figures import layout_of
from phasetop.metrics import Measures
from phasetop.model_metadata import Metadata, from_event
from phasetop.predict_report import Scenario, Study, study
from phasetop.roofline import Machine
from phasetop.run_devices import BANDWIDTH, FLOPS
from phasetop.session import Run, Session
from phasetop.weight_types import bits_per_weight


class Own(Struct, frozen=True):
    """A request as it was.

    Attributes:
        metadata: of its model, as far as its server told; None: nothing.
        values: its own; None where they are not known.
        cached: tokens of its prompt that were in the cache.
        cache_types: of K and of V.
        bits: a weight as the model's file has them.
        at_least: the bandwidth was measured here.
        unknown: why a value is not known, by its name.

    """

    metadata: Metadata | None
    values: Values
    cached: int
    cache_types: tuple[str | None, str | None]
    bits: float | None
    at_least: bool
    unknown: dict[Name, str]


class Answer(Struct, frozen=True):
    """A scenario worked out; without a study ``why`` says what is missing. ``values`` has no None but what is not known."""

    values: Values
    study: Study | None
    why: str = ""


def own_of(session: Session, run: Run, measures: Measures, cursor: int = LIVE) -> Own:
    """What a request was as of a cursor."""
    model, tokens, roofline = session.model_of(run, cursor), measures.tokens, measures.roofline
    unknown: dict[Name, str] = {}
    metadata = from_event(model) if model is not None else None
    dtype = _known_type(metadata.quant) if metadata is not None and metadata.weights is None else None
    bits = metadata.bits if metadata is not None else None
    if dtype is None and bits is None:
        unknown["dtype"] = "the server does not tell how its weights are stored"
    cached = tokens.cached if tokens.cached is not None else measures.prefill.cached
    prompt = tokens.prompt if tokens.prompt is not None else measures.prefill.total
    if prompt is None:
        unknown["prompt"] = measures.unknown.get("tokens.prompt", "not told yet")
    elif cached is None:
        unknown["prompt"] = "how much of it was cached is not told: set what is read with ← →"
    if not tokens.output:
        unknown["output"] = "no reply yet"
    if roofline.peak_bytes_per_s is None:
        unknown["bandwidth"] = measures.unknown.get(BANDWIDTH, "not known")
    if roofline.peak_flops is None:
        unknown["flops"] = measures.unknown.get(FLOPS, "not known")
    found = layout_of(session, run, cursor)
    kinds = (found.options.type_k, found.options.type_v) if found is not None else (None, None)
    values = Values(
        prompt=None if prompt is None or cached is None else max(0, prompt - cached),
        output=tokens.output or None,
        dtype=dtype,
        context=prompt,
        batch=1,
        bandwidth=roofline.peak_bytes_per_s,
        flops=roofline.peak_flops,
    )
    return Own(metadata, values, cached or 0, kinds, bits, roofline.at_least, unknown)


def _known_type(quant: str | None) -> str | None:
    """A quantisation's name as `weight_types` has it; None where it has not."""
    try:
        return quant if quant is not None and bits_per_weight(quant) else None
    except PhasetopError:
        return None


def in_force(own: Own, changed: Values) -> Values:
    """The values that stand: those that were changed, else the request's own."""
    kept = {name: getattr(changed, name) for name in NAMES if getattr(changed, name) is not None}
    found = replace(own.values, **kept)
    prompt = found.prompt
    if prompt is not None:
        depth = prompt + own.cached if changed.context is None else max(prompt, changed.context)
        found = replace(found, context=depth)
    return found


def answer(own: Own, changed: Values) -> Answer:
    """Work it out."""
    now = in_force(own, changed)
    metadata = own.metadata
    if metadata is None or not metadata.params:
        return Answer(now, None, "how many parameters the model has is not told")
    if metadata.active_params is None and metadata.hparams.get(f"{metadata.arch}.expert_count"):
        return Answer(now, None, "how many of its parameters a token uses is not told")
    if now.dtype is None and own.bits is None:
        return Answer(now, None, own.unknown.get("dtype", "how its weights are stored is not known"))
    if now.prompt is None or now.output is None:
        return Answer(now, None, own.unknown.get("prompt") or own.unknown.get("output") or "not begun")
    scenario = Scenario(
        machine=Machine(now.bandwidth, now.flops),
        metadata=metadata,
        dtype=now.dtype,
        prompt=now.prompt,
        output=now.output,
        batch=now.batch or 1,
        context=now.context,
        cache_types=own.cache_types,
    )
    try:
        return Answer(now, study(scenario))
    except PhasetopError as error:
        return Answer(now, None, str(error))


def moved(own: Own, changed: Values, name: Name, steps: int) -> Values:
    """One value moved by ``steps`` of its grid, up or down."""
    now = getattr(in_force(own, changed), name)
    if name == "dtype":
        return replace(changed, dtype=_next_type(own, changed.dtype or own.values.dtype, steps))
    value = float(BEGIN[name]) if now is None else stepped(name, float(now), steps)
    if name in PEAKS:
        return replace(changed, **{name: value})
    least = (in_force(own, changed).prompt or 0) if name == "context" else 0
    return replace(changed, **{name: max(least, round(value))})


def place(name: Name, value: float | str | None, own: Own) -> float | None:
    """Where a value lies in its range, 0 to 1, on a logarithmic scale; None where it is not known."""
    if name == "dtype":
        kinds = [bits_of(own, each) or 1.0 for each in DTYPES]
        low, high, at = kinds[0], kinds[-1], bits_of(own, value if isinstance(value, str) else None)
    else:
        low, high = RANGES[name]
        at = value if isinstance(value, int | float) else None
    if at is None:
        return None
    return min(1.0, max(0.0, log10(max(at, low) / low) / log10(high / low)))


def placed(own: Own, changed: Values, name: Name, column: int, columns: int) -> Values:
    """One value put at a column of its track, on its grid; where the request's own lies there, that one."""
    if columns < 2:
        return changed
    home = place(name, getattr(own.values, name), own)
    if home is not None and round(home * (columns - 1)) == column:
        return replace(changed, **{name: None})
    if name == "dtype":
        at = column / (columns - 1)
        return replace(changed, dtype=min(DTYPES, key=lambda each: abs((place(name, each, own) or 0.0) - at)))
    low, high = RANGES[name]
    value = nearest(name, low * (high / low) ** (column / (columns - 1)))
    if name in PEAKS:
        return replace(changed, **{name: value})
    least = (in_force(own, changed).prompt or 0) if name == "context" else 0
    return replace(changed, **{name: max(least, round(value))})


def bits_of(own: Own, dtype: str | None) -> float | None:
    """Bits a weight of a type; None: as the file has them."""
    return own.bits if dtype is None else bits_per_weight(dtype)


def _next_type(own: Own, dtype: str | None, steps: int) -> str:
    """The type so many steps further, from what the file has where nothing was chosen."""
    order = list(DTYPES)
    if dtype in order:
        at = order.index(dtype) + steps
    else:
        bits = bits_of(own, dtype)
        if bits is None:
            return "fp16"
        above = [i for i, each in enumerate(order) if bits_per_weight(each) > bits + 0.01]
        first = above[0] if above else len(order)
        at = first + steps - 1 if steps > 0 else first + steps
    return order[min(len(order) - 1, max(0, at))]
