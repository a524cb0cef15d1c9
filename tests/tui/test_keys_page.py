"""docs/keys.md has the keys of the table, and every key of every screen has a test that presses it."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import pytest

from phasetop.tui.keys import TABLE, Screen

ROOT = Path(__file__).parents[2]
TESTED_TOGETHER = {"suspend"}
"""On a pty: there is no terminal to give back in a headless app."""


def test_the_page_has_the_keys_of_the_table() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "keys_page.py"))
    assert (ROOT / "docs" / "keys.md").read_text(encoding="utf-8") == made["text"](), "run: python scripts/keys_page.py"


def pressed() -> set[str]:
    """Every key name that stands as a literal in a test of the view."""
    found: set[str] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


@pytest.mark.parametrize("screen", TABLE)
def test_every_key_is_pressed_in_a_test(screen: Screen) -> None:
    literals = pressed()
    for key in TABLE[screen]:
        if key.names and key.does not in TESTED_TOGETHER:
            assert literals & set(key.names), f"no test presses {key.label} ({key.does}) on screen {screen}"
