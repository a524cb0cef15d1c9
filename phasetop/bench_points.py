"""What a bench found: a point a cell and engine, the straight line of TTFT, and what to notice, said in words. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from phasetop.bench_plan import CACHED_NEW, Cell
from phasetop.bench_samples import Sample, usual
from phasetop.bench_seen import Seen
from phasetop.bench_stats import KNEE_SHARE, Figure, Line, apart, knee, least_squares

_WORTH: Final = 1.05
"""A rate that differs by less is not worth a word."""
STRAIGHT: Final = 0.9
"""Below this r² points are not told to lie on a line."""
TELLING: Final = 0.1
"""Means whose intervals are wider (half of it, over the mean) are not told to be alike."""


class Point(Struct, frozen=True):
    """A cell on an engine: counts, and figures over its repeats.

    Attributes:
        swept: what the engine was started with, in a sweep.
        prompt, cached, output: tokens, as most repeats had them; the prompt without its depth.
        mbu, mfu: shares of 1.
        runs, failed, unfinished: repeats that count, that failed, that were cancelled before they ended.
        predicted_decode_per_s, predicted_prefill_s: by the roofline, of the peaks.

    """

    cell: Cell
    swept: dict[str, int | str]
    prompt: int | None
    cached: int | None
    output: int | None
    runs: int
    failed: int
    unfinished: int
    prefill: Figure
    decode: Figure
    ttft: Figure
    prefill_s: Figure
    mbu: Figure
    mfu: Figure
    all_decode: Figure
    all_prefill: Figure
    predicted_decode_per_s: float | None
    predicted_prefill_s: float | None
    complete: bool
    why_not: str | None = None

    @property
    def in_cache(self) -> int | None:
        """Tokens in the cache in the middle of its reply."""
        return None if self.prompt is None or self.output is None else self.prompt + self.cell.depth + self.output // 2

    @property
    def predicted_prefill_per_s(self) -> float | None:
        """New tokens of the prompt a second, by the roofline."""
        if self.predicted_prefill_s is None or self.prompt is None or self.cached is None or not self.predicted_prefill_s:
            return None
        return (self.prompt + self.cell.depth - self.cached) / self.predicted_prefill_s

    @property
    def plain(self) -> bool:
        """One prompt alone, nothing cached: what lines are drawn through."""
        return not self.cell.fills and self.cell.parallel == 1


def points_of(engines: Sequence[Seen], cells: Sequence[Cell]) -> list[Point]:
    """A point for each cell of each lane, in their order."""
    return [_point(engine, cell) for engine in engines for cell in cells]


def _point(engine: Seen, cell: Cell) -> Point:
    samples = engine.samples.get(cell, [])

    def figure(read: Callable[[Sample], float | None]) -> Figure:
        return Figure(tuple(value for one in samples if (value := read(one)) is not None))

    prompt = usual(one.prompt for one in samples)
    return Point(
        cell=cell,
        swept=engine.swept,
        prompt=None if prompt is None else prompt - cell.depth,
        cached=usual(one.cached for one in samples),
        output=usual(one.output for one in samples),
        runs=len(samples),
        failed=sum(failure.cell == cell for failure in engine.failures),
        unfinished=engine.unfinished.get(cell, 0),
        prefill=figure(lambda one: one.prefill_per_s),
        decode=figure(lambda one: one.decode_per_s),
        ttft=figure(lambda one: one.ttft_s),
        prefill_s=figure(lambda one: one.prefill_s),
        mbu=figure(lambda one: one.mbu),
        mfu=figure(lambda one: one.mfu),
        all_decode=figure(lambda one: one.aggregate_decode_per_s),
        all_prefill=figure(lambda one: one.aggregate_prefill_per_s),
        predicted_decode_per_s=figure(lambda one: one.predicted_decode_per_s).mean,
        predicted_prefill_s=figure(lambda one: one.predicted_prefill_s).mean,
        complete=all(one.complete for one in samples),
        why_not=engine.why_not(cell) if not samples else None,
    )


def ttft_points(points: Iterable[Point]) -> list[tuple[float, float]]:
    """(tokens of the prompt, TTFT in s) of each repeat of plain prompts."""
    return [
        (float(point.prompt), value)
        for point in points
        if point.plain and point.prompt is not None
        for value in point.ttft.values
    ]


def ttft_line(points: Sequence[Point]) -> Line | None:
    """TTFT over the prompt's length, where there is one engine and lengths to compare."""
    return least_squares(ttft_points(points)) if len(_engines(points)) == 1 else None


