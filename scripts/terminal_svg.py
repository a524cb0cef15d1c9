"""A terminal's screen as a small SVG: text in rows, blocks and braille as shapes, so that every font shows the same."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyte

CELL_W: Final = 8.4
CELL_H: Final = 18
FONT: Final = 14
BASE: Final = 13.5
ANSI: Final = {
    "black": "#1c1c1c", "red": "#d75f5f", "green": "#87af5f", "brown": "#d7af5f", "blue": "#5f87d7", "magenta": "#af87d7",
    "cyan": "#5fafaf", "white": "#c6c6c6", "brightblack": "#6c6c6c", "brightred": "#ff8787", "brightgreen": "#afd787",
    "brightbrown": "#ffd787", "brightyellow": "#ffd787", "brightblue": "#87afff", "brightmagenta": "#d7afff",
    "bfightmagenta": "#d7afff", "brightcyan": "#87d7d7", "brightwhite": "#eeeeee",
}  # fmt: skip
LEFT: Final = "▏▎▍▌▋▊▉█"
"""Blocks filled from the left by 1 to 8 eighths."""
BELOW: Final = "▁▂▃▄▅▆▇█"
"""Blocks filled from below by 1 to 8 eighths."""
SHADES: Final = {"░": 0.5, "▒": 0.6, "▓": 0.8}
BITS: Final = (
    (0x01, 0, 0),
    (0x02, 0, 1),
    (0x04, 0, 2),
    (0x40, 0, 3),
    (0x08, 1, 0),
    (0x10, 1, 1),
    (0x20, 1, 2),
    (0x80, 1, 3),
)
"""Braille: a dot's bit, its column and its row."""


@dataclass(frozen=True)
class Ground:
    """The terminal's own colours."""

    colour: str
    ink: str


DARK: Final = Ground("#0f1419", "#dfe5ea")
LIGHT: Final = Ground("#fbfaf7", "#1c2126")


@dataclass(frozen=True)
class Look:
    """How a cell is drawn."""

    fg: str
    bg: str
    bold: bool
    italic: bool
    underline: bool


def svg(screen: pyte.Screen, ground: Ground = DARK) -> str:
    """The screen as SVG."""
    width, height = screen.columns * CELL_W + 16, screen.lines * CELL_H + 16
    drawing = _Drawing(ground)
    for y in range(screen.lines):
        drawing.row(y, [(screen.buffer[y][x].data, _look(screen.buffer[y][x], ground)) for x in range(screen.columns)])
    font = "ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" width="{width:g}" height="{height}">',
            f"<style>text{{font:{FONT}px {font};white-space:pre}}{drawing.styles()}</style>",
            f'<rect width="100%" height="100%" rx="6" fill="{ground.colour}"/><g transform="translate(8 8)">',
            *drawing.shapes(),
            *drawing.texts,
            "</g></svg>\n",
        ]
    )


def _look(cell: Any, ground: Ground) -> Look:
    fg, bg = _colour(cell.fg, ground.ink), _colour(cell.bg, ground.colour)
    if cell.reverse:
        fg, bg = bg, fg
    return Look(fg, bg, cell.bold, cell.italics, cell.underscore)


def _colour(name: str, default: str) -> str:
    return default if name == "default" else ANSI.get(name, f"#{name}")


