"""Redaction: every text replaced by its length in UTF-8 bytes, before it is written (EVENTS.md)."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from phasetop import events as ev
from phasetop.events import text_bytes


def redact(event: ev.Event) -> ev.Event:
    """The event as it may be written with ``--redact``: no text, no ids, no bytes; numbers stay."""
    match event:
        case ev.Tok():
            x = [text_bytes(piece) for piece in event.x] if isinstance(event.x, list) else text_bytes(event.x)
            if event.b is not None:
                x = _with_bytes(x, event.b)
            return msgspec.structs.replace(event, x=x, i=None, b=None, top=_numbers(event.top), tool=_call(event.tool))
        case ev.Request():
            return msgspec.structs.replace(
                event,
                messages=_lengths(event.messages),
                prompt=None if event.prompt is None else text_bytes(event.prompt),
                tools=None if event.tools is None else text_bytes(json.dumps(event.tools, ensure_ascii=False)),
                asked=_settings(event.asked),
                applied=_settings(event.applied),
            )
        case ev.Prompt():
            return msgspec.structs.replace(
                event,
                rendered=None if event.rendered is None else text_bytes(event.rendered),
                pieces=None if event.pieces is None else [_piece_bytes(piece) for piece in event.pieces],
                ids=None,
            )
        case ev.End():
            error = event.error
            if error is not None and isinstance(error.text, str):
                error = msgspec.structs.replace(error, text=text_bytes(error.text))
            return msgspec.structs.replace(event, stop=None if event.stop is None else text_bytes(event.stop), error=error)
        case ev.Notice(code="finish-unknown"):
            text = "the server ended the reply with a word that nobody knows, which is taken for a stop"
            return msgspec.structs.replace(event, text=text, about=None)
        case ev.Notice(code="stray-bytes"):
            return msgspec.structs.replace(event, text="the stream held what is no event (left out here)", about=None)
        case ev.Model():
            return msgspec.structs.replace(event, template=None)
    return event


def _with_bytes(x: int | list[int], b: str | list[str | None]) -> int | list[int]:
    """Lengths where the text is in base64: 3 bytes a group of 4, less its padding."""

    def size(part: str) -> int:
        return len(part) // 4 * 3 - part.count("=")

    if isinstance(x, list):
        parts = b if isinstance(b, list) else [b]
        return [size(part) if part else length for part, length in zip(parts, x, strict=False)]
    return size(b) if isinstance(b, str) else x


def _numbers(top: list[Any] | None) -> list[Any] | None:
    if top is None:
        return None
    if top and all(isinstance(each, list) or each is None for each in top):
        return [_numbers(each) for each in top]
    return [each for each in top if not isinstance(each, str)]


def _call(tool: ev.Tool | None) -> ev.Tool | None:
    return None if tool is None else ev.Tool(index=tool.index, name=tool.name)


def _piece_bytes(piece: str | int | dict[str, str]) -> int:
    if isinstance(piece, dict):
        encoded = piece.get("b", "")
        return len(encoded) // 4 * 3 - encoded.count("=")
    return text_bytes(piece)


_SAFE_KEYS = ("role", "type")


def _lengths(value: Any) -> Any:
    """Every string in a JSON value as its length, but roles and types."""
    if isinstance(value, str):
        return text_bytes(value)
    if isinstance(value, list):
        return [_lengths(each) for each in value]
    if isinstance(value, dict):
        return {key: each if key in _SAFE_KEYS and isinstance(each, str) else _lengths(each) for key, each in value.items()}
    return value


SPOKEN_SETTINGS: Final = ("cache_type_k", "cache_type_v", "flash_attention", "think", "keep_alive", "gpu_layers")
"""Settings whose words are a server's own, not a person's."""


def _settings(settings: dict[str, Any] | None) -> dict[str, Any] | None:
    """Settings with every text, and every value that may hold one, as its length."""
    if settings is None:
        return None
    shown: dict[str, Any] = {}
    for name, value in settings.items():
        plain = value is None or isinstance(value, (bool, int, float)) or name in SPOKEN_SETTINGS
        if plain or (name == "format" and value == "json"):
            shown[name] = value
        else:
            shown[name] = text_bytes(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return shown
