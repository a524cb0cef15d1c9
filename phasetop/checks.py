"""What can be seen to be wrong before anything is started: addresses, keys, files, numbers. All raise `UsageError`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from phasetop.faults import UsageError
from phasetop.parts import split_stem, stem_of

RESERVED: Final = frozenset(("model", "messages", "prompt", "tools", "stream", "stream_options", "n", "return_progress",
                             "timings_per_token"))  # fmt: skip
"""Keys of a request's body that phasetop sets itself."""


def printable_url(url: str) -> str:
    """A URL without what may be secret: userinfo, query, fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the address"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def check_url(url: str, what: str = "") -> None:
    """An http(s) URL of printable characters with a host that can be, and a port that can be."""
    shown = f"{what} {printable_url(url)}".strip()
    if not url.isprintable():
        raise UsageError(f"{shown}: it holds a character that no address has")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"{shown}: {str(error).lower()}") from None
    if parts.scheme.lower() not in ("http", "https") or not host:
        raise UsageError(f"{shown} is no server's address: http://HOST:PORT or https://… is expected")
    try:
        host.encode("idna")
    except UnicodeError:
        raise UsageError(f"{shown}: no machine can have such a name") from None


def check_key(key: str | None) -> str | None:
    """A key that a header can hold; white space around it (a file's newline) goes. It is never repeated."""
    if key is None or not (key := key.strip()):
        return None
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError("the API key has characters that no header can hold")
    return key


def check_file(name: str | None, option: str) -> None:
    """A file that can be read."""
    if name is None:
        return
    try:
        with Path(name).expanduser().open("rb"):
            pass
    except OSError as error:
        raise UsageError(f"{option} {name}: {(error.strerror or str(error)).lower()}") from None


def check_settings(settings: dict[str, Any]) -> None:
    """Numbers that are numbers, and nothing that phasetop sets itself."""
    for name, value in settings.items():
        if name in RESERVED:
            raise UsageError(f"-o {name}: phasetop sets that itself")
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{name}: {value} is no number that a server takes")


def check_record(value: str) -> None:
    """A name or a path that a recording can have."""
    if value.endswith("/") or Path(value).name in (".", "..", ".gz", ".phasetop", ".phasetop.gz"):
        raise UsageError(f"--record={value}: a name, or a file's path")
    if value.startswith("@"):
        raise UsageError(f"--record={value}: names that begin with @ mean recordings by age")
    if split_stem(stem_of(Path(value).name))[1] != 1:  # the files beside it would be taken for its other parts
        raise UsageError(f"--record={value}: a name that ends so belongs to a part of a session")
