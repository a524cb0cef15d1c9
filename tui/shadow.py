"""What the terminal shows, cell by cell, so that only cells that change are sent.

Textual sends a row of a widget from its left edge to the last change. `Shadow.send` takes such a write and leaves out what
stands on the screen already, with moves over it. It knows only what it has sent itself: after anything else (another size, a
clear, a sequence that is not known here) it forgets, and all that is written is sent until it knows again.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from phasetop.tui.squeeze import PLAIN, SHOWS_ON_BLANKS, TOKEN, Pen, after, change, squeeze
from phasetop.tui.wrap import char_width

_MOVE: Final = re.compile(r"\x1b\[(\d+);(\d+)H")
_QUIET: Final = re.compile(r"\x1b\[(?:\?(?!1049)[0-9;]+[hl]|6n|[<>=?][0-9;]*u|\?[0-9;]+\$p)")
"""Sequences that change no cell and move nothing."""
_BRIDGE: Final = 4
"""Over so few unchanged cells it is shorter to send them again than to move."""
_UNKNOWN: Final = (-1, -1)

Cell = tuple[str, Pen]


class Shadow:
    """The cells of the terminal, as far as they are known."""

    def __init__(self) -> None:
        self._rows: dict[int, dict[int, Cell]] = {}
        self._at = _UNKNOWN  # where the terminal's cursor is: row and column from 1
        self._width = 0

    def forget(self, width: int = 0) -> None:
        """Something else may stand there now; ``width``: the columns of the terminal, 0: not known."""
        self._rows = {}
        self._at = _UNKNOWN
        self._width = width

    def send(self, data: str) -> str:
        """The write without what is there already; begins and ends with the terminal's own style."""
        made = self._differences(data)
        if made is None:
            self.forget(self._width)
            return squeeze(data)
        return made

    def _differences(self, data: str) -> str | None:
        """None where something is not known."""
        if not self._width:
            return None
        out: list[str] = []
        wanted = now = PLAIN
        goal = self._at
        end = 0
        for match in TOKEN.finditer(data):
            if match.start() != end:
                return None
            end = match.end()
            style, other, text = match.groups()
            if style is not None:
                pen = after(wanted, style)
                if pen is None:
                    return None
                wanted = pen
            elif other is not None:
                move = _MOVE.fullmatch(other)
                if move is not None:
                    goal = (int(move[1]), int(move[2]))
                    continue
                if _QUIET.fullmatch(other) is None:
                    return None
                if goal not in (_UNKNOWN, self._at):
                    out.append(_move(goal))
                    self._at = goal
                out.append(other)
            elif text is not None:
                if goal == _UNKNOWN or not text.isprintable():
                    return None
                now, goal = self._write(out, text, wanted, now, goal)
        if end != len(data):
            return None
        if goal not in (_UNKNOWN, self._at):
            out.append(_move(goal))
            self._at = goal
        if now != PLAIN:
            out.append("\x1b[m")
        return "".join(out)

    def _write(self, out: list[str], text: str, pen: Pen, now: Pen, goal: tuple[int, int]) -> tuple[Pen, tuple[int, int]]:
        """Text at ``goal``: send the cells that differ; returns the pen that is set then, and the place after the text."""
        y, x = goal
        row = self._rows.setdefault(y, {})
        blank_pen = _on_blanks(pen)
        made = _cells(text)
        end = x + sum(cells for _, cells in made)
        if end <= self._width + 1 and row.keys().isdisjoint(range(x, end + 1)):  # nothing is known there: all is sent
            self._reach(out, row, goal, now)
            text = "".join(char for char, _ in made)
            blanks = len(text) - len(text.lstrip(" ")) if blank_pen == _on_blanks(now) else 0
            out.append(text[:blanks])
            if blanks < len(text):
                out += (change(now, pen), text[blanks:])
                now = pen
            for char, cells in made:
                row[x] = (char, blank_pen if char == " " else pen)
                if cells == 2:
                    row[x + 1] = ("", pen)
                x += cells
            self._at = (y, end) if end <= self._width else _UNKNOWN
            return now, self._at
        for char, cells in made:
            cell: Cell = (char, blank_pen if char == " " else pen)
            if row.get(x) != cell:
                self._reach(out, row, (y, x), now)
                if not (char == " " and cell[1] == _on_blanks(now)):
                    out.append(change(now, pen))
                    now = pen
                out.append(char)
                if cells == 2 or row.get(x + 1, cell)[0] == "":  # half of a wide character goes with its other half
                    row.pop(x + 1, None)
                if row.get(x, cell)[0] == "":
                    row.pop(x - 1, None)
                row[x] = cell
                if cells == 2:
                    row[x + 1] = ("", pen)
                    row.pop(x + 2, None) if row.get(x + 2, cell)[0] == "" else None
                self._at = (y, x + cells) if x + cells <= self._width else _UNKNOWN
            x += cells
        return now, (y, x) if x <= self._width else _UNKNOWN

    def _reach(self, out: list[str], row: dict[int, Cell], to: tuple[int, int], now: Pen) -> None:
        """Bring the terminal's cursor there: over a few cells by sending them again, else by a move."""
        y, x = self._at
        if (y, x) == to:
            return
        if y == to[0] and 0 < x < to[1]:
            between = [row.get(at) for at in range(x, to[1])]
            if len(between) <= _BRIDGE and all(
                cell is not None and len(cell[0]) == 1 and char_width(cell[0]) == 1 and cell[1] == now for cell in between
            ):
                out.append("".join(cell[0] for cell in between if cell is not None))
            else:
                out.append(f"\x1b[{to[1] - x}C" if to[1] - x > 1 else "\x1b[C")
        else:
            out.append(_move(to))
        self._at = to


@lru_cache(4096)
def _on_blanks(pen: Pen) -> Pen:
    """What shows of a pen on a blank."""
    return pen if pen.flags & SHOWS_ON_BLANKS else Pen("", pen.bg)


def _cells(text: str) -> list[tuple[str, int]]:
    """The text's cells: a character with what combines with it, and its width."""
    if text.isascii():
        return [(char, 1) for char in text]
    made: list[tuple[str, int]] = []
    for char in text:
        cells = char_width(char)
        if cells == 0 and made:
            made[-1] = (made[-1][0] + char, made[-1][1])
        elif cells:
            made.append((char, cells))
    return made


def _move(to: tuple[int, int]) -> str:
    return f"\x1b[{to[0]};{to[1]}H"
