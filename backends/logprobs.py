"""Token probabilities as servers list them, made into what a `tok` line holds: pieces, log-probabilities, ids, alternatives.

llama.cpp and OpenAI-like servers say ``{token, bytes, logprob, top_logprobs}`` (llama.cpp: with ``id``; after the samplers
``prob`` and ``top_probs``), the old completions route lists in parallel. A list's entries need not match the text that came
with it: a token that ends a character is listed alone with the whole character, a tag is listed and not sent. The text is
what was sent; entries never add to it or take from it.
"""

from __future__ import annotations

import math
from base64 import b64encode
from typing import Any, Final, NamedTuple

import msgspec

from phasetop import codec
from phasetop import events as ev
from phasetop.backends.server_json import MAX_TOKENS

LOWEST: Final = -1e30
"""Log-probabilities below are servers' way to write minus infinity (llama.cpp: the lowest 32-bit float)."""
_NO_BYTES: Final = msgspec.Raw(b"")
_UNKNOWN_CHARACTER: Final = "\ufffd"


class Alternative(msgspec.Struct, gc=False):
    """One of the most probable tokens at a position."""

    token: str | None = None
    raw_bytes: msgspec.Raw = msgspec.field(default=_NO_BYTES, name="bytes")
    logprob: float | None = None
    prob: float | None = None


class Entry(msgspec.Struct, gc=False):
    """The token that was taken at a position, and its alternatives."""

    token: str | None = None
    id: int | None = None
    raw_bytes: msgspec.Raw = msgspec.field(default=_NO_BYTES, name="bytes")
    logprob: float | None = None
    prob: float | None = None
    top_logprobs: list[Alternative] | None = None
    top_probs: list[Alternative] | None = None


class Pieces(NamedTuple):
    """The fields ``x p i b top`` of a `Tok`."""

    x: ev.Text | list[ev.Text]
    p: float | list[float | None] | None = None
    i: int | list[int | None] | None = None
    b: str | list[str | None] | None = None
    top: list[Any] | None = None


def pieces(text: str, entries: list[Entry]) -> Pieces:
    """Lays one server event's text and its entries out as a token line.

    One entry: ``x`` stays a string. Several: one piece each where they spell the text (by their tokens or their bytes, a
    token that is no whole UTF-8 as ``b``); else the text stands whole at the last, whose token completed it.
    """
    if not entries:
        return Pieces(text)
    if len(entries) == 1:
        entry = entries[0]
        found = _bytes(entry) if _UNKNOWN_CHARACTER in text else b""
        if found and found.decode("utf-8", "replace") == text and not _whole(found):
            return Pieces("", _logp(entry), _id(entry), b64encode(found).decode(), _top(entry))
        return Pieces(text, _logp(entry), _id(entry), None, _top(entry))
    p: list[float | None] = [_logp(entry) for entry in entries]
    i: list[int | None] = [_id(entry) for entry in entries]
    top = [_top(entry) for entry in entries]
    x, b = _spell(text, entries)
    return Pieces(
        x,
        p if any(value is not None for value in p) else None,
        i if any(value is not None for value in i) else None,
        b if any(b) else None,
        top if any(top) else None,
    )


def _spell(text: str, entries: list[Entry]) -> tuple[list[ev.Text], list[str | None]]:
    none: list[str | None] = [None] * len(entries)
    tokens: list[ev.Text] = [codec.valid_text(entry.token or "") for entry in entries]
    if _UNKNOWN_CHARACTER not in text and "".join(map(str, tokens)) == text:
        return tokens, none
    parts = [_bytes(entry) for entry in entries]
    if all(parts) and b"".join(parts).decode("utf-8", "replace") == text:
        return (
            [part.decode() if _whole(part) else "" for part in parts],
            [None if _whole(part) else b64encode(part).decode() for part in parts],
        )
    if "".join(map(str, tokens)) == text:
        return tokens, none
    return [*([""] * (len(entries) - 1)), text], none


def _bytes(entry: Entry) -> bytes:
    try:
        return bytes(msgspec.json.decode(entry.raw_bytes, type=list[int]))
    except (msgspec.DecodeError, ValueError):
        return b""


def _whole(part: bytes) -> bool:
    try:
        part.decode()
    except UnicodeDecodeError:
        return False
    return True


def _logp(entry: Entry | Alternative) -> float | None:
    """The natural log with 5 decimals; None for what is unknown or minus infinity."""
    logp = entry.logprob
    if logp is None:
        if entry.prob is None or not 0 < entry.prob < math.inf:
            return None
        logp = math.log(entry.prob)
    return round(logp, 5) + 0.0 if LOWEST < logp < 1e30 else None


def token_id(value: int | None) -> int | None:
    """A token's id; None for one that a line cannot hold (`events.Few`)."""
    return value if value is not None and 0 <= value < MAX_TOKENS else None


def _id(entry: Entry) -> int | None:
    return token_id(entry.id)


def _top(entry: Entry) -> list[Any] | None:
    """The alternatives, flat: text, log-probability, text …; a token that is a part of a character shows as U+FFFD.

    Where one was asked for and it is the token itself, there is no alternative: the line says it all without (20 B less).
    """
    found = entry.top_logprobs or entry.top_probs
    if not found or (len(found) == 1 and found[0].token == entry.token and _logp(found[0]) == _logp(entry)):
        return None
    flat: list[Any] = []
    for other in found:
        token = other.token
        if not token and len(other.raw_bytes) > 2:
            token = _UNKNOWN_CHARACTER
        flat.append(token or "")
        flat.append(_logp(other))
    return flat


class Lists(msgspec.Struct, gc=False):
    """``logprobs`` of a choice: entries in ``content``, or the old completions route's parallel lists."""

    content: list[Entry] | None = None
    tokens: list[str] | None = None
    token_logprobs: list[float | None] | None = None
    top_logprobs: list[dict[str, float | None] | None] | None = None

    def entries(self) -> list[Entry]:
        """The entries, whichever form they came in."""
        if self.content is not None or not self.tokens:
            return self.content or []
        logprobs = self.token_logprobs or []
        tops = self.top_logprobs or []
        return [
            Entry(
                token=token,
                logprob=logprobs[at] if at < len(logprobs) else None,
                top_logprobs=[
                    Alternative(token=t, logprob=p) for t, p in ((tops[at] or {}) if at < len(tops) else {}).items()
                ],
            )
            for at, token in enumerate(self.tokens)
        ]
