"""llama.cpp's server (and the embedded one, which is the same): what it tells about itself, and what is asked of it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import httpx

from phasetop import events as ev
from phasetop.backends.endpoint import Endpoint, json_of
from phasetop.backends.identified import (
    Identified,
    Refused,
    StillLoading,
    choose,
    decode_models,
    fault_of,
    is_named,
    load_state,
)
from phasetop.backends.llamacpp_stream import CompletionStream
from phasetop.backends.openai_stream import ChatStream
from phasetop.backends.protocol import Ask, HttpRequest, Pieces, Scene
from phasetop.backends.server_errors import explain_status, is_loading
from phasetop.backends.settings import chat_body, completion_body, fixed, from_params
from phasetop.model_names import display_name
from phasetop.server_options import Found, read_argv

TOKENIZE_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class LlamaCpp:
    """A llama.cpp server whose /props answered.

    Attributes:
        model: the name that requests carry.
        router: it serves several models by name and loads them itself.
        ctx: what one slot can hold, tokens.
        defaults: its sampling settings, by OUTPUTS' names.
    """

    endpoint: Endpoint
    model: str
    router: bool = False
    ctx: int | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    name: str = "llamacpp"

    def request(self, ask: Ask) -> HttpRequest:
        """The streaming POST of one request."""
        extras: dict[str, Any] = {"stream": True, "return_progress": True, "timings_per_token": True}
        if ask.api == "raw":
            body = {"prompt": ask.prompt or "", **completion_body(ask.settings), **extras}
            path, parser = (
                "/completion",
                CompletionStream(ask.r, ask.settings, ctx=self.ctx, expects_timings=True, expects_progress=True),
            )
            if self.router:
                body["model"] = self.model
            return HttpRequest(path, body, parser, headers_mean_slot=not self.router)
        body = {
            "model": self.model,
            "messages": ask.messages,
            **chat_body(ask.settings),
            **extras,
            "stream_options": {"include_usage": True},
        }
        if ask.tools:
            body["tools"] = ask.tools
        if ask.settings.get("stop"):
            body["verbose"] = True  # only this tells a stop string from the end token
        chat = ChatStream(ask.r, ask.settings, ctx=self.ctx, expects_timings=True, expects_progress=True)
        return HttpRequest("/v1/chat/completions", body, chat, headers_mean_slot=not self.router)

    def unused(self, settings: Mapping[str, Any]) -> Mapping[str, str]:
        """What a server is started with; the embedded one was started with just these."""
        if self.name != "embedded":
            return fixed(settings)
        return {"keep_alive": "the embedded engine ends with phasetop"} if settings.get("keep_alive") is not None else {}

    def watch(self, ask: Ask, scene: Scene) -> None:  # noqa: ARG002
        """The stream tells all there is."""
        return

    def pieces(self, ask: Ask) -> Pieces | None:
        """The prompt as the model sees it: the template applied, then the tokens. None where the server won't tell."""
        try:
            text = ask.prompt or ""
            if ask.api == "chat":
                body: dict[str, Any] = {"messages": ask.messages, "model": self.model}
                if ask.tools:
                    body["tools"] = ask.tools
                if "chat_template_kwargs" in (chat := chat_body(ask.settings)):
                    body["chat_template_kwargs"] = chat["chat_template_kwargs"]
                rendered = json_of(self.endpoint.post("/apply-template", body, TOKENIZE_TIMEOUT_S)).get("prompt")
                if not isinstance(rendered, str):
                    return None
                text = rendered
            answer = json_of(
                self.endpoint.post(
                    "/tokenize",
                    {
                        "content": text,
                        "add_special": True,
                        "parse_special": True,
                        "with_pieces": True,
                        "model": self.model,
                    },
                    TOKENIZE_TIMEOUT_S,
                )
            )
        except httpx.HTTPError:
            return None
        ids: list[int] = []
        pieces: list[str | int | dict[str, str]] = []
        for token in answer.get("tokens") or ():
            if not isinstance(token, dict) or not isinstance(token.get("id"), int):
                return None
            ids.append(token["id"])
            pieces.append(_piece(token.get("piece")))
        return Pieces(text, tuple(ids), tuple(pieces), "/tokenize") if ids else None


def _piece(piece: Any) -> str | dict[str, str]:
    """A piece as text, or its bytes in base64 where they are no whole UTF-8 (the server sends a list of byte values)."""
    if isinstance(piece, list):
        raw = bytes(value & 255 for value in piece if isinstance(value, int))
        return {"b": base64.b64encode(raw).decode()}
    return piece if isinstance(piece, str) else ""


