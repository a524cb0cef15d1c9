"""The object that `run --json` prints for a request (OUTPUTS.md: a contract), and its text.

Keys and their order are the contract's. What is unknown is None and explained in ``unknown``, by path; seconds are rounded
at the borders of the phases, so that they add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import phasetop
from phasetop import codec
from phasetop import events as ev
from phasetop.columns import ANSWER, LIVE, THINK
from phasetop.gpuphases import why_none
from phasetop.machine import machine_of
from phasetop.metrics import HostPhase, Measures, measure
from phasetop.output import utc
from phasetop.replies import channel_text, chat, is_redacted, prompt_of, tool_calls
from phasetop.run_devices import layers_on_gpu
from phasetop.session import Run, Session

SETTINGS: Final = (
    *("context", "batch", "temperature", "top_k", "top_p", "seed"),
    *("cache_type_k", "cache_type_v", "flash_attention", "think"),
)
"""Settings that are always there; others follow as they are known."""
NULL_BY_NATURE: Final = frozenset(
    (
        *("session", "file", "tools", "seed", "think", "thinking", "detail", "error"),
        *("prompt_sent", "drafted", "accepted", "cpu_quota_cores", "load"),
    )
)
"""Keys whose null needs no reason."""
WHOLE_SESSION: Final = frozenset(
    (
        *("not-recorded", "bad-lines", "torn-tail", "stamps-read", "no-props", "key-needed", "replaced", "part-missing"),
        *("another-session", "collector-died", "server-lost", "over-ssh", "far-gpu"),
    )
)
"""Notices of no request that concern each of them, whenever they came."""

_NOT_TOLD: Final = "the server does not tell"
_REDACTED: Final = "left out by --redact"
_SPOKEN_SOURCES: Final = ("default", "argv", "assumed", "estimate", "file")
_KV: Final = (
    *("tokens", "context", "used_bytes", "allocated_bytes", "bytes_per_token", "next_token_bytes", "full_in_s", "slots"),
)


def request_object(session: Session, run: Run, *, cursor: int = LIVE, kept_as: str | None) -> dict[str, Any]:
    """What `run --json` prints for ``run`` as of ``cursor``; ``kept_as``: name or path of its recording, None: not kept."""
    figures = measure(session, run, cursor)
    unknown, sources = dict(figures.unknown), dict(figures.sources)
    unknown.pop("finish.reason", None)
    settings = _settings(session, run, cursor, unknown, sources)
    hello = session.hello
    found: dict[str, Any] = {
        "phasetop": hello.by.removeprefix("phasetop ") if hello is not None else phasetop.__version__,
        "session": None if kept_as is None else codec.valid_text(kept_as),
        "session_id": hello.session if hello is not None else None,
        "request": run.r,
        "started": utc(session.hello.anchor.wall + figures.phases.start) if session.hello is not None else None,
        "server": _server(session, run, cursor),
        "model": _model(session, run, cursor, settings, sources),
        "settings": settings,
        **_texts(session, run, cursor, unknown),
        "finish": _finish(figures, unknown),
        "tokens": _fields(figures.tokens),
        "phases": _phases(figures, unknown),
        "latency": _latency(figures),
        "rates": _rates(figures),
        "server_timings": _server_timings(run, cursor),
        "kv": _kv(figures, unknown),
        "gpus": [gpu.group() for gpu in figures.gpus],
        "host": _host(session, run, cursor, figures),
        "roofline": figures.roofline.group(),
        "energy": figures.energy.group(),
        "verdict": _verdict(figures),
        "notices": _notices(session, run, cursor, figures),
    }
    if not figures.gpus:
        unknown["gpus"] = why_none(session, cursor, session.server_of(run, cursor))
    return {**found, "sources": sources, "unknown": _explained(found, unknown)}


def _explained(found: Mapping[str, Any], unknown: Mapping[str, str]) -> dict[str, str]:
    """The reasons of the nulls that there are, in their order; one that nobody explained is a server's silence."""
    reasons = {"gpus": unknown["gpus"]} if not found["gpus"] else {}
    for path in dict.fromkeys(_nulls(found)):
        if path.rpartition(".")[2] in NULL_BY_NATURE and path not in unknown:
            continue
        known = next((prefix for prefix in _prefixes(path) if prefix in unknown), None)
        reasons[known or path] = _NOT_TOLD if known is None else unknown[known]
    return reasons


def _prefixes(path: str) -> Iterator[str]:
    """``a.b.c``, ``a.b``, ``a``."""
    while path:
        yield path
        path = path.rpartition(".")[0]


