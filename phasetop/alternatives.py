"""What a token could have been: the alternatives that the server told with it, read again from the session's file.

The columns of a Session hold each token's own log-probability only; the line itself has the rest (EVENTS.md: ``top``).
"""

from __future__ import annotations

from msgspec import Struct

from phasetop import events as ev
from phasetop.faults import FormatError
from phasetop.reread import Reread
from phasetop.session import Session


class Alternative(Struct, frozen=True):
    """One candidate of a position: its text (None: redacted) and its log-probability (natural)."""

    text: str | None
    logp: float


def alternatives_of(event: ev.AnyEvent | None) -> tuple[tuple[Alternative, ...], ...]:
    """The alternatives of a `tok` line, for each of its tokens, most probable first; empty where none were told."""
    if not isinstance(event, ev.Tok) or not isinstance(event.top, list):
        return ()
    if isinstance(event.x, list):
        return tuple(_flat(top) for top in event.top)
    return (_flat(event.top),)


def _flat(top: object) -> tuple[Alternative, ...]:
    """``[text, logp, …]``, or redacted ``[logp, …]``; what is neither is left out."""
    made: list[Alternative] = []
    text: str | None = None
    for value in top if isinstance(top, list) else ():
        if isinstance(value, str):
            text = value
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            made.append(Alternative(text, float(value)))
            text = None
    return tuple(sorted(made, key=lambda each: -each.logp))


def read_alternatives(session: Session, lines: Reread | None, r: int, i: int) -> tuple[tuple[Alternative, ...], ...]:
    """The alternatives of token line ``i`` of request ``r``, read again; empty where none were told or no file has them."""
    run = session.runs.get(r)
    where = run.tokens.detail.get(i) if run is not None else None
    if lines is None or where is None:
        return ()
    try:
        return alternatives_of(lines.line(where))
    except (OSError, FormatError):
        return ()
