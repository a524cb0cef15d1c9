"""An error in one pane: kept as words, so that the pane can say it and the rest lives."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final

from msgspec import Struct

from phasetop.visible import harmless

_FRAMES: Final = 12


class Failure(Struct, frozen=True):
    """What went wrong: the error's kind, its words, and where, innermost last (no values of the program)."""

    kind: str
    words: str
    where: tuple[str, ...]

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """An error that was just caught."""
        places = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
        where = tuple(f"{Path(place.filename).name}:{place.lineno} {place.name}" for place in places)
        return cls(type(error).__name__, harmless(str(error), newlines=False)[:200], where)
