"""Any OpenAI-compatible server: only /v1 is asked, and what only llama.cpp knows is not sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from phasetop import events as ev
from phasetop.backends.endpoint import Endpoint
from phasetop.backends.identified import Identified, Refused, choose, decode_models, fault_of
from phasetop.backends.openai_stream import ChatStream
from phasetop.backends.protocol import Ask, HttpRequest, Pieces, Scene
from phasetop.backends.server_errors import explain_no_stream, is_html
from phasetop.backends.settings import chat_body, fixed
from phasetop.faults import UsageError
from phasetop.model_names import display_name


@dataclass(frozen=True, slots=True)
class OpenAi:
    """A server that speaks /v1/chat/completions."""

    endpoint: Endpoint
    model: str
    name: str = "openai"
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def request(self, ask: Ask) -> HttpRequest:
        """The streaming POST of one request.

        Raises:
            UsageError: a raw prompt, which this protocol has no room for.
        """
        if ask.api == "raw":
            raise UsageError("--raw needs llama.cpp's own /completion, which this server does not have")
        body: dict[str, Any] = {
            "model": self.model,
            "messages": ask.messages,
            **chat_body(ask.settings),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if ask.tools:
            body["tools"] = ask.tools
        stream = ChatStream(ask.r, ask.settings)
        return HttpRequest("/v1/chat/completions", body, stream, headers_mean_slot=False, retry_while_loading=False)

    def unused(self, settings: Mapping[str, Any]) -> Mapping[str, str]:
        """What such a server is started with."""
        return fixed(settings)

    def pieces(self, ask: Ask) -> Pieces | None:  # noqa: ARG002
        """Nobody tells the prompt's tokens here."""
        return None

    def watch(self, ask: Ask, scene: Scene) -> None:  # noqa: ARG002
        """There is nothing to be seen beside the stream."""
        return


def probe(endpoint: Endpoint, wanted: str | None) -> Identified | None:
    """Recognise what has /v1/models, or takes a model that was named. Raises `Refused`, `httpx.HTTPError`."""
    answer = endpoint.get("/v1/models")
    if answer.status_code in (401, 403) or 300 <= answer.status_code < 400 or answer.status_code >= 500:
        raise Refused(fault_of(answer, endpoint.secrets()))
    entries = decode_models(answer)
    if answer.status_code == 200 and is_html(answer.content, answer.headers):
        raise Refused(explain_no_stream(answer.content, secrets=endpoint.secrets()).as_fault())
    if not entries and wanted is None:
        if answer.status_code != 200:
            return None
        raise Refused(ev.Fault(code="no-such-model", text="this server names no models: give one with --model NAME"))
    name = str(choose(entries, wanted).get("id")) if entries else str(wanted)
    return Identified(
        OpenAi(endpoint, name),
        {"backend": "openai", "url": endpoint.shown},
        {"name": display_name(name), "origin": {"name": "server"}},
        (("no-props", "an OpenAI-compatible server: figures are by this side's clock, the rest is unknown"),),
    )
