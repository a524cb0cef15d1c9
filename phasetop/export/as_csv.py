"""Tables for spreadsheets and data frames: a row a token line, a request, or a sample of a counter.

A cell that a spreadsheet would take for a formula is quoted as text, by an apostrophe before it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from math import isnan
from typing import Any, Final

from phasetop.columns import CHANNELS
from phasetop.export import Exported
from phasetop.metrics import measure
from phasetop.phases import Phases
from phasetop.report import request_object
from phasetop.session import Run

TOKENS: Final = (
    "request",
    "line",
    "token",
    "at_s",
    "gap_ms",
    "phase",
    "channel",
    "tokens",
    "logprob",
    "id",
    "stall",
    "text",
)
SAMPLES: Final = ("series", "device", "part", "type", "unit", "source", "from_s", "to_s", "value")
REQUESTS: Final = (
    *("request", "started", "model.name", "model.quantisation", "server.kind", "finish.reason"),
    *("tokens.prompt", "tokens.cached", "tokens.prefilled", "tokens.output", "tokens.thinking"),
    *("phases.queue_s", "phases.load_s", "phases.prefill_s", "phases.waiting_s", "phases.decode_s", "phases.finish_s"),
    *("phases.wall_s", "latency.ttft_s", "latency.first_answer_s", "latency.itl_ms.p50", "latency.itl_ms.p95"),
    *("latency.itl_ms.p99", "latency.stalls", "rates.prefill_tok_per_s", "rates.decode_tok_per_s", "rates.tpot_ms"),
    *("kv.tokens", "kv.context", "kv.used_bytes", "roofline.mbu_percent", "roofline.mfu_percent"),
    *("energy.j_per_output_token", "verdict.code", "settings.context", "settings.batch"),
)
"""Paths in the object that `run --json` prints."""

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def write(exported: Exported) -> Iterator[str]:
    """The table of ``exported.what``, its header first."""
    if exported.what == "requests":
        objects = (request_object(exported.session, run, kept_as=exported.kept) for run in exported.runs)
        yield from table(REQUESTS, ([_at(found, path) for path in REQUESTS] for found in objects))
    elif exported.what == "samples":
        yield from table(SAMPLES, _samples(exported))
    else:
        yield from table(TOKENS, (row for run in exported.runs for row in _tokens(exported, run)))


def table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Text of a table, a piece at a time, its header first; cells that a spreadsheet would take for formulas are quoted."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([_cell(value) for value in row])
        if buffer.tell() > 1 << 16:
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()


def _cell(value: Any) -> Any:
    """Nothing for what is unknown; text that begins like a formula made text."""
    if value is None or (isinstance(value, float) and isnan(value)):
        return ""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and value.lstrip(" ").startswith(_FORMULA):
        return f"'{value}"
    return value


def _at(found: Any, path: str) -> Any:
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _tokens(exported: Exported, run: Run) -> Iterator[list[Any]]:
    tokens, phases = run.tokens, measure(exported.session, run).phases
    stalls = set(tokens.stalls)
    for i in range(len(tokens)):
        gap, n = tokens.gap_ns[i], tokens.n[i]
        text = tokens.text[i]
        raw = tokens.raw_bytes.get(i)
        yield [
            *(run.r, i, tokens.count[i], _since(tokens.t[i], phases), round(gap / 1e6, 6) if gap >= 0 else None),
            *(_phase(tokens.t[i], phases), CHANNELS[tokens.channel[i]], n if n >= 0 else None),
            *(tokens.logp[i], tokens.ids[i] if tokens.ids[i] >= 0 else None, i in stalls),
            # A length stands where redaction left the text out: no text is the true cell then.
            raw.decode("utf-8", "replace") if raw is not None else text if isinstance(text, str) else None,
        ]


def _since(t: int, phases: Phases) -> float:
    return round((t - phases.start) / 1e9, 9)


def _phase(t: int, phases: Phases) -> str | None:
    """The phase of a token: decode runs from the first to the last."""
    bands = (band for band in reversed(phases.bands) if band.phase != "finish")
    return next((band.phase for band in bands if band.t0 <= t <= band.t1), None)


def _samples(exported: Exported) -> Iterator[list[Any]]:
    session = exported.session
    for samples in session.samples.values():
        info = samples.info.at()
        if info is None:
            continue
        versions = session.devices.get(info.d)
        device = versions.at() if versions is not None else None
        name = device.name if device is not None else "host" if info.d == 0 else None
        for t0, t, value in zip(samples.t0, samples.t, samples.value, strict=True):
            yield [info.name, name, info.part, info.type, info.unit, info.source, t0 / 1e9, t / 1e9, value]
