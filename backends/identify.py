"""Which server answers at an address, and which model of it is meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import psutil

from phasetop import events as ev
from phasetop.backends import llamacpp
from phasetop.backends.endpoint import Endpoint, json_of
from phasetop.backends.openai import OpenAi
from phasetop.backends.protocol import Backend
from phasetop.backends.server_errors import explain_connection, explain_status, is_loading
from phasetop.model_names import display_name

_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


class Refused(Exception):
    """The server cannot be used; the fault says why in one line.

    Attributes:
        models: the names to choose from, where one has to be named.
    """

    def __init__(self, fault: ev.Fault, models: Sequence[str] = ()) -> None:
        super().__init__(ev.shown(fault.text))
        self.fault = fault
        self.models = tuple(models)


class StillLoading(Exception):
    """The server is there and loads its model."""


@dataclass(frozen=True)
class Identified:
    """A server that was recognised: the backend to use, and what its `server` and `model` events say."""

    backend: Backend
    server: dict[str, Any]
    model: dict[str, Any]
    notices: tuple[tuple[str, str], ...] = field(default=())


def identify(endpoint: Endpoint, wanted: str | None) -> Identified:
    """Ask a server who it is. ``wanted``: the model's name where one was given.

    Raises:
        StillLoading: a llama.cpp server that is not ready.
        Refused: not reachable, a key is needed, no such model, or several to choose from.
    """
    try:
        answer = endpoint.get("/props")
    except httpx.HTTPError as error:
        raise Refused(explain_connection(error, endpoint.base)) from None
    props = json_of(answer)
    if "default_generation_settings" in props or "total_slots" in props or props.get("role") == "router":
        return _llamacpp(endpoint, props, wanted)
    if answer.status_code == 503 and is_loading(explain_status(503, answer.headers, answer.content).fault):
        raise StillLoading
    if answer.status_code in (401, 403) or 300 <= answer.status_code < 400:
        raise Refused(_fault(answer))
    return _openai(endpoint, answer, wanted)


def _models(endpoint: Endpoint) -> tuple[list[dict[str, Any]], httpx.Response | None]:
    try:
        answer = endpoint.get("/v1/models")
    except httpx.HTTPError:
        return [], None
    return llamacpp.decode_models(answer), answer


def _llamacpp(endpoint: Endpoint, props: dict[str, Any], wanted: str | None) -> Identified:
    entries, _ = _models(endpoint)
    router = props.get("role") == "router"
    notices: list[tuple[str, str]] = []
    if router:
        entry = _choose(entries, wanted)
        name = str(entry.get("id"))
        told = json_of(endpoint.get(f"/props?model={name}&autoload=false")) if _status(entry) == "loaded" else {}
        backend = llamacpp.from_props(endpoint, {**told, "role": "router"}, name)
        server = llamacpp.describe_server(props | {"total_slots": told.get("total_slots")}, endpoint)
        if not told:
            notices.append(("router", f"{display_name(name)} is not loaded: the router loads it with the request"))
    else:
        entry = entries[0] if entries else {}
        told = props
        if wanted and entries and not _named(entry, wanted):
            notices.append(("model-ignored", f"this server has one model and takes no other: {wanted} is not asked for"))
            wanted = None
        name = str(entry.get("id") or props.get("model_alias") or wanted or "model")
        backend = llamacpp.from_props(endpoint, props, name)
        server = llamacpp.describe_server(props, endpoint)
    _, model = llamacpp.describe_model(told, entry, name)
    return Identified(backend, server, model, tuple(notices))


def _openai(endpoint: Endpoint, props_answer: httpx.Response, wanted: str | None) -> Identified:
    """A server without /props: an Ollama (its /v1 is used), or anything that has /v1/models."""
    version = None
    try:
        told = json_of(endpoint.get("/api/version"))
        version = told.get("version") if isinstance(told.get("version"), str) else None
    except httpx.HTTPError:
        pass
    kind = "ollama" if version else "openai"
    entries, answer = _models(endpoint)
    if answer is not None and answer.status_code in (401, 403):
        raise Refused(_fault(answer))
    if not entries and not wanted:
        fault = _fault(props_answer)
        if answer is not None and answer.status_code == 200:
            text = "this server has no models" if kind == "openai" else "this Ollama has no models: `ollama pull NAME`"
            raise Refused(ev.Fault(status=200, text=text))
        if fault.status == 404:
            text = f"{endpoint.base} is no server that phasetop knows: neither /props nor /v1/models is there (404)"
            fault = ev.Fault(status=404, text=text)
        raise Refused(fault)
    entry = _choose(entries, wanted) if entries else {"id": wanted}
    name = str(entry.get("id"))
    if kind == "ollama":
        notice = ("ollama-v1", f"Ollama {version}: its /v1 is used, so load and prefill cannot be told apart")
    else:
        notice = ("no-props", "an OpenAI-compatible server: figures are by this side's clock, the rest is unknown")
    return Identified(
        OpenAi(endpoint, name, kind),
        {"backend": kind, "url": endpoint.base, "version": version},
        {"name": display_name(name), "origin": {"name": "server"}},
        (notice,),
    )


def _fault(answer: httpx.Response) -> ev.Fault:
    """An answer that is an error, in one line for a person."""
    explained = explain_status(answer.status_code, answer.headers, answer.content)
    return ev.Fault(status=explained.fault.status, code=explained.fault.code, text=explained.line)


def _choose(entries: list[dict[str, Any]], wanted: str | None) -> dict[str, Any]:
    """The model that is meant, of several. Raises `Refused`, naming them."""
    if wanted:
        for entry in entries:
            if _named(entry, wanted):
                return entry
        names = [str(entry.get("id")) for entry in entries]
        listed = ", ".join(names[:8]) or "none"
        raise Refused(ev.Fault(code="no-such-model", text=f"no model {wanted!r} here; there is: {listed}"), names)
    loaded = [entry for entry in entries if _status(entry) == "loaded"]
    if len(entries) == 1:
        return entries[0]
    if len(loaded) == 1:
        return loaded[0]
    names = [str(entry.get("id")) for entry in entries]
    text = f"several models here, choose one with --model NAME: {', '.join(names[:8])}"
    raise Refused(ev.Fault(code="several-models", text=text), names)


def _named(entry: dict[str, Any], wanted: str) -> bool:
    """Whether an entry is what a person typed: its id, an alias, its file's name, or the name without ``:latest``."""
    names = [str(entry.get("id")), *map(str, entry.get("aliases") or ())]
    forms = {form for name in names for form in (name, display_name(name), name.removesuffix(":latest"))}
    return wanted in forms or display_name(wanted) in forms


def _status(entry: dict[str, Any]) -> str | None:
    status = entry.get("status")
    return status.get("value") if isinstance(status, dict) else None


def is_local(base: str) -> bool:
    """Whether an address is this machine's loopback."""
    host = (urlsplit(base).hostname or "").lower()
    return host in _LOCAL or host.startswith("127.")


def listening_pid(base: str) -> int | None:
    """The process that listens on a local address's port; None for another machine's, or where nobody may look."""
    if not is_local(base):
        return None
    parts = urlsplit(base)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port:
                return int(connection.pid) if connection.pid else None
    except (psutil.Error, OSError):
        return None
    return None
