"""`--record`, `--max-size` and `--rotate`: where a session stays, how large it may become, and in how many files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from phasetop.amounts import read_size, read_size_or_time
from phasetop.checks import check_record
from phasetop.faults import UsageError
from phasetop.places import is_path

LEAST_BYTES: Final = 1_000_000
LEAST_NS: Final = 60_000_000_000


class Record(Struct, frozen=True):
    """What was asked for; ``path`` a file of the user's own, ``keep_as`` a name ("": the usual one), None: not kept."""

    path: Path | None = None
    keep_as: str | None = None
    max_bytes: int | None = None
    part_bytes: int | None = None
    part_ns: int | None = None


def record_of(given: Mapping[str, Any]) -> Record:
    """Read the options.

    Raises:
        UsageError: a name, a size or a time is none, or too small to be meant.
    """
    name = given.get("record")
    if name is not None:
        check_record(name)
    max_bytes = None if given.get("max_size") is None else read_size("--max-size", given["max_size"])
    part_bytes, part_ns = (None, None) if given.get("rotate") is None else read_size_or_time("--rotate", given["rotate"])
    if max_bytes is not None and max_bytes < LEAST_BYTES:
        raise UsageError(f"--max-size {given['max_size']}: at least 1MB")
    if (part_bytes is not None and part_bytes < LEAST_BYTES) or (part_ns is not None and part_ns < LEAST_NS):
        raise UsageError(f"--rotate {given['rotate']}: at least 1MB, or 1min")
    if max_bytes is not None and part_bytes is not None and max_bytes < 2 * part_bytes:
        raise UsageError("--max-size has to be twice --rotate at least: the oldest parts go, the newest stays")
    own = Path(name) if name is not None and is_path(name) else None
    return Record(own, name if own is None else None, max_bytes, part_bytes, part_ns)
