"""The kinds of servers, in the order in which an address is asked; each is a function that recognises its own.

A probe takes (endpoint, wanted model or None) and returns `Identified`, or None where the server is of another kind. It
raises `StillLoading` or `Refused` where the server is its own and cannot be used. Built-in kinds stand in a table: scanning
entry points costs 78 ms, and is done for a name that the table does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Final

import httpx

from phasetop import events as ev
from phasetop.backends.endpoint import Endpoint
from phasetop.backends.identified import Identified, Refused
from phasetop.backends.server_errors import explain_connection
from phasetop.faults import UsageError

Probe = Callable[[Endpoint, str | None], Identified | None]

BUILT_IN: Final = {
    "llamacpp": "phasetop.backends.llamacpp",
    "ollama": "phasetop.backends.ollama",
    "openai": "phasetop.backends.openai",
}
"""Kind → the module whose ``probe`` recognises it; the general one last."""
ENTRY_POINTS: Final = "phasetop.backends"


def probe_of(kind: str) -> Probe:
    """The probe of a kind. Raises `UsageError` when nobody brings it."""
    if kind in BUILT_IN:
        return import_module(BUILT_IN[kind]).probe  # type: ignore[no-any-return]
    for point in entry_points(group=ENTRY_POINTS, name=kind):
        return point.load()  # type: ignore[no-any-return]
    raise UsageError(f"--backend {kind}: nobody brings it (built in: embedded, {', '.join(BUILT_IN)})")


def identify(endpoint: Endpoint, wanted: str | None, kind: str | None = None) -> Identified:
    """Ask a server who it is; ``kind`` asks only whether it is of that kind.

    Raises:
        StillLoading: it is there and loads its model.
        Refused: not reachable, a key is needed, no such model, several to choose from, or of no kind that is known.
        UsageError: nobody brings ``kind``.
    """
    try:
        for name in (kind,) if kind else BUILT_IN:
            found = probe_of(name)(endpoint, wanted)
            if found is not None:
                return found
    except httpx.HTTPError as error:
        raise Refused(explain_connection(error, endpoint.dialled, secrets=endpoint.secrets())) from None
    what = f"no {kind} server" if kind else "no server that phasetop knows: neither /props nor /v1/models is there"
    raise Refused(ev.Fault(status=404, code="unknown-server", text=f"{endpoint.shown} is {what}"))
