"""A bench for other programs: CSV, llama-bench's Markdown table, Go's benchmark lines (for benchstat). Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from phasetop.bench_points import Point
from phasetop.bench_stats import Figure, rounded
from phasetop.export.as_csv import table
from phasetop.visible import harmless

_FIGURES: Final[tuple[tuple[str, Callable[[Point], Figure]], ...]] = (
    ("prefill_tok_per_s", lambda point: point.prefill),
    ("decode_tok_per_s", lambda point: point.decode),
    ("ttft_s", lambda point: point.ttft),
    ("aggregate_prefill_tok_per_s", lambda point: point.all_prefill if point.cell.parallel > 1 else Figure()),
    ("aggregate_decode_tok_per_s", lambda point: point.all_decode if point.cell.parallel > 1 else Figure()),
)
_WIDTHS: Final = {"size": 10, "params": 10, "ngl": 3, "threads": 7, "n_batch": 7, "n_ubatch": 8, "test": 15, "t/s": 20}
"""Widths of llama-bench's columns (b11434); those of text stand on the left."""
_LEFT: Final = {"model": 30, "backend": 10}
_BENCH_NAMES: Final = {"batch": "n_batch", "ubatch": "n_ubatch", "gpu_layers": "ngl"}


def csv_text(told: Mapping[str, Any], points: Sequence[Point]) -> str:
    """A row a point: what was measured, then each figure's mean, standard deviation and 95 % interval."""
    swept = list(dict.fromkeys(name for point in points for name in point.swept))
    names = ["model", "server", *swept, "prompt_words", "prompt_tokens", "output_tokens", "depth", "parallel", "cached"]
    names += ["runs", "failed", "unfinished"]
    for name, _ in _FIGURES:
        names += [name, f"{name}_sd", f"{name}_ci95_low", f"{name}_ci95_high"]
    names += ["mbu_percent", "mfu_percent", "predicted_decode_tok_per_s", "predicted_prefill_s"]
    return "".join(table(names, (_csv_row(told, point, swept) for point in points))).removesuffix("\n")


def _csv_row(told: Mapping[str, Any], point: Point, swept: Sequence[str]) -> list[Any]:
    cell = point.cell
    row = [told["model"].get("name"), told["server"].get("kind"), *(point.swept.get(name) for name in swept)]
    row += [cell.words, point.prompt, point.output, cell.depth, cell.parallel, point.cached]
    row += [point.runs, point.failed, point.unfinished]
    for _, read in _FIGURES:
        figure = read(point)
        low, high = figure.ci95 or (None, None)
        row += [rounded(value) for value in (figure.mean, figure.sd, low, high)]
    shares = [None if figure.mean is None else 100 * figure.mean for figure in (point.mbu, point.mfu)]
    return row + [rounded(value) for value in (*shares, point.predicted_decode_per_s, point.predicted_prefill_s)]


def md_lines(told: Mapping[str, Any], points: Sequence[Point]) -> Iterator[str]:
    """llama-bench's table: ``pp512`` reads a prompt, ``tg64 @ d512`` writes after so many tokens; mean ± its sd."""
    model, server, settings = told["model"], told["server"], told["settings"]
    on_gpu = bool(model.get("gpu_layers")) and bool(told["gpus"])
    swept = list(dict.fromkeys(name for point in points for name in point.swept))
    extra = [_BENCH_NAMES.get(name, name) for name in swept if name not in ("threads",)]
    names = ["model", "size", "params", "backend", *(["ngl"] if on_gpu and "ngl" not in extra else [])]
    names += [*([] if on_gpu and "threads" not in swept else ["threads"]), *extra, "test", "t/s"]
    named = model_parts(model)
    cells = {
        "model": harmless(" ".join(named), newlines=False),
        "size": _size(model.get("tensor_bytes") or model.get("file_bytes")),
        "params": _params(model.get("parameters")),
        "backend": harmless(str(server.get("kind") or ""), newlines=False),
        "ngl": str(model.get("gpu_layers")),
        "threads": str(settings.get("threads") or ""),
    }
    yield _md_row({name: name for name in names})
    yield "|" + "|".join(_rule(name) for name in names) + "|"
    for point in points:
        own = {_BENCH_NAMES.get(name, name): str(value) for name, value in point.swept.items()}
        for test, figure in _tests(point):
            if figure.mean is not None:
                rate = f"{figure.mean:.2f} ± {figure.sd or 0.0:.2f}"
                row = {**cells, **own, "test": test, "t/s": rate}
                yield _md_row({name: row.get(name, "") for name in names})
    yield ""
    yield f"build: phasetop {told.get('phasetop') or ''}, {server.get('kind') or ''} {server.get('version') or ''}".rstrip()


