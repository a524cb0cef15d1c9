"""Text to the clipboard: through the terminal (OSC 52), and into a file, since nobody tells whether the terminal took it."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Final

from phasetop import places

MOST_BYTES: Final = 74_994
"""More than this (100,000 bytes of base64) terminals drop, some with the rest of what they were sent."""
_CONTROLS: Final[dict[int, str]] = {
    **{code: chr(0x2400 + code) for code in range(0x20) if code not in (0x09, 0x0A)},
    0x7F: "\N{SYMBOL FOR DELETE}",
    **{code: "\N{SYMBOL FOR ESCAPE}" + chr(code - 0x40) for code in range(0x80, 0xA0)},
}


def pasteable(text: str) -> str:
    """Text as it is, but for control characters: what is pasted into a shell must not press keys there."""
    return text.replace("\r\n", "\n").translate(_CONTROLS)


def osc52(text: str) -> str | None:
    """The sequence that hands a text to the terminal's clipboard; None where it is too long for one."""
    data = text.encode("utf-8", "replace")
    if len(data) > MOST_BYTES:
        return None
    return f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"


def save(text: str) -> Path:
    """Write a text to ``copied.txt`` in the state folder, which only its owner reads; returns where.

    Raises:
        OSError: it cannot be written.

    """
    folder = places.make_private(places.state_folder())
    path = folder / "copied.txt"
    fresh = folder / f".copied-{os.getpid()}"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(text.encode("utf-8", "replace"))
    fresh.replace(path)
    return path


def tilde(path: Path) -> str:
    """A path with the home folder as ``~``."""
    try:
        return "~/" + str(path.relative_to(Path.home()))
    except ValueError:
        return str(path)
