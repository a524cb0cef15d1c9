"""The charts page: how gaps are spread, how the rate falls with depth, the prefill by batches, the KV cache over time.

What they show is computed here; `chartdraw` draws them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import ceil, floor, log10
from typing import Final

from phasetop.bench_stats import least_squares
from phasetop.counts import Kv, cells_in_use
from phasetop.figures import count, rate
from phasetop.knobs import Values
from phasetop.pace import GAP_LIMITS, step_of
from phasetop.session import Run, Session
from phasetop.student import deviation, mean
from phasetop.tally import gap_percentiles
from phasetop.tui.cells import Area
from phasetop.tui.chartdraw import Chart, Kind, Series, draw
from phasetop.tui.frame import Frame
from phasetop.tui.lanes import SECOND_NS, batches_of
from phasetop.tui.pacing import beat
from phasetop.tui.theme import GAP_ROLES, Role
from phasetop.what_if import answer, own_of

REFRESH_NS: Final = 2 * SECOND_NS
"""While a request runs the charts are drawn anew so often."""
BOTH_FROM: Final = 100
"""Below so many columns there is one chart at a time."""
_BINS: Final = 40
_POINTS: Final = 400


def paint(area: Area, frame: Frame, session: Session, first: int) -> None:
    """Draw all four in a grid, or the one whose number is ``first`` where there is no room for a grid."""
    run = session.runs.get(frame.r) if frame.r is not None else None
    if run is None or frame.measures is None:
        area.line(1, 0, ("charts", "soft"), ("  —  no request yet", "faint"))
        return
    at = beat(frame.cursor, REFRESH_NS) if frame.running else frame.cursor
    made = charts_of(run, at if at >= frame.measures.phases.start else frame.cursor, frame, ceiling_of(session, run, frame))
    if area.width < BOTH_FROM:
        n = first % len(made)
        draw(area.area(1, 0, area.width - 2 - 8, area.height - 1), made[n])
        area.right(area.width - 1, 0, f"{n + 1} of {len(made)}", "faint")
        return
    width, height = (area.width - 2 - 4) // 2, (area.height - 2) // 2
    for n, chart in enumerate(made):
        draw(area.area(1 + n % 2 * (width + 4), n // 2 * (height + 1), width, height), chart)


Ceiling = Callable[[int], float | None]
"""Tokens in the context → tokens a second that the machine could decode at most; None: not known."""


def ceiling_of(session: Session, run: Run, frame: Frame) -> Ceiling:
    """The ceiling of a request's decode, by its own model and machine."""
    assert frame.measures is not None
    study = answer(own_of(session, run, frame.measures, frame.cursor), Values()).study
    if study is None:
        return lambda _: None

    def per_s(depth: int) -> float | None:
        step_s = study.subject.step(depth).seconds(study.machine)
        return 1 / step_s if step_s else None

    return per_s


def charts_of(run: Run, at: int, frame: Frame, ceiling: Ceiling = lambda _: None) -> tuple[Chart, ...]:
    """The four charts of a request as of a moment."""
    assert frame.measures is not None
    lines, measures = run.tokens.index(at), frame.measures
    prompt = measures.tokens.prompt
    gaps_ns = tuple(gap for gap in run.tokens.gap_ns[:lines] if gap > 0)
    return (
        gap_chart(gaps_ns, gap_percentiles(run.tokens, lines, (0.5,))[0] if gaps_ns else 0.0),
        depth_chart(run, lines, prompt, measures.rates.decode_per_s, ceiling),
        prefill_chart(run, at),
        kv_chart(run, at, lines, prompt, measures.kv, measures.phases.start),
    )


# ---- what they show


@lru_cache(8)
def gap_chart(gaps_ns: tuple[int, ...], median_ns: float) -> Chart:
    """How often each gap came: columns of equal width on a log axis, with the limits of the steps by their median."""
    title = "gaps"
    if len(gaps_ns) < 2:
        return Chart(title, why="too few tokens yet")
    low, high = log10(min(gaps_ns) / 1e6), log10(max(gaps_ns) / 1e6)
    low, high = min(low, log10(median_ns / 1e6) - 0.5), max(high, log10(median_ns / 1e6) + 1.0)
    width = (high - low) / _BINS
    heights = [0] * _BINS
    for gap in gaps_ns:
        heights[min(_BINS - 1, int((log10(gap / 1e6) - low) / width))] += 1
    middles = [low + (i + 0.5) * width for i in range(_BINS)]
    bars = tuple(
        (x, float(n), GAP_ROLES[step_of(int(10**x * 1e6), median_ns)]) for x, n in zip(middles, heights, strict=True) if n
    )
    limits = [(log10(value), value) for value in (limit * median_ns / 1e6 for limit in GAP_LIMITS)]
    here = [(x, f"{value:.2g}" if value < 100 else f"{value:,.0f}") for x, value in limits if low <= x <= high]
    top = _nice(max(heights))
    return Chart(
        title,
        f"{len(gaps_ns):,} by length; lines: the colours' steps",
        x=(low, high),
        y=(0.0, top),
        x_labels=_with_unit(here, "ms"),
        y_labels=_scale(top, lambda n: f"{n:,.0f}"),
        bars=bars,
        bar_width=width,
        upright=tuple((x, "rule") for x, _ in here),
    )


