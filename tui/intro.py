"""What the colours mean, in three lines: where nothing else stands yet, and on the help page."""

from __future__ import annotations

from typing import Final

from phasetop.tui.theme import Role

INTRO: Final[tuple[tuple[Role, str, str], ...]] = (
    ("prefill", "    ", "prefill: the prompt is read, many tokens at once; arithmetic limits it"),
    ("decode", "    ", "decode: the reply is written, one token at a time; memory limits it"),
    ("stall", " !! ", "stall: a gap of more than six times the usual one"),
)
"""(role, swatch, what it means)."""
