"""Text made harmless: what would drive a terminal, or is drawn nowhere, is shown as a mark or left out.

Model text, names, errors and file contents are data (DESIGN: Standards). The map is one character at a time and knows no
context, so an escape sequence that is split over chunks is as harmless as a whole one, and ``harmless(a) + harmless(b)`` is
``harmless(a + b)``.
"""

from __future__ import annotations

from functools import cache
from typing import Final

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"

_LEFT_OUT: Final = (
    0x061C,  # ARABIC LETTER MARK
    *range(0x180B, 0x1810),  # Mongolian variation selectors
    0x200B,  # ZERO WIDTH SPACE
    0x200D,  # ZERO WIDTH JOINER: terminals and width tables do not agree on what it joins
    *(0x200E, 0x200F),  # direction marks
    *range(0x202A, 0x202F),  # direction embeddings and overrides
    *range(0x2060, 0x2070),  # word joiner, invisible operators, direction isolates, deprecated formats
    *range(0xFE00, 0xFE10),  # variation selectors
    0xFEFF,  # byte order mark
    *range(0xE0000, 0xE0080),  # tags
    *range(0xE0100, 0xE01F0),  # variation selectors
)


@cache
def _marks(*, newlines: bool) -> dict[int, str | None]:
    """What each character becomes; made when the first text needs it."""
    marks: dict[int, str | None] = dict.fromkeys(_LEFT_OUT)
    for code in range(0x20):
        marks[code] = chr(0x2400 + code)  # ␀ … ␛ … ␟
    marks[0x7F] = "\N{SYMBOL FOR DELETE}"
    for code in range(0x80, 0xA0):  # C1: as the two characters that mean the same in seven bits, ESC and one from @ to _
        marks[code] = "\N{SYMBOL FOR ESCAPE}" + chr(code - 0x40)
    for code in (0x2028, 0x2029):  # line and paragraph separator: some code breaks lines at them
        marks[code] = "\N{SYMBOL FOR NEWLINE}"
    for code in range(0xFFF9, 0xFFFC):  # interlinear annotation
        marks[code] = REPLACEMENT
    for code in range(0xD800, 0xE000):  # lone surrogates
        marks[code] = REPLACEMENT
    if newlines:
        del marks[0x09], marks[0x0A]
    return marks


def clean(text: str) -> str:
    """A text from elsewhere on one line, its blanks single, and harmless."""
    return harmless(" ".join(text.split()), newlines=False)


def harmless(text: str, *, newlines: bool = True) -> str:
    """``text`` as it may be written to a terminal; ``newlines``: newline and tab stay (carriage return never does)."""
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_marks(newlines=newlines))
