"""The prompts that were typed before, for the ask line: a file of the person's own in the state folder, oldest first.

Nothing is kept where PHASETOP_NO_HISTORY is set; a session that is redacted never comes here.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec

from phasetop import places
from phasetop.codec import valid_text

NAME: Final = "prompts.jsonl"
KEPT: Final = 500
_LONGEST: Final = 20_000
"""A prompt longer than this is no line to bring back: a pasted document."""
_MOST_BYTES: Final = 4_000_000


def wanted() -> bool:
    """Whether prompts are kept at all."""
    return not os.environ.get("PHASETOP_NO_HISTORY")


def load() -> list[str]:
    """The kept prompts, oldest first; none where they are not wanted or cannot be read."""
    if not wanted():
        return []
    try:
        with (places.state_folder() / NAME).open("rb") as file:
            lines = file.read(_MOST_BYTES).split(b"\n")
    except OSError:
        return []
    found: list[str] = []
    for line in lines:
        try:
            text = msgspec.json.decode(line)
        except ValueError:
            continue
        if isinstance(text, str) and text.strip():
            found.append(text)
    return found[-KEPT:]


def add(text: str) -> None:
    """Keep a prompt; one that repeats the last, or is very long, is not kept. Never fails."""
    if not wanted() or not text.strip() or len(text) > _LONGEST:
        return
    known = load()
    if known and known[-1] == text:
        return
    try:
        path = places.make_private(places.state_folder()) / NAME
        if len(known) >= KEPT:
            fresh = path.with_name(f"{NAME}.{os.getpid()}")
            _append(fresh, [*known[-(KEPT * 4 // 5) :], text])
            fresh.replace(path)
        else:
            _append(path, [text])
    except OSError:
        pass


def _append(path: os.PathLike[str], texts: list[str]) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(b"".join(msgspec.json.encode(valid_text(text)) + b"\n" for text in texts))
