"""A moment of a session as a person types it: ``12.5``, ``1:02``, ``2m30s``, ``#900`` (a token), ``50%``, ``end``."""

from __future__ import annotations

import re
from typing import Final, Literal

from msgspec import Struct

FORMS: Final = "a time (12.5, 12.5s, 1:02), a token (#900), a share (50%), start or end"

# Compiled when one is typed.
_CLOCK: Final = r"(?:(\d{1,4}):)?(\d{1,6}):(\d{1,2}(?:\.\d*)?)"
_UNITS: Final = r"(?:(\d{1,6})\s*h)?\s*(?:(\d{1,6})\s*m(?:in)?)?\s*(?:(\d{1,9}(?:\.\d*)?|\.\d+)\s*s?)?"
_MS: Final = r"(\d{1,12}(?:\.\d*)?)\s*ms"
_NUMBERED: Final = r"(?:#|tok(?:en)?)\s*(\d{1,9})"
_SHARE: Final = r"(\d{1,3}(?:\.\d*)?)\s*%"


class Moment(Struct, frozen=True):
    """What was meant: ``value`` in seconds, a token's number from 1, or a share of 1."""

    kind: Literal["s", "token", "share"]
    value: float


START: Final = Moment("share", 0.0)
END: Final = Moment("share", 1.0)


def moment_of(text: str) -> Moment:
    """The moment that a text names.

    Raises:
        ValueError: it names none; the text says what would.
    """
    said = text.strip().lower().replace(",", ".")
    if said in ("start", "end"):
        return START if said == "start" else END
    if found := re.fullmatch(_NUMBERED, said):
        return Moment("token", max(1, int(found[1])))
    if (found := re.fullmatch(_SHARE, said)) and float(found[1]) <= 100:
        return Moment("share", float(found[1]) / 100)
    if found := re.fullmatch(_MS, said):
        return Moment("s", float(found[1]) / 1000)
    if found := re.fullmatch(_CLOCK, said):
        hours, minutes, seconds = found.groups()
        return Moment("s", int(hours or 0) * 3600 + int(minutes) * 60 + float(seconds))
    if said and (found := re.fullmatch(_UNITS, said)):
        hours, minutes, seconds = found.groups()
        return Moment("s", int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds or 0))
    raise ValueError(f"{text.strip()[:40]!r} is no moment: {FORMS}")
