"""Acme's server: `GET /acme` says who it is, `POST /acme/say` streams lines ``word TEXT`` and ends with ``done N``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from phasetop import events as ev
from phasetop.backends.endpoint import Endpoint, json_of
from phasetop.backends.identified import Identified
from phasetop.backends.protocol import Ask, HttpRequest, Outcome, Pieces, Scene


def probe(endpoint: Endpoint, wanted: str | None) -> Identified | None:
    """What the entry point names: an `Identified` where the server is Acme's, None where it is somebody else's."""
    told = json_of(endpoint.get("/acme"))
    if "acme" not in told:
        return None
    server = {"backend": "acme", "url": endpoint.base, "version": str(told["acme"])}
    model = {"name": wanted or str(told["model"]), "params": told.get("params"), "origin": {"params": "server"}}
    return Identified(Acme(endpoint), server, model)


@dataclass(frozen=True)
class Acme:
    """A `phasetop.backends.protocol.Backend`: what is said to the server, and what its answers mean."""

    endpoint: Endpoint
    name: str = "acme"
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def request(self, ask: Ask) -> HttpRequest:
        """The collector sends it, stamps what comes, and gives the bytes to the parser."""
        said = ask.prompt or str(ask.messages[-1]["content"])
        body = {"say": said, "words": ask.settings.get("max_tokens", 8)}
        return HttpRequest("/acme/say", body, AcmeStream(ask.r), headers_mean_slot=False)

    def unused(self, settings: Mapping[str, Any]) -> Mapping[str, str]:
        """What was asked for and cannot be brought to this server: the view says so."""
        return {name: "Acme has no such setting" for name in settings if name != "max_tokens"}

    def pieces(self, ask: Ask) -> Pieces | None:
        """Acme does not tell how it splits a prompt."""
        return None

    def watch(self, ask: Ask, scene: Scene) -> None:
        """There is nothing to be seen beside the stream."""


class AcmeStream:
    """A `phasetop.backends.protocol.StreamParser`: bytes in, events out; no clock, no socket."""

    def __init__(self, r: int) -> None:
        self._r = r
        self._tail = b""
        self._counted: int | None = None

    @property
    def complete(self) -> bool:
        """Whether the reply's own end came."""
        return self._counted is not None

    def feed(self, data: bytes, t: int) -> list[ev.Event]:
        """A line may be cut anywhere, also in the middle of a character: only whole ones are looked at."""
        *lines, self._tail = (self._tail + data).split(b"\n")
        events: list[ev.Event] = []
        for line in lines:
            word, _, rest = line.partition(b" ")
            if word == b"word":
                events.append(ev.Tok(t=t, r=self._r, x=rest.decode("utf-8", "replace") + " "))
            elif word == b"done" and rest.isdigit():
                self._counted = int(rest)
        return events

    def close(self, t: int, outcome: Outcome, why: str | None = None) -> list[ev.Event]:
        """The server's own figures, as far as it tells any, and the end."""
        if self._counted is None:
            finish = "cancelled" if outcome == "cancelled" else "cut"
            return [ev.End(t=t, r=self._r, finish=finish, error=ev.Fault(text=why) if why else None)]
        return [ev.Timings(t=t, r=self._r, gen_n=self._counted), ev.End(t=t, r=self._r, finish="stop", detail="eos")]