def model_parts(model: Mapping[str, Any]) -> list[str]:
    """Its name, and its quantisation where the name does not say it."""
    name, quant = str(model.get("name") or ""), str(model.get("quantisation") or "")
    return [part for part in (name, quant if quant.lower() not in name.lower() else "") if part]


def _tests(point: Point) -> Iterator[tuple[str, Figure]]:
    """(llama-bench's name, figure) of a point; what several did together goes by ``xN``, which llama-bench does not have."""
    cell = point.cell
    if point.prompt is None or point.output is None:
        return
    begins = cell.depth if not cell.cached else point.cached or 0
    new = point.prompt if not cell.cached else point.prompt - begins
    at_once = f" x{cell.parallel}" if cell.parallel > 1 else ""
    ends = point.prompt + cell.depth
    prefill, decode = (point.prefill, point.decode) if cell.parallel == 1 else (point.all_prefill, point.all_decode)
    yield f"pp{new}{f' @ d{begins}' if begins else ''}{at_once}", prefill
    yield f"tg{point.output} @ d{ends}{at_once}", decode


def _md_row(cells: Mapping[str, str]) -> str:
    texts = []
    for name, value in cells.items():
        value = value.replace("|", "\\|")
        texts.append(f"{value:<{_LEFT[name]}}" if name in _LEFT else f"{value:>{_WIDTHS.get(name, max(10, len(name)))}}")
    return f"| {' | '.join(texts)} |"


def _rule(name: str) -> str:
    if name in _LEFT:
        return f" {'-' * _LEFT[name]} "
    return f" {'-' * (_WIDTHS.get(name, max(10, len(name))) - 1)}: "


def _size(value: int | None) -> str:
    if value is None:
        return ""
    return f"{value / (1 << 20):.2f} MiB" if value < 1 << 30 else f"{value / (1 << 30):.2f} GiB"


def _params(value: int | None) -> str:
    if value is None:
        return ""
    return f"{value / 1e6:.2f} M" if value < 1_000_000_000 else f"{value / 1e9:.2f} B"


def benchstat_lines(told: Mapping[str, Any], points: Sequence[Point]) -> Iterator[str]:
    """Go's benchmark format, a line a repeat: ``Benchmark…/prompt=512/depth=0 1 151.35 decode-tok/s …``."""
    host, server, model = told["host"], told["server"], told["model"]
    yield f"pkg: phasetop/{_word(server.get('kind') or 'server')}"
    if host.get("cpu"):
        yield f"cpu: {harmless(str(host['cpu']), newlines=False)}"
    yield "Unit prefill-tok/s better=higher"
    yield "Unit decode-tok/s better=higher"
    yield "Unit together-tok/s better=higher"
    yield "Unit ttft-sec better=lower"
    for point in points:
        cell = point.cell
        parts = [f"model={_word(model.get('name') or 'model')}"]
        parts += [f"{name}={_word(str(value))}" for name, value in point.swept.items()]
        parts += [f"prompt={f'{cell.words}w' if cell.words is not None else cell.tokens}", f"output={cell.output}"]
        parts += [f"depth={cell.depth}", f"parallel={cell.parallel}", *(["cached=true"] if cell.cached else [])]
        figures = [(point.prefill, "prefill-tok/s"), (point.decode, "decode-tok/s"), (point.ttft, "ttft-sec")]
        if cell.parallel > 1:
            figures.append((point.all_decode, "together-tok/s"))
        for i in range(point.runs):
            values = [f"{figure.values[i]:.6g} {unit}" for figure, unit in figures if len(figure.values) == point.runs]
            if values:
                yield "\t".join([f"BenchmarkPhases/{'/'.join(parts)}", "1", *values])


def _word(text: str) -> str:
    """Part of a benchmark's name: no blank, no slash."""
    return re.sub(r"[^\w.:+-]", "-", text) or "-"
