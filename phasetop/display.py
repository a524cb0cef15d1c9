"""How a view was asked to look, from the command line, the environment and the configuration. No terminal is asked here."""

from __future__ import annotations

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
