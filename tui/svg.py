"""A grid of cells drawn as a small SVG: text in rows, blocks and braille as shapes, so that every font shows the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

CELL_W: Final = 8.4
CELL_H: Final = 18
"""A cell, in the picture's own units."""
_MARGIN: Final = 8
_FONT: Final = 14
_BASE: Final = 13.5
_LEFT: Final = "▏▎▍▌▋▊▉█"
"""Blocks filled from the left by 1 to 8 eighths."""
_BELOW: Final = "▁▂▃▄▅▆▇█"
"""Blocks filled from below by 1 to 8 eighths."""
_SHADES: Final = {"░": 0.5, "▒": 0.6, "▓": 0.8}
_DOTS: Final = (
    *((0x01, 0, 0), (0x02, 0, 1), (0x04, 0, 2), (0x40, 0, 3)),
    *((0x08, 1, 0), (0x10, 1, 1), (0x20, 1, 2), (0x80, 1, 3)),
)
"""Braille: a dot's bit, its column and its row."""
_STRETCHED_FROM: Final = 4
"""Words of so many cells say how wide they are, so that a font of another width does not move what follows."""


class Style(NamedTuple):
    """How a cell is drawn; colours are ``#rrggbb``."""

    fg: str
    bg: str
    bold: bool = False
    italic: bool = False
    underline: bool = False


Cell = tuple[str, Style]
"""What stands in a cell (with what combines with it; empty where a wide character from the left covers it), and how."""


def svg(rows: Sequence[Sequence[Cell]], ground: str, title: str = "") -> str:
    """A grid of at least one row as SVG on a ground; it can be read and searched as text, too."""
    width, height = len(rows[0]) * CELL_W + 2 * _MARGIN, len(rows) * CELL_H + 2 * _MARGIN
    drawing = _Drawing(ground)
    for y, cells in enumerate(rows):
        drawing.row(y, cells)
    font = "ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace"
    size = f'viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            *([f"<title>{escape(title)}</title>"] if title else []),
            f"<style>text{{font:{_FONT}px {font};white-space:pre}}{drawing.styles()}</style>",
            f'<rect width="100%" height="100%" rx="6" fill="{ground}"/><g transform="translate({_MARGIN} {_MARGIN})">',
            *drawing.shapes(),
            *drawing.texts,
            "</g></svg>\n",
        ]
    )


class _Drawing:
    """What was drawn so far: rectangles and dots by colour, text by row."""

    def __init__(self, ground: str) -> None:
        self.texts: list[str] = []
        self._ground = ground
        self._classes: dict[tuple[str, bool, bool, bool], str] = {}
        self._rects: dict[tuple[str, float], list[str]] = {}
        self._dots: dict[str, list[str]] = {}

    def row(self, y: int, cells: Sequence[Cell]) -> None:
        """One row of cells."""
        for x, end, style in _stretches(cells, lambda cell: cell[1].bg):
            if style.bg != self._ground:
                self._rect(style.bg, 1.0, x * CELL_W, y * CELL_H, (end - x) * CELL_W, CELL_H)
        for x, end, style in _stretches(cells, lambda cell: (cell[0], cell[1].fg)):
            self._shape(cells[x][0], x, end, y, style.fg)
        parts: list[str] = []
        for x, end, style in _stretches(cells, lambda cell: cell[1]):
            for at, length, word in _words([_letter(char) for char, _ in cells[x:end]]):
                where = f'x="{_n((x + at) * CELL_W)}"'
                if length >= _STRETCHED_FROM:
                    where += f' textLength="{_n(length * CELL_W)}"'
                parts.append(f'<tspan class="{self._class(style)}" {where}>{escape(word, quote=False)}</tspan>')
        if parts:
            self.texts.append(f'<text y="{_n(y * CELL_H + _BASE)}">{"".join(parts)}</text>')

    def _shape(self, char: str, x: int, end: int, y: int, colour: str) -> None:
        """Cells x … end − 1 that hold the same block, shade or braille."""
        left, top, span = x * CELL_W, y * CELL_H, (end - x) * CELL_W
        if char in _SHADES:
            self._rect(colour, _SHADES[char], left, top, span, CELL_H)
        elif char and char in _BELOW:
            part = (_BELOW.index(char) + 1) / 8 * CELL_H
            self._rect(colour, 1.0, left, top + CELL_H - part, span, part)
        elif char and char in _LEFT:
            for i in range(x, end):
                self._rect(colour, 1.0, i * CELL_W, top, (_LEFT.index(char) + 1) / 8 * CELL_W, CELL_H)
        elif char == "■":
            self._rect(colour, 1.0, left + 1, top + 5, CELL_W - 1, CELL_W - 1)
        elif char and 0x2800 < ord(char[0]) <= 0x28FF:
            bits = ord(char[0]) - 0x2800
            for i in range(x, end):
                for bit, column, row in _DOTS:
                    if bits & bit:
                        dot = f"M{_n((i + 0.25 + 0.5 * column) * CELL_W)} {_n(top + (row + 0.5) * CELL_H / 4)}h0"
                        self._dots.setdefault(colour, []).append(dot)

    def _rect(self, colour: str, opacity: float, x: float, y: float, width: float, height: float) -> None:
        path = f"M{_n(x)} {_n(y)}h{_n(width)}v{_n(height)}h-{_n(width)}z"
        self._rects.setdefault((colour, opacity), []).append(path)

    def _class(self, style: Style) -> str:
        key = (style.fg, style.bold, style.italic, style.underline)
        return self._classes.setdefault(key, f"c{len(self._classes)}")

    def shapes(self) -> Iterator[str]:
        """Grounds and blocks, then dots."""
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
    if not char:
        return ""
    shaped = char in _SHADES or char in _BELOW or char in _LEFT or char == "■" or 0x2800 <= ord(char[0]) <= 0x28FF
    return " " if shaped else char


def _words(letters: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Words that one blank parts are one: (first cell, cells, text). Longer gaps are not left to a program that draws it."""
    x, n = 0, len(letters)
    while x < n:
        if letters[x] == " ":
            x += 1
            continue
        start = x
        while x < n and not (letters[x] == " " and (x + 1 == n or letters[x + 1] == " ")):
            x += 1
        yield start, x - start, "".join(letters[start:x])


def _stretches(cells: Sequence[Cell], key: Callable[[Cell], object]) -> Iterator[tuple[int, int, Style]]:
    """Stretches of cells that are alike: (first, end, the style of the first)."""
    x = 0
    while x < len(cells):
        start, kind = x, key(cells[x])
        while x < len(cells) and key(cells[x]) == kind:
            x += 1
        yield start, x, cells[start][1]


def _n(value: float) -> str:
    """A number as short as it can be."""
    return f"{value:.1f}".removesuffix(".0")
