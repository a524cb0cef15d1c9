"""What of a token is drawn: its text made harmless and of exact width, bytes joined to characters over tokens.

A token may carry bytes that are no whole character (``b`` in EVENTS.md): they wait for the token that completes it. A
redacted one is drawn as dots, one a byte.
"""

from __future__ import annotations

import codecs
import re
from typing import Final

from phasetop import events as ev
from phasetop.columns import Tokens
from phasetop.visible import harmless

TAB: Final = "    "
_REDACTED_AT_MOST: Final = 4096
# What `harmless` leaves and yet changes the width of its neighbours by a rule that terminals do not share: soft hyphens,
# joiners, keycaps, skin tones. Flags become their two letters. Without them each character's own width is exact.
_WIDTHS: Final[dict[int, str | None]] = {
    **dict.fromkeys([0xAD, 0x034F, 0x200C, 0x20E3, *range(0x1F3FB, 0x1F400)]),
    **{0x1F1E6 + i: chr(65 + i) for i in range(26)},
}


def drawable(text: ev.Text) -> str:
    r"""A text as `wrap` wants it: printable characters, spaces and ``\n``."""
    if isinstance(text, int):
        return "·" * min(text, _REDACTED_AT_MOST)
    if text.isascii():
        if text.isprintable():
            return text
        return harmless(text.replace("\r\n", "\n").replace("\t", TAB))
    return harmless(text.translate(_WIDTHS).replace("\r\n", "\n").replace("\t", TAB))


_SPECIAL: Final = re.compile(
    r"<\|[^<>|\n]{1,48}\|>|<｜[^<>\n]{1,48}｜>"  # <|im_end|> and its like
    r"|</?(?:s|pad|unk|bos|eos|mask|think|start_of_turn|end_of_turn|tool_call|tool_response)>"
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|THINK)\]"
)


def is_special(text: ev.Text) -> bool:
    """Whether a token's whole text is the name of one of the tokens that mark a chat's structure.

    The same characters as plain text would be several tokens.
    """
    return type(text) is str and text[:1] in ("<", "[") and _SPECIAL.fullmatch(text) is not None


class TokenTexts:
    """The drawable texts of one request's token lines, in order; bytes are carried from line to line."""

    __slots__ = ("_decoder", "_pending", "_taken", "_tokens")

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._taken = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = False  # bytes of a character wait for the rest of it

    def new(self) -> list[str]:
        """The texts of the lines since the last call."""
        tokens, start = self._tokens, self._taken
        self._taken = len(tokens)
        if not tokens.raw_bytes:
            return [
                text if type(text) is str and text.isascii() and text.isprintable() else drawable(text)
                for text in tokens.text[start:]
            ]
        return [self._one(i) for i in range(start, self._taken)]

    def _one(self, i: int) -> str:
        text, raw = self._tokens.text[i], self._tokens.raw_bytes.get(i)
        if raw is None:
            if not self._pending or isinstance(text, int) or not text:
                return drawable(text)
            raw = text.encode("utf-8", "replace")
        whole = self._decoder.decode(raw)
        self._pending = bool(self._decoder.getstate()[0])
        return drawable(whole)
