r"""Word wrap over tokens that keep coming: rows are only ever added, and any prefix can be shown as it looked live.

The model holds the tokens' texts and, per row, where it starts. A row once begun never changes; only the last word of a
row may move down as a whole when it grows past the edge. `rows` and `row` take the number of tokens to show, so seeking
never wraps again: they undo that one move where, at that number of tokens, the word still fitted above.

Texts hold printable characters, spaces and ``\n`` only (see `tokentext`). Spaces at the edge hang: they take no room.
Words break between wide characters, and where a word alone is wider than a row.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable

from rich.cells import cell_len

_NO_HANG = -1
_widths: dict[str, int] = {}


def char_width(char: str) -> int:
    """How many cells a character takes: 0 (it combines with the one before), 1 or 2."""
    width = _widths.get(char)
    if width is None:
        width = _widths[char] = cell_len(char)
    return width


def text_width(text: str) -> int:
    """How many cells a text without control characters takes."""
    if text.isascii():
        return len(text)
    return sum(char_width(char) for char in text)


class Wrap:
    """Rows of ``width`` cells over an append-only list of token texts.

    Args:
        width: cells in a row, at least 2 (a wide character must fit).

    """

    __slots__ = ("_col", "_hang", "_offset", "_token", "_word_col", "_word_offset", "_word_token", "texts", "width")

    def __init__(self, width: int) -> None:
        self.width = max(2, width)
        self.texts: list[str] = []
        # one entry a row: its first character is texts[token][offset] (offset may be the text's length: the next token)
        self._token: array[int] = array("l", [0])
        self._offset: array[int] = array("l", [0])
        self._hang: array[int] = array("l", [_NO_HANG])  # the column that a word had before it moved down to begin the row
        self._col = 0
        self._word_token, self._word_offset, self._word_col = 0, 0, 0

    def __len__(self) -> int:
        return len(self.texts)

    def extend(self, texts: Iterable[str]) -> None:
        """Append tokens."""
        width, add, slow = self.width, self.texts.append, self._append_slowly
        for text in texts:
            col = self._col + len(text)
            if col <= width and text.isascii() and "\n" not in text:
                space = text.rfind(" ")
                if space >= 0:
                    self._word_token = len(self.texts)
                    self._word_offset = space + 1
                    self._word_col = self._col + space + 1
                self._col = col
                add(text)
            else:
                add(text)
                slow(text)

    def _append_slowly(self, text: str) -> None:
        """Place the characters of the token that was just added."""
        token, width = len(self.texts) - 1, self.width
        for offset, char in enumerate(text):
            if char == "\n":
                self._begin_row(token, offset + 1, _NO_HANG)
                continue
            if char == " ":
                self._col += 1
                self._begin_word(token, offset + 1)
                continue
            cells = char_width(char)
            if cells == 0:
                continue
            if cells == 2:
                self._begin_word(token, offset)
            if self._col + cells > width:
                self._break(token, offset, cells)
            self._col += cells
            if cells == 2:
                self._begin_word(token, offset + 1)

    def _break(self, token: int, offset: int, cells: int) -> None:
        """Make room for a character that no longer fits: move its word down, or break it where it is too long."""
        shown = self._col - self._word_col
        if self._word_col > 0 and shown > 0:
            self._begin_row(self._word_token, self._word_offset, self._word_col)
            self._col = shown
            if shown + cells <= self.width:
                return
        self._begin_row(token, offset, _NO_HANG)

    def _begin_row(self, token: int, offset: int, hang: int) -> None:
        self._token.append(token)
        self._offset.append(offset)
        self._hang.append(hang)
        self._col = 0
        self._word_token, self._word_offset, self._word_col = token, offset, 0

    def _begin_word(self, token: int, offset: int) -> None:
        self._word_token, self._word_offset, self._word_col = token, offset, self._col

    def rows(self, upto: int | None = None) -> int:
        """How many rows the first ``upto`` tokens take (all tokens: None); at least 1."""
        upto = len(self.texts) if upto is None else min(upto, len(self.texts))
        rows = max(1, bisect_left(self._token, upto))
        last = rows - 1
        hang = self._hang[last]
        if hang != _NO_HANG and hang + self._span_width(last, upto) <= self.width:
            rows -= 1  # with these tokens the word still fitted above
        return rows

    def _span_width(self, row: int, upto: int) -> int:
        """Cells of the text from a row's start to the end of token ``upto`` - 1; stops early past the edge."""
        cells, offset = 0, self._offset[row]
        for token in range(self._token[row], upto):
            cells += text_width(self.texts[token][offset:])
            offset = 0
            if cells > self.width:
                break
        return cells

    def row_of(self, token: int) -> int:
        """The row that a token begins in."""
        row = bisect_left(self._token, token + 1) - 1
        while row > 0 and self._token[row] == token and self._offset[row] > 0:
            row -= 1
        return max(0, row)

    def start_of(self, row: int) -> tuple[int, int]:
        """Where a row begins: a token, and the place in its text (its end: the token after it)."""
        return self._token[row], self._offset[row]

    def row(self, row: int, upto: int | None = None) -> list[tuple[int, str]]:
        """The pieces of a row as (token, text), left to right, within the width; only of the first ``upto`` tokens."""
        upto = len(self.texts) if upto is None else min(upto, len(self.texts))
        last = row + 1 >= len(self._token) or row + 1 >= self.rows(upto)
        end_token, end_offset = (upto, 0) if last else (self._token[row + 1], self._offset[row + 1])
        pieces: list[tuple[int, str]] = []
        col, offset = 0, self._offset[row]
        token = self._token[row]
        while token < end_token or (token == end_token and end_offset > 0 and token < upto):
            text = self.texts[token]
            piece = text[offset : end_offset if token == end_token else None]
            if piece.endswith("\n"):
                piece = piece[:-1]
            if piece:
                piece, col = self._fitting(piece, col)
                if piece:
                    pieces.append((token, piece))
            token, offset = token + 1, 0
        return pieces

    def _fitting(self, piece: str, col: int) -> tuple[str, int]:
        """What of a piece lies within the width (all but hanging spaces), and the column after it."""
        if piece.isascii():
            piece = piece[: self.width - col]
            return piece, col + len(piece)
        for i, char in enumerate(piece):
            cells = char_width(char)
            if col + cells > self.width:
                return piece[:i], col
            col += cells
        return piece, col

    def end_column(self, upto: int | None = None) -> int:
        """The column after the last character of the last row: where the pen stands."""
        upto = len(self.texts) if upto is None else min(upto, len(self.texts))
        return sum(text_width(piece) for _, piece in self.row(self.rows(upto) - 1, upto))
