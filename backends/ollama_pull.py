"""Pulling a model into Ollama: its /api/pull as `task` events, in all and a layer each; cancelled by closing the connection.

Ollama keeps what it has of a layer, so the same pull goes on from there. Errors come as a line on a 200.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from phasetop.backends.endpoint import Endpoint
from phasetop.backends.lines import LineSplitter
from phasetop.backends.ollama_errors import explain
from phasetop.backends.plain_text import harmless
from phasetop.backends.server_errors import explain_connection, read_error
from phasetop.backends.server_json import load
from phasetop.backends.stamped import Wire
from phasetop.faults import EXIT_INTERRUPTED, PhasetopError

_RULES: Final = (
    (
        r"file does not exist|manifest unknown|pull model manifest: 404",
        "its registry has no such model, check the name",
    ),
    (r"invalid model name", "that is no name for a model of Ollama's: [host/][namespace/]model[:tag] is one"),
    (
        r"first record does not look like a TLS handshake|server gave HTTP response to HTTPS client",
        "its registry speaks plain http: --insecure allows that",
    ),
    (
        r"unauthorized|access denied|\b401\b|\b403\b",
        "its registry does not give it to anybody: is the name right, or a login needed?",
    ),
    (
        r"no such host|lookup .* on |dial tcp|connection refused|network is unreachable|i/o timeout",
        "Ollama cannot reach its registry ({why})",
    ),
    (r"no space left|not enough (?:disk )?space|disk quota", "the disk of Ollama's models is full ({why})"),
    (r"digest mismatch", "what came does not have the right checksum: pull again"),
    (r"requires a newer version of Ollama|\b412\b", "it needs a newer Ollama"),
)


class PullError(PhasetopError):
    """It did not come; the text is one plain line."""


class PullCancelled(PullError):
    """Somebody cancelled it; Ollama keeps what it has."""

    exit_status = EXIT_INTERRUPTED


@dataclass(slots=True)
class Layer:
    """One layer on its way, bytes."""

    digest: str
    total: int | None = None
    done: int = 0

    @property
    def short(self) -> str:
        """Its digest as Ollama shows it: twelve digits."""
        return self.digest.removeprefix("sha256:")[:12]


@dataclass(slots=True)
class PullReader:
    """Reads the lines of /api/pull. Pure: bytes in, state out.

    Attributes:
        status: what Ollama does, in its words.
        layers: as far as they have been named, in order.
        error: its own words where it failed.
        done: it said success.
    """

    status: str = ""
    layers: dict[str, Layer] = field(default_factory=dict)
    error: str | None = None
    done: bool = False
    _lines: LineSplitter = field(default_factory=LineSplitter)

    def feed(self, data: bytes) -> list[Layer]:
        """Take one read; the layers that moved, in order."""
        moved: dict[str, Layer] = {}
        for line in self._lines.feed(data):
            self._line(line, moved)
        return list(moved.values())

    def close(self) -> None:
        """Take what stands without a newline."""
        self._line(self._lines.close(), {})

    def _line(self, line: bytes, moved: dict[str, Layer]) -> None:
        value = load(line)
        if not isinstance(value, dict):
            return
        if (said := read_error(value)) is not None:
            self.error = said.text
            return
        status = value.get("status")
        if isinstance(status, str):
            self._said(status)
        digest = value.get("digest")
        if isinstance(digest, str) and digest:
            layer = self.layers.setdefault(digest, Layer(digest))
            layer.total = _bytes(value.get("total")) or layer.total
            layer.done = max(layer.done, _bytes(value.get("completed")) or 0)
            moved[digest] = layer

    def _said(self, status: str) -> None:
        self.status = status
        self.done = self.done or status == "success"
        if not status.startswith("pulling ") or self.done:  # the last line of a layer is mostly short of its total
            for layer in self.layers.values():
                layer.done = layer.total or layer.done

    @property
    def total(self) -> int | None:
        """Bytes of all layers that are known; None before there is one."""
        return sum(layer.total or 0 for layer in self.layers.values()) or None

    @property
    def fetched(self) -> int:
        """Bytes that are there."""
        return sum(layer.done for layer in self.layers.values())


def _bytes(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def why_not(name: str, error: str, *, secrets: Iterable[str] = ()) -> str:
    """Ollama's error of a pull in one line: what happened and what to do."""
    why = harmless(error.removeprefix("pull model manifest: "), 160, secrets)
    for pattern, line in _RULES:
        if re.search(pattern, error, re.I):
            return f"{harmless(name, 80)} was not pulled: " + line.format(why=why)
    return f"{harmless(name, 80)} was not pulled: {why}"


def pull(
    endpoint: Endpoint,
    name: str,
    *,
    insecure: bool,
    cancelled: threading.Event,
    progress: Callable[[PullReader, list[Layer]], None],
) -> None:
    """Pull a model and return when Ollama has it.

    Args:
        endpoint: the Ollama.
        name: as it was typed.
        insecure: take a registry without TLS.
        cancelled: ends it; what came stays.
        progress: told what moved, after each read.

    Raises:
        PullCancelled: ``cancelled`` was set.
        PullError: it did not come; why, in one line.
    """
    wire, over, reader = Wire(), threading.Event(), PullReader()

    def cut() -> None:
        while not over.is_set():
            if cancelled.wait(0.05):
                wire.cut()
                return

    threading.Thread(target=cut, name="pull-cancel", daemon=True).start()
    body = {"model": name, "insecure": insecure, "stream": True}
    try:
        with (
            endpoint.stream_client(wire) as client,
            client.stream("POST", endpoint.url("/api/pull"), json=body) as response,
        ):
            if response.status_code != 200:
                content = response.read()
                said = read_error(load(content))
                if said is not None:
                    raise PullError(why_not(name, said.text, secrets=endpoint.secrets()))
                raise PullError(explain(response.status_code, response.headers, content, secrets=endpoint.secrets()).line)
            for data in response.iter_raw():
                progress(reader, reader.feed(data))
            reader.close()
    except httpx.HTTPError as error:
        if cancelled.is_set():
            raise PullCancelled(_kept(name, reader)) from None
        fault = explain_connection(error, endpoint.shown, secrets=endpoint.secrets())
        raise PullError(f"{harmless(name, 80)} was not pulled: {fault.text}") from None
    finally:
        over.set()
    if reader.error is not None:
        raise PullError(why_not(name, reader.error, secrets=endpoint.secrets()))
    if cancelled.is_set() and not reader.done:
        raise PullCancelled(_kept(name, reader))
    if not reader.done:
        raise PullError(f"{harmless(name, 80)} was not pulled: Ollama ended it without a word; its log may say why")


def _kept(name: str, reader: PullReader) -> str:
    has = f"Ollama keeps what it has ({reader.fetched:,} bytes), and goes on from there"
    return f"the pull of {harmless(name, 80)} was cancelled; {has}"


SAY_EVERY_S: Final = 0.1
"""Progress is told at most this often."""


class Pace:
    """Whether progress is due again: each layer at its own pace, its last line always."""

    def __init__(self) -> None:
        self._said: dict[str, float] = {}

    def due(self, what: str, *, last: bool) -> bool:
        """Whether ``what`` is to be told now."""
        now = time.monotonic()
        if not last and now - self._said.get(what, -1.0) < SAY_EVERY_S:
            return False
        self._said[what] = now
        return True
