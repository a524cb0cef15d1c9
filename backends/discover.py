"""What can be reached from here: servers at their usual addresses, their models, the embedded engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import httpx

from phasetop import events as ev
from phasetop import ollama_names
from phasetop.backends.embedded import available, find_small_model
from phasetop.backends.endpoint import Endpoint
from phasetop.backends.identified import decode_models, is_named, load_state
from phasetop.backends.launch import COMMANDS, is_installed
from phasetop.backends.locality import is_local
from phasetop.backends.recorder import Recorder
from phasetop.faults import UsageError
from phasetop.model_names import display_name
from phasetop.ollama_host import ollama_url

LLAMA_SERVER: Final = "http://127.0.0.1:8080"
_LOOK_S: Final = 1.0


def ollama_address() -> str:
    """Where Ollama listens, by OLLAMA_HOST; it may hold userinfo: `base_url` takes that out."""
    return ollama_url(os.environ.get("OLLAMA_HOST"))


def usual_addresses(backend: str | None = None) -> list[tuple[str, str]]:
    """(kind, URL) of where to look, in the order of preference: Ollama, then a llama-server."""
    addresses = {"ollama": ollama_address(), "llamacpp": LLAMA_SERVER}
    return [(kind, url) for kind, url in addresses.items() if backend in (None, kind)]


@dataclass(frozen=True, slots=True)
class Found:
    """What an address answered: the model that would be taken there (None: none), and all that it has."""

    model: str | None
    names: tuple[str, ...] = ()


def look(kind: str, endpoint: Endpoint, wanted: str | None) -> Found | None:
    """Ask an address for the model ``wanted``, or for what is loaded there; None: nobody answers, or another kind does."""
    try:
        return _look_ollama(endpoint, wanted) if kind == "ollama" else _look_llama_server(endpoint, wanted)
    except httpx.HTTPError:
        return None


def _look_ollama(endpoint: Endpoint, wanted: str | None) -> Found | None:
    from phasetop.backends import ollama  # where nobody looks for one, its modules are not loaded

    if ollama.version_of(endpoint, _LOOK_S) is None:
        return None
    names = tuple(tag.name for tag in ollama.installed(endpoint, _LOOK_S))
    if wanted is not None:
        there = ollama_names.find(wanted, names) is not None or ollama_names.is_cloud(wanted)
        return Found(wanted if there else None, names)
    loaded = ollama.loaded(endpoint, _LOOK_S)
    return Found(loaded[0].name if loaded else None, names)


def _look_llama_server(endpoint: Endpoint, wanted: str | None) -> Found | None:
    if endpoint.get("/health", _LOOK_S).status_code == 503:
        return Found(wanted or "model")  # it loads
    answer = endpoint.get("/v1/models", _LOOK_S)
    if answer.status_code != 200:
        return None
    entries = decode_models(answer)
    names = tuple(str(entry.get("id")) for entry in entries)
    if wanted is None:
        return Found(names[0] if names else None, names)
    return Found(next((str(entry.get("id")) for entry in entries if is_named(entry, wanted)), None), names)


def discover(recorder: Recorder, *, models: bool = True) -> None:
    """Write what is there as `server`, `model` and `finding` events; without ``models`` as findings alone."""
    for kind, url in usual_addresses():
        recorder.emit_all(_look(recorder, kind, url, models=models))
    recorder.emit(_embedded(recorder))


def _look(recorder: Recorder, kind: str, url: str, *, models: bool) -> Iterator[ev.Event]:
    name = "ollama" if kind == "ollama" else "llama-server"
    try:
        endpoint = Endpoint.open(url, None)
    except UsageError as error:
        yield ev.Finding(t=recorder.now(), name=name, state="broken", text=f"OLLAMA_HOST: {error}")
        return
    base = endpoint.base
    try:
        found = _ollamas(endpoint) if kind == "ollama" else _llama_servers(endpoint)
    except httpx.HTTPError:
        yield _off(recorder.now(), name, base)
        return
    if found is None:
        yield ev.Finding(t=recorder.now(), name=name, state="limited", text=f"{base} is no {name} that answers", url=base)
        return
    version, there = found
    v = None
    if models:
        v = recorder.new_id("v")
        yield ev.Server(t=recorder.now(), v=v, backend=kind, url=base, version=version, local=is_local(base))
        for keys in there:
            yield ev.Model(t=recorder.now(), m=recorder.new_id("m"), v=v, **keys)
    many = f"{len(there)} model{'' if len(there) == 1 else 's'}"
    yield ev.Finding(t=recorder.now(), name=name, state="ok", text=f"{base}: {many}", url=base, v=v)


def _off(t: int, name: str, base: str) -> ev.Finding:
    """Nobody answers: whether it is installed, and what to do then."""
    where = base.removeprefix("http://")
    if not is_installed(name):
        return ev.Finding(t=t, name=name, state="missing", text=f"not at {where}, not in PATH", url=base)
    todo = "o starts it" if name in COMMANDS and is_local(base) else None
    return ev.Finding(t=t, name=name, state="off", text="installed but not running", url=base, todo=todo)


_Listed = tuple[str | None, list[dict[str, Any]]]


def _ollamas(endpoint: Endpoint) -> _Listed | None:
    from phasetop.backends import ollama
    from phasetop.backends.ollama_model import is_listed_as, shown

    version = ollama.version_of(endpoint, _LOOK_S)
    if version is None:
        return None
    loaded = ollama.loaded(endpoint, _LOOK_S)
    models = [
        {
            "name": shown(tag.name),
            "arch": tag.arch,
            "quant": tag.quant,
            "file_bytes": tag.file_bytes,
            "context_trained": tag.context_trained,
            "loaded": is_listed_as(tag.name, tag.digest, loaded) is not None,
        }
        for tag in ollama.installed(endpoint, _LOOK_S)
    ]
    return version, models


def _llama_servers(endpoint: Endpoint) -> _Listed | None:
    answer = endpoint.get("/v1/models", _LOOK_S)
    if answer.status_code != 200:
        return None
    models = []
    for entry in decode_models(answer):
        meta = entry.get("meta")
        meta = meta if isinstance(meta, dict) else {}
        state = load_state(entry)
        models.append(
            {
                "name": display_name(str(entry.get("id"))),
                "file_bytes": _count(meta.get("size")),
                "context_trained": _count(meta.get("n_ctx_train")),
                "loaded": state in (None, "loaded"),
            }
        )
    return None, models


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


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
