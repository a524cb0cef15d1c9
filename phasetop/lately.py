"""What was used lately stays, of a few requests at a time: who is open all day must not keep what was made of all."""

from __future__ import annotations

from collections.abc import Callable, Hashable, MutableMapping
from typing import Final, TypeVar

REQUESTS: Final = 8
"""So many requests are kept at hand, for whoever goes back and forth between them."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def lately(kept: MutableMapping[K, V], key: K, make: Callable[[], V], most: int = REQUESTS) -> V:
    """The value of ``key``, made where there is none; those that were used longest ago go, so that ``most`` are left."""
    found = kept.pop(key, None)
    if found is None:
        found = make()
        while len(kept) >= most:
            del kept[next(iter(kept))]
    kept[key] = found
    return found
