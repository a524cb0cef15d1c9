"""The server that a session is about, as the doctor tells of it: where it is, what cannot be measured from here. Pure."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from phasetop import events as ev
from phasetop.columns import LIVE
from phasetop.session import Session

AWAY: Final = "the server is on another machine: over ssh (ssh://HOST/…) it is measured there"
HERE_ALONE: Final = "of this machine, not of the server's"
LINKED: Final = "the way to the server is in them, and in the first token's time"
_RUNNER_AWAY: Final = "its runner, which tells it, is reached on its own machine alone: ssh://HOST/… gets there"
OLLAMA_AWAY: Final[dict[str, tuple[str | None, str]]] = {
    "prefill_progress": (None, f"Ollama's own API tells none; {_RUNNER_AWAY}"),
    "cached_tokens": (None, f"Ollama's own API does not report it; {_RUNNER_AWAY}"),
    "kv_tokens": ("server: the counts of its last line", f"known when a request has ended; {_RUNNER_AWAY}"),
}
"""Figures of an Ollama on another machine: source, and why from nothing better."""
PEAKS_AWAY: Final = {
    "server.peak_bytes_per_s": f"{AWAY}; --peak-bandwidth sets it",
    "server.peak_flops": f"{AWAY}; --peak-flops sets it",
}
_STEPS: Final = {"loading": "it is loading its model", "starting": "it is starting", "sleeping": "it sleeps"}


class Told(Struct, frozen=True):
    """What is said of the server: doctor's state, and the words."""

    state: str
    text: str


def target_of(session: Session, cursor: int = LIVE) -> tuple[ev.State, ev.Server | None] | None:
    """The newest state of the server that a session asks, and what is known of it; None where it asks none."""
    told = [state for state in session.server_states.until(cursor) if state.v is not None]
    if not told:
        return None
    versions = session.servers.get(told[-1].v or 0)
    return told[-1], versions.at(cursor) if versions is not None else None


def is_away(session: Session, cursor: int = LIVE) -> bool:
    """Whether the session's server is on another machine, and nothing there is measured."""
    found = target_of(session, cursor)
    server = found[1] if found is not None else None
    return server is not None and server.local is False and server.over is None


def lacks_architecture(session: Session, cursor: int = LIVE) -> bool:
    """Whether the session's server has told its model, and not of which architecture it is."""
    found = target_of(session, cursor)
    if found is None or found[0].s != "ready":
        return False
    models = [model for versions in session.models.values() if (model := versions.at(cursor)) and model.v == found[0].v]
    return bool(models) and not any(model.hparams for model in models)


def told_of_server(session: Session, models: str, cursor: int = LIVE) -> Told | None:
    """What is known of the session's server; ``models``: the names of its models; None where there is no such server."""
    found = target_of(session, cursor)
    if found is None:
        return None
    state, server = found
    if state.s == "gone":
        return Told("broken", state.why or "it is gone")
    if server is None:
        return Told("limited", _STEPS.get(state.s, state.s))
    what = f"{server.backend or 'a server'} {server.version or ''}".strip()
    parts = [f"{what} at {server.url}" if server.url else what, _where(server)]
    text = ", ".join(part for part in parts if part)
    if state.s in _STEPS:
        return Told("limited", f"{text}: {_STEPS[state.s]}")
    return Told("ok", f"{text}: {models}" if models else text)


def _where(server: ev.Server) -> str | None:
    if server.over is not None:
        return f"over {server.over}"
    return {True: "on this machine", False: "on another machine"}.get(server.local) if server.local is not None else None
