"""A grid of cells: what a pane is painted on, before any terminal is involved.

A cell is a character (with what combines with it; empty where a wide one from the left covers it) and an `Ink`: two colour
roles and a style. Painting is clipped to an `Area` and lets no control character pass, whatever it is given.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from phasetop.tui.theme import PLAIN, Ink, Look, Role, ink
from phasetop.tui.wrap import char_width, text_width

EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
"""A cell filled from the left by 0 to 8 eighths."""
BARS: Final = " ▁▂▃▄▅▆▇█"
"""A cell filled from below by 0 to 8 eighths."""
HALF_DOTS: Final = " ⡀⡄⡆⡇"
"""The same in four steps of one dot column, for terminals whose colours cannot be subdued."""
BRAILLE: Final = 0x2800
DOTS: Final = ((1, 2, 4, 64), (8, 16, 32, 128))
"""The braille bit of a dot, by its column (0, 1) and its row (0 at the top)."""


Part = str | tuple[str, Role] | tuple[str, Role, str]
"""A piece of a line: text, or (text, role), or (text, role, style)."""
Share = tuple[float, Role, str]
"""A part of a bar: amount, role, fill character."""


def fit(text: str, width: int, *, keep_end: bool = False) -> str:
    """``text`` cut to ``width`` cells, with ``…`` where something goes: at the end, or (``keep_end``) in the middle."""
    if text_width(text) <= width:
        return text
    if width <= 1:
        return "…" if width == 1 else ""
    tail = ""
    if keep_end:
        for char in reversed(text):
            if text_width(tail) + char_width(char) > (width - 1) // 2:
                break
            tail = char + tail
    head, room = "", width - 1 - text_width(tail)
    for char in text:
        room -= char_width(char)
        if room < 0:
            break
        head += char
    return head + "…" + tail


class Canvas:
    """``width`` × ``height`` cells, and the look that they will have (painters ask it how bands and areas are drawn)."""

    __slots__ = ("chars", "height", "inks", "look", "width")

    def __init__(self, width: int, height: int, look: Look) -> None:
        self.width = width
        self.height = height
        self.look = look
        self.chars: list[list[str]] = [[" "] * width for _ in range(height)]
        self.inks: list[list[Ink]] = [[PLAIN] * width for _ in range(height)]

    def area(self, x: int, y: int, width: int, height: int) -> Area:
        """A part of the canvas, clipped to it; its own origin is its upper left corner."""
        x0, y0 = max(0, x), max(0, y)
        return Area(self, x0, y0, max(0, min(x + width, self.width) - x0), max(0, min(y + height, self.height) - y0))

    def text(self) -> str:
        """The characters alone, a line a row, without blanks at the end."""
        return "\n".join("".join(row).rstrip() for row in self.chars) + "\n"


class Area:
    """A window on a canvas: painters draw in it with their own coordinates and cannot leave it."""

    __slots__ = ("_canvas", "_x", "_y", "height", "look", "width")

    def __init__(self, canvas: Canvas, x: int, y: int, width: int, height: int) -> None:
        self._canvas = canvas
        self._x = x
        self._y = y
        self.width = width
        self.height = height
        self.look = canvas.look

    def area(self, x: int, y: int, width: int, height: int) -> Area:
        """A window in this window."""
        x0, y0 = max(0, x), max(0, y)
        x1, y1 = min(x + width, self.width), min(y + height, self.height)
        return Area(self._canvas, self._x + x0, self._y + y0, max(0, x1 - x0), max(0, y1 - y0))

    def clear(self) -> None:
        """Blank every cell."""
        for y in range(self._y, self._y + self.height):
            self._canvas.chars[y][self._x : self._x + self.width] = [" "] * self.width
            self._canvas.inks[y][self._x : self._x + self.width] = [PLAIN] * self.width

    def put(self, x: int, y: int, text: str, fg: Role = "ink", bg: Role | None = None, style: str = "") -> int:
        """Draw text from column ``x`` on, clipped; returns the column after it, seen or not.

        Unprintable characters (C0, C1, escape, bidi and format controls) become ``�`` here, if they came so far.
        """
        if text.isascii() and text.isprintable():
            end = x + len(text)
            if 0 <= y < self.height and end > 0 and x < self.width:
                if x < 0:
                    text, x = text[-x:], 0
                if end > self.width:
                    text = text[: self.width - x]
                n = len(text)
                row, at = self._y + y, self._x + x
                self._canvas.chars[row][at : at + n] = text
                self._canvas.inks[row][at : at + n] = [ink(fg, bg, style)] * n
            return end
        return self._put_slowly(x, y, text, ink(fg, bg, style))

    def _put_slowly(self, x: int, y: int, text: str, how: Ink) -> int:
        seen = 0 <= y < self.height
        chars = self._canvas.chars[self._y + y] if seen else []
        inks = self._canvas.inks[self._y + y] if seen else []
        last = -1
        for char in text:
            if not char.isprintable():
                char = "�"
            cells = char_width(char)
            if cells == 0:
                if last >= 0:
                    chars[last] += char
                continue
            last = -1
            if seen and x >= 0 and x + cells <= self.width:
                last = self._x + x
                chars[last] = char
                inks[last] = how
                if cells == 2:
                    chars[last + 1] = ""
                    inks[last + 1] = how
            x += cells
        return x

    def reverse(self, x: int, y: int) -> None:
        """Reverse what stands in a cell: a caret."""
        if 0 <= x < self.width and 0 <= y < self.height:
            row = self._canvas.inks[self._y + y]
            how = row[self._x + x]
            row[self._x + x] = ink(how.fg, how.bg, how.style + "r")

    def line(self, x: int, y: int, *parts: Part) -> int:
        """Draw parts one after the other; returns the column after the last."""
        for part in parts:
            if isinstance(part, str):
                x = self.put(x, y, part)
            elif len(part) == 2:
                x = self.put(x, y, part[0], part[1])
            else:
                x = self.put(x, y, part[0], part[1], None, part[2])
        return x

    def label(self, x: int, y: int, text: str, *, focused: bool = False) -> int:
        """A pane's label: reversed where the pane has the keys; returns the column after it."""
        return self.put(x, y, text, "ink" if focused else "soft", None, "r" if focused else "")

    def right(self, x: int, y: int, text: str, fg: Role = "ink", style: str = "") -> None:
        """Draw text that ends before column ``x``."""
        self.put(x - text_width(text), y, text, fg, None, style)

    def value(self, x: int, y: int, number: str, unit: str, note: str = "", fg: Role = "ink", style: str = "") -> None:
        """A number right-aligned in seven columns, its unit, a note: the same columns in every lane."""
        self.right(x + 7, y, number, fg, style)
        end = self.put(x + 8, y, unit, "soft")
        self.put(end + 1 if unit else x + 8, y, note, "faint")

    def bar(self, x: int, y: int, width: int, total: float, parts: Iterable[Share], free: str = "·") -> None:
        """A bar of parts of ``total``; ``█`` ends on an eighth of a cell."""
        if width <= 0 or total <= 0:
            return
        at, pos = 0.0, x
        fg: Role = "rule"
        amount, fill = 0.0, " "
        end = float(x)
        for amount, fg, fill in parts:
            at += amount
            end = x + min(1.0, at / total) * width
            n = max(0, int(end + 0.06) - pos)
            self.put(pos, y, fill * n, fg)
            pos += n
        if fill == "█" and amount > 0 and end - pos >= 0.125 and pos < x + width and not self.look.ascii:
            self.put(pos, y, EIGHTHS[min(8, int((end - pos) * 8))], fg)
            pos += 1
        self.put(pos, y, free * (x + width - pos), "rule")
