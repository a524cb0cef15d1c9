"""`phasetop predict` for people: what bounds each phase, tables over what can be varied, and the plot of the roofline."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from phasetop.figures import UNKNOWN, count, memory, size
from phasetop.peaks import PEAKS
from phasetop.predict_report import Row, Study
from phasetop.printed_plot import plot_lines

LABEL: Final = 9
PLOT_HEIGHT: Final = 17
_POINTS: Final = 60
_BOUND: Final = {"compute": "the arithmetic", "bandwidth": "the memory"}


def lines(done: Study, rows: list[Row]) -> Iterator[str]:
    """The text, a line each; names in it are not made harmless yet."""
    yield from _head(done)
    yield ""
    yield from _phases(done)
    if rows:
        yield ""
        yield from _table(rows)


def gpu_lines() -> Iterator[str]:
    """The table of chips: bandwidth, FLOP/s, source."""
    width = max(len(peak.name) for peak in PEAKS) + 2
    yield f"{'':<{width}}{'GB/s':>8}{'16-bit':>10}{'int8':>9}{'fp8':>9}   source (TFLOP/s are dense)"
    for peak in PEAKS:
        known = peak.flops_of_weights
        plain = UNKNOWN if known is None else _tera(known[1]) + ("" if known[0] != "fp32" else " fp32")
        other = [_tera(peak.flops[name]) if name in peak.flops else "" for name in ("int8", "fp8")]
        yield f"{peak.name:<{width}}{peak.bytes_per_s / 1e9:>8,.0f}{plain:>10}{other[0]:>9}{other[1]:>9}   {peak.source}"


def _row(label: str, *parts: str) -> str:
    return f"{label:<{LABEL}}{' · '.join(part for part in parts if part)}"


def _head(done: Study) -> Iterator[str]:
    scenario, machine = done.scenario, done.machine
    metadata = scenario.metadata
    name = (metadata.name or metadata.file or metadata.arch) if metadata is not None else ""
    active = f"{count(done.active_params)} of them a token" if done.active_params != done.params else ""
    bits = f"{scenario.named}, {done.bits:.3g} bits a weight"
    yield _row("model", name, f"{count(done.params)} parameters", active, bits, f"{size(done.weight_bytes)} of weights")
    peaks = [f"{_gb(machine.bytes_per_s)} GB/s", f"{_tera(machine.flops)} TFLOP/s"]
    balance = f"as fast at both with {machine.balance:.0f} FLOP a byte" if machine.balance is not None else ""
    yield _row("machine", scenario.gpu or "", *peaks, balance)
    per_token = done.cache_bytes_per_token
    if per_token is not None:
        depth = scenario.depth
        read = done.subject.cache_bytes(depth) if done.subject.cache_bytes is not None else 0
        whole = f"a step reads {' '.join(memory(read))} of it {count(depth)} tokens deep"
        yield _row("cache", f"{count(per_token)} B a token", whole)


def _phases(done: Study) -> Iterator[str]:
    scenario, found = done.scenario, done.at_peak
    if done.prompt_tokens:
        limit = f"bound by {_BOUND[found.prefill_bound]}" if found.prefill_bound else "not known"
        yield _columns("prefill", done.prompt_tokens, done.prefill_token_s, found.prefill_s, limit, "")
    limit = f"bound by {_BOUND[found.step_bound]}" if found.step_bound else "not known"
    rate = "" if found.tok_per_s is None else f"{_figure(found.tok_per_s)} tok/s"
    if done.low is not None and done.high is not None:
        rate += f" (real kernels: {_figure(done.low)} to {_figure(done.high)})"
    yield _columns("decode", scenario.output * scenario.batch, found.step_s, found.decode_s, limit, rate)
    first = f"first token after {_time(found.ttft_s)}" if found.ttft_s is not None else "first token: not known"
    ratio = f"a decoded token takes as long as {done.ratio:,.0f} of the prompt" if done.ratio is not None else ""
    yield _row("", first, ratio)


def _columns(label: str, tokens: int, each: float | None, whole: float | None, limit: str, rate: str) -> str:
    per = UNKNOWN if each is None else _ms(each)
    tail = " · ".join(part for part in (limit, rate) if part)
    return f"{label:<{LABEL}}{count(tokens):>7} tok {per:>9} ms each {_time(whole):>10}   {tail}"


def _table(rows: list[Row]) -> Iterator[str]:
    columns = [
        ("weights", [row.scenario.named for row in rows]),
        ("prompt", [count(row.scenario.prompt) for row in rows]),
        ("depth", [count(row.scenario.depth) for row in rows]),
        ("output", [count(row.scenario.output) for row in rows]),
        ("batch", [count(row.scenario.batch) for row in rows]),
    ]
    shown = [(name, values) for name, values in columns if name == "weights" or len(set(values)) > 1]
    widths = [max(len(name), *(len(value) for value in values)) for name, values in shown]
    heads = " ".join(
        name.ljust(w) if i == 0 else name.rjust(w) for i, ((name, _), w) in enumerate(zip(shown, widths, strict=True))
    )
    yield f"{heads} {'prefill':>10} {'first':>10} {'a token':>10} {'reply':>10} {'tok/s':>8}  bound by"
    for i, row in enumerate(rows):
        found = row.study.at_peak
        cells = [values[i] for _, values in shown]
        left = " ".join(
            cell.ljust(w) if k == 0 else cell.rjust(w) for k, (cell, w) in enumerate(zip(cells, widths, strict=True))
        )
        rate = UNKNOWN if found.tok_per_s is None else _figure(found.tok_per_s)
        step = UNKNOWN if found.step_s is None else f"{_ms(found.step_s)} ms"
        limit = _BOUND[found.step_bound] if found.step_bound else UNKNOWN
        times = f"{_time(found.prefill_s):>10} {_time(found.ttft_s):>10} {step:>10} {_time(found.decode_s):>10}"
        yield f"{left} {times} {rate:>8}  {limit}"


def plot(done: Study, width: int, *, colour: bool) -> list[str]:
    """The roof over FLOPs a byte, log-log, with the model's two phases on it; none where a peak is missing."""
    machine = done.machine
    bytes_per_s, flops = machine.bytes_per_s, machine.flops
    if bytes_per_s is None or flops is None or machine.balance is None:
        return []
    phases = [("decode", done.at_peak.step)]
    if done.scenario.prompt:
        phases.append(("prefill", done.at_peak.prefill))
    points = [(name, work.intensity or 0.0, work.flops_per_s(machine) or 0.0) for name, work in phases]
    low = min(0.5, *(x / 2 for _, x, _ in points if x > 0))
    high = max(4 * machine.balance, *(2 * x for _, x, _ in points))

    def draw(figure: Any) -> None:
        steps = [low * (high / low) ** (i / (_POINTS - 1)) for i in range(_POINTS)]
        roof = [min(x * bytes_per_s, flops) for x in steps]
        marker = "braille" if colour else "."
        figure.draw(figure.signal([math.log10(x) for x in steps], [math.log10(y) for y in roof], marker=marker).lines())
        for name, x, y in points:
            if x > 0:
                figure.draw(figure.signal([math.log10(x)], [math.log10(y)], marker=name[0]))
        marks = _decades(low, high)
        figure.ruler("x").ticks([math.log10(mark) for mark in marks], [_short(mark) for mark in marks])
        figure.ruler("x").lim(math.log10(low), math.log10(high))
        levels = _decades(min(roof), max(roof) * 1.001)
        figure.ruler("y").ticks([math.log10(level) for level in levels], [f"{_tera(level)} T" for level in levels])
        figure.ruler("y").lim(math.log10(min(roof)), math.log10(max(roof)) + 0.15)
        figure.title("FLOP/s over FLOP a byte")

    legend = " · ".join(f"{name[0]} {name} {_tera(y)} TFLOP/s at {_plain(x)}" for name, x, y in points)
    return ["", *plot_lines(draw, width, PLOT_HEIGHT, colour=colour), f"{'':<{LABEL}}{legend}"]


def _decades(low: float, high: float) -> list[float]:
    return [10.0**power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]


def _short(value: float) -> str:
    return f"{value:g}" if value < 1000 else f"{value / 1000:g}k"


def _plain(value: float) -> str:
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def _ms(seconds: float) -> str:
    ms = 1e3 * seconds
    return f"{ms:.3f}" if ms < 0.9995 else f"{ms:.2f}" if ms < 99.995 else f"{ms:,.0f}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return UNKNOWN
    if seconds < 0.09995:
        return f"{1e3 * seconds:.1f} ms"
    return f"{1e3 * seconds:.0f} ms" if seconds < 0.9995 else f"{seconds:,.2f} s" if seconds < 100 else f"{seconds:,.0f} s"


def _figure(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 999.95 else f"{value:,.0f}"


def _tera(flops: float | None) -> str:
    return UNKNOWN if flops is None else f"{flops / 1e12:.3g}" if flops < 999.5e12 else f"{flops / 1e12:,.0f}"


def _gb(bytes_per_s: float | None) -> str:
    return (
        UNKNOWN
        if bytes_per_s is None
        else f"{bytes_per_s / 1e9:,.0f}"
        if bytes_per_s >= 1e11
        else f"{bytes_per_s / 1e9:.1f}"
    )
