"""Texts from outside as one plain line: short, without control characters, keys or the secret parts of a URL."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from phasetop import codec

MAX_TEXT: Final = 300
"""The longest error text that is kept or shown, in characters."""

_SECRETS: Final = (
    re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{4,}"),
    re.compile(r"(?i)\b(api[ _-]?key|token|secret|password|authorization)(\s*[=:]\s*|\s+provided:\s*)[\"']?[^\s\"',;]+"),
    re.compile(r"\b(sk|hf|pk|gsk)[-_][\w-]{6,}"),
)
_URL: Final = re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s\"'<>]+")
_INVISIBLE: Final = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def harmless(text: object, limit: int = MAX_TEXT, secrets: Iterable[str] = ()) -> str:
    """A text from outside as one short line: no control character, no key, no userinfo or query of a URL.

    ``secrets`` are taken out wherever they stand; besides, what looks like a key or follows a word such as "Bearer".
    """
    line = str(text)[: 16 * limit]
    for secret in secrets:
        if secret:
            line = line.replace(secret, "…")
    line = _URL.sub(lambda found: clean_url(found[0]), line)
    line = _SECRETS[0].sub(r"\1 …", line)
    line = _SECRETS[1].sub(r"\1\2…", line)
    line = _SECRETS[2].sub(r"\1-…", line)
    line = " ".join(codec.valid_text(line).split())
    line = _INVISIBLE.sub("\ufffd", "".join(chr(0x2400 + ord(c)) if c < " " else c for c in line))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def clean_url(url: str) -> str:
    """A URL without userinfo, query and fragment; ``…`` where it cannot be read."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "…"
    return f"{parts.scheme}://{host}{parts.path}" if parts.scheme else host + parts.path
