"""Writes the key tables of README.md, between their two marks, from the one table that the view uses.

python scripts/readme_keys.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from phasetop.tui.keys import TABLE, Key, Screen

README: Final = Path(__file__).resolve().parents[1] / "README.md"
BEGIN: Final = "<!-- keys: made by scripts/readme_keys.py -->\n"
END: Final = "<!-- end of keys -->\n"
TITLES: Final[dict[Screen, str]] = {
    "start": "start screen",
    "live": "view",
    "ask": "ask line",
    "roofline": "roofline screen",
    "replay": "replay, beside the keys of the view",
}


def section() -> str:
    """The tables as Markdown."""
    lines: list[str] = []
    for screen, title in TITLES.items():
        lines += [f"| {title} | |", "|---|---|"]
        lines += [f"| {_label(key)} | {key.help} |" for key in _own(screen) if key.help]
        lines.append("")
    return "\n".join(lines)


def _own(screen: Screen) -> list[Key]:
    """A screen's keys; of a replay those that the view does not have."""
    view = {(key.names, key.does) for key in TABLE["live"]}
    return [key for key in TABLE[screen] if screen != "replay" or (key.names, key.does) not in view]


def _label(key: Key) -> str:
    return " ".join(f"`{part}`" for part in key.label.split())


def renewed(text: str) -> str:
    """README's text with the section as it should be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{section()}\n{END}{after}"


if __name__ == "__main__":
    README.write_text(renewed(README.read_text(encoding="utf-8")), encoding="utf-8")
