"""The screen cut into tiles: what changes is sent tile by tile, each from its left edge."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from phasetop.tui.layout import Layout, Rect

TILE: Final = 16
"""Charts are made of tiles so wide: the terminal is sent a tile's row from its left edge, never more."""


def tiles(plan: Layout) -> list[Rect]:
    """The screen as tiles that cover it exactly: cut where panes end, and every 16 columns along the time axis.

    Rows that are cut at the same columns share tiles: each is a widget, and half a millisecond of the first picture.
    Foreign text (names, replies, errors, what is typed) lies within one tile, so that no wide character is cut in two.
    """
    bands: list[tuple[list[int], int, int]] = []  # columns where it is cut, first row, end
    y = 0
    for bottom, cuts in _bands(plan):
        edges = sorted({0, plan.width, *(cut for cut in cuts if 0 < cut < plan.width)})
        if bottom > y:
            top = bands.pop()[1] if bands and bands[-1][0] == edges else y
            bands.append((edges, top, bottom))
            y = bottom
    return [Rect(a, top, b - a, bottom - top) for edges, top, bottom in bands for a, b in pairwise(edges)]


def _bands(plan: Layout) -> list[tuple[int, list[int]]]:
    """Stretches of rows, top to bottom: the row after each, and the columns at which it is cut."""
    bands: list[tuple[int, list[int]]] = [(plan.headline.y, [plan.width - 12])]
    bands.append((plan.headline.bottom, [] if plan.limit_below else [27]))
    if plan.trace is not None and plan.plot is not None:
        bands.append((plan.trace.y, []))
        cuts = [*range(plan.plot.x, plan.plot.right, TILE), plan.plot.right]
        bands.append((plan.trace.bottom, cuts))
    if plan.text is not None:
        bands.append((plan.text.y, []))
        bottom = max(plan.text.bottom, plan.rail.bottom if plan.rail else 0)
        rails = [rect for rect in (plan.rail, plan.second_rail) if rect is not None]
        bands.append((bottom, [plan.text.right, *(edge for rect in rails for edge in (rect.x, rect.right))]))
    if plan.alone is not None:
        bands += [(plan.alone.y, []), (plan.alone.bottom, [])]
    bands += [(rect.bottom, []) for rect in (plan.notice, plan.block, plan.strip, plan.ask, plan.keys) if rect is not None]
    bands.append((plan.height, []))
    return sorted(bands, key=lambda band: band[0])
