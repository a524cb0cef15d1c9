"""`phasetop kv` for people: what is in the model, what the server allocates, a table over context lengths, and a plot."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from phasetop.figures import count, memory, share, size
from phasetop.kv import Cache, Layout, OptionsError, bytes_per_token, layout, next_token_bytes, occupied_bytes, used_cells
from phasetop.kv.fill import attended_bytes
from phasetop.kv_report import TABLE_TYPES, Study
from phasetop.printed_plot import plot_lines

LABEL: Final = 9
PLOT_HEIGHT: Final = 16
_MARKS: Final = {"f16": "f", "q8_0": "8", "q4_0": "4"}
"""What draws a line where there are no colours to tell them apart."""


def lines(study: Study, width: int = 80) -> Iterator[str]:
    """The text, a line each, prose wrapped at ``width``; names in it are not made harmless yet."""
    for line in _lines(study):
        if len(line) <= width or "  " in line[LABEL:]:  # a row of a table has its columns apart
            yield line
        else:
            yield from textwrap.wrap(line, width, subsequent_indent=" " * LABEL, break_on_hyphens=False)


def _lines(study: Study) -> Iterator[str]:
    yield from _model(study)
    yield ""
    yield from _server(study)
    yield ""
    yield from _caches(study)
    if study.n_past is not None:
        yield ""
        yield from _fill(study)
    if study.max_context is not None:
        yield ""
        yield from _largest(study)
    if study.table:
        yield ""
        yield from _table(study)


def plot(study: Study, width: int, *, colour: bool) -> str:
    """Bytes over the context, a line a type, with the weights (and the memory) as levels; empty where there is nothing."""
    rows = [row for row in study.table if row.total_bytes is not None]
    known = sorted({row.context for row in rows})
    top = max((row.total_bytes or 0 for row in rows), default=0)
    if len(known) < 2 or not top:
        return ""

    def draw(figure: Any) -> None:
        for kind in TABLE_TYPES:
            points = [(row.context, row.total_bytes) for row in rows if row.kind == kind]
            if points:
                marker = "braille" if colour else _MARKS[kind]
                signal = figure.signal([x for x, _ in points], [y for _, y in points], marker=marker)
                figure.draw(signal.lines().label(kind))
        for name, level in (("weights", study.metadata.tensor_bytes), ("memory", study.memory_bytes)):
            if level is not None and level <= 1.2 * top:
                figure.line(level, label=name, style="dotted")
        levels = [0, top // 4, top // 2, 3 * top // 4, top]
        figure.ruler("y").ticks(levels, ["0", *(_amount(level) for level in levels[1:])])
        step = max(1, len(known) // 4)
        shown = known[::-step][::-1]
        figure.ruler("x").ticks(shown, [_tokens(context) for context in shown])
        figure.title("KV cache over the context")

    return "\n".join(plot_lines(draw, width, PLOT_HEIGHT, colour=colour))


def _row(label: str, *parts: str) -> str:
    return f"{label:<{LABEL}}{' · '.join(part for part in parts if part)}"


def _tokens(n: int) -> str:
    return f"{n // 1024}k" if n % 1024 == 0 else count(n)


def _plural(n: int, word: str) -> str:
    return f"{count(n)} {word}{'' if n == 1 else 's'}"


def _amount(size_bytes: int | None) -> str:
    """Bytes of a cache; below a MiB to the byte."""
    if size_bytes is not None and size_bytes < 1 << 20:
        return f"{size_bytes:,} B"
    return " ".join(memory(size_bytes))


def _model(study: Study) -> Iterator[str]:
    metadata, found = study.metadata, study.layout
    yield _row(
        "model",
        metadata.name or metadata.file or metadata.arch,
        metadata.arch,
        metadata.quant or "",
        _plural(metadata.layers or 0, "layer"),
        f"trained for {count(found.context_trained)} tokens",
    )
    if metadata.tensor_bytes is not None:
        types = ", ".join(f"{kind} {size(amount)}" for kind, amount in metadata.by_type.items())
        yield _row("weights", size(metadata.tensor_bytes), types)
    read = metadata.read_bytes_per_token
    if read is not None:
        head = (metadata.weights or {}).get("head")
        parts = [f"a token reads {size(read)}"]
        if head:
            tied = " (it is the embedding, too)" if metadata.head_tied else ""
            parts.append(f"the head {size(head)}, {share(head / read)}{tied}")
        experts = (metadata.weights or {}).get("experts")
        if experts:
            parts.append(f"of its experts {size(experts)}")
        yield _row("", *parts)
    if metadata.missing_bytes:
        yield _row("", f"the file lacks {size(metadata.missing_bytes)} of its tensors: cut off, or not finished")
    if not found.known:
        yield _row("", f"nobody here knows the architecture {metadata.arch}: computed as a plain cache")


def _server(study: Study) -> Iterator[str]:
    o = study.layout.options
    pool = "one pool that they share" if o.kv_unified else f"{count(o.n_ctx_seq)} for each"
    slots = "1 slot" if o.n_seq_max == 1 else f"{o.n_seq_max} slots, {pool}"
    yield _row(
        "server",
        f"context {count(o.n_ctx)}",
        slots,
        f"K {o.type_k}, V {o.type_v}",
        f"batch {count(o.n_batch)}, {count(o.n_ubatch)} at once",
        f"flash attention {o.flash_attn}",
        "whole windows" if o.swa_full else "",
    )
    if o.assumed:
        yield _row("", f"not given, so llama-server's own: {', '.join(o.assumed)}")


def _caches(study: Study) -> Iterator[str]:
    found = study.layout
    if found.kind == "none":
        yield _row("cache", f"none: {found.arch} looks at a whole text at once")
        return
    columns = f"{'layers':>7}{'cells':>10}{'streams':>8}{'K a layer':>10}{'V a layer':>10}{'a token':>13}{'all':>12}"
    yield f"{'cache':<{LABEL}}{columns}"
    for cache in found.caches:
        if cache.layers:
            yield _cache(cache)
    if found.state_bytes:
        yield f"{'state':<{LABEL}}{'':>58}{_amount(found.state_bytes):>12}"
    if len([cache for cache in found.caches if cache.layers]) + bool(found.state_bytes) > 1:
        yield f"{'all':<{LABEL}}{'':>45}{f'{bytes_per_token(found):,} B':>13}{_amount(found.total_bytes):>12}"
    windows = [cache for cache in found.caches if cache.window is not None and cache.layers]
    if windows:
        dense = next_token_bytes(found, max(cache.cells for cache in windows))
        cells = count(windows[0].cells)
        yield f"{'':<{LABEL}}past {cells} tokens the window is full: a token adds {dense:,} B"


def _cache(cache: Cache) -> str:
    def widths(which: int) -> str:
        found = sorted({layer[which] for layer in cache.layers})
        return count(found[0]) if len(found) == 1 else f"{count(found[0])}–{count(found[-1])}"

    a_token = f"{cache.cell_bytes / cache.ratio:,.0f} B"
    return (
        f"{cache.name:<{LABEL}}{len(cache.layers):>7}{count(cache.cells):>10}{cache.streams:>8}{widths(1):>10}{widths(2):>10}"
        f"{a_token:>13}{_amount(cache.total_bytes):>12}"
    )


def _fill(study: Study) -> Iterator[str]:
    found, n_past = study.layout, study.n_past or 0
    used = [
        f"{cache.name} {count(used_cells(cache, n_past))} of {count(cache.cells)}" for cache in found.caches if cache.layers
    ]
    yield _row("fill", f"{_plural(n_past, 'token')} of one sequence", _amount(occupied_bytes(found, n_past)), *used)
    yield _row(
        "",
        f"the next token adds {next_token_bytes(found, n_past):,} B",
        f"it reads {_amount(attended_bytes(found, n_past))} of the cache",
    )


def _largest(study: Study) -> Iterator[str]:
    fits = study.max_context
    assert fits is not None
    room = _amount(fits.memory_bytes)
    if fits.weights_bytes is None:
        yield _row("fits", "the size of the weights is not known: give the .gguf file, or --weights")
        return
    if fits.tokens is None:
        yield _row("fits", f"not even 256 tokens in {room}, beside {size(fits.weights_bytes)} of weights")
        return
    why = "no more, as the model was trained for that" if fits.limit == "trained" else ""
    yield _row("fits", f"{_plural(fits.tokens, 'token')} in {room}, beside {size(fits.weights_bytes)} of weights", why)
    yield _row("", "llama.cpp's compute buffers come on top: leave some 0.5 to 2 GiB")


def _table(study: Study) -> Iterator[str]:
    weights = study.metadata.tensor_bytes
    limit = study.memory_bytes if weights is not None else None
    head = f"{'context':>9}" + "".join(f"{kind:>12}" for kind in TABLE_TYPES)
    head += f"{'weights + f16':>16}" if weights is not None else ""
    head += f"   fits {_amount(limit)}" if limit is not None else ""
    yield head
    for context in dict.fromkeys(row.context for row in study.table):
        totals = {row.kind: row.total_bytes for row in study.table if row.context == context}
        line = f"{count(context):>9}" + "".join(f"{_amount(totals[kind]):>12}" for kind in TABLE_TYPES)
        whole = {kind: _with_weights(study, context, kind) for kind in TABLE_TYPES}
        if weights is not None:
            line += f"{_amount(whole['f16']):>16}"
        if limit is not None:
            fitting = [kind for kind, total in whole.items() if total is not None and total <= limit]
            line += f"   {', '.join(fitting) or 'no'}"
        yield line


def _with_weights(study: Study, context: int, kind: str) -> int | None:
    """Weights, cache and state for one context."""
    options = replace(study.options, context=context, type_k=kind, type_v=kind)
    try:
        found: Layout = layout(study.metadata.arch, study.metadata.hparams, options)
    except OptionsError:
        return None
    return found.total_bytes + (study.metadata.tensor_bytes or 0)
