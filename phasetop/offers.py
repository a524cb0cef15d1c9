"""What the start screen offers, from what discovery found: pure functions of a Session and of what lies in the folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct

from phasetop import events as ev
from phasetop.figures import file_size, memory, share, size
from phasetop.lifeline import Target
from phasetop.nearby import LiveSession, Recording
from phasetop.session import Session
from phasetop.tasks import fraction

Kind = Literal["model", "embedded", "fetch", "live", "recording"]
KINDS: Final[dict[str, str]] = {"ollama": "Ollama", "llamacpp": "llama-server", "openai": "OpenAI API"}
"""How the view calls servers."""
EMBEDDED: Final = "SmolLM2-135M"


class Offer(Struct, frozen=True):
    """One thing that can be begun.

    Attributes:
        kind: a model of a server, the embedded engine, its model that is still to be fetched, a live session, a recording.
        name: the model's, or the recording's.
        where: who has it.
        note: what is good to know of it.
        target: whom a run would talk to; None for files.
        path: the session's file; None for runs.
        loaded: a request would be answered without a load.

    """

    kind: Kind
    name: str
    where: str
    note: str = ""
    target: Target | None = None
    path: Path | None = None
    loaded: bool = False

    @property
    def does(self) -> str:
        """What enter does with it, as a verb."""
        return {"live": "watches", "recording": "opens", "fetch": "fetches"}.get(self.kind, "runs")

    @property
    def takes_prompt(self) -> bool:
        """Whether a prompt can be sent to it: not to a file, nor to a model that is still to be fetched."""
        return self.kind in ("model", "embedded")

    @property
    def engine(self) -> dict[str, Any] | None:
        """What the embedded engine is started with; None for a server."""
        return {"file": None, "settings": {}} if self.kind == "embedded" else None


class Looked(Struct, frozen=True):
    """One place that was looked at: found or not, what it is, and which key acts on it."""

    name: str
    found: bool
    text: str
    key: str = ""
    does: str = ""


def offers(session: Session, live: Sequence[LiveSession], kept: Sequence[Recording], now_s: float) -> tuple[Offer, ...]:
    """What can be begun, the obvious first: what is loaded, the embedded model, what runs, other models, recordings."""
    models = _models(session)
    loaded = [one for one in models if one.loaded]
    others = [one for one in models if not one.loaded]
    watched = [
        Offer("live", one.model or "a session", "live on this machine", _since(one.began_ns, now_s), path=one.path)
        for one in live
    ]
    opened = [
        Offer("recording", one.name, "recording", f"{file_size(one.size_bytes)}, {ago(now_s - one.when_s)}", path=one.path)
        for one in kept
    ]
    own = _embedded(session)
    ready = [one for one in own if one.kind == "embedded"]
    return (*loaded, *ready, *watched, *others, *(one for one in own if one.kind == "fetch"), *opened)


def _models(session: Session) -> list[Offer]:
    """The models of servers that answered when they were looked at last."""
    answering = {finding.v for finding in _newest(session).values() if finding.v is not None}
    found: list[Offer] = []
    for versions in session.models.values():
        model = versions.at()
        server = None if model is None or model.v not in answering else session.servers.get(model.v)
        told = server.at() if server is not None else None
        if model is None or told is None or not model.name:
            continue
        loaded = bool(getattr(model, "loaded", None))
        parts = [model.quant or "", size(model.file_bytes) if model.file_bytes else "", "loaded" if loaded else ""]
        offer = Offer(
            "model",
            model.name,
            f"{KINDS.get(told.backend or '', told.backend or 'server')} {told.version or ''}".rstrip(),
            ", ".join(part for part in parts if part),
            Target(told.backend, told.url, model.name),
            loaded=loaded,
        )
        found.append(offer)
    return found


def _embedded(session: Session) -> list[Offer]:
    finding = _newest(session).get("embedded")
    if finding is None or finding.state not in ("ok", "limited"):
        return []
    if finding.state == "limited":
        task = _fetching(session)
        note = "on its way" if task is not None and task.state == "run" else "98 MB to download"
        return [Offer("fetch", EMBEDDED, "for the embedded engine", note)]
    name = finding.text or EMBEDDED
    return [Offer("embedded", name, "embedded, on this machine's CPU", "ready", Target("embedded"))]


def _newest(session: Session) -> dict[str, ev.Finding]:
    """The newest finding of each name, in the order in which the names came first."""
    newest: dict[str, ev.Finding] = {}
    for finding in session.findings.items:
        newest[finding.name] = finding
    return newest


PLACES: Final = ("ollama", "llama-server", "embedded")
"""Findings that are places to run a model; the others are about the machine."""
_NAMES: Final = {"ollama": "Ollama", "embedded": "embedded"}


def looked_at(session: Session) -> tuple[Looked, ...]:
    """Where discovery looked, in its order, each with its newest answer."""
    rows = []
    for name, finding in _newest(session).items():
        if name not in PLACES:
            continue
        key, _, does = (finding.todo or "").partition(" ")
        text = finding.text or ""
        if len(key) != 1:  # words for a shell, not a key
            key = does = ""
        found = finding.state == "ok" or bool(key) or finding.v is not None  # one that wants a key is there
        if name == "embedded" and finding.state == "limited":
            found, key, does = True, "g", "fetches it"
        if task := _fetching(session) if name == "embedded" else None:
            text = _progress(task)
            key, does = ("esc", "ends it") if task.state == "run" else ("g", "tries again")
        rows.append(Looked(_NAMES.get(name, name), found, text, key, does))
    host = session.hello.host if session.hello is not None else None
    if host is not None:
        parts = [
            host.cpu or "",
            f"{host.cores} cores" if host.cores else "",
            " ".join(memory(host.ram_bytes)) if host.ram_bytes else "",
        ]
        rows.append(Looked("machine", True, ", ".join(part for part in parts if part)))
    rows += _gpus(session)
    return tuple(rows)


def _gpus(session: Session) -> list[Looked]:
    """A row for the GPUs, those of one name together; none where there is none."""
    names: dict[str, int] = {}
    for d, versions in sorted(session.devices.items()):
        device = versions.at()
        if d != 0 and device is not None:
            name = device.name or "unnamed"
            if device.mem_bytes:
                name += f", {' '.join(memory(device.mem_bytes))}"
            names[name] = names.get(name, 0) + 1
    if not names:
        return []
    return [Looked("GPU", True, "; ".join(f"{n} × {name}" if n > 1 else name for name, n in names.items()))]


def _fetching(session: Session) -> ev.Task | None:
    """The download that runs, or failed last."""
    newest = session.tasks.items[-1] if session.tasks.items else None
    return newest if newest is not None and newest.state in ("run", "failed") else None


def _progress(task: ev.Task) -> str:
    if task.state == "failed":
        return task.why or "the download failed"
    if not task.total:
        return f"fetching, {size(task.done or 0)} so far"
    return f"fetching, {size(task.done or 0)} of {size(task.total)}, {share(fraction(task))}"


def _since(began_ns: int | None, now_s: float) -> str:
    return "" if began_ns is None else f"for {ago(now_s - began_ns / 1e9, plain=True)}"


def ago(seconds: float, *, plain: bool = False) -> str:
    """A span in one rounded unit: ``12 min ago``; ``plain``: without the last word."""
    seconds = max(0.0, seconds)
    for unit, length in (("days", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= 1.5 * length or (unit != "days" and seconds >= length):
            return f"{seconds / length:.0f} {unit}" + ("" if plain else " ago")
    return f"{seconds:.0f} s" + ("" if plain else " ago")
