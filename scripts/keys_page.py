"""Writes docs/keys.md from the one table of keys that the view uses.

python scripts/keys_page.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from phasetop.tui.keys import TABLE, Key

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "keys.md"
HEAD: Final = """\
# Keys

Made by `scripts/keys_page.py` from the table that the view itself uses. `?` shows those that matter where one is, ctrl-p
finds a key by what it does. A key that does not belong to the situation does nothing.
"""
TITLES: Final = {
    "live": (
        "In the view",
        "Live, in a replay, and of a session that is watched; what asks is there only in one's own run.",
    ),
    "ask": ("In the ask line", "Where a prompt is typed."),
    "search": ("In the search line", "Opened with `/`."),
    "page": ("On a page over the view", "Help, notices, turns, explanations, charts."),
    "roofline": ("On the roofline screen", "Opened with `r`: what the request would take, had something been different."),
    "start": ("On the start screen", "`phasetop` alone."),
}
"""Screen → its title and a sentence; one that is not here has its own name."""
WHEN: Final = {
    "always": "",
    "running": "a reply runs",
    "fetching": "something is fetched",
    "steering": "one's own run",
    "failed": "the request failed",
    "behind": "the newest text is out of sight",
    "turns": "there are several turns",
    "frozen": "the view is paused",
    "unfrozen": "the view is not paused",
    "unkept": "the session is not kept yet",
    "asked": "something was asked",
    "open": "something is open",
    "charts": "on the charts",
    "scrolls": "there is more than fits",
    "narrow": "there is no room for both",
    "wide": "there is room for both",
    "offered": "something can be run",
    "several": "there are several",
    "launchable": "Ollama is installed and does not run",
    "fetchable": "the small model is not there",
    "lacking": "Ollama lacks the model",
    "stocked": "the model is there",
}


def text() -> str:
    """The page as it should be."""
    parts = [HEAD]
    screens = [*(name for name in TITLES if name in TABLE), *(name for name in TABLE if name not in TITLES)]
    for screen in screens:
        title, sentence = TITLES.get(screen, (f"On the {screen} screen", ""))
        keys = [key for key in TABLE[screen] if key.help or key.word]
        if not keys:
            continue
        parts.append(f"## {title}\n")
        if sentence:
            parts.append(f"{sentence}\n")
        parts.append("\n".join(["| key | what it does | when |", "|---|---|---|", *map(_row, keys)]) + "\n")
    return "\n".join(parts)


def _row(key: Key) -> str:
    label = " ".join(f"`{part}`" for part in key.label.split())
    return f"| {label} | {key.help or key.word} | {WHEN.get(key.when, key.when)} |"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
