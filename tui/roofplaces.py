"""Where the parts of the roofline screen stand, and which slider the mouse is on. Pure arithmetic."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from phasetop.knobs import NAMES, Name
from phasetop.tui.layout import Rect

WIDE: Final = 100
"""From so many columns on, and `TALL` rows, sliders and figures stand beside the plot."""
TALL: Final = 24
ROOMY: Final = 24
"""From so many rows on there is a blank one over the keys."""
NARROW: Final = 72
"""Below so many columns everything stands one under the other."""
TRACK_X: Final = 31
"""The column of the sliders' pane that a track begins at."""
TRACK: Final = 5
"""A track has so many columns at least, or there is none."""
_ROWS: Final = len(NAMES)


class Places(Struct, frozen=True):
    """The screen's parts; None: there is no room for it."""

    sliders: Rect
    figures: Rect
    plot: Rect | None
    times: Rect | None


def places(width: int, height: int) -> Places:
    """The parts in an area of so many cells, its margins included."""
    inner, rows = max(0, width - 2), height - (height >= ROOMY)
    times = 4 if rows >= 19 else 3 if rows >= 17 else 0
    body = rows - times
    timeline = Rect(1, body + 1, inner, times - 1) if times else None
    if inner >= WIDE and rows >= TALL - 1:
        left = min(64, inner * 11 // 20)
        return Places(
            Rect(1, 0, left, _ROWS + 2),
            Rect(1, _ROWS + 4, left, max(0, body - _ROWS - 4)),
            Rect(1 + left + 4, 0, inner - left - 4, body - 1),
            timeline,
        )
    if inner >= NARROW:
        left = inner // 2
        return Places(
            Rect(1, 0, left, _ROWS + 2),
            Rect(1, _ROWS + 2, inner, max(0, body - _ROWS - 2)),
            Rect(1 + left + 3, 0, inner - left - 3, _ROWS + 2),
            timeline,
        )
    plot = max(0, body - 2 * _ROWS - 6)
    plot = plot if plot >= 8 else 0
    return Places(
        Rect(1, plot, inner, _ROWS + 2),
        Rect(1, plot + _ROWS + 3, inner, max(0, body - plot - _ROWS - 3)),
        Rect(1, 0, inner, plot) if plot else None,
        timeline,
    )


class Pointed(Struct, frozen=True):
    """A slider under the mouse, and where on its track: the column of so many; None: beside the track."""

    name: Name
    column: int | None
    columns: int


def pointed(width: int, height: int, x: int, y: int, held: Name | None = None) -> Pointed | None:
    """What the mouse is on in such an area; a slider that is ``held`` follows it wherever it goes."""
    pane = places(width, height).sliders
    columns = pane.width - TRACK_X
    columns = columns if columns >= TRACK else 0
    at = x - pane.x - TRACK_X
    if held is not None:
        return Pointed(held, min(columns - 1, max(0, at)) if columns else None, columns)
    row = y - pane.y - 1
    if not 0 <= row < _ROWS or not pane.x <= x < pane.right:
        return None
    return Pointed(NAMES[row], at if 0 <= at < columns else None, columns)
