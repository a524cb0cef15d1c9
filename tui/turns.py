"""The turns: a row each with its figures, and a bar each from its own zero on one scale: loading, queue, prefill, decode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from phasetop.figures import UNKNOWN, count, rate
from phasetop.metrics import Measures
from phasetop.tui.cells import Area, Part, Share
from phasetop.tui.frame import Frame
from phasetop.tui.kvgauge import about
from phasetop.tui.theme import AREA_OF, BAND_CHARS, Accent

WIDTH: Final = 46
"""The least room for the columns that matter most."""
BESIDE: Final = 24
"""The bars stand in the figures' rows where they have so many columns there, else under them."""
_PARTS: Final[tuple[Accent, ...]] = ("load", "queue", "prefill", "decode")
_ENDED: Final = {
    None: "runs",
    "stop": "done",
    "length": "at limit",
    "tool_calls": "tool",
    "error": "failed",
    "cut": "cut off",
}
_NUMBER: Final = 4
"""The column that a turn's number ends at; before it stands the mark of the one that the view shows."""


class Column(Struct, frozen=True):
    """A column: its head, the unit of its figures, how wide it is, what it shows; ``extra``: only where there is room."""

    head: str
    unit: str
    width: int
    show: Callable[[Measures], str]
    extra: bool = False


def _s(ns: float | None) -> str:
    """Seconds, as the column says: never minutes."""
    return UNKNOWN if ns is None else f"{ns / 1e9:.2f}" if ns < 99.995e9 else f"{ns / 1e9:,.0f}"


def _ended(measures: Measures) -> str:
    return _ENDED.get(measures.finish.reason, "stopped")


COLUMNS: Final = (
    Column("prompt", "tokens", 9, lambda m: count(m.tokens.prompt)),
    Column("cached", "tokens", 8, lambda m: count(m.tokens.cached)),
    Column("reply", "tokens", 8, lambda m: count(m.tokens.output)),
    Column("first", "s", 7, lambda m: _s(m.latency.ttft_ns)),
    Column("prefill", "tok/s", 9, lambda m: rate(m.rates.prefill_per_s), extra=True),
    Column("decode", "tok/s", 8, lambda m: rate(m.rates.decode_per_s)),
    Column("in all", "s", 8, lambda m: _s(m.phases.wall_ns), extra=True),
    Column("stalls", "", 8, lambda m: count(m.latency.stalls), extra=True),
    Column("ended", "", 9, _ended, extra=True),
)


def columns_for(width: int) -> tuple[Column, ...]:
    """The columns that fit, all of them or the ones that matter most."""
    whole = _NUMBER + sum(column.width for column in COLUMNS)
    return COLUMNS if width >= whole else tuple(column for column in COLUMNS if not column.extra)


def paint(area: Area, frame: Frame) -> None:
    """Draw the newest turns that fit, the one that the view shows among them."""
    history = frame.history
    if not history:
        area.line(0, 0, ("turns", "soft"), ("  —  no request yet", "faint"))
        return
    columns = columns_for(area.width)
    end = _NUMBER + sum(column.width for column in columns)
    beside = area.width - end - 3 >= BESIDE
    room = max(1, area.height - 2 if beside else (area.height - 4) // 2)
    at = next((i for i, each in enumerate(history) if each.r == frame.r), len(history) - 1)
    first = min(at, max(0, len(history) - room))
    shown = history[first : first + room]
    number = frame.history_from + first + 1
    _paint_table(area, columns, shown, number, frame.r)
    longest = max((measures.phases.wall_ns for measures in shown), default=0)
    if beside:
        bars = area.area(end + 3, 0, area.width - end - 3, area.height)
        _paint_scale(bars, 1, shown, longest)
        for y, measures in enumerate(shown, 2):
            _paint_bar(bars, 0, y, measures, longest, this=measures.r == frame.r)
        return
    y = len(shown) + 3
    _paint_scale(area.area(_NUMBER + 1, 0, area.width - _NUMBER - 1, area.height), y, shown, longest)
    for i, measures in enumerate(shown):
        y += 1
        this = measures.r == frame.r
        area.right(_NUMBER, y, str(number + i), "ink" if this else "faint")
        _paint_bar(area, _NUMBER + 1, y, measures, longest, this=this)


def _paint_table(area: Area, columns: tuple[Column, ...], shown: tuple[Measures, ...], number: int, r: int | None) -> None:
    """Heads, units, a row a turn; ``number``: the first one's."""
    area.put(0, 0, "turns", "soft")
    x = _NUMBER
    for column in columns:
        x += column.width
        area.right(x, 0, column.head, "soft")
        area.right(x, 1, column.unit, "faint")
    for y, measures in enumerate(shown, 2):
        this = measures.r == r
        area.put(0, y, "▸" if this else "")
        area.right(_NUMBER, y, str(number + y - 2), "ink" if this else "faint")
        x = _NUMBER
        for column in columns:
            x += column.width
            area.right(x, y, column.show(measures), "ink" if this else "soft")


def parts_of(measures: Measures) -> dict[Accent, int]:
    """What a turn's time went into, ns: loading, waiting, reading the prompt, writing the reply."""
    phases = measures.phases
    load, queue = phases.ns("load") or 0, (phases.ns("queue") or 0) + (phases.ns("waiting") or 0)
    decode = phases.ns("decode") or 0
    rest = phases.wall_ns - decode - load - queue - (phases.ns("finish") or 0)
    return {"load": load, "queue": queue, "prefill": max(0, rest), "decode": decode}


def _paint_scale(area: Area, y: int, shown: tuple[Measures, ...], longest: int) -> None:
    """From 0 to the longest turn's time, and between them what the bars are made of."""
    area.put(0, y, "0", "faint")
    top = about(longest / 1e9)
    cell = max(1.0, 0.125 * longest / max(1, area.width))  # an eighth of a cell is drawn
    area.right(area.width, y, top, "faint")
    seen = [accent for accent in _PARTS if any(parts_of(measures)[accent] >= cell for measures in shown)]
    marks = {accent: "■" if area.look.coloured else BAND_CHARS[accent] for accent in seen}
    words: list[Part] = []
    for accent in seen:
        words += [(marks[accent], accent), (f" {accent}  ", "faint")]
    if sum(len(part[0]) for part in words) + len(top) + 3 <= area.width:
        area.line(3, y, *words)


def _paint_bar(area: Area, x: int, y: int, measures: Measures, longest: int, *, this: bool) -> None:
    """One turn's time, in the full accents where the view shows it."""
    parts: list[Share] = [
        (ns, accent if this else AREA_OF[accent], "▄" if area.look.coloured else BAND_CHARS[accent])
        for accent, ns in parts_of(measures).items()
    ]
    area.bar(x, y, area.width - x, max(longest, 1), parts, " ")
