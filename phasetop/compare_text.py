"""`phasetop compare` for people and for scripts: the sentence, what differs, a table with its intervals; or one object."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, log
from typing import Any, Final

from phasetop import figures as fig
from phasetop.compare import CERTAIN, TOKENS, Compared, Comparison, Side

PLOT: Final = 33
"""Columns of the intervals' axis."""
EQUAL: Final = 0.03
"""An interval that lies within so much of 1 says equal; a wider one over 1 is noise."""
_LABELS: Final = {
    "ttft_s": "first token",
    "prefill_tok_per_s": "prefill",
    "decode_tok_per_s": "decode",
    "gap_p50_ms": "gap p50",
    "gap_p99_ms": "gap p99",
    "mbu_percent": "MBU",
    "mfu_percent": "MFU",
    "j_per_output_token": "energy",
    "kv_allocated_bytes": "KV cache",
    "kv_bytes_per_token": "KV a token",
}
_WORDS: Final = {
    "ttft_s": ("sooner", "later"),
    "prefill_tok_per_s": ("faster", "slower"),
    "decode_tok_per_s": ("faster", "slower"),
    "gap_p50_ms": ("shorter", "longer"),
    "gap_p99_ms": ("shorter", "longer"),
    "mbu_percent": ("higher", "lower"),
    "mfu_percent": ("higher", "lower"),
    "j_per_output_token": ("less", "more"),
    "kv_allocated_bytes": ("less", "more"),
    "kv_bytes_per_token": ("less", "more"),
}
"""What B is where it is better, and where it is worse."""


def comparison_object(found: Comparison) -> dict[str, Any]:
    """What `compare --json` prints (OUTPUTS.md)."""
    return {
        "a": {"files": list(found.a.names), "label": found.a.label},
        "b": {"files": list(found.b.names), "label": found.b.label},
        "like_by": list(found.like_by),
        "differences": [{"what": each.what, "a": each.a, "b": each.b} for each in found.differences],
        "metrics": [
            {
                "name": each.metric.name,
                "unit": each.metric.unit,
                "a": _six(each.a),
                "b": _six(each.b),
                "ratio": _six(each.ratio),
                "ci95": [_six(end) for end in each.interval] if each.interval is not None else None,
                "verdict": each.verdict,
                "like": each.like,
                "runs": {"a": each.runs[0], "b": each.runs[1]},
                **({"why": each.why} if each.why is not None else {}),
            }
            for each in found.metrics
        ],
    }


