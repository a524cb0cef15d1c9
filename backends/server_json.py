"""What servers send as JSON, into typed structs: fast when it is as it should be, forgiving when it is not.

The fast way is one typed msgspec decoder. Where that fails, for a lone surrogate, NaN, bytes that are no UTF-8 or one key of
an unheard-of type, the same struct is filled from what can be used: one odd key must not cost a token.
"""

from __future__ import annotations

import json
import math
import types
import typing
from typing import Any, Final, Generic, TypeVar

import msgspec

from phasetop import codec

S = TypeVar("S", bound=msgspec.Struct)

MAX_DEPTH: Final = 48
"""Nesting that is followed; what lies deeper becomes None."""
MAX_TOKENS: Final = 2**31
"""Token counts and ids from here on are none."""

_FAILURES: Final = (msgspec.DecodeError, ValueError, RecursionError)


class JsonDecoder(Generic[S]):
    """Decodes bytes to one kind of struct."""

    __slots__ = ("_decode", "_kind")

    def __init__(self, kind: type[S]) -> None:
        self._kind = kind
        self._decode = msgspec.json.Decoder(kind).decode

    def decode(self, data: bytes) -> S | None:
        """The struct; None where ``data`` is no JSON object. Never raises."""
        try:
            return self._decode(data)
        except _FAILURES:
            value = load(data)
            return lenient(self._kind, value) if isinstance(value, dict) else None


def load(data: bytes) -> Any:
    """Any JSON as Python values, its strings valid Unicode and its numbers finite; None where it is none."""
    try:
        return _clean(json.loads(data.decode("utf-8", "replace")), MAX_DEPTH)
    except (ValueError, RecursionError):
        return None


def _clean(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return codec.valid_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else None
    if depth <= 0:
        return None
    if isinstance(value, list):
        return [_clean(item, depth - 1) for item in value]
    if isinstance(value, dict):
        return {codec.valid_text(key): _clean(item, depth - 1) for key, item in value.items()}
    return value


def lenient(kind: type[S], value: dict[str, Any]) -> S:
    """A struct of the keys that can be used; every field of ``kind`` needs a default."""
    kept = {}
    for field in msgspec.structs.fields(kind):
        if field.encode_name in value:
            try:
                kept[field.name] = _as(field.type, value[field.encode_name])
            except (msgspec.MsgspecError, ValueError):
                continue
    return kind(**kept)


def _as(wanted: Any, value: Any) -> Any:
    if typing.get_origin(wanted) in (typing.Union, types.UnionType):
        arms = typing.get_args(wanted)
    else:
        arms = (wanted,)
    if value is None and type(None) in arms:
        return None
    for arm in arms:
        if arm is msgspec.Raw:
            return msgspec.Raw(msgspec.json.encode(value))
        if isinstance(arm, type) and issubclass(arm, msgspec.Struct) and isinstance(value, dict):
            return lenient(arm, value)
        if typing.get_origin(arm) is list and isinstance(value, list):
            return _items(typing.get_args(arm)[0], value)
    return msgspec.convert(value, wanted, strict=False)


def _items(wanted: Any, values: list[Any]) -> list[Any]:
    items = []
    for value in values:
        try:
            items.append(_as(wanted, value))
        except (msgspec.MsgspecError, ValueError):
            continue
    return items


def count(value: Any) -> int | None:
    """A token count, or None where it cannot be one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_TOKENS else None


def milliseconds(value: Any) -> float | None:
    """A server's duration with at most 9 significant digits, or None where it cannot be one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e15:
        return None
    return float(f"{value:.9g}")


def figures(value: Any, depth: int = 3) -> Any:
    """What a server said in numbers, as it came: its object without texts and lists, for `Timings.raw`."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict) and depth > 0:
        kept = list(value.items())[:64]
        return {str(key)[:64]: figures(item, depth - 1) for key, item in kept if not isinstance(item, (str, list))}
    return None
