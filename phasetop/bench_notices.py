"""What a bench has to tell beside its figures: what failed, what was left out, what is not as it was asked for. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from phasetop.bench_plan import BenchPlan
from phasetop.bench_points import Point
from phasetop.bench_seen import EXACT, Seen
from phasetop.bench_stats import Figure

_BOS: Final = 1
"""So many tokens of every prompt are alike, in whatever cache: the beginning token."""
_NEVER_TOLD: Final = ("key-needed", "collector-died", "not-installed")  # the fault of the request says it
_INFO: Final = ("batch-reduced",)


class Notice(Struct, frozen=True):
    """A code for scripts, a text for people."""

    code: str
    text: str


def notices_of(engines: Sequence[Seen], points: Sequence[Point], plan: BenchPlan, stopped: str | None) -> list[Notice]:
    """All of them, each once."""
    found = [
        *_failed(engines, points),
        *_prompts(points),
        *_cache(points),
        *_replies(engines, points, plan),
        *_machine(engines, points),
        *_spread(points, plan, stopped),
        *_passed_on(engines),
    ]
    return list(dict.fromkeys(found))


def _named(point: Point) -> str:
    swept = " ".join(f"{name}={value}" for name, value in point.swept.items())
    return f"{point.cell.name} {swept}".strip()


def _failed(engines: Sequence[Seen], points: Sequence[Point]) -> Iterator[Notice]:
    for point in points:
        if not point.runs and point.why_not is not None:
            yield Notice(code="cell-left-out", text=f"{_named(point)} is left out: {point.why_not}")
        elif not point.runs:
            yield Notice(code="cell-left-out", text=f"{_named(point)} was not measured: the bench ended before")
    for engine in engines:
        for failure in engine.failures:
            if failure.cell not in engine.left_out:
                when = f"repeat {failure.repeat}" if failure.repeat else "the warm-up"
                yield Notice(code="run-failed", text=f"{failure.cell.name}, {when}, is left out: {failure.text}")


def _prompts(points: Sequence[Point]) -> Iterator[Notice]:
    for point in points:
        if point.cell.tokens is not None and point.prompt is not None and point.prompt != point.cell.tokens:
            text = f"{_named(point)}: the prompt has {point.prompt:,} tokens, {point.cell.tokens:,} were asked for"
            yield Notice(code="prompt-near", text=text)


def _cache(points: Sequence[Point]) -> Iterator[Notice]:
    for point in points:
        if point.cached is None:
            continue
        whole = (point.prompt or 0) + point.cell.depth
        if not point.cell.fills and point.cached > _BOS:
            text = f"{_named(point)}: the server took {point.cached:,} of {whole:,} tokens from its cache all the same"
            yield Notice(code="cache-hit", text=f"{text}; the prefill rate is that of the others")
        wished = point.cell.depth if not point.cell.cached else whole // 2
        if point.cell.fills and point.cached < 0.9 * wished:
            text = f"{_named(point)}: {point.cached:,} tokens came from the cache, not {wished:,}"
            yield Notice(code="cache-missed", text=f"{text}: the prefill is that of all {whole - point.cached:,} others")


def _replies(engines: Sequence[Seen], points: Sequence[Point], plan: BenchPlan) -> Iterator[Notice]:
    backend = engines[0].backend
    if backend is not None and backend not in EXACT:
        text = f"{backend} ends a reply where the model ends it: {plan.cells[0].output} tokens are the most, not the number"
        if any(point.runs and not point.complete for point in points):
            yield Notice(code="reply-short", text=text)
    elif any(point.runs and not point.complete for point in points):
        yield Notice(code="reply-short", text="replies ended before they had the tokens asked for")


def _machine(engines: Sequence[Seen], points: Sequence[Point]) -> Iterator[Notice]:
    at_once = max((point.cell.parallel for point in points if point.runs), default=1)
    for engine in engines[:1]:
        slots = engine.option("parallel")
        if isinstance(slots, int) and at_once > slots and engine.backend != "ollama":
            text = f"{at_once} at once, but the server has {slots} slot{'s' if slots > 1 else ''}: the others wait for one"
            yield Notice(code="few-slots", text=text)
    for engine in engines:
        hello = engine.session.hello
        threads = engine.option("threads")
        if hello is None or not isinstance(threads, int) or engine.backend != "embedded":
            continue
        quota, cores = hello.host.cpu_quota_cores, hello.host.cores
        if quota is not None and threads > quota:
            text = f"{threads} threads for a quota of {quota:g} cores: the scheduler stops them in the middle of a step"
            yield Notice(code="over-quota", text=text)
        elif cores is not None and threads > cores:
            text = f"{threads} threads for {cores} cores: they wait for each other at every step"
            yield Notice(code="over-quota", text=text)


def _spread(points: Sequence[Point], plan: BenchPlan, stopped: str | None) -> Iterator[Notice]:
    if plan.precision is None or stopped == "narrow":
        return
    widest: tuple[float, str] | None = None
    for point in points:
        figures: dict[str, Figure] = {"prefill": point.prefill, "decode": point.decode, "TTFT": point.ttft}
        for name, figure in figures.items():
            if figure.spread is not None and figure.spread > plan.precision and figure.spread > (widest or (0.0,))[0]:
                widest = figure.spread, f"{name} of {_named(point)}"
    if widest is not None:
        text = f"not every figure is known to ±{100 * plan.precision:.3g} %: {widest[1]} is to ±{100 * widest[0]:.0f} %"
        yield Notice(code="not-narrow", text=text)


def _passed_on(engines: Sequence[Seen]) -> Iterator[Notice]:
    """Warnings of the session, and what the figures of its requests have to tell, each text or code once."""
    for engine in engines:
        for notice in engine.session.notices.items:
            told_too = notice.level in ("warn", "error") or notice.code in _INFO
            if told_too and notice.code not in _NEVER_TOLD and isinstance(notice.text, str):
                yield Notice(code=str(notice.code), text=notice.text)
        seen: dict[str, tuple[str, int]] = {}
        for flag in (flag for samples in engine.samples.values() for sample in samples for flag in sample.flags):
            text, times = seen.get(flag.code, (flag.text, 0))
            seen[flag.code] = text, times + 1
        for code, (text, times) in seen.items():
            yield Notice(code=str(code), text=text if times == 1 else f"{text} (and {times - 1:,} times more)")