def decode_points(points: Iterable[Point]) -> list[tuple[float, float]]:
    """(tokens in the cache, decode rate) of each repeat of single requests."""
    return [
        (float(point.in_cache), value)
        for point in points
        if point.cell.parallel == 1 and not point.cell.cached and point.in_cache is not None
        for value in point.decode.values
    ]


def _engines(points: Iterable[Point]) -> set[tuple[tuple[str, int | str], ...]]:
    return {tuple(point.swept.items()) for point in points}


def words_about(points: Sequence[Point]) -> list[str]:
    """What to notice, a sentence each."""
    found: list[str] = []
    if len(_engines(points)) == 1:
        found += _two_phases(points)
        found += _first_token(points)
        found += _depth(points)
        found += _cached(points)
    found += _at_once(points)
    found += _swept(points)
    return found


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 999.5 else f"{value:.0f}" if value >= 99.95 else f"{value:.3g}"


def _two_phases(points: Sequence[Point]) -> list[str]:
    """Of the plain prompt that is read fastest."""
    plain = [point for point in points if point.plain and point.prefill.values and point.decode.values]
    if not plain:
        return []
    best = max(plain, key=lambda point: point.prefill.mean or 0)
    read, wrote = best.prefill.mean or 0.0, best.decode.mean or 0.0
    if not wrote or read < _WORTH * wrote:
        return []
    pair = f"({_rate(read)} against {_rate(wrote)} tok/s)"
    why = "all tokens of a prompt share one read of the weights, each decoded token needs a read of its own"
    return [f"Prefill reads {read / wrote:.1f} times as many tokens a second as decode writes {pair}: {why}."]


def _first_token(points: Sequence[Point]) -> list[str]:
    line = ttft_line(points)
    if line is None or line.slope <= 0 or line.r2 is None or line.r2 < STRAIGHT:
        return []
    first = f", from {1e3 * line.intercept:,.0f} ms on" if line.intercept > 0 else ""
    return [f"Each token of the prompt puts the first token off by {1e3 * line.slope:.3g} ms{first} (r² {line.r2:.3f})."]


def _depth(points: Sequence[Point]) -> list[str]:
    """A step reads the whole cache, so the time of a token, not the rate, grows in a straight line."""
    found = decode_points(points)
    line = least_squares([(depth, 1e3 / rate) for depth, rate in found])
    if line is None:
        return []
    order = sorted({depth for depth, _ in found})
    ends = [Figure(tuple(rate for depth, rate in found if depth == end)) for end in (order[0], order[-1])]
    before, after = ends[0].mean or 0.0, ends[1].mean or 0.0
    between = f"{order[0]:,.0f} and {order[-1]:,.0f} tokens in the cache"
    if not apart(*ends):
        if any(end.spread is None or end.spread > TELLING for end in ends):
            return []  # too little is known to say so
        return [f"Decode is as fast with {between.replace(' and ', ' as with ')}, within the noise ({_rate(before)} tok/s)."]
    if after > before or line.slope <= 0:
        return [
            f"Decode is faster, not slower, with more in the cache: {_rate(before)} and {_rate(after)} tok/s at {between}."
        ]
    cost = f"each 1,000 tokens more cost {1e3 * line.slope:.3g} ms a token"
    return [f"Decode falls from {_rate(before)} to {_rate(after)} tok/s between {between}: {cost}."]


