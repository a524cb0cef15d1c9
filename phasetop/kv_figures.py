"""The KV cache of a request in bytes, by llama.cpp's own rules: a pure function of (Session, request, cursor).

What it needs stands in the session: the model's metadata (`model`: arch, hparams) and the server's options (`server`), each
with its source. Where one of them is not known the figure is not, either, or says that it assumes llama-server's default.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from phasetop import events as ev
from phasetop.columns import LIVE
from phasetop.counts import CacheUse, Kv, Reasons, Seen, number_of
from phasetop.faults import PhasetopError
from phasetop.kv import Layout, bytes_per_token, layout, next_token_bytes, occupied_bytes, used_cells
from phasetop.kv.fill import state_bytes_per_sequence
from phasetop.server_options import DEFAULTS, cache_options
from phasetop.session import Run, Session

MIB: Final = 1 << 20
BYTES: Final = ("used_bytes", "allocated_bytes", "bytes_per_token", "next_token_bytes")
_OPTIONS: Final = (
    *("context", "parallel", "kv_unified", "kv_unified_per_slot", "batch", "ubatch", "cache_type_k", "cache_type_v"),
    *("flash_attention", "swa_full", "fit", "embeddings", "spec_type", "spec_draft_n_max"),
)
"""The server's options that a cache depends on, by OUTPUTS' names."""
_NOT_SHARED: Final = "how the server's slots share its context is not known"
_WIDTHS: Final = ("batch", "ubatch", "cache_type_k", "cache_type_v", "flash_attention", "swa_full")
"""Those whose default can be taken where a server says nothing."""


def with_bytes(seen: Seen, kv: Kv, decode_per_s: float | None, unknown: Reasons, sources: Reasons) -> Kv:
    """The cells of a request with what they take, the server's caches, and when they will be full.

    Args:
        seen: the request at a cursor.
        kv: its cells, as `counts.kv_use` counts them.
        decode_per_s: tokens a second.
        unknown: why a figure is not known, by its path in ``run --json``; reasons are added.
        sources: likewise where one is from.
    """
    kv = replace(kv, full_in_s=_full_in(seen, kv, decode_per_s, unknown))
    session, cursor = seen.session, seen.cursor
    server, model = session.server_of(seen.run, cursor), session.model_of(seen.run, cursor)
    told = _told(server)
    whole = _all_told(server, told)
    kv = replace(
        kv,
        slots=number_of(told, "parallel"),
        shared=_shared(told, whole=whole),
        host_cache_bytes=_host_cache(told, whole=whole),
        when_full=_when_full(told, whole=whole),
    )
    found = _layout_or_why(model, told)
    if isinstance(found, str):
        unknown.update(dict.fromkeys((f"kv.{name}" for name in BYTES), found))
        return kv
    sources.update(dict.fromkeys((f"kv.{name}" for name in BYTES), _source(server, told, found, whole=whole)))
    return _filled(kv, found, told, unknown)


def layout_of(session: Session, run: Run, cursor: int = LIVE) -> Layout | None:
    """The caches of a request's server as of a cursor; None where they cannot be computed."""
    found = _layout_or_why(session.model_of(run, cursor), _told(session.server_of(run, cursor)))
    return None if isinstance(found, str) else found


def _told(server: ev.Server | None) -> dict[str, ev.Sourced]:
    """The server's options that have a value."""
    options = (server.options or {}) if server is not None else {}
    return {name: option for name, option in options.items() if option.value is not None}


def _layout_or_why(model: ev.Model | None, told: Mapping[str, ev.Sourced]) -> Layout | str:
    """The caches of a server with these options, or why they cannot be computed."""
    if model is None or not model.arch or not model.hparams:
        return "the model's architecture is not known: the server does not tell it, and its file is not read here"
    try:
        return _layout(model.arch, msgspec.json.encode(model.hparams), msgspec.json.encode(_values(told)))
    except (PhasetopError, msgspec.DecodeError) as error:
        return str(error)


