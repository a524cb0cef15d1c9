"""What a recording ran on and with, as pairs of words that the exports print."""

from __future__ import annotations

from typing import Any

from phasetop import figures as fig
from phasetop import report
from phasetop.redaction import SPOKEN_SETTINGS
from phasetop.session import Run, Session


def setup_of(session: Session, run: Run) -> list[tuple[str, str]]:
    """(name, value) of model, server, device and host, those that are known."""
    found = report.request_object(session, run, kept_as=None)
    model, server, host = found["model"], found["server"], found["host"]
    gpus = [gpu["name"] for gpu in found["gpus"] if gpu["in_use"] is not False and gpu["name"]]
    quant = [model["name"], model["quantisation"], fig.size(model["file_bytes"]) if model["file_bytes"] else None]
    rows = [
        ("model", quant),
        ("server", [server["kind"], server["version"]]),
        ("GPU", [", ".join(gpus)]),
        ("CPU", [host["cpu"], f"{host['cores']} cores" if host["cores"] else None]),
        ("phasetop", [found["phasetop"]]),
        ("started", [found["started"]]),
    ]
    return [(name, ", ".join(str(part) for part in parts if part)) for name, parts in rows if any(parts)]


def settings_of(session: Session, run: Run) -> list[tuple[str, Any]]:
    """(name, value) of the settings that are known and hold no text of the person's own (a grammar, a stop string)."""
    settings = report.request_object(session, run, kept_as=None)["settings"]
    server = session.server_of(run)
    words = {*SPOKEN_SETTINGS, *((server.options or {}) if server is not None else {})}
    return [
        (name, value)
        for name, value in settings.items()
        if isinstance(value, (bool, int, float)) or (name in words and isinstance(value, str))
    ]
