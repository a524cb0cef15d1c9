"""What a recording ran on and with, as pairs of words that the exports print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from phasetop import figures as fig
from phasetop import report
from phasetop.redaction import SPOKEN_SETTINGS
from phasetop.session import Run, Session

VARIES: Final = "varies"


def setup_of(session: Session, runs: Sequence[Run]) -> list[tuple[str, str]]:
    """(name, value) of model, server, device and host, those that are known, as the last request has them; its begin."""
    found = report.request_object(session, runs[-1], kept_as=None)
    started = found if len(runs) == 1 else report.request_object(session, runs[0], kept_as=None)
    model, server, host = found["model"], found["server"], found["host"]
    gpus = [gpu["name"] for gpu in found["gpus"] if gpu["in_use"] is not False and gpu["name"]]
    quant = [model["name"], model["quantisation"], fig.size(model["file_bytes"]) if model["file_bytes"] else None]
    rows = [
        ("model", quant),
        ("server", [server["kind"], server["version"]]),
        ("GPU", [", ".join(gpus)]),
        ("CPU", [host["cpu"], f"{host['cores']} cores" if host["cores"] else None]),
        ("phasetop", [found["phasetop"]]),
        ("started", [started["started"]]),
    ]
    return [(name, ", ".join(str(part) for part in parts if part)) for name, parts in rows if any(parts)]


def settings_of(session: Session, runs: Sequence[Run]) -> list[tuple[str, Any]]:
    """(name, value) of the settings that are known and hold no text of the person's own (a grammar, a stop string).

    Where requests differ in one its value is ``varies``.
    """
    told = [report.request_object(session, run, kept_as=None)["settings"] for run in runs]
    names = dict.fromkeys(name for each in told for name in each)
    settings = {
        name: told[0].get(name) if all(each.get(name) == told[0].get(name) for each in told) else VARIES for name in names
    }
    server = session.server_of(runs[-1])
    words = {*SPOKEN_SETTINGS, *((server.options or {}) if server is not None else {})}
    return [
        (name, value)
        for name, value in settings.items()
        if isinstance(value, (bool, int, float)) or value == VARIES or (name in words and isinstance(value, str))
    ]
