"""Session events as the lines of a file and back: one JSON object a line.

Lines are untrusted: what cannot be an event is a `BadLine`, whatever stands in it, or None where its kind is a later one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import msgspec

from phasetop import events as ev

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""What a writer writes at most in one line."""
MAX_READ_BYTES: Final = 32 * 1024 * 1024
"""What a reader takes at most as one line."""


class LeanTok(ev.Tok, tag="tok", kw_only=True):
    """A `Tok` whose alternatives are left as they stand in the line: a column needs to know only that there are some."""

    top: msgspec.Raw = msgspec.Raw()  # type: ignore[assignment]


class BadLine(ValueError):
    """A line that is no event of this format: torn, not JSON, or with values that cannot be."""


class _Kind(msgspec.Struct):
    k: str = ""


TOKEN_PREFIX: Final = b'{"k":"tok"'
"""How a token's line begins where a writer of ours wrote it: others are told by their tag."""

_encoder = msgspec.json.Encoder()
_tok_decoder = msgspec.json.Decoder(ev.Tok)
_lean_tok_decoder = msgspec.json.Decoder(LeanTok)
_kind_decoder = msgspec.json.Decoder(_Kind)


@cache
def _any_decoder() -> msgspec.json.Decoder[ev.AnyEvent]:
    """Made when the first line is read (5 ms): a collector only writes."""
    return msgspec.json.Decoder(ev.AnyEvent)


_TAGS: Final = frozenset(str(kind.__struct_config__.tag) for kind in ev.KINDS)


def encode(event: ev.Event) -> bytes:
    """One line with its newline. Raises `UnicodeEncodeError` for lone surrogates: see `valid_text`."""
    return _encoder.encode(event) + b"\n"


def encode_all(events: Iterable[ev.Event]) -> bytes:
    """Whole lines of several events, for one write."""
    return b"".join(_encoder.encode(event) + b"\n" for event in events)


def decode(line: bytes) -> ev.AnyEvent | None:
    """The event of a line (with or without its newline); None for a kind that this version does not know.

    Raises:
        BadLine: the line is too long, no JSON object, or has keys of an impossible type or value.

    """
    return _decode(line, _tok_decoder)


def decode_lean(line: bytes) -> ev.AnyEvent | None:
    """As `decode`, for a `Session`: a token comes as `LeanTok` (twice as fast where it has 20 alternatives)."""
    return _decode(line, _lean_tok_decoder)


def decode_token(line: bytes) -> LeanTok | None:
    """A line that begins with `TOKEN_PREFIX`, as `decode_lean` has it; None where it is no token after all."""
    try:
        return _lean_tok_decoder.decode(line) if len(line) <= MAX_READ_BYTES else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _decode(line: bytes, tok_decoder: msgspec.json.Decoder[ev.Tok] | msgspec.json.Decoder[LeanTok]) -> ev.AnyEvent | None:
    if len(line) > MAX_READ_BYTES:
        raise BadLine("longer than 32 MiB")
    try:
        if line.startswith(TOKEN_PREFIX):
            return tok_decoder.decode(line)
        return _any_decoder().decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        try:
            kind = _kind_decoder.decode(line).k
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise BadLine(str(error)) from error
        if kind and kind not in _TAGS:
            return None
        raise BadLine(str(error)) from error


def valid_text(text: str) -> str:
    """``text`` as valid Unicode: surrogate pairs joined, lone surrogates made U+FFFD. Control characters stay."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def valid(value: Any) -> Any:
    """A JSON value whose every text, keys too, is `valid_text`."""
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, dict):
        return {valid_text(str(key)): valid(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [valid(each) for each in value]
    return value


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a line; docs/events.schema.json is this."""
    from inspect import cleandoc

    schema = msgspec.json.schema(ev.AnyEvent)
    for kind in schema["$defs"].values():  # later Pythons and msgspecs take the indentation out themselves
        if "description" in kind:
            kind["description"] = cleandoc(kind["description"])
    _put_null_last(schema)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A line of a phasetop session, format {ev.FORMAT}",
        "description": "One JSON object a line, told apart by k. Readers ignore keys and kinds that are not here.",
        **schema,
    }


def _put_null_last(schema: Any) -> None:
    """In each choice null comes after what it stands for; msgspec says them in one order or the other, by its version."""
    if isinstance(schema, list):
        for each in schema:
            _put_null_last(each)
    if isinstance(schema, dict):
        if isinstance(choice := schema.get("anyOf"), list):
            choice.sort(key=lambda each: each == {"type": "null"})
        for each in schema.values():
            _put_null_last(each)
