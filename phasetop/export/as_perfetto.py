"""Trace events for ui.perfetto.dev and chrome://tracing: phases and tokens as slices, counters as graphs, notices as flags.

The format is Chrome's "Trace Event Format" (JSON object form): times are µs since the recording's anchor, as decimals, so
that no nanosecond is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from typing import Any, Final

import msgspec

from phasetop.codec import valid_text
from phasetop.columns import CHANNELS
from phasetop.export import Exported
from phasetop.metrics import measure
from phasetop.session import Run

_REQUESTS: Final = 1
_COUNTERS: Final = 2
_PHASES, _TOKENS = 0, 1


def write(exported: Exported) -> Iterator[str]:
    """The trace, one event a line."""
    yield '{"displayTimeUnit":"ms","traceEvents":['
    between = "\n"
    for event in _events(exported):
        yield between + msgspec.json.encode(event).decode()
        between = ",\n"
    yield "\n]}\n"


def _events(exported: Exported) -> Iterator[dict[str, Any]]:
    yield _named("process_name", valid_text(exported.kept), _REQUESTS)  # a file's name need not be text
    yield _named("process_name", "counters", _COUNTERS)
    for run in exported.runs:
        yield from _request(exported, run)
    yield from _counters(exported)
    for mark in exported.session.marks.items:
        yield _instant("mark", mark.label or "mark", mark.at, "g")
    for notice in exported.session.notices.items:
        yield {**_instant("notice", notice.code, notice.t, "g"), "args": {"text": notice.text}}


def _named(kind: str, name: str, pid: int, tid: int = 0) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def _slice(cat: str, name: str, t0: int, t1: int, tid: int, **args: Any) -> dict[str, Any]:
    placed = {"ph": "X", "cat": cat, "name": name, "pid": _REQUESTS, "tid": tid, "ts": t0 / 1e3, "dur": (t1 - t0) / 1e3}
    return {**placed, "args": args}


def _instant(cat: str, name: str, t: int, scope: str) -> dict[str, Any]:
    return {"ph": "i", "cat": cat, "name": name, "pid": _REQUESTS, "tid": 0, "ts": t / 1e3, "s": scope}


def _request(exported: Exported, run: Run) -> Iterator[dict[str, Any]]:
    found = measure(exported.session, run)
    phases, tokens = found.phases, run.tokens
    row = 2 * (run.r + 1)
    yield _named("thread_name", f"request {run.r + 1}", _REQUESTS, row + _PHASES)
    yield _named("thread_name", f"request {run.r + 1} tokens", _REQUESTS, row + _TOKENS)
    about = {"prompt": found.tokens.prompt, "cached": found.tokens.cached, "output": found.tokens.output}
    yield _slice("request", f"request {run.r + 1}", phases.start, phases.end, row + _PHASES, **about)
    for band in phases.bands:
        yield _slice("phase", band.phase, band.t0, band.t1, row + _PHASES)
    stalls = set(tokens.stalls)
    for i in range(len(tokens)):
        text, t, gap = tokens.text[i], tokens.t[i], max(tokens.gap_ns[i], 0)
        shown = text if isinstance(text, str) else f"{text} bytes"
        args: dict[str, Any] = {"index": tokens.count[i], "channel": CHANNELS[tokens.channel[i]]}
        if not isnan(tokens.logp[i]):
            args["logprob"] = tokens.logp[i]
        yield _slice("stall" if i in stalls else "token", shown or "·", t - gap, t, row + _TOKENS, **args)


def _counters(exported: Exported) -> Iterator[dict[str, Any]]:
    """Gauges as they were measured; a counter of things that only grows as it stands."""
    session = exported.session
    for samples in session.samples.values():
        info = samples.info.at()
        if info is None or info.type == "flags":
            continue
        device = versions.at() if (versions := session.devices.get(info.d)) is not None else None
        parts = (device.name if device is not None else None, info.name, info.part)
        name = f"{' '.join(part for part in parts if part)} ({info.unit or 'n'})"
        for t0, value in zip(samples.t0, samples.value, strict=True):
            if not isnan(value):
                yield {"ph": "C", "name": name, "pid": _COUNTERS, "tid": 0, "ts": t0 / 1e3, "args": {info.name: value}}