def _cached(points: Sequence[Point]) -> list[str]:
    found = []
    plain = {(point.cell.words, point.cell.tokens): point for point in points if point.plain}
    for point in points:
        fresh = plain.get((point.cell.words, point.cell.tokens))
        if not point.cell.cached or fresh is None or not point.ttft.mean or not fresh.ttft.mean or not point.cached:
            continue
        times = fresh.ttft.mean / point.ttft.mean
        if times > _WORTH and apart(point.ttft, fresh.ttft):
            new = f"all but {CACHED_NEW} {'words' if point.cell.words is not None else 'tokens'} of it in the cache"
            pair = f"{_ms(point.ttft.mean)} instead of {_ms(fresh.ttft.mean)}"
            found.append(
                f"A prompt of {point.prompt or 0:,} tokens with {new}: {pair} to the first token, {times:.1f} times sooner."
            )
    return found


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f} ms"


def _at_once(points: Sequence[Point]) -> list[str]:
    """The knee of requests at once, for each length, depth and engine."""
    series: dict[tuple[object, ...], list[Point]] = {}
    for point in points:
        if point.all_decode.mean is not None and not point.cell.cached:
            key = (*point.swept.items(), point.cell.words, point.cell.tokens, point.cell.depth)
            series.setdefault(key, []).append(point)
    found = []
    for group in series.values():
        if len(group) < 2:
            continue
        group.sort(key=lambda point: point.cell.parallel)
        at = knee([(point.cell.parallel, point.all_decode.mean or 0.0) for point in group])
        first, best = group[0], next(point for point in group if point.cell.parallel == at)
        length = f"{first.prompt or 0:,} tokens of prompt: "
        each = f"{_rate(best.decode.mean)} each" if best.decode.mean else "each"
        together, alone = best.all_decode.mean or 0.0, first.all_decode.mean or 1.0
        if best is first:
            found.append(
                f"{length}more than {first.cell.parallel} at once decode no faster together ({_rate(alone)} tok/s)."
            )
        else:
            gain = f"{together / alone:.1f} times what {first.cell.parallel} does"
            more = "" if best is group[-1] else "; more at once gain little"
            found.append(f"{length}{at:.0f} at once decode {_rate(together)} tok/s together, {gain} ({each}){more}.")
    return found


def _swept(points: Sequence[Point]) -> list[str]:
    """The knee of a sweep by each phase, over all cells; and what each step brought."""
    engines = sorted(_engines(points), key=lambda engine: [(isinstance(v, str), v) for _, v in engine])
    if len(engines) < 2 or not engines[0]:
        return []
    name = engines[0][0][0]
    found = []
    phases: tuple[tuple[str, Callable[[Point], Figure]], ...] = (
        ("Decode", lambda point: point.decode),
        ("Prefill", lambda point: point.prefill),
    )
    for phase, read in phases:
        known = [(engine[0][1], _relative(points, engine, engines[0], read)) for engine in engines]
        known = [(value, figure) for value, figure in known if figure.values]
        if len(known) < 2:
            continue
        best = max((figure for _, figure in known), key=lambda figure: figure.mean or 0)
        if not any(apart(best, figure) for _, figure in known):
            found.append(f"{phase}: {name} makes no difference beyond the noise.")
            continue
        at = next(value for value, figure in known if (figure.mean or 0) >= KNEE_SHARE * (best.mean or 0))
        steps = [f"{before[0]} to {after[0]} {_step(before[1], after[1])}" for before, after in pairwise(known)]
        found.append(f"{phase} is at its best, or within 5 % of it, from {name} {at} on: {', '.join(steps)}.")
    return found


def _step(before: Figure, after: Figure) -> str:
    """What a step of a sweep brought."""
    gain = 100 * ((after.mean or 0) / (before.mean or 1) - 1)
    return f"{gain:+.0f} %" if apart(before, after) else f"{gain:+.0f} % (within the noise)"


def _relative(
    points: Sequence[Point],
    engine: tuple[tuple[str, int | str], ...],
    base: tuple[tuple[str, int | str], ...],
    read: Callable[[Point], Figure],
) -> Figure:
    """A phase's repeats on an engine, each over the mean of the same cell on the first engine."""
    values: list[float] = []
    for point in points:
        if tuple(point.swept.items()) != engine:
            continue
        other = next((p for p in points if tuple(p.swept.items()) == base and p.cell == point.cell), None)
        middle = read(other).mean if other is not None else None
        if middle:
            values += [value / middle for value in read(point).values]
    return Figure(tuple(values))
