"""What this machine itself knows of a llama-server that runs on it: its command line, and the header of its model's file.

A server tells neither its model's architecture nor what kind of cache it has; its process and the file do. Of the command
line only the options of `server_options.KNOWN` are kept, and of paths nothing but the file's name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import psutil

from phasetop import events as ev
from phasetop.backends.identified import Identified
from phasetop.gguf import GgufError
from phasetop.kv.options import AUTO_SLOTS
from phasetop.model_metadata import Metadata, from_file
from phasetop.server_options import DEFAULTS, ENV_PREFIX, Found, read_argv

_OWN_NAMES: Final = ("name", "template", "context_trained")
"""What a server knows better than the file."""


@dataclass(frozen=True, slots=True)
class Process:
    """A server's process: its options, and the folder that its paths are relative to."""

    found: Found
    folder: Path | None

    @property
    def model(self) -> Path | None:
        """The file that it was started with."""
        if self.found.model is None:
            return None
        path = Path(self.found.model)
        return path if path.is_absolute() or self.folder is None else self.folder / path


def read_process(pid: int | None) -> Process | None:
    """A llama-server's process; None where there is none, where nobody may look, or where it is another program."""
    if pid is None:
        return None
    try:
        process = psutil.Process(pid)
        argv = process.cmdline()
        found = read_argv(argv, _environment(process))
    except (psutil.Error, OSError):
        return None
    if not _is_llama_server(argv, found):
        return None
    try:
        folder = Path(process.cwd())
    except (psutil.Error, OSError):
        folder = None
    return Process(found, folder)


def _environment(process: psutil.Process) -> dict[str, str]:
    """Its LLAMA_ARG_* variables, which are options too; none where nobody may look."""
    try:
        return {name: value for name, value in process.environ().items() if name.startswith(ENV_PREFIX)}
    except (psutil.Error, OSError):
        return {}


def _is_llama_server(argv: Sequence[str], found: Found) -> bool:
    """Whether what was left out on this command line is llama-server's default (of a wrapper's it would say nothing)."""
    name = Path(argv[0]).name.lower() if argv else ""
    return name.startswith("llama-server") or (name.startswith("llama") and found.model is not None)


def with_local_knowledge(identified: Identified, pid: int | None) -> Identified:
    """A llama-server on this machine with what its process and its file tell; anything else as it is.

    Args:
        identified: what the server told.
        pid: the process that listens; None: on another machine, or nobody may look.
    """
    if identified.backend.name != "llamacpp":
        return identified
    routed = identified.started_with
    process = read_process(pid) if routed is None else None
    server, model = dict(identified.server), dict(identified.model)
    told = server.get("options") or {}
    if routed is not None:
        server["options"] = _options(routed, told, "argv: the router's")
    elif process is not None:
        server["options"] = _options(process.found, told)
    path = process.model if process is not None else None
    if path is None and pid is not None and identified.file is not None:
        path = Path(identified.file)
    described = None if path is None else describe(path, model.get("params"))
    if described is not None:
        model = with_metadata(model, described)
    return replace(identified, server=server, model=model)


def _options(found: Found, told: Mapping[str, ev.Sourced], source: str | None = None) -> dict[str, ev.Sourced]:
    """A server's options: those of its command line, what it tells itself, and its defaults."""
    own = {name: ev.Sourced(value, source or found.sources[name]) for name, value in found.values.items()}
    automatic = own.get("parallel") is None or own["parallel"].value < 0
    if automatic:
        own.pop("parallel", None)
        if "parallel" not in told:
            own["parallel"] = ev.Sourced(AUTO_SLOTS, "default")
        own["kv_unified"] = ev.Sourced(True, f"default: {AUTO_SLOTS} slots share a pool")
    own.setdefault("kv_unified", ev.Sourced(False, "default"))
    if not own.get("context") or own["context"].value <= 0:
        own.pop("context", None)
        slot, slots = told.get("slot_context"), told.get("parallel")
        if slot is not None and slots is not None:  # it took what the model was trained for, or what fitted
            own["context"] = ev.Sourced(slot.value * (1 if own["kv_unified"].value else slots.value), "server")
    return {**with_defaults(told), **own}


def with_defaults(options: Mapping[str, ev.Sourced]) -> dict[str, ev.Sourced]:
    """A server's options with llama-server's defaults for those that are not there."""
    return {**{name: ev.Sourced(value, "default") for name, value in DEFAULTS.items()}, **options}


def describe(path: Path, params: Any = None) -> Metadata | None:
    """What a model's file says; None where it cannot be read, or is not of the model that a server has.

    Args:
        path: the file, or one of its parts.
        params: how many parameters the server's model has, where it tells.
    """
    try:
        found = from_file(path)
    except GgufError:
        return None
    if isinstance(params, int) and found.params is not None and params != found.params:
        return None
    return found


def with_metadata(model: Mapping[str, Any], found: Metadata) -> dict[str, Any]:
    """The keys of a `model` event, with those that a file tells."""
    told = found.event()
    origin = told.pop("origin")
    kept = {name: model[name] for name in _OWN_NAMES if model.get(name) is not None}
    sources = {**(model.get("origin") or {}), **{name: source for name, source in origin.items() if name not in kept}}
    return {**model, **told, **kept, "origin": sources}