def describe_server(props: Mapping[str, Any], endpoint: Endpoint) -> dict[str, Any]:
    """The keys of a `server` event that /props tells."""
    options: dict[str, ev.Sourced] = {}
    settings = props.get("default_generation_settings") or {}
    slots = props.get("total_slots")
    ctx = settings.get("n_ctx") or None
    if isinstance(slots, int) and slots > 0:
        options["parallel"] = ev.Sourced(slots, "server")
    if isinstance(ctx, int):
        options["slot_context"] = ev.Sourced(ctx, "server")
        if slots == 1:
            options["context"] = ev.Sourced(ctx, "server")
    flags = ("endpoint_slots", "endpoint_metrics", "endpoint_props")
    return {
        "backend": "llamacpp",
        "url": endpoint.shown,
        "version": str(props["build_info"]) if props.get("build_info") else None,
        "options": options or None,
        "endpoints": [flag.removeprefix("endpoint_") for flag in flags if props.get(flag)],
    }


def describe_model(props: Mapping[str, Any], entry: Mapping[str, Any], served: str) -> dict[str, Any]:
    """The keys of a `model` event that /props and /v1/models tell of the model served as ``served``."""
    meta = entry.get("meta") or {}
    told = {
        "params": meta.get("n_params"),
        "tensor_bytes": meta.get("size"),
        "context_trained": meta.get("n_ctx_train"),
        "quant": meta.get("ftype") or props.get("model_ftype"),
        "template": props.get("chat_template"),
    }
    known = {key: value for key, value in told.items() if value not in (None, "")}
    known["origin"] = dict.fromkeys(known, "server")
    known["name"] = display_name(served)
    return known


def from_props(endpoint: Endpoint, props: Mapping[str, Any], model: str) -> LlamaCpp:
    """The backend for a server whose /props said this."""
    settings = props.get("default_generation_settings") or {}
    ctx = settings.get("n_ctx")
    return LlamaCpp(
        endpoint,
        model,
        router=props.get("role") == "router",
        ctx=ctx if isinstance(ctx, int) and ctx > 0 else None,
        defaults=from_params(settings.get("params") or {}),
    )


def probe(endpoint: Endpoint, wanted: str | None) -> Identified | None:
    """Recognise a llama.cpp server by its /props.

    Raises:
        StillLoading: it answers 503 "Loading model".
        Refused: it wants a key, redirects, or the model has to be named.
        httpx.HTTPError: the connection failed.
    """
    answer = endpoint.get("/props")
    props = json_of(answer)
    if not ("default_generation_settings" in props or "total_slots" in props or props.get("role") == "router"):
        if is_loading(explain_status(answer.status_code, answer.headers, answer.content).fault):
            raise StillLoading
        if answer.status_code in (401, 403) or 300 <= answer.status_code < 400:
            raise Refused(fault_of(answer, endpoint.secrets()))
        return None
    entries = decode_models(endpoint.get("/v1/models"))
    return (
        _router(endpoint, props, entries, wanted)
        if props.get("role") == "router"
        else _single(endpoint, props, entries, wanted)
    )


def _single(endpoint: Endpoint, props: Mapping[str, Any], entries: list[dict[str, Any]], wanted: str | None) -> Identified:
    """A server of one model, whatever name is asked for."""
    entry = entries[0] if entries else {}
    notices: tuple[tuple[str, str], ...] = ()
    if wanted and entries and not is_named(entry, wanted):
        text = f"this server has one model, {display_name(str(entry.get('id')))}: {wanted} is not asked for"
        notices = (("model-ignored", text),)
    name = str(entry.get("id") or props.get("model_alias") or wanted or "model")
    server, model = describe_server(props, endpoint), describe_model(props, entry, name)
    return Identified(from_props(endpoint, props, name), server, model, notices, file=_path(props))


def _path(props: Mapping[str, Any]) -> str | None:
    """Where the server has its model's file, on its own machine."""
    path = props.get("model_path")
    return path if isinstance(path, str) and path else None


def _router(endpoint: Endpoint, props: Mapping[str, Any], entries: list[dict[str, Any]], wanted: str | None) -> Identified:
    """A server that loads one of several models with the request; asking about one that is not loaded would load it."""
    entry = choose(entries, wanted)
    name = str(entry.get("id"))
    told: dict[str, Any] = {}
    notices: tuple[tuple[str, str], ...] = ()
    if load_state(entry) == "loaded":
        told = json_of(endpoint.get(f"/props?model={quote(name)}&autoload=false"))
    else:
        notices = (("router", f"{display_name(name)} is not loaded: the router loads it with the request"),)
    backend = from_props(endpoint, {**told, "role": "router"}, name)
    server = describe_server({**props, **told}, endpoint)
    child = _child_options(entry)
    file = child.model or _path(told)
    return Identified(backend, server, describe_model(told, entry, name), notices, file=file, started_with=child)


def _child_options(entry: Mapping[str, Any]) -> Found:
    """The options that a router starts a model's process with."""
    status = entry.get("status")
    words = status.get("args") if isinstance(status, dict) else None
    return read_argv([str(word) for word in words] if isinstance(words, list) else [])
