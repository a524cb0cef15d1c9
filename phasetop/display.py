"""Whether there is a terminal for a view, and how one was asked to look: by options, environment, configuration."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

Theme = Literal["dark", "light"]
Colours = Literal["truecolor", "256", "16", "none"]


class Display(Struct, frozen=True):
    """What a person said of the view; None: as the terminal and the link are.

    Attributes:
        theme: dark or light ground.
        colours: how many colours to use.
        ascii: only ASCII characters.
        mouse: take the mouse.
        fps: frames a second.

    """

    theme: Theme | None = None
    colours: Colours | None = None
    ascii: bool | None = None
    mouse: bool | None = None
    fps: float | None = None


def display_of(given: Mapping[str, Any]) -> Display:
    """The display that options ask for (names as `run` has them)."""
    return Display(
        theme=given.get("theme"),
        colours=given.get("colours"),
        ascii=True if given.get("ascii_only") else None,
        mouse=False if given.get("no_mouse") else None,
        fps=given.get("fps"),
    )


def has_terminal() -> bool:
    """Whether a live view can be drawn: stdin, stdout and stderr are terminals and TERM is usable."""
    usable = os.name != "nt" and os.environ.get("TERM", "") not in ("", "dumb", "unknown")
    return usable and all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