def _six(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def lines(found: Comparison) -> Iterator[str]:
    """The text, a line each; names in it are not made harmless yet."""
    yield from _sentences(found)
    yield ""
    for i, (name, side) in enumerate((("A", found.a), ("B", found.b))):
        yield _side(name, side, max((each.runs[i] for each in found.metrics), default=0))
    if found.differences:
        parts = [f"{_short(each.what)} {_value(each.a)} → {_value(each.b)}" for each in found.differences]
        yield f"differs  {' · '.join(parts)}"
    else:
        yield "differs  nothing that is known"
    yield ""
    yield from _table(found)


def _side(name: str, side: Side, averaged: int) -> str:
    """A side in a line; ``averaged``: so many of its requests are in a figure, which is then their geometric mean."""
    files = ", ".join(side.names[:3]) + (f" and {len(side.names) - 3} more" if len(side.names) > 3 else "")
    many = f"{len(side.samples)} request{'' if len(side.samples) == 1 else 's'}"
    many += f" (mean of {averaged})" if averaged > 1 else ""
    return f"{name}        {side.label or fig.UNKNOWN}  {many}  {files}"


def _short(what: str) -> str:
    return what.removeprefix("settings.").replace("_", " ")


def _value(value: Any) -> str:
    if value is None:
        return fig.UNKNOWN
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _sentences(found: Comparison) -> Iterator[str]:
    if not found.a.samples or not found.b.samples:
        empty = [name for name, side in (("A", found.a), ("B", found.b)) if not side.samples]
        who = f"{empty[0]} has" if len(empty) == 1 else "A and B have"
        yield f"Nothing to compare: {who} no request that came to its end."
        return
    if not found.alike:
        differ = "The prompts' texts were left out, and their lengths" if found.hidden else "The prompts"
        yield f"{differ} differ: no request of A is like one of B, so the ratios are no comparison of like with like."
    elif TOKENS in found.like_by:
        yield "Texts were left out of a recording (--redact): prompts of as many tokens count as the same."
    by_name = {each.metric.name: each for each in found.metrics}
    decode = by_name["decode_tok_per_s"]
    if decode.ratio is not None:
        yield _decode(decode)
    for words, name in (("The first token comes", "ttft_s"), ("Prefill is", "prefill_tok_per_s")):
        each = by_name[name]
        if each.verdict in ("better", "worse") and each.ratio is not None and each.like:
            yield f"{words} {_word(each)}: {_ratio(each.ratio)} times A's."
    disturbed = [name for name, side in (("A", found.a), ("B", found.b)) if _is_disturbed(side)]
    if disturbed and by_name["mbu_percent"].ratio is not None:
        whose = " and ".join(f"{name}'s" for name in disturbed)
        yield f"{whose} bandwidth was measured while other programs were busy: its MBU may be less."
    short = [each for each in (decode, by_name["prefill_tok_per_s"]) if each.verdict == "too-little-data"]
    if short and decode.ratio is not None:
        yield f"How much of it is noise cannot be said: {CERTAIN} runs a side are needed (there are {_runs(short[0])})."


def _is_disturbed(side: Side) -> bool:
    return any(sample.measures.roofline.disturbed for sample in side.samples)


def _decode(decode: Compared) -> str:
    assert decode.ratio is not None
    ratio = decode.ratio
    low, high = decode.interval or (ratio, ratio)
    between = "" if decode.interval is None else f" ({_ratio(low)} to {_ratio(high)})"
    if decode.verdict == "same":
        if _word(decode) == "equal":
            return "B decodes as fast as A."
        return f"Decode cannot be told apart: B has {_ratio(ratio)} of A's rate{between}, and 1 is in it."
    if ratio < 1:
        return f"B decodes at {_ratio(ratio)} of A's rate{between}."
    return f"B decodes {_ratio(ratio)} times as fast as A{between}."


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _runs(each: Compared) -> str:
    return f"{each.runs[0]} and {each.runs[1]}"


def _word(each: Compared) -> str:
    """What the last column says of a metric."""
    if each.why is not None:
        return each.why
    if each.verdict == "too-little-data":
        return _said_by_one(each) if each.ratio is not None else ""
    if each.verdict == "same":
        low, high = each.interval or (1.0, 1.0)
        return "equal" if max(high - 1, 1 - low) <= EQUAL else "noise"
    better, worse = _WORDS[each.metric.name]
    return better if each.verdict == "better" else worse


def _said_by_one(each: Compared) -> str:
    """What can be said without a verdict: of what does not differ from run to run, all there is."""
    if each.metric.noisy or each.ratio is None or max(each.runs) > 1:
        return "too few runs"
    if each.ratio == 1:
        return "equal"
    return _WORDS[each.metric.name][0 if (each.ratio > 1) == each.metric.higher else 1]


def _table(found: Comparison) -> Iterator[str]:
    rows = [each for each in found.metrics if each.a is not None or each.b is not None]
    if not rows:
        return
    ends = [end for each in rows for end in (each.interval or (each.ratio,)) if end is not None]
    reach = max(1, ceil(max((abs(log(end)) for end in ends), default=0) / log(2) - 1e-9))
    left, right = f"÷{2**reach}" if reach > 1 else "half", f"×{2**reach}" if reach > 1 else "double"
    middle = PLOT // 2
    axis = f"{left:<{middle}}1{right:>{middle}}"
    yield f"{'':12}{'A':>9}{'B':>10}       B ÷ A  {axis}  95 % interval"
    for each in rows:
        a, b, unit = _shown(each)
        ratio = _ratio(each.ratio) if each.ratio is not None else ""
        interval = _interval(each)
        star = "" if each.like or each.ratio is None else " *"
        text = (
            f"{_LABELS[each.metric.name]:<12}{a:>9}{b:>10} {unit:<6}{ratio:>5}  {_plot(each, reach):<{PLOT}}  {interval:<13}"
        )
        yield f"{text} {_word(each)}{star}".rstrip()
    if any(not each.like and each.ratio is not None for each in rows) and found.alike:
        yield "* not like with like: more was read by one, or a model had to be loaded for it"


def _interval(each: Compared) -> str:
    if each.interval is None or not each.metric.noisy:
        return ""
    return f"{each.interval[0]:.2f} – {each.interval[1]:.2f}"


def _shown(each: Compared) -> tuple[str, str, str]:
    """Both values as figures show them, and the unit."""
    name = each.metric.name
    if name.startswith("kv_"):
        kib = name == "kv_bytes_per_token"
        shown = [fig.UNKNOWN if v is None else f"{v / 1024:,.1f}" if kib else fig.memory(v)[0] for v in (each.a, each.b)]
        units = {"KiB"} if kib else {fig.memory(v)[1] for v in (each.a, each.b) if v is not None}
        if len(units) == 1:
            return shown[0], shown[1], units.pop()
        return " ".join(fig.memory(each.a)), " ".join(fig.memory(each.b)), ""
    form = {"tok/s": fig.rate, "ms": _one, "s": _two, "%": _whole, "J": _two}[each.metric.unit]
    unit = "J/tok" if name == "j_per_output_token" else each.metric.unit
    return form(each.a), form(each.b), unit


def _one(value: float | None) -> str:
    return fig.UNKNOWN if value is None else f"{value:,.1f}"


def _two(value: float | None) -> str:
    return fig.UNKNOWN if value is None else f"{value:,.2f}"


def _whole(value: float | None) -> str:
    return fig.UNKNOWN if value is None else f"{value:.0f}"


def _plot(each: Compared, reach: int) -> str:
    """The ratio as a dot and its interval as a line on a logarithmic axis, 1 in the middle."""
    if each.ratio is None:
        return ""
    cells = [" "] * PLOT
    cells[PLOT // 2] = "│"

    def column(ratio: float) -> int:
        place = (log(ratio) / log(2) / reach + 1) / 2
        return round(min(1.0, max(0.0, place)) * (PLOT - 1))

    if each.interval is not None:
        for i in range(column(each.interval[0]), column(each.interval[1]) + 1):
            cells[i] = "─"
    cells[column(each.ratio)] = "●" if each.interval is not None else "○"
    return "".join(cells)
