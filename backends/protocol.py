"""What a server kind has to bring: a pure parser of its streams, and a backend that asks it things.

The collector owns sockets, threads, stamps and the file; a backend owns what is said to its server and what its answers
mean. So a parser is tested with captures alone, and a new server needs no change in the core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from phasetop import events as ev
from phasetop.backends.server_errors import Explained

Outcome = Literal["complete", "broken", "cancelled"]
"""How a reply's body ended: with its last chunk (or close), by a broken connection, by our own cancel."""


class StreamParser(Protocol):
    """Turns the bytes of one streamed reply into events. Pure: no clock, no socket; equal input, equal output.

    `feed` is called once a socket read with that read's bytes and stamp (ns since the anchor), and returns the events born
    of it, all with that stamp (a `Tok` that had to wait for a later chunk keeps the stamp of the read that brought its
    own). `close` is called once, after the last read, and returns what is left and the `End`.
    """

    @property
    def complete(self) -> bool:
        """The reply's own end came, or nothing more is taken: a connection that stays open now is not waited for."""
        ...

    def feed(self, data: bytes, t: int) -> list[ev.Event]:
        """The events of one socket read."""
        ...

    def close(self, t: int, outcome: Outcome, why: str | None = None) -> list[ev.Event]:
        """The rest, the `End` last. ``t``: the last byte's stamp; ``why``: what broke, in plain words."""
        ...


@dataclass(frozen=True, slots=True)
class Ask:
    """One request as the collector hands it to a backend: an `ask` command with its history put together."""

    r: int
    api: Literal["chat", "raw"]
    messages: list[dict[str, Any]] = field(default_factory=list)  # the whole chat, history first
    prompt: str | None = None  # raw
    tools: Any = None
    settings: dict[str, Any] = field(default_factory=dict)  # OUTPUTS' names; others as the server calls them


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A streaming POST, and the parser for its answer."""

    path: str
    body: dict[str, Any]
    parser: StreamParser
    headers_mean_slot: bool  # the answer's headers come when a slot begins on it: a `state` headers
    retry_while_loading: bool = True  # a 503 that says so is the load, not an error
    explain: Callable[[int, Mapping[str, str], bytes], Explained] | None = (
        None  # an answer that is no success; None: the usual way
    )


@dataclass(frozen=True, slots=True)
class Pieces:
    """The prompt as the model sees it: rendered text, token ids, and each token's text (its bytes as ``{"b": base64}``)."""

    rendered: str
    ids: tuple[int, ...]
    pieces: tuple[str | int | dict[str, str], ...]
    source: str


class Scene(Protocol):
    """What a watch has of its session: its request, the clock, the pen. Every method may be called from any thread."""

    @property
    def r(self) -> int:
        """The request."""
        ...

    def now(self) -> int:
        """The time since the anchor, ns."""
        ...

    def emit(self, *events: ev.Event) -> None:
        """Write events in one go."""
        ...

    def new_task(self) -> int:
        """An id for `task` events (a load with its progress)."""
        ...

    def server(self, **keys: Any) -> None:
        """What is known anew of the server: keys of a `server` event."""
        ...

    def applied(self, settings: Mapping[str, Any]) -> None:
        """The settings as the server really applied them, over those that were taken to hold."""
        ...

    def prompt(self, pieces: Pieces) -> None:
        """The prompt as the model sees it."""
        ...

    def works(self, pid: int) -> None:
        """The process that does the server's work: its CPU and memory are sampled from now on."""
        ...


class Watch(Protocol):
    """What a backend looks at beside one generation, on connections of its own."""

    def before(self) -> None:
        """Just before the request is sent, on its thread: short, bounded in time, and never raises."""
        ...

    def run(self) -> None:
        """Beside the generation, on a thread of its own, from the moment that the request is sent until `stop`."""
        ...

    def take(self, events: list[ev.Event]) -> list[ev.Event]:
        """What the parser made of a read, before it is written: as it is, or completed by what was seen beside it."""
        ...

    def stop(self, *, cancelled: bool = False) -> None:
        """The generation ended, or (``cancelled``) is about to be cut: when this returns, soon, no poll is under way."""
        ...


class Backend(Protocol):
    """A server that was identified: turns asks into requests. Every method may be called from any thread."""

    @property
    def name(self) -> str:
        """OUTPUTS' word for the kind: llamacpp, embedded, ollama, openai or a plugin's."""
        ...

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The server's own settings, by OUTPUTS' names, that hold where a request says nothing."""
        ...

    def request(self, ask: Ask) -> HttpRequest:
        """The streaming POST of one request."""
        ...

    def unused(self, settings: Mapping[str, Any]) -> Mapping[str, str]:
        """Settings that a request cannot bring to this server, and why: name → "fixed when a server starts"."""
        ...

    def pieces(self, ask: Ask) -> Pieces | None:
        """The prompt's tokens, asked on a connection of its own while the request runs; None where nobody tells."""
        ...

    def watch(self, ask: Ask, scene: Scene) -> Watch | None:
        """What looks at one generation from beside it; None where the stream tells all that there is."""
        ...
