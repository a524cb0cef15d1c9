"""The canvas on the terminal: tiles, and only what changed in them.

Textual compares no frames and sends a widget's row from its left edge to the last changed cell, however far right the change
is. So the screen is cut into tiles (`layout.tiles`), frames are compared here, cell by cell, and each tile is told which of
its rows changed, and where.
"""

from __future__ import annotations

from rich.segment import Segment
from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.strip import Strip
from textual.widget import Widget

from phasetop.tui.cells import Canvas
from phasetop.tui.layout import Rect
from phasetop.tui.theme import Ink, Look
from phasetop.tui.wrap import char_width


class Tile(Widget):
    """One tile: it draws its part of the board's canvas, and keeps the rows that did not change."""

    DEFAULT_CSS = "Tile { width: auto; height: auto; }"
    can_focus = False

    def __init__(self, board: Board, rect: Rect) -> None:
        super().__init__()
        self._board = board
        self._rows: dict[int, Strip] = {}
        self.rect = rect

    def place(self, rect: Rect) -> None:
        """Another place, all of it to be drawn."""
        self.rect = rect
        self._rows.clear()

    def changed(self, y: int, first: int, last: int) -> None:
        """Draw a row again, from its cell ``first`` to ``last``."""
        self._rows.pop(y, None)
        self.refresh(Region(first, y, last - first + 1, 1))

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows of a part of the tile. Textual's own styling is passed by: rows come with their inks."""
        strips = []
        for y in range(crop.y, crop.bottom):
            strip = self._rows.get(y)
            if strip is None:
                strip = self._rows[y] = self._board.strip(self.rect, y)
            whole = crop.x == 0 and crop.width >= strip.cell_length
            strips.append(strip if whole else strip.crop(crop.x, crop.right))
        return strips


class _Placed(Layout):
    """Every tile stands where its rectangle says."""

    name = "placed"

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:  # noqa: ARG002
        placements = []
        for child in children:
            if isinstance(child, Tile):
                rect = child.rect
                region = Region(rect.x, rect.y, rect.width, rect.height)
                placements.append(WidgetPlacement(region, NULL_OFFSET, NULL_SPACING, child))
        return placements


class Board(Widget):
    """Holds the tiles and the canvas that is shown."""

    DEFAULT_CSS = "Board { width: 100%; height: 100%; }"
    can_focus = False

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look
        self._canvas = Canvas(0, 0, look)
        self._tiles: list[Tile] = []
        self._by_row: list[list[tuple[Tile, int, int, int]]] = []  # a row's tiles: tile, first column, end, its first row
        self._placed = _Placed()

    def wear(self, look: Look) -> None:
        """Another look, everything to be drawn with it."""
        self._look = look
        self.redraw()

    @property
    def layout(self) -> Layout:
        """Tiles stand where they are put."""
        return self._placed

    @property
    def canvas(self) -> Canvas:
        """What is shown."""
        return self._canvas

    def show(self, canvas: Canvas, rects: list[Rect]) -> int:
        """Show a canvas cut into tiles; returns how many rows of tiles have to be drawn."""
        before, self._canvas = self._canvas, canvas
        if [tile.rect for tile in self._tiles] != rects:
            self._cut(rects)
            return canvas.height
        if (before.width, before.height) != (canvas.width, canvas.height):
            self.redraw()
            return canvas.height
        drawn = 0
        for y, tiles in enumerate(self._by_row):
            old_chars, chars = before.chars[y], canvas.chars[y]
            old_inks, inks = before.inks[y], canvas.inks[y]
            if old_chars == chars and old_inks == inks:
                continue
            for tile, x0, x1, top in tiles:
                if old_chars[x0:x1] == chars[x0:x1] and old_inks[x0:x1] == inks[x0:x1]:
                    continue
                same = [old_chars[x] == chars[x] and old_inks[x] is inks[x] for x in range(x0, x1)]
                last = len(same) - 1 - same[::-1].index(False)
                tile.changed(y - top, same.index(False), last)
                drawn += 1
        return drawn

    def redraw(self) -> None:
        """Send everything again."""
        for tile in self._tiles:
            tile.place(tile.rect)
            tile.refresh()

    def _cut(self, rects: list[Rect]) -> None:
        """Tiles for these rectangles; widgets are used again."""
        for tile, rect in zip(self._tiles, rects, strict=False):
            tile.place(rect)
        fresh = [Tile(self, rect) for rect in rects[len(self._tiles) :]]
        gone = self._tiles[len(rects) :]
        self._tiles = [*self._tiles[: len(rects)], *fresh]
        rows = max((rect.bottom for rect in rects), default=0)
        self._by_row = [
            [
                (tile, tile.rect.x, tile.rect.right, tile.rect.y)
                for tile in self._tiles
                if tile.rect.y <= y < tile.rect.bottom
            ]
            for y in range(rows)
        ]
        for tile in gone:
            tile.remove()
        if fresh:
            self.mount(*fresh)
        self.refresh(layout=True)
        self.redraw()

    def strip(self, rect: Rect, y: int) -> Strip:
        """A row of a tile as runs of one style."""
        row = rect.y + y
        canvas = self._canvas
        if row >= canvas.height or rect.right > canvas.width:
            return Strip.blank(rect.width)
        chars = canvas.chars[row][rect.x : rect.right]
        inks = canvas.inks[row][rect.x : rect.right]
        return Strip(segments_of(chars, inks, self._look), rect.width)


def segments_of(chars: list[str], inks: list[Ink], look: Look) -> list[Segment]:
    """Cells as segments, as few as may be: a blank joins the run before it where its style shows nothing on blanks."""
    if chars and chars[0] == "":
        chars[0] = " "  # a wide character began in the tile before
    if chars and not chars[-1].isascii() and char_width(chars[-1][0]) == 2:
        chars[-1] = " "  # and one that ends in the next
    segments: list[Segment] = []
    text: list[str] = []
    how: Ink | None = None  # of the run; None: the bare ground
    for char, its in zip(chars, inks, strict=True):
        blank = char == " " and its.bg is None and not its.style
        if char and not (blank and (how is None or (how.bg is None and not how.style))):
            now = None if blank else its
            if now is not how and text:
                segments.append(Segment(look.glyphs("".join(text)), look.blank if how is None else look.style(how)))
                text = []
            how = now
        text.append(char)
    if text:
        segments.append(Segment(look.glyphs("".join(text)), look.blank if how is None else look.style(how)))
    return segments
