"""What `phasetop kv` says of a model and a server's options: one `Study`, and the object that `kv --json` prints of it.

The keys of the object are OUTPUTS.md's, a contract; its fields speak llama.cpp's own names. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from phasetop.kv import (
    Layout,
    Options,
    OptionsError,
    bytes_per_token,
    largest_context,
    layout,
    next_token_bytes,
    occupied_bytes,
    used_cells,
)
from phasetop.kv.options import padded
from phasetop.model_metadata import Metadata

TABLE_TYPES: Final = ("f16", "q8_0", "q4_0")
"""Types of the cache that the table sets side by side."""
FIRST_CONTEXT: Final = 4096
SHORT_MODEL: Final = 8192
"""A model trained for no more has a table that begins at an eighth of it."""
_OPTIONS: Final = (
    *("n_ctx", "n_ctx_seq", "n_seq_max", "kv_unified", "n_batch", "n_ubatch", "type_k", "type_v", "flash_attn", "swa_full"),
    "n_rs_seq",
)
_NOT_IN_TABLE: Final = "no file was read, and its size is not in phasetop's table of models"
_NOT_KNOWN: Final = "neither a file nor a server told it"


@dataclass(frozen=True, slots=True)
class Row:
    """Bytes for one context and one type of cache; None: llama.cpp refuses that type for this model or these options."""

    context: int
    kind: str
    total_bytes: int | None


@dataclass(frozen=True, slots=True)
class MaxContext:
    """The largest context that fits.

    Attributes:
        tokens: None: not even 256, or the size of the weights is not known.
        limit: what it stops at: memory, or what the model was trained for; unknown where the weights are.

    """

    memory_bytes: int
    tokens: int | None
    kv_bytes: int | None
    weights_bytes: int | None
    limit: str


@dataclass(frozen=True, slots=True)
class Study:
    """Everything about one model and one server's options; ``memory_bytes``: what there is for both, where that is known."""

    metadata: Metadata
    options: Options
    layout: Layout
    table: tuple[Row, ...]
    n_past: int | None = None
    max_context: MaxContext | None = None
    memory_bytes: int | None = None


def study(
    metadata: Metadata,
    options: Options,
    *,
    n_past: int | None = None,
    memory_bytes: int | None = None,
    largest: bool = False,
) -> Study:
    """Work out everything.

    Args:
        metadata: the model.
        options: the server's, as they were given.
        n_past: tokens that one sequence has in the cache, where that is asked.
        memory_bytes: what weights and cache may take together; with `largest`: how much context that is.
        largest: whether that is asked.

    Raises:
        KvError: the model's metadata do not tell enough.
        OptionsError: llama.cpp refuses these options for this model.
    """
    found = layout(metadata.arch, metadata.hparams, options)
    fits = _max_context(metadata, options, found, memory_bytes) if largest and memory_bytes is not None else None
    return Study(metadata, options, found, tuple(_table(metadata, options, found)), n_past, fits, memory_bytes)


