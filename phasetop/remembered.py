"""What the view remembers from one time to the next: a small JSON file in the state folder, by name and value."""

from __future__ import annotations

import os
from typing import Any, Final

import msgspec

from phasetop import places

NAME: Final = "view.json"
_MOST_BYTES: Final = 64_000


class Remembered:
    """The values that are kept; a file that cannot be read or written is as none, and harms nothing."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = _load()

    def get(self, name: str) -> Any:
        """The value of a name; None: nothing is remembered."""
        return self._values.get(name)

    def put(self, name: str, value: Any) -> None:
        """Remember a value from now on; None forgets it."""
        if self._values.get(name) == value:
            return
        self._values = {**_load(), name: value}
        if value is None:
            del self._values[name]
        _save(self._values)


def _load() -> dict[str, Any]:
    try:
        with (places.state_folder() / NAME).open("rb") as file:
            values = msgspec.json.decode(file.read(_MOST_BYTES))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _save(values: dict[str, Any]) -> None:
    """Another file in the old one's place, so that a reader never sees half of it."""
    try:
        folder = places.make_private(places.state_folder())
        fresh = folder / f"{NAME}.{os.getpid()}"
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(values, order="sorted"), indent=1) + b"\n")
        fresh.chmod(0o600)
        fresh.replace(folder / NAME)
    except OSError:
        pass
