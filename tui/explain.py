"""What the focused pane shows: each figure with its source, how it is computed, and why it is a dash if it is one."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from typing import Final

from phasetop.figures import UNKNOWN, count, memory, milliseconds, rate, seconds
from phasetop.metrics import Measures
from phasetop.pace import GAP_LIMITS
from phasetop.tui.cells import Part
from phasetop.tui.frame import Frame
from phasetop.tui.layout import Pane
from phasetop.tui.tokenfacts import token_lines
from phasetop.visible import clean

Line = tuple[Part, ...]
Row = tuple[str, str, str, str, str]
"""Name, number, unit, the path that `Measures` has for it, how it is computed."""

TITLES: Final[dict[Pane | None, str]] = {
    None: "the figures, and where they are from",
    "trace": "the trace",
    "text": "the text",
    "figures": "the figures, and where they are from",
    "kv": "the KV cache",
    "machine": "the machine",
}
INDENT: Final = 14
_FULL: Final = {
    "of peak": "full height is the peak",
    "of time": "full height is all of the time",
    "no peak": "no area: the peak that would be its height is not known",
    "": "how much there is, nobody tells",
}
_BANDS: Final = {
    "queue": "sent → headers, where headers mean that a slot took it",
    "waiting": "sent → first token, where nothing tells what it waits for",
    "load": "sent → the server is ready with the model",
    "prefill": "the prompt is read: until the first token",
    "decode": "first token → last token",
    "finish": "last token → end of the reply",
}


def lines(pane: Pane | None, frame: Frame, width: int) -> list[Line]:
    """The lines for a pane, at most ``width`` wide where they are prose; None: the figures."""
    measures = frame.measures
    if pane == "machine":
        return _machine(frame, width)
    if measures is None:
        return [(("no request yet", "faint"),)]
    match pane:
        case "trace":
            rows = _trace(measures)
        case "text":
            return token_lines(frame.token, _median(measures)) if frame.token is not None else _text(width)
        case "kv":
            rows = _kv(measures)
        case _:
            rows = _figures(measures)
    made: list[Line] = []
    told: str | None = None
    for row in rows:
        why = under(measures.unknown, row[3]) if row[1] == UNKNOWN else None
        made += _lines(row, measures, width, again=why is not None and why == told)
        told = why
    return made


def _lines(row: Row, measures: Measures, width: int, *, again: bool) -> list[Line]:
    """Name, figure and source in one line; below it how it is computed, and why it is a dash (``again``: as before)."""
    name, number, unit, path, how = row
    why, source = under(measures.unknown, path), under(measures.sources, path)
    ours = path.startswith(("latency", "phases", "rates"))
    said = "" if number == UNKNOWN else clean(source or ("our clock" if ours else "server"))
    prose = [how]
    if number == UNKNOWN:
        prose.insert(0, "for the same reason" if again else clean(why or "not known yet"))
    elif len(said) > width - INDENT - 18:
        prose.insert(0, said)
        said = ""
    head: Line = ((f"{name:<{INDENT}}", "soft"), (f"{number:>9}", "ink"), (f" {unit:<8}", "soft"), (said, "faint"))
    return [head, *_prose(prose, width)]


def _prose(texts: list[str], width: int) -> list[Line]:
    """Texts below a figure, each on as many lines as it takes."""
    broken = [line for text in texts for line in wrap(text, max(20, width - INDENT))]
    return [((" " * INDENT + line, "faint"),) for line in broken]


def heads(made: list[Line]) -> list[Line]:
    """The lines without what stands below each figure: for where there is little room."""
    return [line for line in made if not str(line[0][0]).startswith(" ")]


def under(reasons: Mapping[str, str], path: str) -> str | None:
    """What is said of a path, or of a prefix of it."""
    while path:
        if path in reasons:
            return reasons[path]
        path = path.rpartition(".")[0]
    return None


def _median(measures: Measures) -> float | None:
    return measures.latency.gaps.p50


def _trace(measures: Measures) -> list[Row]:
    rows: list[Row] = []
    for band in measures.phases.bands:
        number, unit = seconds(band.t1 - band.t0)
        rows.append((band.phase, number, unit, f"phases.{band.phase}_s", _BANDS[band.phase]))
    gaps = measures.latency.gaps
    what = "between chunks, each of which may bring several tokens" if gaps.per == "chunk" else "between two tokens"
    for name, value in (("gap p50", gaps.p50), ("gap p95", gaps.p95), ("gap p99", gaps.p99), ("gap max", gaps.max)):
        rows.append((name, milliseconds(value), "ms", f"latency.itl_ms.{name[4:]}", f"time {what}"))
    stalls = measures.latency.stalls
    limit = f"gaps over {GAP_LIMITS[-1]:g} × the median before them, and 30 ms at least"
    rows.append(("stalls", count(stalls), "", "latency.stalls", limit))
    return rows


def _figures(measures: Measures) -> list[Row]:
    latency, rates, tokens, token = measures.latency, measures.rates, measures.tokens, measures.roofline.token
    floor_from = "roofline.weights_s_per_token" if token is None else "roofline.peak_bandwidth_bytes_per_s"
    return [
        ("first token", *seconds(latency.ttft_ns), "latency.ttft_s", "sent → first token of any channel"),
        ("first answer", *seconds(latency.first_answer_ns), "latency.first_answer_s", "sent → first of the answer"),
        (
            "prefill",
            rate(rates.prefill_per_s),
            "tok/s",
            "rates.prefill_tok_per_s",
            "(prompt − cached) ÷ time of the prefill",
        ),
        ("prompt", count(tokens.prompt), "tokens", "tokens.prompt", "cached + computed"),
        ("cached", count(tokens.cached), "tokens", "tokens.cached", "of the prompt, from the server's prompt cache"),
        (
            "decode",
            rate(rates.decode_per_s),
            "tok/s",
            "rates.decode_tok_per_s",
            "tokens after the first ÷ first to last token",
        ),
        ("reply", count(tokens.output), "tokens", "tokens.output", "thinking + answer + tool calls"),
        ("gap", milliseconds(latency.gaps.p50), "ms", "latency.itl_ms.p50", "median time between tokens"),
        (
            "floor",
            milliseconds(None if token is None else token.floor_s * 1e9, fine=True),
            "ms",
            floor_from,
            "of one token: weights and cache that it reads ÷ peak bandwidth",
        ),
        (
            "energy",
            UNKNOWN if measures.energy.j_per_output_token is None else f"{measures.energy.j_per_output_token:.2f}",
            "J/tok",
            "energy.j_per_output_token",
            "of the devices that worked, in decode, a generated token",
        ),
    ]


def _kv(measures: Measures) -> list[Row]:
    kv = measures.kv
    rows: list[Row] = [
        ("cells", count(kv.tokens), "tokens", "kv.tokens", "of this request: prompt + reply"),
        ("context", count(kv.context), "tokens", "kv.context", "what one request can use"),
        ("in use", *memory(kv.used_bytes), "kv.used_bytes", "cells × bytes a cell, of every cache"),
        ("allocated", *memory(kv.allocated_bytes), "kv.allocated_bytes", "all cells of all slots, used or not"),
        (
            "next token",
            *memory(kv.next_token_bytes),
            "kv.next_token_bytes",
            "a full window's cells are used again: it adds less",
        ),
    ]
    left = UNKNOWN if kv.full_in_s is None else f"{kv.full_in_s:,.0f}"
    rows.append(("full in", left, "s", "kv.full_in_s", "(context − cells) ÷ decode rate"))
    return rows


def _text(width: int) -> list[Line]:
    """No token is under the cursor: what the colours mean, and how to get there."""
    steps = " ".join(f"{limit:g}" for limit in GAP_LIMITS)
    explained = (
        ("gap", f"steps at {steps} × the turn's median gap before the token"),
        ("stall", f"over {GAP_LIMITS[-1]:g} × the median, and 30 ms at least"),
        ("probability", "exp of the log-probability that the server told"),
        ("channel", "answer, thinking, tool call, as the server parts them"),
    )
    made: list[Line] = [((line, "soft"),) for line in wrap("← → ↑ ↓ put a cursor on a token; i then explains it.", width)]
    for name, words in explained:
        made += [((name, "soft"),), *_prose([words], width)]
    return made


def _machine(frame: Frame, width: int) -> list[Line]:
    made: list[Line] = []
    for lane in frame.lanes:
        note = lane.note if lane.number == UNKNOWN or lane.stale else lane.source
        head: Line = (
            (f"{lane.label:<{INDENT}}", "soft"),
            (f"{lane.number:>9}", "ink"),
            (f" {lane.unit:<8}", "soft"),
            (clean(note), "faint"),
        )
        unit = " GiB" if lane.label == "RAM" else ""
        full = _FULL.get(lane.full) or f"full height is all {lane.full.removeprefix('of ')}{unit}"
        made += [head, *_prose([f"mean of the second before; {full}"], width)]
    return made or [(("no counters here", "faint"),)]
