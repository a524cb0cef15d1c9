"""Fewer bytes for the same cells: Textual sends each run of text with its whole style and a reset after it.

`squeeze` follows what is drawn with and says only what changes, when the next visible cell needs it. Whatever it does not
know makes it leave the whole write as it is.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

TOKEN: Final = re.compile(
    r"\x1b\[([0-9;]*)m"  # a style
    r"|\n(?=\x1b\[\d+;\d+H)"  # a line end before a move: the move says where
    r"|(\x1b\[[0-9;?<>=]*\$?[A-Za-ln-z]|\x1b\[[?<>=][0-9;]*m|\x1b[78=>])"  # other sequences
    r"|([^\x1b\n]+|\n)"
)
SHOWS_ON_BLANKS: Final = frozenset(("4", "7", "9", "21", "53"))
"""Underline, reverse, struck through, double underline, overline."""
_FLAGS: Final = frozenset(("1", "2", "3", "4", "5", "7", "8", "9", "21", "53"))


class Pen(NamedTuple):
    """How cells are drawn: the codes of the two colours ("": the terminal's own) and the attributes' codes."""

    fg: str = ""
    bg: str = ""
    flags: frozenset[str] = frozenset()


PLAIN: Final = Pen()


def squeeze(data: str) -> str:
    """The same screen with fewer bytes; begins and ends with the terminal's own style."""
    out: list[str] = []
    wanted = now = PLAIN
    at = 0
    for match in TOKEN.finditer(data):
        if match.start() != at:
            return data
        at = match.end()
        style, other, text = match.groups()
        if style is not None:
            pen = after(wanted, style)
            if pen is None:
                return data
            wanted = pen
        elif text is not None:
            if wanted is not now and not (text.isspace() and _alike_on_blanks(now, wanted)):
                out.append(change(now, wanted))
                now = wanted
            out.append(text)
        elif other is not None:
            out.append(other)
    if at != len(data):
        return data
    if now != PLAIN:
        out.append("\x1b[m")
    return "".join(out)


@lru_cache(4096)
def after(pen: Pen, codes: str) -> Pen | None:
    """The pen after a style sequence; None for codes that are not known here."""
    fg, bg, flags = pen
    parts = codes.split(";") if codes else ["0"]
    i = 0
    while i < len(parts):
        code = parts[i]
        if code in ("0", ""):
            fg, bg, flags = PLAIN
        elif code in ("38", "48"):
            n = {"2": 5, "5": 3}.get(parts[i + 1] if i + 1 < len(parts) else "")
            if n is None or i + n > len(parts):
                return None
            colour = ";".join(parts[i : i + n])
            fg, bg = (colour, bg) if code == "38" else (fg, colour)
            i += n - 1
        elif code in _FLAGS:
            flags = flags | {code}
        elif code.isdigit() and (30 <= int(code) <= 37 or 90 <= int(code) <= 97):
            fg = code
        elif code.isdigit() and (40 <= int(code) <= 47 or 100 <= int(code) <= 107):
            bg = code
        elif code == "39":
            fg = ""
        elif code == "49":
            bg = ""
        else:
            return None
        i += 1
    return Pen(fg, bg, flags)


@lru_cache(4096)
def change(now: Pen, wanted: Pen) -> str:
    """The shortest sequence from one pen to another."""
    if now == wanted:
        return ""
    if wanted == PLAIN:
        return "\x1b[m"
    codes: list[str] = []
    if now.flags - wanted.flags:
        codes.append("")
        now = PLAIN
    codes += sorted(wanted.flags - now.flags)
    if wanted.fg != now.fg:
        codes.append(wanted.fg or "39")
    if wanted.bg != now.bg:
        codes.append(wanted.bg or "49")
    return f"\x1b[{';'.join(codes)}m"


@lru_cache(4096)
def _alike_on_blanks(now: Pen, wanted: Pen) -> bool:
    """Whether a blank looks the same with both."""
    return now.bg == wanted.bg and not (now.flags | wanted.flags) & SHOWS_ON_BLANKS