def _nulls(value: Any, path: str = "") -> Iterator[str]:
    """Paths of all nulls; the elements of a list share theirs. What the server sent is not looked at."""
    if value is None:
        yield path
    elif isinstance(value, dict):
        for key, inner in value.items():
            if path or key != "server_timings":
                yield from _nulls(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for inner in value:
            yield from _nulls(inner, path)


def _fields(value: Any) -> dict[str, Any]:
    """A struct of the figures by its own names, in their order."""
    return {name: getattr(value, name) for name in value.__struct_fields__}


def _server(session: Session, run: Run, cursor: int) -> dict[str, Any]:
    server = session.server_of(run, cursor)
    if server is None:
        return dict.fromkeys(("kind", "version", "url", "local", "link"))
    link = server.over or (None if server.local is None else "none" if server.local else "network")
    return {"kind": server.backend, "version": server.version, "url": server.url, "local": server.local, "link": link}


def _model(session: Session, run: Run, cursor: int, settings: Mapping[str, Any], sources: dict[str, str]) -> dict[str, Any]:
    names = {
        "name": "name",
        "file": "file",
        "arch": "arch",
        "parameters": "params",
        "quantisation": "quant",
        "file_bytes": "file_bytes",
        "tensor_bytes": "tensor_bytes",
        "context_trained": "context_trained",
    }
    model = session.model_of(run, cursor)
    found: dict[str, Any] = {name: getattr(model, key, None) for name, key in names.items()}
    found["read_bytes_per_token"] = sum(model.weights.values()) if model is not None and model.weights else None
    blocks = (model.hparams or {}).get(f"{model.arch}.block_count") if model is not None else None
    found["layers"] = blocks if isinstance(blocks, int) else None
    on_gpu = settings.get("gpu_layers")
    if model is not None and model.placed:
        on_gpu = layers_on_gpu(model.placed)
    found["gpu_layers"] = on_gpu
    for name, key in names.items():
        source = (model.origin or {}).get(key) if model is not None else None
        if source is not None and source.split(":")[0] in _SPOKEN_SOURCES and found[name] is not None:
            sources[f"model.{name}"] = source
    order = ("name", "file", "arch", "parameters", "quantisation", "file_bytes", "tensor_bytes")
    return {name: found[name] for name in (*order, "read_bytes_per_token", "context_trained", "layers", "gpu_layers")}


def _settings(session: Session, run: Run, cursor: int, unknown: dict[str, str], sources: dict[str, str]) -> dict[str, Any]:
    """The server's options, overlaid with the settings that hold for the request."""
    server = session.server_of(run, cursor)
    values: dict[str, Any] = {}
    for name, option in ((server.options or {}) if server is not None else {}).items():
        values[name] = option.value
        if option.value is not None and option.source.split(":")[0] in _SPOKEN_SOURCES:
            sources[f"settings.{name}"] = option.source
    for name, value in run.settings(cursor).items():
        if value is not None:
            values[name] = value
            sources.pop(f"settings.{name}", None)
    settings = {name: values.pop(name, None) for name in SETTINGS}
    for name, value in settings.items():
        if value is None and name not in NULL_BY_NATURE:
            unknown[f"settings.{name}"] = "not asked for, and the server does not tell"
    return {**settings, **{name: value for name, value in sorted(values.items()) if value is not None}}


def _texts(session: Session, run: Run, cursor: int, unknown: dict[str, str]) -> dict[str, Any]:
    info, lines = run.info.at(cursor), run.tokens.index(cursor)
    prompt = prompt_of(run, cursor)
    text, text_bytes = channel_text(run, ANSWER, lines)
    thinking, thinking_bytes = channel_text(run, THINK, lines)
    messages: list[dict[str, Any]] | None = chat(session, run, cursor)
    tools = info.tools if info is not None else None
    calls = tool_calls(run, lines)
    if is_redacted(session):
        text = thinking = messages = tools = None
        unknown.update(dict.fromkeys(("prompt", "messages", "text", "tool_calls.arguments"), _REDACTED))
    elif prompt is None:
        unknown["prompt"] = "there is no message of a user"
    if messages is not None:
        unknown.update(messages="as it was given", tools="as it was given")
    unknown["tool_calls"] = "the server does not name it"
    if tools is None:
        unknown.pop("tools", None)
    return {
        "prompt": prompt if isinstance(prompt, str) and not is_redacted(session) else None,
        "messages": messages,
        "tools": tools,
        "text": text,
        "thinking": thinking or None,
        "tool_calls": calls,
        "prompt_bytes": ev.text_bytes(prompt),
        "text_bytes": text_bytes,
        "thinking_bytes": thinking_bytes,
    }


def _finish(figures: Measures, unknown: dict[str, str]) -> dict[str, Any]:
    finish = figures.finish
    if finish.reason is None:
        unknown["finish.reason"] = "it runs"
    failed = any(value is not None for value in (finish.status, finish.code, finish.text))
    error = None
    if failed or finish.reason == "error":
        error = {"status": finish.status, "code": finish.code, "text": finish.text}
        unknown["finish.error.status"] = "there was no HTTP answer that said it"
        unknown["finish.error.code"] = "the server gave none"
        unknown["finish.error.text"] = "left out by --redact, or the server gave none"
    return {"reason": finish.reason, "detail": finish.detail, "error": error}


def _micros(t: int, start: int) -> int:
    """A border in whole µs after the start."""
    return (t - start + 500) // 1000


def _seconds(ns: float | None) -> float | None:
    return None if ns is None else round(ns / 1e9, 6)


def _ms(ns: float | None) -> float | None:
    return None if ns is None else round(ns / 1e6, 4)


def _rate(per_s: float | None) -> float | None:
    return None if per_s is None else round(per_s, 3)


def _phases(figures: Measures, unknown: dict[str, str]) -> dict[str, Any]:
    phases = figures.phases
    start = phases.start
    took: dict[str, int] = dict.fromkeys(("queue", "load", "prefill", "decode", "finish", "waiting"), 0)
    for band in phases.bands:
        took[band.phase] += _micros(band.t1, start) - _micros(band.t0, start)
    found: dict[str, Any] = {f"{name}_s": us / 1e6 for name, us in took.items()}
    if not phases.split:  # a load that is known stays part of what cannot be split further
        found["waiting_s"] = (took["waiting"] + took["load"]) / 1e6
        unknown.setdefault("phases.load_s", unknown.get("phases.queue_s", _NOT_TOLD))
        found.update(dict.fromkeys(("queue_s", "load_s", "prefill_s")))
    else:
        found.update({f"{name}_s": None for name in phases.unknown})
    return {**found, "wall_s": _micros(phases.end, start) / 1e6, "load": phases.load}


def _latency(figures: Measures) -> dict[str, Any]:
    times, start = figures.latency, figures.phases.start
    gaps = times.gaps

    def since(ns: int | None) -> float | None:
        return None if ns is None else _micros(start + ns, start) / 1e6

    return {
        "ttft_s": since(times.ttft_ns),
        "first_answer_s": since(times.first_answer_ns),
        "itl_ms": {
            "per": gaps.per,
            "n": gaps.n,
            **{name: _ms(getattr(gaps, name)) for name in ("mean", "p50", "p90", "p95", "p99", "max")},
            "merged": gaps.merged,
        },
        "stalls": times.stalls,
        "buffered": times.buffered,
    }


def _rates(figures: Measures) -> dict[str, Any]:
    speed = figures.rates
    return {
        "prefill_tok_per_s": _rate(speed.prefill_per_s),
        "decode_tok_per_s": _rate(speed.decode_per_s),
        "tpot_ms": _ms(speed.tpot_ns),
        "server_prefill_tok_per_s": _rate(speed.server_prefill_per_s),
        "server_decode_tok_per_s": _rate(speed.server_decode_per_s),
    }


def _server_timings(run: Run, cursor: int) -> dict[str, Any]:
    """The newest figures as the server sent them; {} where it sent none."""
    return next((timings.raw for timings in reversed(run.timings.until(cursor)) if timings.raw), {})


def _kv(figures: Measures, unknown: dict[str, str]) -> dict[str, Any]:
    kv = figures.kv
    if kv.slots is None:
        unknown["kv.slots"] = "the server does not tell how many slots it has"
    return {
        **{name: getattr(kv, name) for name in _KV},
        "caches": [
            {
                "name": cache.name,
                "cells": cache.cells,
                "streams": cache.streams,
                "used_cells": cache.used_cells,
                "bytes": cache.total_bytes,
            }
            for cache in kv.caches
        ],
    }


def _verdict(figures: Measures) -> dict[str, Any]:
    verdict = figures.verdict
    return {"code": None, "text": None} if verdict is None else {"code": verdict.code, "text": verdict.text}


def _host(session: Session, run: Run, cursor: int, figures: Measures) -> dict[str, Any]:
    """The machine that was sampled: this one, or over ssh the server's."""
    host = machine_of(session, session.server_of(run, cursor), cursor).host
    return {
        "name": host.name,
        "cpu": host.cpu,
        "cores": host.cores,
        "memory_total_bytes": host.memory_limit_bytes or host.ram_bytes,
        "cpu_quota_cores": host.cpu_quota_cores,
        "phases": {name: _host_phase(phase) for name, phase in figures.host.items()},
    }


_HOST_DIGITS: Final = {
    "cpu_percent": 1,
    "server_cpu_percent": 1,
    "throttled_s": 6,
    "thermal_throttled_s": 6,
    "energy_j": 3,
}


def _host_phase(phase: HostPhase) -> dict[str, Any]:
    found = _fields(phase)
    for name, digits in _HOST_DIGITS.items():
        if found[name] is not None:
            found[name] = round(found[name], digits)
    return found


def _notices(session: Session, run: Run, cursor: int, figures: Measures) -> list[dict[str, Any]]:
    """What was recorded for this request and its time, and what its figures tell beyond that."""
    start, end = figures.phases.start, figures.phases.end
    told = [
        (notice.t, notice.code, notice.text)
        for notice in session.notices.until(cursor)
        if notice.r == run.r or (notice.r is None and (start <= notice.t <= end or notice.code in WHOLE_SESSION))
    ]
    codes = {code for _, code, _ in told}
    told += [(flag.t, flag.code, flag.text) for flag in figures.flags if flag.code not in codes]
    return [{"code": code, "text": text, "at_s": _seconds(t - start)} for t, code, text in sorted(told)]
