"""Two sides of recordings, like with like: what differs between them, and which figures differ beyond their noise.

Pure. The unit of noise is the run: a request. Requests are alike when they carry the same bench cell, else the same prompt;
each such group is compared with its own kind, on the logarithm, so that what comes out is a ratio B ÷ A, the geometric mean
over the groups, with an interval that three runs a side are needed for. Decode figures are cut to the shortest reply of
their group, since decode slows down with depth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from math import exp, fsum, log, sqrt
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from phasetop import student
from phasetop.columns import LIVE
from phasetop.metrics import Measures, measure
from phasetop.replies import prompt_of
from phasetop.report import request_object
from phasetop.session import Run, Session

Verdict = Literal["better", "worse", "same", "too-little-data"]

CONFIDENCE: Final = 0.95
CERTAIN: Final = 3
"""So many runs a side give an interval."""
REPEATED: Final = 2
"""So many a side show that a figure does not differ from run to run; with one a side there is no verdict on anything."""
LIKE_PROMPT: Final = 0.05
"""Prompts whose lengths differ by no more than this share are alike for prefill."""
SHORTEST: Final = 8
"""Replies are not cut below so many tokens: where one is shorter, its group is left out of decode."""

CELL, PROMPT, TOKENS = "cell", "prompt", "tokens"
"""What makes requests alike: the same cell of a bench, the same prompt, as many tokens in one whose text is not known."""

_ENDED: Final = ("stop", "length", "tool_calls")


class Metric(Struct, frozen=True):
    """A figure that is compared.

    Attributes:
        name: as `compare --json` has it.
        unit: its unit there.
        higher: whether more is better; None: neither.
        of: the figure of a request; None where it is not known.
        decode: it is one of decode, and cut to like depth.
        noisy: it differs from run to run; else it needs no interval.

    """

    name: str
    unit: str
    higher: bool | None
    of: Callable[[Measures], float | None]
    decode: bool = False
    noisy: bool = True


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


METRICS: Final = (
    Metric("ttft_s", "s", False, lambda m: _scaled(m.latency.ttft_ns, 1e-9)),
    Metric("prefill_tok_per_s", "tok/s", True, lambda m: m.rates.prefill_per_s),
    Metric("decode_tok_per_s", "tok/s", True, lambda m: m.rates.decode_per_s, decode=True),
    Metric("gap_p50_ms", "ms", False, lambda m: _scaled(m.latency.gaps.p50, 1e-6), decode=True),
    Metric("gap_p99_ms", "ms", False, lambda m: _scaled(m.latency.gaps.p99, 1e-6), decode=True),
    Metric("mbu_percent", "%", True, lambda m: _scaled(m.roofline.mbu, 100), decode=True),
    Metric("mfu_percent", "%", True, lambda m: _scaled(m.roofline.mfu, 100)),
    Metric("j_per_output_token", "J", False, lambda m: m.energy.j_per_output_token),
    Metric("kv_allocated_bytes", "B", False, lambda m: m.kv.allocated_bytes, noisy=False),
    Metric("kv_bytes_per_token", "B", False, lambda m: m.kv.bytes_per_token, noisy=False),
)


class Sample(Struct, frozen=True):
    """One request of a side: where it is from, what it is like, and what it is like where texts are not known."""

    session: Session
    run: Run
    key: str
    measures: Measures
    counted: str


class Side(Struct, frozen=True):
    """Recordings that count as one: their names, a label, their requests."""

    names: tuple[str, ...]
    label: str
    samples: tuple[Sample, ...]


class Compared(Struct, frozen=True):
    """One metric on both sides: geometric means, B ÷ A with its interval, and what to make of it."""

    metric: Metric
    a: float | None
    b: float | None
    runs: tuple[int, int]
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    verdict: Verdict = "too-little-data"
    like: bool = True
    why: str | None = None

    @property
    def worse_by(self) -> float | None:
        """The least share by which B is worse, beyond the noise; None where it is not."""
        if self.verdict != "worse" or self.interval is None:
            return None
        low, high = self.interval
        return 1 - high if self.metric.higher else low - 1


class Difference(Struct, frozen=True):
    """Something about the two sides that is not the same."""

    what: str
    a: Any
    b: Any


class Comparison(Struct, frozen=True):
    """What came of it.

    Attributes:
        a: one side.
        b: the other.
        like_by: what the requests that are compared have in common: cell, prompt, tokens; empty: none are compared.
        hidden: texts of prompts were left out of a recording.
        differences: what is not the same.
        metrics: the figures.

    """

    a: Side
    b: Side
    like_by: tuple[str, ...]
    hidden: bool
    differences: tuple[Difference, ...]
    metrics: tuple[Compared, ...]

    @property
    def alike(self) -> bool:
        """There are requests of both sides that can be compared with each other."""
        return bool(self.like_by)


def side_of(sessions: Iterable[tuple[str, Session]]) -> Side:
    """A side of (name, session) pairs: their requests that came to an end of their own.

    Left out is what a bench asked before it measured: its warm-ups, and what it put into the cache (it has a cell's name,
    and is another request than that cell's).
    """
    names, samples = [], []
    for name, session in sessions:
        names.append(name)
        for run in session.runs.values():
            info, end = run.info.at(), run.ends.last()
            labels = (info.labels if info is not None else None) or {}
            if info is None or end is None or end.finish not in _ENDED or labels.get("warmup") or labels.get("fill"):
                continue
            measures = measure(session, run)
            counted = _counted(run, measures)
            samples.append(Sample(session, run, _key(run, labels) or counted, measures, counted))
    return Side(tuple(names), _label(samples), tuple(samples))


def _key(run: Run, labels: Mapping[str, Any]) -> str | None:
    """What a request has to have in common with another to be like it; None where its text was left out."""
    if labels.get("cell") is not None:
        return f"{CELL} {msgspec.json.encode(labels['cell'], order='sorted').decode()}"
    prompt = prompt_of(run)
    return f"{PROMPT} {sha256(prompt.encode('utf-8', 'replace')).hexdigest()[:16]}" if isinstance(prompt, str) else None


def _counted(run: Run, measures: Measures) -> str:
    """The same for one whose text is not known: how many tokens its prompt has."""
    count = measures.tokens.prompt
    return f"{TOKENS} {count}" if count is not None else f"unknown {id(run)}"  # of which nothing is known: like no other


def _label(samples: Sequence[Sample]) -> str:
    """The model that most of a side's requests ran on, in a few words."""
    words = []
    for sample in samples:
        model = sample.session.model_of(sample.run)
        words.append(" ".join(word for word in (model.name, model.quant) if word) if model is not None else "")
    return Counter(words).most_common(1)[0][0] if words else ""


def compare(a: Side, b: Side) -> Comparison:
    """B against A."""
    common = _common(a, b)
    hidden = any(sample.key == sample.counted for side in (a, b) for sample in side.samples)
    if not common and hidden:  # one side has the texts, perhaps, and the other none
        a, b = _by_count(a), _by_count(b)
        common = _common(a, b)
    groups = [_group(a, b, key) for key in sorted(common)] or [(a.samples, b.samples)]
    metrics = tuple(_compare(metric, groups, alike=bool(common)) for metric in METRICS)
    like_by = tuple(word for word in (CELL, PROMPT, TOKENS) if any(key.startswith(word) for key in common))
    return Comparison(a, b, like_by, hidden, tuple(_differences(a, b)), metrics)


def _common(a: Side, b: Side) -> set[str]:
    return {sample.key for sample in a.samples} & {sample.key for sample in b.samples}


def _by_count(side: Side) -> Side:
    samples = (sample if sample.key.startswith(CELL) else replace(sample, key=sample.counted) for sample in side.samples)
    return replace(side, samples=tuple(samples))


Group = tuple[tuple[Sample, ...], tuple[Sample, ...]]


def _group(a: Side, b: Side, key: str) -> Group:
    first, second = (tuple(sample for sample in side.samples if sample.key == key) for side in (a, b))
    return first, second


def _compare(metric: Metric, groups: Sequence[Group], *, alike: bool) -> Compared:
    pairs, like = [], alike
    for group in groups:
        first, second = _values(metric, group, cut=alike)
        if first and second:
            pairs.append((first, second))
            like = like and (metric.decode or not metric.noisy or _like_prompts(group))
    every: list[list[float]] = [[], []]
    for pair in pairs:
        for values, more in zip(every, pair, strict=True):
            values += more
    runs = len(every[0]), len(every[1])
    if not pairs:
        a, b = (_mean(_known(metric, groups, i)) for i in (0, 1))
        return Compared(metric, a, b, runs, like=like, why=_missing(metric, groups))
    found = Compared(metric, _mean(every[0]), _mean(every[1]), runs, like=like)
    return _judged(found, pairs)


def _values(metric: Metric, group: Group, *, cut: bool) -> tuple[list[float], list[float]]:
    """The figures of a group's requests that are known and can be taken a logarithm of, side by side."""
    depth = _depth(group) if metric.decode and cut else None
    found = []
    for samples in group:
        measured = (measure_to(sample, depth) if depth is not None else sample.measures for sample in samples)
        values = [metric.of(measures) for measures in measured]
        found.append([value for value in values if value is not None and value > 0])
    return found[0], found[1]


def _depth(group: Group) -> int | None:
    """The tokens that every reply of a group has; None where they are equal, or one is too short to be cut to."""
    counts = {sample.run.tokens.count[-1] for samples in group for sample in samples if len(sample.run.tokens)}
    shortest = min(counts, default=0)
    return shortest if len(counts) > 1 and shortest >= SHORTEST else None


def measure_to(sample: Sample, n: int) -> Measures:
    """The figures of a request as of its token ``n``."""
    tokens = sample.run.tokens
    at = next((i for i in range(len(tokens)) if tokens.count[i] >= n), None)
    return measure(sample.session, sample.run, LIVE if at is None else tokens.t[at])


def _like_prompts(group: Group) -> bool:
    """Whether as much was read by all, and none had to wait for a model that others found loaded."""
    every = [sample.measures for samples in group for sample in samples]
    counts = [measures.tokens.prefilled for measures in every]
    known = [n for n in counts if n]
    near = len(known) == len(counts) and max(known, default=0) <= (1 + LIKE_PROMPT) * min(known, default=0)
    return near and len({measures.phases.load for measures in every}) == 1


def _known(metric: Metric, groups: Sequence[Group], side: int) -> list[float]:
    values = (metric.of(sample.measures) for group in groups for sample in group[side])
    return [value for value in values if value is not None and value > 0]


def _missing(metric: Metric, groups: Sequence[Group]) -> str:
    sides = [name for name, i in (("A", 0), ("B", 1)) if not _known(metric, groups, i)]
    return f"not known of {' and '.join(sides)}" if sides else "never of the same request"


def _mean(values: Sequence[float]) -> float | None:
    return exp(student.mean([log(value) for value in values])) if values else None


def _judged(found: Compared, pairs: Sequence[tuple[list[float], list[float]]]) -> Compared:
    """The ratio over all groups, and where there are runs enough its interval (Welch's, pooled within the groups)."""
    logs = [([log(value) for value in first], [log(value) for value in second]) for first, second in pairs]
    middle = student.mean([student.mean(second) - student.mean(first) for first, second in logs])
    ratio = exp(middle)
    if not found.metric.noisy:
        exact = max(*(max(side) - min(side) for pair in logs for side in pair)) == 0
        return _with(found, ratio, (ratio, ratio) if exact and min(found.runs) >= REPEATED else None)
    parts, freedoms = [], []
    for side in (0, 1):
        freedom = sum(len(pair[side]) - 1 for pair in logs)
        if freedom < CERTAIN - 1:
            return _with(found, ratio, None)
        squares = fsum((value - student.mean(pair[side])) ** 2 for pair in logs for value in pair[side])
        parts.append(squares / freedom * fsum(1 / len(pair[side]) for pair in logs) / len(logs) ** 2)
        freedoms.append(freedom)
    error = sqrt(fsum(parts))
    if error == 0:
        return _with(found, ratio, (ratio, ratio))
    freedom_of_both = fsum(parts) ** 2 / fsum(part**2 / freedom for part, freedom in zip(parts, freedoms, strict=True))
    reach = student.quantile(CONFIDENCE, freedom_of_both) * error
    return _with(found, ratio, (exp(middle - reach), exp(middle + reach)))


def _with(found: Compared, ratio: float, interval: tuple[float, float] | None) -> Compared:
    verdict: Verdict = "too-little-data"
    if interval is not None:
        verdict = "same"
        if interval[0] > 1 or interval[1] < 1:
            verdict = "better" if (interval[0] > 1) == found.metric.higher else "worse"
    return msgspec.structs.replace(found, ratio=ratio, interval=interval, verdict=verdict)


_ABOUT: Final = {
    "model": ("name", "arch", "parameters", "quantisation", "file_bytes", "read_bytes_per_token"),
    "server": ("kind", "version"),
    "host": ("cpu", "cores", "cpu_quota_cores"),
}


def _differences(a: Side, b: Side) -> Iterable[Difference]:
    """What the newest request of each side ran on and with, where that is not equal."""
    if not a.samples or not b.samples:
        return
    first, second = (_facts(side.samples[-1]) for side in (a, b))
    for what in dict.fromkeys([*first, *second]):
        if first.get(what) != second.get(what):
            yield Difference(what, first.get(what), second.get(what))


def _facts(sample: Sample) -> dict[str, Any]:
    found = request_object(sample.session, sample.run, kept_as=None)
    facts = {f"{group}.{name}": found[group][name] for group, names in _ABOUT.items() for name in names}
    facts["gpus"] = ", ".join(gpu["name"] for gpu in found["gpus"] if gpu["in_use"] is not False and gpu["name"]) or None
    drivers = (versions.at() for versions in sample.session.devices.values())
    facts["driver"] = next((device.driver for device in drivers if device is not None and device.driver), None)
    facts["phasetop"] = found["phasetop"]
    facts.update({f"settings.{name}": value for name, value in found["settings"].items() if name != "seed"})
    return facts
