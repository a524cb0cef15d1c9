"""`phasetop bench` for people: the lab's own lines, a table, what to notice, and plots."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from phasetop.bandwidth_file import was_disturbed
from phasetop.bench_formats import model_parts
from phasetop.bench_notices import Notice
from phasetop.bench_plan import BenchPlan
from phasetop.bench_points import Point, decode_points, ttft_line, ttft_points, words_about
from phasetop.bench_seen import Stopped
from phasetop.bench_stats import Figure, least_squares
from phasetop.figures import UNKNOWN, count
from phasetop.printed_plot import plot_lines
from phasetop.roofline import ETA_HIGH, ETA_LOW

LABEL: Final = 9
PLOT_HEIGHT: Final = 15
_STEPS: Final = 40
_LEAST: Final = 40
_ROOF: Final = (
    "what the peaks allow; MFU and MBU: how much of it was reached "
    f"(real kernels: {100 * ETA_LOW:.0f} to {100 * ETA_HIGH:.0f} % of the bandwidth)"
)
_DISTURBED: Final = "The bandwidth was measured while other programs were busy: it may be more, and MBU less."
_GIVEN_UP: Final = ("predicted prefill", "runs", "predicted decode", "mfu", "mbu")
"""Columns that a narrow terminal goes without, in this order."""


def text_lines(
    told: Mapping[str, Any],
    points: Sequence[Point],
    plan: BenchPlan,
    notices: Sequence[Notice],
    stopped: Stopped | None,
    *,
    width: int | None,
) -> Iterator[str]:
    """All but the plots, a line each; names in it are not made harmless yet. ``width``: of the terminal, None: any."""
    yield from _head(told, {name for point in points for name in point.swept})
    yield ""
    for point in points:
        if point.runs:
            line = _label("prompt", lab_line(point))
            yield line if width is None or len(line) <= width else _label("prompt", re.sub(" +", " ", lab_line(point)))
    yield ""
    yield from _table(points, width)
    if any(point.mbu.values or point.mfu.values for point in points):
        yield from _wrapped("roof", _ROOF, width)
        if was_disturbed(told["sources"].get("roofline.peak_bandwidth_bytes_per_s", "")):
            yield from _wrapped("", _DISTURBED, width)
    yield from _lacking(points, told, width)
    about = words_about(points)
    if about:
        yield ""
    for sentence in about:
        yield from _wrapped("", sentence, width)
    yield ""
    yield from _wrapped("repeats", _ended(points, plan, stopped), width)
    for notice in notices:
        yield from _wrapped("notice", notice.text, width)


def _label(label: str, text: str) -> str:
    return f"{label:<{LABEL}}{text}"


def _wrapped(label: str, text: str, width: int | None) -> Iterator[str]:
    """A sentence over as many lines as it needs, under its label; without a width on one."""
    indent = " " * LABEL if label else ""
    line = _label(label, text) if label else text
    yield from textwrap.wrap(line, max(width, _LEAST), subsequent_indent=indent) if width is not None else [line]


def _head(told: Mapping[str, Any], swept: set[str]) -> Iterator[str]:
    model, server, host, settings = told["model"], told["server"], told["host"], told["settings"]
    version = f"{server.get('kind')} {server.get('version') or ''}".strip() if server.get("kind") else None
    parts = [*model_parts(model), version]
    yield _label("bench", " · ".join(str(part) for part in parts if part))
    gpus = [gpu["name"] for gpu in told["gpus"] if gpu.get("in_use") and gpu.get("name")]
    threads, batch = (settings.get(name) if name not in swept else None for name in ("threads", "batch"))
    several = "s" if threads != 1 else ""
    machine = [*gpus, host.get("cpu"), f"{threads} thread{several}" if threads and not gpus else None]
    machine.append(f"batches of {count(batch)}" if isinstance(batch, int) else None)
    yield _label("on", " · ".join(str(part) for part in machine if part))


def lab_line(point: Point) -> str:
    """The lab's own line (OUTPUTS.md: the first of a run's summary), of means."""
    took, read, wrote = point.prefill_s.mean, point.prefill.mean, point.decode.mean
    prefill = UNKNOWN if took is None else f"{1e3 * took:.1f}"
    reads = UNKNOWN if read is None else f"{read:.0f}"
    writes = UNKNOWN if wrote is None else f"{wrote:.1f}"
    prompt = None if point.prompt is None else point.prompt + point.cell.depth
    tokens, output = (UNKNOWN if n is None else str(n) for n in (prompt, point.output))
    return f"{tokens} tok · prefill {prefill:>7} ms ({reads:>8} tok/s) · decode {output} tok at {writes:>6} tok/s"


def _spread(figure: Figure, number: Callable[[float], str]) -> str:
    """``1,782 ±2%``: the mean, and half of its 95 % interval."""
    if figure.mean is None:
        return UNKNOWN
    if figure.spread is None:
        return f"{number(figure.mean)}     "
    percent = 100 * figure.spread
    return f"{number(figure.mean)} ±{f'{percent:.1f}' if percent < 0.95 else f'{percent:.0f}'}%"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 999.5 else f"{value:.1f}"


def _ms(seconds: float) -> str:
    ms = 1e3 * seconds
    return f"{ms:,.0f}" if ms >= 99.5 else f"{ms:.1f}"


def _percent(figure: Figure) -> str:
    return UNKNOWN if figure.mean is None else f"{100 * figure.mean:.0f}%"


def _known(value: float | None) -> str:
    return UNKNOWN if value is None else _rate(value)


def _columns(points: Sequence[Point]) -> dict[str, tuple[str, list[str]]]:
    """Name → (head, cells); those that tell nothing here are left out."""
    swept = list(dict.fromkeys(name for point in points for name in point.swept))
    found: dict[str, tuple[str, list[str]]] = {
        name: (name, [str(point.swept.get(name, "")) for point in points]) for name in swept
    }
    found["words"] = "words", [count(point.cell.words) for point in points]
    found["prompt"] = "prompt", [count(point.prompt) for point in points]
    found["depth"] = "depth", [count(point.cell.depth) for point in points]
    found["cached"] = "cached", [count(point.cached) for point in points]
    found["parallel"] = "at once", [count(point.cell.parallel) for point in points]
    found["runs"] = "runs", [count(point.runs) for point in points]
    found["prefill"] = "prefill t/s", [_spread(point.prefill, _rate) for point in points]
    found["predicted prefill"] = "roof", [_known(point.predicted_prefill_per_s) for point in points]
    found["mfu"] = "MFU", [_percent(point.mfu) for point in points]
    found["decode"] = "decode t/s", [_spread(point.decode, _rate) for point in points]
    found["predicted decode"] = "roof", [_known(point.predicted_decode_per_s) for point in points]
    found["mbu"] = "MBU", [_percent(point.mbu) for point in points]
    found["all"] = "together", [_spread(point.all_decode, _rate) for point in points]
    found["ttft"] = "TTFT ms", [_spread(point.ttft, _ms) for point in points]
    silent = {
        "words": all(point.cell.words is None for point in points),
        "depth": not any(point.cell.depth for point in points),
        "cached": not any(point.cell.fills for point in points),
        "parallel": all(point.cell.parallel == 1 for point in points),
        "all": all(point.cell.parallel == 1 for point in points),
        "runs": len({point.runs for point in points}) == 1,
    }
    for name in ("predicted prefill", "mfu", "predicted decode", "mbu"):
        silent[name] = all(cell == UNKNOWN for cell in found[name][1])
    return {name: column for name, column in found.items() if not silent.get(name)}


def _table(points: Sequence[Point], width: int | None) -> Iterator[str]:
    columns = _columns(points)
    for name in ("", *_GIVEN_UP):
        columns.pop(name, None)
        widths = {name: max(len(head), *(len(cell) for cell in cells)) for name, (head, cells) in columns.items()}
        if width is None or sum(widths.values()) + 2 * (len(widths) - 1) <= width:
            break
    yield "  ".join(head.rjust(widths[name]) for name, (head, _) in columns.items())
    for i in range(len(points)):
        yield "  ".join(cells[i].rjust(widths[name]) for name, (_, cells) in columns.items())


def _lacking(points: Sequence[Point], told: Mapping[str, Any], width: int | None) -> Iterator[str]:
    """Why a share of a peak is not there."""
    unknown = told["unknown"]
    single = [point for point in points if point.runs and point.cell.parallel == 1]
    for name in ("mbu", "mfu"):
        known = any((point.mbu if name == "mbu" else point.mfu).values for point in single)
        if single and not known and (why := unknown.get(f"points.{name}_percent.mean")):
            yield from _wrapped(name.upper(), f"not known: {why}", width)


def _ended(points: Sequence[Point], plan: BenchPlan, stopped: Stopped | None) -> str:
    runs = [point.runs for point in points if point.runs]
    if not runs:
        return "none"
    many = f"{min(runs)}" if min(runs) == max(runs) else f"{min(runs)} to {max(runs)}"
    each = f"{many} of each, warm-ups not among them; ± is half of the 95 % interval of the mean"
    why = {
        "narrow": f"every figure is known to ±{100 * (plan.precision or 0):.3g} %",
        "time": "the time was up",
        "interrupted": "interrupted",
        "failed": "nothing could be measured",
    }.get(stopped or "")
    cut = sum(point.unfinished for point in points)
    unfinished = f"{cut} cut short, not among them" if cut else None
    return "; ".join(part for part in (each, why, unfinished) if part)


def plots(points: Sequence[Point], width: int, *, fine: bool) -> Iterator[str]:
    """TTFT over the prompt's length with its straight line; the decode rate over what is in the cache.

    ``fine``: lines of braille, for a terminal.
    """
    line = ttft_line(points)
    if line is not None:
        fit = "" if line.r2 is None else f", r² {line.r2:.4f}"
        yield from _plot(
            "TTFT in ms over tokens of the prompt",
            [(x, 1e3 * y) for x, y in ttft_points(points)],
            lambda x: 1e3 * line.at(x),
            width,
            fine=fine,
        )
        yield f"{'':<{LABEL}}{1e3 * line.intercept:.1f} ms + {1e3 * line.slope:.4g} ms a token{fit}"
    decoded = decode_points(points) if len({tuple(point.swept.items()) for point in points}) == 1 else []
    step = least_squares([(depth, 1 / rate) for depth, rate in decoded])
    if step is not None and step.at(min(x for x, _ in decoded)) > 0 and step.at(max(x for x, _ in decoded)) > 0:
        yield from _plot("decode tok/s over tokens in the cache", decoded, lambda x: 1 / step.at(x), width, fine=fine)
        yield f"{'':<{LABEL}}{1e3 * step.intercept:.3g} ms a token + {1e6 * step.slope:.3g} ms for each 1,000 in the cache"


def _plot(
    title: str,
    found: Sequence[tuple[float, float]],
    curve: Callable[[float], float],
    width: int,
    *,
    fine: bool,
) -> Iterator[str]:
    low, high = min(x for x, _ in found), max(x for x, _ in found)
    xs = [low + (high - low) * i / (_STEPS - 1) for i in range(_STEPS)]
    ys = [curve(x) for x in xs]
    top = 1.05 * max(*ys, *(y for _, y in found))

    def draw(figure: Any) -> None:
        figure.draw(figure.signal(xs, ys, marker="braille" if fine else ".").lines())
        figure.draw(figure.signal([x for x, _ in found], [y for _, y in found], marker="o"))
        ticks = sorted({x for x, _ in found})
        shown = [x for i, x in enumerate(ticks) if i in (0, len(ticks) - 1) or len(ticks) <= 6]
        figure.ruler("x").ticks(shown, [f"{x:,.0f}" for x in shown])
        levels = [0.0, _round_up(top / 2), _round_up(top)] if top > 0 else [0.0]
        shown_levels = [level for level in levels if level <= top]
        figure.ruler("y").ticks(shown_levels, [f"{level:,g}" for level in shown_levels])
        figure.ruler("y").lim(min(0.0, *ys), top)
        figure.title(title)

    yield ""
    yield from plot_lines(draw, width, PLOT_HEIGHT, colour=False)


def _round_up(value: float) -> float:
    """A level that is easily read, at or below a value: its first two digits."""
    power = 10.0 ** (math.floor(math.log10(value)) - 1)
    return math.floor(value / power) * power