def _filled(kv: Kv, found: Layout, told: Mapping[str, ev.Sourced], unknown: Reasons) -> Kv:
    """The figures of a layout with so many cells in use."""
    has_context = "context" in told or "kv_unified_per_slot" in told
    sized = kv.shared is not None and has_context
    if not sized:
        unknown["kv.allocated_bytes"] = _NOT_SHARED if has_context else "the server does not tell its whole context"
    if kv.tokens is None:
        why = unknown.get("kv.tokens", "the cells in use are not known")
        unknown["kv.used_bytes"] = unknown["kv.next_token_bytes"] = why
    uses = [
        CacheUse(
            name=cache.name,
            cells=cache.cells,
            streams=cache.streams,
            used_cells=None if kv.tokens is None else used_cells(cache, kv.tokens),
            total_bytes=cache.total_bytes,
            cell_bytes=cache.cell_bytes,
            window=cache.window,
        )
        for cache in found.caches
        if cache.layers
    ]
    if found.state_bytes:
        own = state_bytes_per_sequence(found)
        begun = None if kv.tokens is None else int(kv.tokens > 0)
        uses.append(CacheUse("state", 1, found.options.n_seq_max, begun, found.state_bytes, own, None))
    return replace(
        kv,
        used_bytes=None if kv.tokens is None else occupied_bytes(found, kv.tokens),
        allocated_bytes=found.total_bytes if sized else None,
        bytes_per_token=bytes_per_token(found),
        next_token_bytes=None if kv.tokens is None else next_token_bytes(found, kv.tokens),
        caches=tuple(uses) if sized else (),
    )


def _full_in(seen: Seen, kv: Kv, decode_per_s: float | None, unknown: Reasons) -> float | None:
    """When the context is full at the reply's rate, unless the reply must end before."""
    most = seen.run.settings(seen.cursor).get("max_tokens")
    left = most - seen.tally.output if isinstance(most, int) and not isinstance(most, bool) and most > 0 else None
    if left is not None and kv.tokens is not None and kv.context is not None and kv.context - kv.tokens > left:
        unknown["kv.full_in_s"] = f"the reply ends before it is full, at {most:,} tokens (max_tokens)"
        return None
    if kv.tokens is not None and kv.context is not None and decode_per_s:
        return round((kv.context - kv.tokens) / decode_per_s, 3)
    reason = unknown.get("kv.context") or unknown.get("kv.tokens") or unknown.get("rates.decode_tok_per_s")
    unknown["kv.full_in_s"] = reason or "the server does not tell"
    return None


def _all_told(server: ev.Server | None, told: Mapping[str, ev.Sourced]) -> bool:
    """Whether an option that is not there was left out: the engine is ours, or the server's command line was read."""
    if server is not None and server.backend == "embedded":
        return True
    return any(option.source.partition(":")[0] == "argv" for option in told.values())


def _shared(told: Mapping[str, ev.Sourced], *, whole: bool) -> bool | None:
    """Whether the slots share one pool of cells; None where nobody tells."""
    slots = number_of(told, "parallel")
    if "kv_unified" in told:
        return bool(told["kv_unified"].value)
    if slots == 1 or (whole and slots is not None):
        return False
    return None


def _host_cache(told: Mapping[str, ev.Sourced], *, whole: bool) -> int | None:
    """How much RAM the server's prompt cache may take, beside the KV cache; None: no limit, or not known."""
    mib = told["cache_ram_mib"].value if "cache_ram_mib" in told else (DEFAULTS["cache_ram_mib"] if whole else None)
    return mib * MIB if isinstance(mib, int) and mib >= 0 else None


def _when_full(told: Mapping[str, ev.Sourced], *, whole: bool) -> str | None:
    """What the server does when the context is full: "stops" or "shifts"; None where nobody tells."""
    for name in ("context_shift", "shift"):
        if name in told:
            return "shifts" if told[name].value else "stops"
    return "stops" if whole else None


def _values(told: Mapping[str, ev.Sourced]) -> dict[str, Any]:
    """What is known of the options that a cache depends on."""
    return {name: told[name].value for name in _OPTIONS if name in told}


@lru_cache(maxsize=16)
def _layout(arch: str, hparams: bytes, options: bytes) -> Layout:
    """A view asks ten times a second for what does not change."""
    return layout(arch, msgspec.json.decode(hparams), cache_options(msgspec.json.decode(options), {}))


def _source(server: ev.Server | None, told: Mapping[str, ev.Sourced], found: Layout, *, whole: bool) -> str:
    """The weakest of what the figures rest on."""
    if not found.known:
        return f"assumed: a plain cache, nobody here knows the architecture {found.arch}"
    guessed = [name for name in _WIDTHS if name not in told]
    if not whole and guessed:
        return f"assumed: llama-server's defaults for {', '.join(guessed)}"
    if server is not None and server.backend == "embedded":
        return "given: the embedded engine's settings"
    if whole:
        return "argv: the runner's" if server is not None and server.backend == "ollama" else "argv: the server's"
    return "server"
