"""A plot as lines of text, by plotext: what all commands' plots have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

WIDEST: Final = 100
NARROWEST: Final = 40


def plot_lines(draw: Callable[[Any], None], width: int, height: int, *, colour: bool) -> list[str]:
    """The lines of a plot.

    Args:
        draw: draws on plotext's figure: its signals, rulers and title.
        width: columns that there are; a plot is never wider than `WIDEST`.
        height: rows.
        colour: in the terminal's colours, on its own ground.
    """
    import plotext  # a tenth of a second

    figure = plotext.figure
    figure.clear()
    figure.plot_size(max(NARROWEST, min(width, WIDEST)), height)
    if colour:
        figure.canvas("default")
    else:
        figure.theme("colorless")  # the others bring a ground of their own
    draw(figure)
    built = str(figure.build().string(colorless=not colour))
    figure.clear()
    return [line.rstrip() for line in built.splitlines()]