def contexts(trained: int) -> list[int]:
    """Doublings up to the trained length, which is the last one whether it is a doubling or not."""
    first = FIRST_CONTEXT if trained > SHORT_MODEL else max(256, padded(trained // 8))
    found = []
    context = first
    while context < trained:
        found.append(context)
        context *= 2
    return [*found, trained] if trained else found


def _table(metadata: Metadata, options: Options, found: Layout) -> Iterator[Row]:
    for context in contexts(found.context_trained):
        for kind in TABLE_TYPES:
            yield Row(context, kind, _total(metadata, replace(options, context=context, type_k=kind, type_v=kind)))


def _total(metadata: Metadata, options: Options) -> int | None:
    try:
        return layout(metadata.arch, metadata.hparams, options).kv_bytes
    except OptionsError:
        return None


def _max_context(metadata: Metadata, options: Options, found: Layout, memory_bytes: int) -> MaxContext:
    weights = metadata.tensor_bytes
    if weights is None:
        return MaxContext(memory_bytes, None, None, None, "unknown")
    resolved = found.options
    most = found.context_trained * (1 if resolved.kv_unified else resolved.n_seq_max)

    def at(context: int) -> Layout:
        return layout(metadata.arch, metadata.hparams, replace(options, context=context))

    tokens = largest_context(lambda context: weights + at(context).total_bytes, memory_bytes, most)
    kv_bytes = at(tokens).kv_bytes if tokens is not None else None
    limit = "trained" if tokens is not None and tokens + 256 > most else "memory"
    return MaxContext(memory_bytes, tokens, kv_bytes, weights, limit)


def kv_object(study: Study) -> dict[str, Any]:
    """What `kv --json` prints."""
    metadata, found = study.metadata, study.layout
    resolved = found.options
    unknown: dict[str, str] = {}
    sources = {f"options.{name}": source for name, source in resolved.sources.items()}
    assumed = [*resolved.assumed]
    if not found.known:
        assumed.append("arch-unknown")
        sources["memory_kind"] = f"assumed: a plain cache, nobody here knows the architecture {metadata.arch}"
    value: dict[str, Any] = {
        "model": _model(metadata, unknown, sources),
        "options": {name: getattr(resolved, name) for name in _OPTIONS},
        "caches": [
            {
                "name": cache.name,
                "cells": cache.cells,
                "streams": cache.streams,
                "n_layers": len(cache.layers),
                "k_bytes": cache.k_bytes,
                "v_bytes": cache.v_bytes,
                "layers": [list(layer) for layer in cache.layers],
            }
            for cache in found.caches
        ],
        "k_bytes": found.k_bytes,
        "v_bytes": found.v_bytes,
        "rs_bytes": found.state_bytes,
        "kv_bytes_total": found.kv_bytes,
        "memory_kind": found.kind,
        "bytes_per_token": bytes_per_token(found),
        "next_token_bytes": next_token_bytes(found, study.n_past or 0),
        "fill": _fill(study),
        "max_context": _largest(study, unknown),
        "table": [
            {"context": row.context, "type_k": row.kind, "type_v": row.kind, "kv_bytes_total": row.total_bytes}
            for row in study.table
        ],
        "assumed": assumed,
    }
    if any(row.total_bytes is None for row in study.table):
        unknown["table.kv_bytes_total"] = "llama.cpp refuses this type for this model or these options"
    return {**value, "sources": sources, "unknown": unknown}


def _model(metadata: Metadata, unknown: dict[str, str], sources: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": metadata.name,
        "file": metadata.file,
        "arch": metadata.arch,
        "layers": metadata.layers,
        "context_trained": metadata.context_trained,
        "tensor_bytes": metadata.tensor_bytes,
        "quantisation": metadata.quant,
        "parameters": metadata.params,
        "file_bytes": metadata.file_bytes,
        "tensor_bytes_by_type": dict(metadata.by_type),
        "read_bytes_per_token": metadata.read_bytes_per_token,
        "weights": dict(metadata.weights or {}),
        "head_tied": metadata.head_tied if metadata.by_type else None,
    }
    why = _NOT_KNOWN if metadata.file is None and not metadata.origin else "the file does not say it"
    if metadata.file is None and any(source.startswith("assumed") for source in metadata.origin.values()):
        why = _NOT_IN_TABLE
    for name, value in found.items():
        if value is None and name not in ("name", "file"):
            unknown[f"model.{name}"] = why
    for key, name in {"arch": "arch", "tensor_bytes": "tensor_bytes", "weights": "read_bytes_per_token"}.items():
        source = metadata.origin.get(key, "file")
        if found[name] is not None:
            sources[f"model.{name}"] = source
    return found


def _fill(study: Study) -> dict[str, Any] | None:
    if study.n_past is None:
        return None
    return {
        "n_past": study.n_past,
        "caches": [
            {"name": cache.name, "used_cells": used_cells(cache, study.n_past), "cells": cache.cells}
            for cache in study.layout.caches
        ],
        "occupied_bytes": occupied_bytes(study.layout, study.n_past),
    }


def _largest(study: Study, unknown: dict[str, str]) -> dict[str, Any] | None:
    found = study.max_context
    if found is None:
        return None
    if found.weights_bytes is None:
        unknown["max_context"] = "the size of the weights is not known: give the .gguf file, or --weights"
    elif found.tokens is None:
        unknown["max_context.tokens"] = unknown["max_context.kv_bytes"] = "not even 256 tokens fit"
    return {
        "memory_bytes": found.memory_bytes,
        "tokens": found.tokens,
        "kv_bytes": found.kv_bytes,
        "weights_bytes": found.weights_bytes,
        "limit": found.limit,
    }
