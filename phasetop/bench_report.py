"""The object that ``bench --json`` prints (OUTPUTS.md: a contract). What is null is explained in ``unknown``. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from phasetop.bench_notices import Notice
from phasetop.bench_points import Point, ttft_line
from phasetop.bench_seen import Outcome, Seen
from phasetop.bench_stats import Figure, rounded
from phasetop.report import request_object

_NOT_TOLD: Final = "the server does not tell"
_SEVERAL: Final = "a step makes tokens of several at once: no one's alone can be set against a peak"
_ALONE: Final = ("points.mbu_percent", "points.mfu_percent", "predicted.decode_tok_per_s", "predicted.prefill_s")
_BY_NATURE: Final = frozenset(("session", "file", "cpu_quota_cores"))
_FROM_RUN: Final = {
    "points.prefill_tok_per_s": "rates.prefill_tok_per_s",
    "points.decode_tok_per_s": "rates.decode_tok_per_s",
    "points.ttft_s": "latency.ttft_s",
    "points.mbu_percent": "roofline.mbu_percent",
    "points.mfu_percent": "roofline.mfu_percent",
    "points.cached": "tokens.cached",
    "points.prompt_tokens": "tokens.prompt",
    "points.output_tokens": "tokens.output",
    "predicted.decode_tok_per_s": "roofline.predicted_decode_tok_per_s",
    "predicted.prefill_s": "roofline.predicted_prefill_s",
    "predicted.peak_bandwidth_bytes_per_s": "roofline.peak_bandwidth_bytes_per_s",
    "predicted.peak_flops": "roofline.peak_flops",
}
"""Where the reason of a null stands in the object of one request."""


def bench_object(
    engines: Sequence[Seen], outcome: Outcome, points: Sequence[Point], notices: Sequence[Notice], kept: Sequence[str]
) -> dict[str, Any]:
    """What ``bench --json`` prints; ``kept``: names or paths of the recordings."""
    one = _last_request(engines)
    told: Mapping[str, str] = (one or {}).get("unknown") or {}
    roofline: Mapping[str, Any] = (one or {}).get("roofline") or {}
    line = ttft_line(points)
    found: dict[str, Any] = {
        "phasetop": (one or {}).get("phasetop"),
        "sessions": list(kept),
        "model": (one or {}).get("model") or {},
        "server": (one or {}).get("server") or {},
        "host": _without_phases((one or {}).get("host") or {}),
        "gpus": [_without_phases(gpu) for gpu in (one or {}).get("gpus") or ()],
        "settings": (one or {}).get("settings") or {},
        "plan": _plan(engines[0], outcome),
        "points": [_point(point) for point in points],
        "fit": {
            "ttft_s_per_token": None if line is None else rounded(line.slope),
            "ttft_intercept_s": None if line is None else rounded(line.intercept),
            "r2": None if line is None or line.r2 is None else round(line.r2, 6),
        },
        "predicted": {
            "peak_bandwidth_bytes_per_s": roofline.get("peak_bandwidth_bytes_per_s"),
            "peak_flops": roofline.get("peak_flops"),
            "points": [_predicted(point) for point in points],
        },
        "notices": [{"code": notice.code, "text": notice.text} for notice in notices],
    }
    sources = {
        path: source
        for path, source in ((one or {}).get("sources") or {}).items()
        if path.startswith(("model.", "settings.", "roofline.peak"))
    }
    return {**found, "sources": sources, "unknown": dict(_reasons(found, told))}


def _last_request(engines: Sequence[Seen]) -> dict[str, Any] | None:
    """The object of the newest request that counts: model, server and machine are described as of it."""
    for engine in engines:
        known = [sample for samples in engine.samples.values() for sample in samples]
        if known:
            r = max(max(sample.rs) for sample in known)
            return request_object(engine.session, engine.session.runs[r], kept_as=None)
    return None


def _without_phases(group: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name not in ("phases", "memory_used_bytes")}


def _plan(engine: Seen, outcome: Outcome) -> dict[str, Any]:
    plan = engine.plan
    cells = plan.cells
    words = list(dict.fromkeys(cell.words for cell in cells if cell.words is not None))
    tokens = list(dict.fromkeys(cell.tokens for cell in cells if cell.tokens is not None))
    sweep = plan.sweep
    return {
        "prompt_words": words or None,
        "prompt_tokens": tokens or None,
        "output_tokens": cells[0].output,
        "depths": list(dict.fromkeys(cell.depth for cell in cells)),
        "parallel": list(dict.fromkeys(cell.parallel for cell in cells)),
        "cached": any(cell.cached for cell in cells),
        "sweep": None if sweep is None else {sweep.name: list(sweep.values)},
        "repeats": plan.repeats,
        "precision_percent": None if plan.precision is None else 100 * plan.precision,
        "time_s": plan.time_s,
        "seed": plan.seed,
        "api": engine.api,
        "rounds": outcome.rounds,
        "took_s": round(outcome.took_s, 3),
        "stopped": outcome.stopped,
    }


def _percent(figure: Figure) -> Figure:
    return Figure(tuple(100 * value for value in figure.values))


def _point(point: Point) -> dict[str, Any]:
    cell = point.cell
    found: dict[str, Any] = {
        "prompt_tokens": point.prompt,
        "prompt_words": cell.words,
        "output_tokens": point.output,
        "depth": cell.depth,
        "parallel": cell.parallel,
        "cached": point.cached,
        "runs": point.runs,
        "failed": point.failed,
        "unfinished": point.unfinished,
        "prefill_tok_per_s": point.prefill.group(),
        "decode_tok_per_s": point.decode.group(),
        "ttft_s": point.ttft.group(),
        "mbu_percent": _percent(point.mbu).group(),
        "mfu_percent": _percent(point.mfu).group(),
    }
    if cell.parallel > 1:
        found["aggregate"] = {
            "prefill_tok_per_s": point.all_prefill.group(),
            "decode_tok_per_s": point.all_decode.group(),
        }
    return {**found, "sweep": point.swept} if point.swept else found


def _predicted(point: Point) -> dict[str, float | None]:
    return {
        "decode_tok_per_s": rounded(point.predicted_decode_per_s),
        "prefill_s": rounded(point.predicted_prefill_s),
    }


def _reasons(found: Mapping[str, Any], told: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The nulls' paths, each with why."""
    fixed = {
        "plan.prompt_words": "the prompts were asked for in tokens",
        "plan.prompt_tokens": "the prompts were asked for in words",
        "points.prompt_words": "asked for in tokens",
        "plan.sweep": "nothing was swept",
        "plan.precision_percent": "not asked for",
        "plan.time_s": "no time was given",
        "plan.stopped": "it goes on",
        "fit": "there are no two lengths of plain prompts on one engine",
        "phasetop": "no request counts",
    }
    nulls = dict.fromkeys(_nulls(found))
    several = any(point["parallel"] > 1 for point in found["points"])

    def why(path: str) -> str:
        stem = path.removesuffix(".mean").replace("predicted.points.", "predicted.")
        said = told.get(_FROM_RUN.get(stem, stem)) or told.get(stem.rpartition(".")[0])
        return said or (_SEVERAL if several and stem in _ALONE else _NOT_TOLD)

    for path in nulls:
        stem, _, last = path.rpartition(".")
        if last in _BY_NATURE:
            continue
        if path in fixed or path.partition(".")[0] in fixed:
            yield path, fixed.get(path) or fixed[path.partition(".")[0]]
        elif last in ("sd", "ci95") and f"{stem}.mean" not in nulls:
            yield path, "a spread needs two runs"
        elif path.startswith("points.aggregate"):
            yield path, "the server does not tell each request's tokens"
        elif last in ("sd", "ci95"):
            yield path, why(f"{stem}.mean")
        else:
            yield path, why(path)


def _nulls(value: Any, path: str = "") -> Iterator[str]:
    if value is None:
        yield path
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _nulls(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for inner in value:
            yield from _nulls(inner, path)
