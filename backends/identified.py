"""What comes of asking a server who it is: recognised, still loading, or refused; and how a model is chosen of several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec

from phasetop import events as ev
from phasetop.backends.protocol import Backend
from phasetop.backends.server_errors import explain_status
from phasetop.model_names import display_name
from phasetop.server_options import Found


class Refused(Exception):
    """The server cannot be used; the fault says why in one line.

    Attributes:
        models: the names to choose from, where one has to be named; or like the one that is not there.
        pullable: the name of a model that the server lacks and could fetch.
    """

    def __init__(self, fault: ev.Fault, models: Sequence[str] = (), *, pullable: str | None = None) -> None:
        super().__init__(ev.shown(fault.text))
        self.fault = fault
        self.models = tuple(models)
        self.pullable = pullable


class StillLoading(Exception):
    """The server is there and loads its model."""


@dataclass(frozen=True)
class Identified:
    """A server that was recognised: the backend to use, and what its `server` and `model` events say.

    Attributes:
        file: the path of its model's file, as the server names it; it is never recorded.
        started_with: the options that a router starts this model's process with.
    """

    backend: Backend
    server: dict[str, Any]
    model: dict[str, Any]
    notices: tuple[tuple[str, str], ...] = field(default=())
    file: str | None = None
    started_with: Found | None = None


def fault_of(answer: httpx.Response, secrets: Iterable[str] = ()) -> ev.Fault:
    """An answer that is an error, in one line for a person."""
    explained = explain_status(answer.status_code, answer.headers, answer.content, secrets=secrets)
    return ev.Fault(status=explained.fault.status, code=explained.fault.code, text=explained.line)


def choose(entries: list[dict[str, Any]], wanted: str | None) -> dict[str, Any]:
    """The model that is meant, of several. Raises `Refused`, naming them."""
    if wanted:
        for entry in entries:
            if is_named(entry, wanted):
                return entry
        names = [str(entry.get("id")) for entry in entries]
        listed = ", ".join(names[:8]) or "none"
        raise Refused(ev.Fault(code="no-such-model", text=f"no model {wanted!r} here; there is: {listed}"), names)
    loaded = [entry for entry in entries if load_state(entry) == "loaded"]
    if len(entries) == 1:
        return entries[0]
    if len(loaded) == 1:
        return loaded[0]
    names = [str(entry.get("id")) for entry in entries]
    text = f"several models here, choose one with --model NAME: {', '.join(names[:8])}"
    raise Refused(ev.Fault(code="several-models", text=text), names)


def is_named(entry: dict[str, Any], wanted: str) -> bool:
    """Whether an entry is what a person typed: its id, an alias, its file's name, or the name without ``:latest``."""
    names = [str(entry.get("id")), *map(str, entry.get("aliases") or ())]
    forms = {form for name in names for form in (name, display_name(name), name.removesuffix(":latest"))}
    return wanted in forms or display_name(wanted) in forms


def load_state(entry: dict[str, Any]) -> str | None:
    """A router's word for a model: loaded, loading, unloaded; None where it is no router's."""
    status = entry.get("status")
    return status.get("value") if isinstance(status, dict) else None


def decode_models(response: httpx.Response) -> list[dict[str, Any]]:
    """The entries of /v1/models; [] where the answer is none."""
    try:
        data = msgspec.json.decode(response.content).get("data")
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError):
        return []
    return [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
