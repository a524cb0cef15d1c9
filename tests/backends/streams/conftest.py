"""What the tests of the stream parsers share: recorded exchanges, and events gathered into what a person would read."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from phasetop import codec
from phasetop import events as ev

WIRE = Path(__file__).parents[2] / "data" / "wire"


@dataclass
class Gathered:
    """A stream's events as plain values."""

    text: str = ""
    thinking: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    tokens: int = 0  # sum of n; a line of unknown n is one
    counted: bool = True
    lines: list[ev.Tok] = field(default_factory=list)
    progress: list[list[int | None]] = field(default_factory=list)
    timings: list[ev.Timings] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    end: ev.End | None = None

    @property
    def finish(self) -> tuple[str, str | None] | None:
        """(finish, detail)."""
        return (self.end.finish, self.end.detail) if self.end else None

    @property
    def error(self) -> str:
        """The error's text."""
        return str(self.end.error.text) if self.end and self.end.error else ""


def tokens_of(tok: ev.Tok) -> int | None:
    """The tokens of a line, None where nobody counted them."""
    if tok.n is None or isinstance(tok.n, int):
        return tok.n
    return len(tok.x) if isinstance(tok.x, list) else 1


def bytes_of(tok: ev.Tok) -> bytes:
    """The text of a line in UTF-8, with the bytes that are no whole characters."""
    pieces = tok.x if isinstance(tok.x, list) else [tok.x]
    raw = tok.b if isinstance(tok.b, list) else [tok.b] * len(pieces)
    return b"".join(base64.b64decode(b) if b else str(x).encode() for x, b in zip(pieces, raw, strict=True))


def gather(events: Iterable[ev.Event]) -> Gathered:
    """Every event goes through the file's encoding first: what could not be read back fails here."""
    found = Gathered()
    parts: dict[str, bytes] = {"answer": b"", "think": b""}
    call = 0
    for event in (codec.decode(codec.encode(event)) for event in events):
        match event:
            case ev.Tok():
                n = tokens_of(event)
                found.lines.append(event)
                found.tokens += 1 if n is None else n
                found.counted &= n is not None
                if event.c == "tool":
                    if event.tool is not None:
                        call = event.tool.index
                        if all(one["index"] != call for one in found.calls):
                            named = {"index": call, "id": event.tool.id, "name": event.tool.name}
                            found.calls.append({**named, "arguments": ""})
                    if piece := bytes_of(event).decode():
                        next(one for one in found.calls if one["index"] == call)["arguments"] += piece
                else:
                    parts[event.c] += bytes_of(event)
            case ev.Prog():
                found.progress.append([event.done, event.total, event.cached])
            case ev.Timings():
                found.timings.append(event)
            case ev.Notice():
                found.notices.append(event.code)
            case ev.End():
                assert found.end is None, "two ends"
                found.end = event
            case _:
                raise AssertionError(f"a parser made {event!r}")
    found.text, found.thinking = parts["answer"].decode("utf-8", "replace"), parts["think"].decode("utf-8", "replace")
    return found


@dataclass(frozen=True, repr=False)
class Exchange:
    """One recorded request: what was asked, what came when, and the right values."""

    name: str
    head: dict[str, Any]
    reads: tuple[tuple[int, bytes], ...]  # (ns since the request was sent, bytes)
    broken: bool
    expected: dict[str, Any]

    def __repr__(self) -> str:
        return f"Exchange({self.name})"

    @property
    def path(self) -> str:
        """Its route without the query."""
        return str(self.head["request"]["path"]).partition("?")[0]

    @property
    def body(self) -> dict[str, Any]:
        """The request's body, {} where it was no JSON object."""
        body = self.head["request"].get("body")
        return body if isinstance(body, dict) else {}

    @property
    def data(self) -> bytes:
        """The answer's body."""
        return b"".join(data for _, data in self.reads)

    @property
    def asked(self) -> dict[str, Any]:
        """Settings by OUTPUTS' names."""
        asked = {"max_tokens": self.body.get("max_tokens", self.body.get("n_predict")), "stop": self.body.get("stop")}
        return {name: value for name, value in asked.items() if value is not None}

    @property
    def ctx(self) -> int | None:
        """Tokens of one slot."""
        options = self.head.get("server_args") or []
        if "-c" not in options:
            return None
        slots = int(options[options.index("-np") + 1]) if "-np" in options else 1
        return int(options[options.index("-c") + 1]) // slots


@cache
def exchanges(kind: str) -> tuple[Exchange, ...]:
    """All exchanges recorded from a kind of server."""
    expected = json.loads((WIRE / kind / "expected.json").read_text())
    return tuple(exchange for file, values in expected.items() for exchange in _of_file(kind, file, values))


def _of_file(kind: str, file: str, values: list[dict[str, Any]]) -> Iterator[Exchange]:
    groups: list[list[dict[str, Any]]] = []
    for line in (WIRE / kind / file).read_text().splitlines():
        entry = json.loads(line)
        if "request" in entry:
            groups.append([])
        groups[-1].append(entry)
    for at, (group, value) in enumerate(zip(groups, values, strict=True)):
        head, *lines = group
        reads = tuple(
            (round(line["at"] * 1e6), line["text"].encode() if "text" in line else base64.b64decode(line["b64"]))
            for line in lines
            if not line.get("abort")
        )
        broken = any(line.get("abort") for line in lines)
        yield Exchange(f"{file.removesuffix('.jsonl')}-{at}", head, reads, broken, value)


GatherFn: TypeAlias = Callable[[Iterable[ev.Event]], Gathered]
ExchangesFn: TypeAlias = Callable[[str], tuple[Exchange, ...]]


@pytest.fixture(name="gather", scope="session")
def _gather() -> GatherFn:
    return gather


@pytest.fixture(name="exchanges", scope="session")
def _exchanges() -> ExchangesFn:
    return exchanges
