"""What can be reached from here: servers at their usual addresses, their models, the embedded engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import httpx

from phasetop import events as ev
from phasetop.backends.embedded import available, find_small_model
from phasetop.backends.endpoint import Endpoint, base_url, json_of
from phasetop.backends.identified import decode_models
from phasetop.backends.recorder import Recorder
from phasetop.faults import UsageError
from phasetop.model_names import display_name

LLAMA_SERVER: Final = "http://127.0.0.1:8080"
OLLAMA: Final = "http://127.0.0.1:11434"
_LOOK_S: Final = 1.0


def ollama_address() -> str:
    """Where Ollama listens: OLLAMA_HOST's host and port, else the usual ones."""
    host = os.environ.get("OLLAMA_HOST", "").strip().strip("\"'")
    if not host:
        return OLLAMA
    if "://" not in host:
        host = f"http://{host}" if host.rpartition(":")[2].isdigit() else f"http://{host}:11434"
    try:
        return base_url(host)
    except UsageError:
        return OLLAMA


def usual_addresses(backend: str | None = None) -> list[str]:
    """Addresses to look at, in the order of preference: Ollama, then a llama-server."""
    addresses = {"ollama": ollama_address(), "llamacpp": LLAMA_SERVER}
    return [url for kind, url in addresses.items() if backend in (None, kind)]


def serves(url: str, wanted: str | None) -> str | None:
    """The model that a server would take: the one wanted if it has it; else what is loaded. None: no server, no such."""
    endpoint = Endpoint(base_url(url))
    try:
        if endpoint.get("/health", _LOOK_S).status_code == 503:
            return wanted or "model"  # a llama-server that loads
        version = json_of(endpoint.get("/api/version", _LOOK_S)).get("version")
        if version and wanted is None:
            loaded = _ollama_loaded(endpoint)
            return loaded[0] if loaded else None
        entries = decode_models(endpoint.get("/v1/models", _LOOK_S))
    except httpx.HTTPError:
        return None
    names = [str(entry.get("id")) for entry in entries]
    if wanted is None:
        return names[0] if names else None
    for name in names:
        if wanted in (name, display_name(name), name.removesuffix(":latest")):
            return name
    return None


def _ollama_loaded(endpoint: Endpoint) -> list[str]:
    models = json_of(endpoint.get("/api/ps", _LOOK_S)).get("models")
    return [str(m.get("name")) for m in models if isinstance(m, dict)] if isinstance(models, list) else []


def discover(recorder: Recorder) -> None:
    """Write what is there as `server`, `model` and `finding` events."""
    for kind, url in (("ollama", ollama_address()), ("llama-server", LLAMA_SERVER)):
        recorder.emit_all(_look(recorder, kind, url))
    recorder.emit(_embedded(recorder))


def _look(recorder: Recorder, kind: str, url: str) -> Iterator[ev.Event]:
    base = base_url(url)
    endpoint = Endpoint(base)
    try:
        answer = endpoint.get("/v1/models", _LOOK_S)
    except httpx.HTTPError:
        yield ev.Finding(t=recorder.now(), name=kind, state="off", text=f"nothing answers at {base}", url=base)
        return
    entries = decode_models(answer)
    if answer.status_code != 200:
        yield ev.Finding(t=recorder.now(), name=kind, state="limited", text=f"{base} answers {answer.status_code}", url=base)
        return
    v = recorder.new_id("v")
    yield ev.Server(t=recorder.now(), v=v, backend="ollama" if kind == "ollama" else "llamacpp", url=base, local=True)
    for entry in entries:
        m = recorder.new_id("m")
        yield ev.Model(t=recorder.now(), m=m, v=v, name=display_name(str(entry.get("id"))))
    yield ev.Finding(t=recorder.now(), name=kind, state="ok", text=f"{base}: {len(entries)} models", url=base, v=v)


def _embedded(recorder: Recorder) -> ev.Event:
    missing = available()
    small = find_small_model()
    t = recorder.now()
    if missing is not None:
        return ev.Finding(t=t, name="embedded", state="missing", text=missing)
    if small is None:
        text = "the engine is there, its small model is not"
        return ev.Finding(t=t, name="embedded", state="limited", text=text, todo="phasetop models get smollm2")
    return ev.Finding(t=t, name="embedded", state="ok", text=display_name(small.name))
