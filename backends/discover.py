"""What can be reached from here: servers at their usual addresses, their models, the embedded engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import httpx
import msgspec

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


def look_at_machine(recorder: Recorder, *, container: bool) -> None:
    """Write what the doctor wants to know beside: GPUs that nothing reads, the machine, the programs."""
    from phasetop.backends.gpu_checks import gpu_checks
    from phasetop.backends.machine_checks import machine_checks
    from phasetop.backends.software_checks import software_checks

    for check in (*gpu_checks(container=container), *machine_checks(), *software_checks()):
        recorder.emit(ev.Finding(t=recorder.now(), name=check.id, state=check.state, text=check.text, todo=check.todo))


@dataclass(frozen=True, slots=True)
class Listed:
    """A server that answers: its version, its models (as `model` events have them), whether it wants a key or loads."""

    version: str | None = None
    models: tuple[dict[str, Any], ...] = ()
    wants_key: bool = False
    loads: bool = False

    def said(self) -> str:
        """``0.32.5, 3 models, 1 loaded``."""
        n, loaded = len(self.models), sum(1 for model in self.models if model.get("loaded"))
        parts = [self.version] if self.version else []
        parts.append(f"{n} model{'' if n == 1 else 's'}" if n or not self.wants_key else "its models are not told")
        if n:
            parts.append(f"{loaded or 'none'} loaded")
        return ", ".join(parts)


KEY_TODO: Final = "give it with LLAMA_API_KEY or --api-key"


def _look(recorder: Recorder, kind: str, url: str, *, models: bool) -> Iterator[ev.Event]:
    name = "ollama" if kind == "ollama" else "llama-server"
    try:
        endpoint = Endpoint.open(url, None)
    except UsageError as error:
        yield ev.Finding(
            t=recorder.now(), name=name, state="broken", text=f"OLLAMA_HOST: {error}", todo="correct OLLAMA_HOST"
        )
        return
    base = endpoint.base
    try:
        found = _ollamas(endpoint) if kind == "ollama" else _llama_servers(endpoint)
    except httpx.HTTPError as error:
        yield _off(recorder.now(), name, base, answered=isinstance(error, httpx.ReadTimeout))
        return
    where = base.removeprefix("http://")
    if found is None:
        text = f"something answers at {where}, and it is no {name}"
        todo = "OLLAMA_HOST says where Ollama is" if kind == "ollama" else "phasetop run URL, for a server elsewhere"
        yield ev.Finding(t=recorder.now(), name=name, state="limited", text=text, url=base, todo=todo)
        return
    v = None
    if models and (found.models or not found.wants_key):
        v = recorder.new_id("v")
        yield ev.Server(t=recorder.now(), v=v, backend=kind, url=base, version=found.version, local=is_local(base))
        for keys in found.models:
            yield ev.Model(t=recorder.now(), m=recorder.new_id("m"), v=v, **keys)
    told = ev.Finding(t=recorder.now(), name=name, state="ok", text=f"{where}, {found.said()}", url=base, v=v)
    if found.wants_key:
        told.state, told.text, told.todo = "limited", f"{told.text}; it wants a key", KEY_TODO
    elif found.loads:
        told.state, told.text = "limited", f"{where}: it is loading its model"
    yield told


def _off(t: int, name: str, base: str, *, answered: bool = False) -> ev.Finding:
    """Nobody answers: whether it is installed, and what to do then."""
    where = base.removeprefix("http://")
    if answered:
        text = f"{where} takes connections and does not answer within {_LOOK_S:g} s"
        return ev.Finding(t=t, name=name, state="limited", text=text, url=base, todo="see what it is busy with, or its log")
    if not is_installed(name):
        return ev.Finding(t=t, name=name, state="missing", text=f"not at {where}, not in PATH", url=base)
    todo = "o starts it" if name in COMMANDS and is_local(base) else None
    return ev.Finding(t=t, name=name, state="off", text="installed but not running", url=base, todo=todo)


def _ollamas(endpoint: Endpoint) -> Listed | None:
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
    return Listed(version, tuple(models))


def _llama_servers(endpoint: Endpoint) -> Listed | None:
    if endpoint.get("/health", _LOOK_S).status_code == 503:
        return Listed(loads=True)
    answer = endpoint.get("/v1/models", _LOOK_S)
    if answer.status_code in (401, 403):
        return Listed(wants_key=True)
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
    props = endpoint.get("/props", _LOOK_S)  # /v1/models is told to anybody, this to who has the key
    return Listed(_build(props), tuple(models), wants_key=props.status_code in (401, 403))


def _build(props: httpx.Response) -> str | None:
    """llama.cpp's build (``b10434-0123abc``), by its /props; None where another server answers."""
    try:
        told = msgspec.json.decode(props.content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    build = told.get("build_info") if props.status_code == 200 and isinstance(told, dict) else None
    return build if isinstance(build, str) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _embedded(recorder: Recorder) -> ev.Event:
    missing = available()
    small = find_small_model()
    t = recorder.now()
    if missing is not None:
        return ev.Finding(t=t, name="embedded", state="missing", text=missing)
    if small is None:
        text = "its small model is not here yet"
        return ev.Finding(t=t, name="embedded", state="limited", text=text, todo="phasetop models get smollm2")
    return ev.Finding(t=t, name="embedded", state="ok", text=display_name(small.name))
