"""The turns: a row each, and a bar each from its own zero on one scale, prefill then decode."""

from __future__ import annotations

from typing import Final

from phasetop.figures import UNKNOWN, count, rate, seconds
from phasetop.tui.cells import Area, Share
from phasetop.tui.frame import Frame
from phasetop.tui.kvgauge import about

WIDTH: Final = 46
COLUMNS: Final = (("prompt", 13), ("cached", 21), ("reply", 29), ("first", 36), ("decode", 45))
"""Headings, and the columns that they and their figures end at."""


def paint(area: Area, frame: Frame) -> None:
    """Draw the newest turns that fit."""
    if not frame.history:
        return
    room = max(1, (area.height - 4) // 2)
    first = max(0, len(frame.history) - room)
    shown = frame.history[first:]
    area.put(0, 0, "turns", "soft")
    for heading, end in COLUMNS:
        area.right(end, 0, heading, "faint")
    for y, measures in enumerate(shown, 1):
        tokens, ttft = measures.tokens, measures.latency.ttft_ns
        this = measures.r == frame.r
        area.put(0, y, str(first + y), "ink" if this else "faint")
        answer = UNKNOWN if ttft is None else seconds(ttft)[0]
        counts = (count(tokens.prompt), count(tokens.cached), count(tokens.output))
        figures = (*counts, answer, rate(measures.rates.decode_per_s))
        for (_, end), figure in zip(COLUMNS, figures, strict=True):
            area.right(end, y, figure, "ink" if this else "soft")
    longest = max((measures.phases.wall_ns for measures in shown), default=0)
    y = len(shown) + 2
    area.put(0, y, "0", "faint")
    area.right(area.width, y, about(longest / 1e9), "faint")
    for measures in shown:
        y += 1
        this = measures.r == frame.r
        phases = measures.phases
        decode = phases.ns("decode") or 0
        load, queue = phases.ns("load") or 0, (phases.ns("queue") or 0) + (phases.ns("waiting") or 0)
        rest = phases.wall_ns - decode - load - queue - (phases.ns("finish") or 0)
        parts: list[Share] = [
            (load, "load" if this else "load_area", "▄"),
            (queue, "queue" if this else "queue_area", "▄"),
            (rest, "prefill" if this else "prefill_area", "▄"),
            (decode, "decode" if this else "decode_area", "▄"),
        ]
        area.bar(0, y, area.width, max(longest, 1), parts, " ")
