"""Every check that the doctor can make stands in docs/doctor.md, with every state that it can have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from phasetop.capabilities import SECTIONS, STATES

ROOT = Path(__file__).resolve().parent.parent
FILES = (
    *("phasetop/capabilities.py", "backends/machine_checks.py", "backends/software_checks.py", "backends/gpu_checks.py"),
    *("phasetop/server_checks.py", "tui/terminalchecks.py", "backends/discover.py", "backends/peaks.py"),
)
ROWS = dict(re.findall(r"^\| `([a-z0-9-]+)`[^|]*\|([^|]*)\|", (ROOT / "docs/doctor.md").read_text(encoding="utf-8"), re.M))


def made(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """(id, state) of what is made with both as literals: ``Check("disk", "broken", …)``, ``Finding(name=…, state=…)``."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        words = {word.arg: word.value for word in node.keywords}
        values = list(node.args[:2]) if name == "Check" else [words.get("name"), words.get("state")]
        if name in ("Check", "Finding") and all(isinstance(value, ast.Constant) for value in values) and len(values) == 2:
            first, second = (str(value.value) for value in values if isinstance(value, ast.Constant))
            yield first, second


def test_every_id_of_a_section_has_its_row() -> None:
    ids = {name for names in SECTIONS.values() for name in names}
    assert ids <= ROWS.keys()
    assert {"gpu-0", *STATES} <= set(re.findall(r"`([a-z0-9-]+)`", (ROOT / "docs/doctor.md").read_text(encoding="utf-8")))


def test_every_state_that_a_check_is_given_is_told_in_its_row() -> None:
    found = {pair for file in FILES for pair in made(ast.parse((ROOT / file).read_text(encoding="utf-8")))}
    assert {("disk", "broken"), ("link", "limited"), ("embedded", "missing"), ("nvml", "missing")} <= found
    untold = {
        (name, state) for name, state in found if state != "ok" and f"`{state}`" not in ROWS.get(name, "") and name in ROWS
    }
    assert untold == set()
    assert {name for name, _ in found} <= ROWS.keys()
