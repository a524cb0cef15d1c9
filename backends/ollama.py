"""Ollama by its own API: who it is, what it has, and what is asked of it. What happens beside a request: `ollama_watch`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from phasetop import events as ev
from phasetop import ollama_names
from phasetop.backends.endpoint import Endpoint, json_of
from phasetop.backends.identified import Identified, Refused
from phasetop.backends.ollama_errors import NO_MODEL, explain
from phasetop.backends.ollama_known import Known
from phasetop.backends.ollama_model import Loaded, OllamaModel, Tag, describe, loaded_of, shown, tags_of
from phasetop.backends.ollama_request import body_of, messages_of, unused
from phasetop.backends.ollama_stream import OllamaStream
from phasetop.backends.ollama_watch import OllamaWatch
from phasetop.backends.protocol import Ask, HttpRequest, Pieces, Scene
from phasetop.backends.server_errors import Explained

_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class Ollama:
    """An Ollama, and the model of it that this session asks."""

    endpoint: Endpoint
    model: OllamaModel
    known: Known
    name: str = "ollama"

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The model's own settings (its Modelfile's PARAMETER lines), by OUTPUTS' names."""
        return self.model.defaults

    def request(self, ask: Ask) -> HttpRequest:
        """The streaming POST of one request: /api/chat, or /api/generate for a bare prompt."""
        path, body = self._body(ask)
        parser = OllamaStream(ask.r, self._applied(ask))
        return HttpRequest(path, body, parser, headers_mean_slot=False, retry_while_loading=False, explain=self._explain)

    def _body(self, ask: Ask) -> tuple[str, dict[str, Any]]:
        common = {"model": self.model.name, **body_of(ask.settings)}
        if ask.api == "raw":
            return "/api/generate", {**common, "prompt": ask.prompt or "", "raw": True}
        body = {**common, "messages": messages_of(ask.messages)}
        if ask.tools:
            body["tools"] = ask.tools
        return "/api/chat", body

    def _applied(self, ask: Ask) -> dict[str, Any]:
        return {**self.defaults, **ask.settings}

    def _explain(self, status: int, headers: Mapping[str, str], body: bytes) -> Explained:
        return explain(status, headers, body, secrets=self.endpoint.secrets())

    def unused(self, settings: Mapping[str, Any]) -> Mapping[str, str]:
        """Settings that Ollama takes from its environment, or not at all."""
        return unused(settings)

    def pieces(self, ask: Ask) -> Pieces | None:  # noqa: ARG002
        """The watch asks for them, when that loads nothing."""
        return None

    def watch(self, ask: Ask, scene: Scene) -> OllamaWatch:
        """What looks at one generation from beside it."""
        path, body = self._body(ask)
        return OllamaWatch(self.known, self.model, path, body, self._applied(ask), scene)


def version_of(endpoint: Endpoint, timeout_s: float = 5.0) -> str | None:
    """The version of the Ollama at an address; None where something else answers. Raises `httpx.HTTPError`."""
    version = json_of(endpoint.get("/api/version", timeout_s)).get("version")
    return version if isinstance(version, str) else None


def installed(endpoint: Endpoint, timeout_s: float = 5.0) -> list[Tag]:
    """Its models. Raises `httpx.HTTPError`."""
    return tags_of(json_of(endpoint.get("/api/tags", timeout_s)))


def loaded(endpoint: Endpoint, timeout_s: float = 5.0) -> list[Loaded]:
    """What is loaded. Raises `httpx.HTTPError`."""
    return loaded_of(json_of(endpoint.get("/api/ps", timeout_s)))


def probe(endpoint: Endpoint, wanted: str | None) -> Identified | None:
    """Recognise an Ollama by its /api/version, and find the model that is meant.

    Raises:
        Refused: the model is not there, or has to be named.
        httpx.HTTPError: the connection failed.
    """
    version = version_of(endpoint)
    if version is None:
        return None
    tags = installed(endpoint)
    known = Known(endpoint)
    name = choose(tags, [one.name for one in loaded(endpoint)], wanted, endpoint.shown)
    answer = endpoint.post("/api/show", {"model": name}, 30.0)
    if answer.status_code in (401, 403):
        explained = explain(answer.status_code, answer.headers, answer.content, secrets=endpoint.secrets())
        raise Refused(ev.Fault(status=answer.status_code, code=explained.fault.code, text=explained.line))
    tag = next((tag for tag in tags if ollama_names.same(tag.name, name)), None)
    model = describe(name, json_of(answer), tag, local=known.local)
    server = {"backend": "ollama", "url": endpoint.shown, "version": version}
    return Identified(Ollama(endpoint, model, known), server, dict(model.described))


def choose(tags: list[Tag], in_memory: list[str], wanted: str | None, base: str) -> str:
    """The name to ask for: as it was typed; else what is loaded, else the only one there is.

    Raises:
        Refused: there is none of that name, or no model at all, or one has to be named.
    """
    names = [tag.name for tag in tags]
    if wanted is not None:
        if ollama_names.find(wanted, names) is None and not ollama_names.is_cloud(wanted):
            raise not_installed(wanted, names, base)
        return wanted
    if in_memory:
        return in_memory[0]
    if len(names) == 1:
        return names[0]
    if not names:
        raise Refused(ev.Fault(code=NO_MODEL, text=f"the Ollama at {base} has no models: name one with --pull to fetch it"))
    listed = ", ".join(shown(name) for name in names[:_SHOWN])
    raise Refused(
        ev.Fault(code="several-models", text=f"several models here, choose one with --model NAME: {listed}"), names
    )


def not_installed(wanted: str, names: Sequence[str], base: str) -> Refused:
    """A name that is not there, in one line: what is like it, and the way to get it."""
    close = ollama_names.closest(wanted, names)
    near = f"; closest: {', '.join(close)}" if close else ""
    fault = ev.Fault(code=NO_MODEL, text=f"no model {wanted!r} in the Ollama at {base}{near}; --pull fetches it")
    return Refused(fault, close, pullable=wanted)
