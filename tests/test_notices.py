"""Every code that scripts may match stands in docs/notices.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CODE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def codes(tree: ast.AST) -> Iterator[str]:
    """Literals given as ``code=``, as a notice's or a flag's first argument, and the second of the connection rules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            wanted = [word.value for word in node.keywords if word.arg == "code"]
            if name in ("notice", "Flag") and node.args:
                wanted.append(node.args[1] if name == "notice" and isinstance(node.args[0], ast.Name) else node.args[0])
            for value in wanted:
                if isinstance(value, ast.Constant) and isinstance(value.value, str) and CODE.fullmatch(value.value):
                    yield value.value
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "_CONNECTION_RULES":
            assert isinstance(node.value, ast.Tuple)
            for rule in node.value.elts:
                assert isinstance(rule, ast.Tuple)
                assert isinstance(rule.elts[1], ast.Constant)
                yield str(rule.elts[1].value)


def test_every_code_is_documented() -> None:
    found: dict[str, str] = {}
    for folder in ("phasetop", "backends"):
        for path in (ROOT / folder).glob("*.py"):
            for code in codes(ast.parse(path.read_text(encoding="utf-8"))):
                found.setdefault(code, path.name)
    assert {"not-recorded", "connection-refused", "stall"} <= found.keys()  # the search itself works
    documented = set(re.findall(r"`([a-z0-9-]+)`", (ROOT / "docs" / "notices.md").read_text(encoding="utf-8")))
    missing = {code: where for code, where in found.items() if code not in documented}
    assert missing == {}