def depth_chart(
    run: Run, lines: int, prompt: int | None, decode_per_s: float | None, ceiling: Ceiling = lambda _: None
) -> Chart:
    """The reply's rate over how many tokens are in the context: the mean over each of up to forty stretches.

    ``decode_per_s`` is its rate as a whole. Above it the ceiling, where it is known and not so far up that the rate would
    lie on the axis.
    """
    title = "decode rate over depth"
    tokens, begin = run.tokens, run.tokens.first
    if begin < 0 or lines - begin < 16:
        return Chart(title, why="too few tokens yet")
    n = min(_BINS, (lines - begin - 1) // 4)
    edges = [begin + (lines - 1 - begin) * i // n for i in range(n + 1)]
    start = prompt or 0
    points = []
    for a, b in pairwise(edges):
        made, took_ns = tokens.count[b] - tokens.count[a], tokens.t[b] - tokens.t[a]
        if took_ns > 0:
            points.append((start + (tokens.count[a] + tokens.count[b]) / 2, made * 1e9 / took_ns))
    if not points:
        return Chart(title, why="all tokens came in one read")
    low, high = float(start), float(start + tokens.count[lines - 1])
    most = max(y for _, y in points)
    limits = [] if prompt is None else _limits(ceiling, low, high)
    shown = [(x, y) for x, y in limits if y <= _FAR * most]
    top = _nice(max([most, *(y for _, y in shown)]))
    note = f"tok/s, mean {rate(decode_per_s)}"
    if prompt is None:
        note += "; the prompt's length is not known"
    elif limits:
        note = f"tok/s, ceiling {rate(limits[-1][1])}" + ("" if shown else ", far above")
    return Chart(
        title,
        note,
        x=(low, high),
        y=(0.0, top),
        x_labels=_ends(low, high, "tokens deep"),
        y_labels=_scale(top, lambda v: f"{v:,.0f}" if top >= 10 else f"{v:.1f}"),
        series=(*((_series(shown, "faint", "line"),) if len(shown) > 1 else ()), _series(points, "decode", "line")),
    )


def _limits(ceiling: Ceiling, low: float, high: float) -> list[tuple[float, float]]:
    """The ceiling at some depths between two."""
    depths = [round(low + (high - low) * i / _CEILING_POINTS) for i in range(_CEILING_POINTS + 1)]
    return [(float(depth), per_s) for depth in depths if (per_s := ceiling(depth)) is not None]


_CEILING_POINTS: Final = 16
_FAR: Final = 6.0
"""A ceiling so many times as high as the rate is told, and not drawn."""
_LINE_FROM: Final = 3
"""Through fewer batches there is no line."""
_EXPLAINED: Final = 0.5
"""A line that explains less of the batches' spread than this says nothing."""
_TRUSTED_DEPTHS: Final = 2
"""How far beyond the prompt's length its fit is believed."""


def prefill_chart(run: Run, at: int) -> Chart:
    """The prompt by batches: tok/s of each over how deep it was, and the fit time a token = a + b · depth."""
    title = "prefill rate a batch"
    seen = [p for p in run.progress.items if p.t <= at]
    batches = batches_of((p.t, p.done) for p in seen)
    if not batches:
        why = "the server does not tell how far it is" if len(seen) < 2 else "one batch, begun before it was told"
        return Chart(title, why=why)
    if len(batches) == 1:
        return Chart(title, why=f"one batch alone, at {rate(batches[0].per_s)} tok/s")
    points: list[tuple[float, float]] = []
    depth, done = 0.0, {p.t: p.done for p in seen}
    for batch in batches:
        depth = (done[batch.t0] + done[batch.t1]) / 2
        points.append((depth, batch.per_s))
    last = float(seen[-1].total or max(done.values()))
    first = float(seen[0].cached or min(done.values()))
    top = _nice(max(y for _, y in points))
    fitted = least_squares([(x, 1 / y) for x, y in points]) if len(points) >= _LINE_FROM else None
    scattered = fitted is not None and not _is_flat([1 / y for _, y in points]) and (fitted.r2 or 0.0) < _EXPLAINED
    series = [_series(points, "prefill", "dots")]
    note = "tok/s; too scattered for a line" if scattered else "tok/s"
    if fitted is not None and not scattered:
        base, slope = fitted.intercept, fitted.slope
        xs = [first + (last - first) * i / 60 for i in range(61)]
        curve = [(x, 1 / (base + slope * x)) for x in xs if base + slope * x > 0]
        series.insert(0, _series([(x, y) for x, y in curve if y <= top], "prefill_area", "line"))
        if slope > 0 and base / slope <= _TRUSTED_DEPTHS * last:  # further out it is the noise of a flat line
            note = f"tok/s; half as fast {base / slope:,.0f} deep"
    return Chart(
        title,
        note,
        x=(first, max(last, first + 1)),
        y=(0.0, top),
        x_labels=_ends(first, max(last, first + 1), "tokens deep"),
        y_labels=_scale(top, lambda v: f"{v:,.0f}"),
        series=tuple(series),
    )


def kv_chart(run: Run, at: int, lines: int, prompt: int | None, kv: Kv, start: int) -> Chart:
    """The tokens in the cache over the time of the request, whose bands begin at ``start``, with the limit."""
    title = "KV cache over time"
    tokens, context, bytes_per_token = run.tokens, kv.context, kv.bytes_per_token
    points = [((p.t - start) / 1e9, float(p.done)) for p in run.progress.items if p.t <= at]
    before = prompt if prompt is not None else int(points[-1][1]) if points else None
    if before is None:
        return Chart(title, why="the length of the prompt is not known")
    step = max(1, lines // _POINTS)
    points += [((tokens.t[i] - start) / 1e9, float(cells_in_use(before, tokens.count[i]))) for i in range(0, lines, step)]
    if not points:
        return Chart(title, why="nothing is read yet")
    if lines:
        points.append(((tokens.t[lines - 1] - start) / 1e9, float(cells_in_use(before, tokens.count[lines - 1]))))
    most = points[-1][1]
    limit = float(context) if context is not None and most > context / 20 else None
    top = _nice(max(most, limit or 0.0))
    end = max(points[-1][0], 0.001)
    note = "tokens" + ("" if context is None else f" of {context:,}")
    if bytes_per_token:
        note += f", {bytes_per_token / 1024:,.3g} KiB each"
    first = bisect_right([x for x, _ in points], ((tokens.t[0] - start) / 1e9) if lines else end)
    series = [_series(points[:first], "prefill", "line"), _series(points[max(0, first - 1) :], "decode", "line")]
    return Chart(
        title,
        note,
        x=(0.0, end),
        y=(0.0, top),
        x_labels=((0.0, "0"), (end / 2, f"{end / 2:.3g}"), (end, f"{end:.3g} s")),
        y_labels=_scale(top, lambda v: f"{v:,.0f}"),
        series=tuple(each for each in series if each.xs),
        level=limit,
    )


def _is_flat(values: Sequence[float]) -> bool:
    """Whether values do not differ by more than a hundredth, so that there is nothing for a line to explain."""
    return (deviation(values) or 0.0) <= mean(values) / 100


def _nice(value: float) -> float:
    """The smallest of 1, 2, 3, 4, 5, 6, 8, 10 × a power of ten that reaches a value."""
    value = max(value, 1e-3)
    power = 10.0 ** floor(log10(value))
    return power * next(n for n in (1, 2, 3, 4, 5, 6, 8, 10) if n * power >= value * 0.999999)


def _scale(top: float, words: Callable[[float], str]) -> tuple[tuple[float, str], ...]:
    return ((0.0, "0"), (top / 2, words(top / 2)), (top, words(top)))


def _ends(low: float, high: float, unit: str) -> tuple[tuple[float, str], ...]:
    return _with_unit([(x, count(round(x))) for x in (low, (low + high) / 2, high)], unit)


def _with_unit(labels: list[tuple[float, str]], unit: str) -> tuple[tuple[float, str], ...]:
    """The last label says the unit of all."""
    return (*labels[:-1], *((x, f"{text} {unit}") for x, text in labels[-1:]))


def _series(points: Sequence[tuple[float, float]], role: Role, kind: Kind) -> Series:
    """Points as a series: of very many every so-manieth, and the last."""
    step = max(1, ceil(len(points) / _POINTS))
    kept = [*points[::step], *points[-1:]] if step > 1 else points
    return Series(tuple(x for x, _ in kept), tuple(y for _, y in kept), role, kind)
