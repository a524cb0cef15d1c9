"""The help page: the keys in columns, what the colours mean with this turn's values, where figures are from. One page."""

from __future__ import annotations

from typing import Final

from phasetop.tui.cells import Area, fit
from phasetop.tui.explain import under
from phasetop.tui.footer import situation
from phasetop.tui.frame import Frame
from phasetop.tui.intro import INTRO
from phasetop.tui.keys import TABLE, Key, When
from phasetop.tui.textpane import gap_scale
from phasetop.tui.theme import Role
from phasetop.tui.wording import first_fitting
from phasetop.visible import harmless

Line = tuple[tuple[str, Role], ...]

COLUMN: Final = 38
"""A column of keys is at least so wide; there are three at most."""
_STEERING: Final[frozenset[When]] = frozenset(("steering", "running", "unkept", "asked", "lacking"))
_SHORT: Final = (("prefill", "prefill reads"), ("decode", "decode writes"), ("stall", "stall: > 6 × usual"))
"""The colours in one row, where three do not fit."""
_EXPLAINED: Final = (
    ("latency.ttft_s", "first token"),
    ("rates.prefill_tok_per_s", "prefill"),
    ("tokens.cached", "cached"),
    ("rates.decode_tok_per_s", "decode"),
    ("latency.itl_ms", "gap"),
    ("kv.tokens", "KV tokens"),
    ("kv.context", "KV limit"),
    ("kv.used_bytes", "KV bytes"),
)
"""The figures of the view, by the paths that `Measures.unknown` and `.sources` have for them."""


def shown_keys(frame: Frame, room: int) -> list[Key]:
    """The keys to be explained: all of them, or (more than ``room``) those that mean something now."""
    table = TABLE["live" if frame.view.scrub is None else "replay"]
    every = [key for key in table if key.help and (frame.view.steers or key.when not in _STEERING)]
    now = situation(frame)
    return every if len(every) <= room else [key for key in every if key.when in now or key.when == "steering"]


def paint(area: Area, frame: Frame, top: int = 0) -> tuple[int, bool]:
    """Draw it; where even that is too much, from the row ``top`` of keys on; returns that, and whether it is too much."""
    columns = max(1, min(3, area.width // COLUMN))
    below = 4  # a blank, colours, gaps, where figures are from
    rows = max(1, area.height - 1 - below)
    keys = shown_keys(frame, rows * columns)
    per = -(-len(keys) // columns)
    scrolls = per > rows
    top = min(top, max(0, len(keys) - rows)) if scrolls else 0
    if scrolls:
        more = max(0, len(keys) - top - rows * columns)
        area.right(area.width - 1, 0, f"{more} more below" if more else "", "faint")
        keys = keys[top:][: rows * columns]
        per = rows
    area.put(1, 0, "keys", "soft")
    width = area.width // columns
    for i, key in enumerate(keys):
        x, y = 1 + (i // per) * width, 1 + i % per
        area.right(x + 9, y, key.label)
        area.put(x + 11, y, fit(key.help, width - 12), "soft")
    full = len(INTRO) + 2
    y = 1 + per + (area.height - 1 - per > full or area.height - 1 - per < full)
    y = _paint_colours(area, y, frame)
    lines = figure_lines(frame)
    if area.height - y >= len(lines) + 1:
        for line in lines:
            y, x = y + 1, 1
            for text, role in line:
                x = area.put(x, y, fit(text, max(0, area.width - 1 - x)), role)
    elif y < area.height:
        words = "tab chooses a pane, i tells how its figures are made, and from what"
        area.line(1, y, ("figures  ", "soft"), (fit(words, max(0, area.width - 11)), "faint"))
    return top, scrolls


def _paint_colours(area: Area, y: int, frame: Frame) -> int:
    """What the colours mean: a row each where there is room, else one for all; then the steps of gaps."""
    if area.height - y >= len(INTRO) + 2:
        for role, swatch, text in INTRO:
            area.put(1, y, swatch, "ground", role)
            area.put(6, y, fit(text, area.width - 7), "soft")
            y += 1
    else:
        x = area.put(1, y, "colours  ", "soft")
        for role, text in _SHORT:
            if x + 5 + len(text) < area.width:
                area.put(x, y, " !! " if role == "stall" else "    ", "ground", role)
                x = area.put(x + 5, y, text, "soft") + 3
        y += 1
    area.put(1, y, "gap ms", "soft")
    x = gap_scale(area, 10, y, frame)
    note = first_fitting(("steps of this turn's median", "by this turn's median", ""), max(0, area.width - x - 3))
    area.put(x + 2, y, note, "faint")
    return y + 1


def figure_lines(frame: Frame) -> list[Line]:
    """Where the view's figures are from, and why those that are a dash are one."""
    measures = frame.measures
    if measures is None:
        return [(("figures", "soft"), ("  none before the first request", "faint"))]
    where = "this machine" if frame.view.steers else "the machine that asked"
    lines: list[Line] = [
        ((f"{'times':<12}", "soft"), (f"ours: when the bytes of each token reached {where}", "faint")),
    ]
    for path, name in _EXPLAINED:
        why = under(measures.unknown, path)
        source = under(measures.sources, path)
        if why is not None:
            lines.append(((f"{name:<12}", "soft"), ("— ", "ink"), (harmless(why, newlines=False), "faint")))
        elif source is not None:
            lines.append(((f"{name:<12}", "soft"), (harmless(source, newlines=False), "faint")))
    return lines