class _Drawing:
    """What was drawn so far: rectangles and dots by colour, text by row."""

    def __init__(self, ground: Ground) -> None:
        self.texts: list[str] = []
        self._ground = ground
        self._classes: dict[tuple[str, bool, bool, bool], str] = {}
        self._rects: dict[tuple[str, float], list[str]] = {}
        self._dots: dict[str, list[str]] = {}

    def row(self, y: int, cells: list[tuple[str, Look]]) -> None:
        """One row of cells."""
        for x, end, look in _stretches(cells, lambda cell: cell[1].bg):
            if look.bg != self._ground.colour:
                self._rect(look.bg, 1.0, x * CELL_W, y * CELL_H, (end - x) * CELL_W, CELL_H)
        for x, end, look in _stretches(cells, lambda cell: (cell[0], cell[1].fg)):
            self._block(cells[x][0], x, end, y, look)
        parts: list[str] = []
        for x, end, look in _stretches(cells, lambda cell: cell[1]):
            parts += self._words("".join(_letter(char) for char, _ in cells[x:end]), x, look)
        if parts:
            self.texts.append(f'<text y="{_n(y * CELL_H + BASE)}">{"".join(parts)}</text>')

    def _words(self, text: str, x: int, look: Look) -> Iterator[str]:
        """Text of one look, cut where blanks follow each other: not every program keeps them."""
        at = 0
        for word in text.split("  "):
            begin = at + len(word) - len(word.lstrip(" "))
            shown = word.strip(" ")
            if shown:
                where = f'x="{_n((x + begin) * CELL_W)}"'
                if len(shown) > 3:
                    where += f' textLength="{_n(len(shown) * CELL_W)}"'
                yield f'<tspan class="{self._class(look)}" {where}>{html.escape(shown, quote=False)}</tspan>'
            at += len(word) + 2

    def _block(self, char: str, x: int, end: int, y: int, look: Look) -> None:
        left, top, span = x * CELL_W, y * CELL_H, (end - x) * CELL_W
        if char in SHADES:
            self._rect(look.fg, SHADES[char], left, top, span, CELL_H)
        elif char and char in BELOW:
            part = (BELOW.index(char) + 1) / 8 * CELL_H
            self._rect(look.fg, 1.0, left, top + CELL_H - part, span, part)
        elif char and char in LEFT:
            for i in range(x, end):
                self._rect(look.fg, 1.0, i * CELL_W, top, (LEFT.index(char) + 1) / 8 * CELL_W, CELL_H)
        elif char == "■":
            self._rect(look.fg, 1.0, left + 1, top + 5, CELL_W - 1, CELL_W - 1)
        elif char and 0x2800 < ord(char[0]) <= 0x28FF:
            bits = ord(char[0]) - 0x2800
            for i in range(x, end):
                for bit, column, row in BITS:
                    if bits & bit:
                        dot = f"M{_n((i + 0.25 + 0.5 * column) * CELL_W)} {_n(top + (row + 0.5) * CELL_H / 4)}h0"
                        self._dots.setdefault(look.fg, []).append(dot)

    def _rect(self, colour: str, opacity: float, x: float, y: float, width: float, height: float) -> None:
        path = f"M{_n(x)} {_n(y)}h{_n(width)}v{_n(height)}h-{_n(width)}z"
        self._rects.setdefault((colour, opacity), []).append(path)

    def _class(self, look: Look) -> str:
        key = (look.fg, look.bold, look.italic, look.underline)
        return self._classes.setdefault(key, f"c{len(self._classes)}")

    def shapes(self) -> Iterator[str]:
        """Backgrounds and blocks, then dots."""
        for (colour, opacity), paths in self._rects.items():
            faint = f' fill-opacity="{opacity:g}"' if opacity < 1 else ""
            yield f'<path fill="{colour}"{faint} d="{"".join(paths)}"/>'
        for colour, dots in self._dots.items():
            yield f'<path stroke="{colour}" stroke-width="2" stroke-linecap="round" d="{"".join(dots)}"/>'

    def styles(self) -> str:
        """The classes of text."""
        made = []
        for (colour, bold, italic, underline), name in self._classes.items():
            more = (";font-weight:700" if bold else "") + (";font-style:italic" if italic else "")
            made.append(f".{name}{{fill:{colour}{more}{';text-decoration:underline' if underline else ''}}}")
        return "".join(made)


def _letter(char: str) -> str:
    """A character that is drawn as text; what is drawn as a shape is a blank here."""
    shaped = not char or char in SHADES or char in BELOW or char in LEFT or char == "■" or 0x2800 <= ord(char[0]) <= 0x28FF
    return " " if shaped else char


def _stretches(cells: list[tuple[str, Look]], key: Any) -> Iterator[tuple[int, int, Look]]:
    """Stretches of cells that are alike: (first, end, the look of the first)."""
    x = 0
    while x < len(cells):
        start, kind = x, key(cells[x])
        while x < len(cells) and key(cells[x]) == kind:
            x += 1
        yield start, x, cells[start][1]


def _n(value: float) -> str:
    """A number as short as it can be."""
    return f"{value:.1f}".removesuffix(".0")
