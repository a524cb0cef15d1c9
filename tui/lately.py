"""What was used lately stays, of a few requests at a time: a view that is open all day must not keep what it drew of all."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, TypeVar

REQUESTS: Final = 8
"""So many requests are kept at hand, for whoever goes back and forth between them."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def lately(kept: dict[K, V], key: K, make: Callable[[], V], most: int = REQUESTS) -> V:
    """The value of ``key``, made where there is none; those that were used longest ago go, so that ``most`` are left."""
    found = kept.pop(key, None)
    if found is None:
        found = make()
        while len(kept) >= most:
            del kept[next(iter(kept))]
    kept[key] = found
    return found
