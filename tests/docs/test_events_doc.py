"""docs/events.md names every kind with every key, and every command with its keys; and nothing that is not there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import msgspec
import pytest

from phasetop import events as ev

ROOT = Path(__file__).parents[2]
PAGE = re.sub(r"^```.*?^```$", "", (ROOT / "docs" / "events.md").read_text(encoding="utf-8"), flags=re.M | re.S)
LINES, _, COMMANDS = PAGE.partition("## Commands")
CODE = re.compile(r"`([^`]+)`")


def row_of(word: str, page: str) -> str:
    """The row of a table that begins with a word."""
    row = re.search(rf"^\| `{word}` \|.*$", page, re.M)
    assert row is not None, f"{word} is not described"
    return row[0]


def described(kind: str) -> str:
    """The section of a kind, or its row in the table of the small ones."""
    section = re.search(rf"^### `{kind}`.*?(?=^##|\Z)", LINES, re.M | re.S)
    return row_of(kind, LINES) if section is None else section[0]


@pytest.mark.parametrize("kind", ev.KINDS, ids=lambda kind: str(kind.__struct_config__.tag))
def test_every_key_of_a_kind_is_named(kind: type[ev.Event]) -> None:
    section = described(str(kind.__struct_config__.tag))
    named = set(CODE.findall(section))
    keys = {field.encode_name for field in msgspec.structs.fields(kind)} - {"t"}
    assert keys - named == set()
    first_cells = [cell for row in re.findall(r"^\|([^|]+)\|", section, re.M) for cell in CODE.findall(row)]
    if section.startswith("###"):
        assert set(first_cells) == keys, "described and not there"


@pytest.mark.parametrize("struct", [ev.Anchor, ev.Host, ev.Cut, ev.Fault, ev.Tool])
def test_what_stands_in_them_is_named(struct: type[msgspec.Struct]) -> None:
    words = set(re.findall(r"\w+", " ".join(CODE.findall(PAGE))))
    assert {field.encode_name for field in msgspec.structs.fields(struct)} <= words


def commands() -> dict[str, set[str]]:
    """Each command that the lifeline sends, with its keys."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse((ROOT / "phasetop" / "lifeline.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "_send":
            keys = {word.arg: word.value for word in node.keywords if word.arg is not None}
            op = keys.pop("op")
            assert isinstance(op, ast.Constant)
            found.setdefault(str(op.value), set()).update(keys)
    return found


def test_every_command_is_named_with_its_keys() -> None:
    sent = commands()
    assert {"start", "ask", "cancel", "measure", "stop"} <= set(sent)
    for op, keys in sent.items():
        assert keys - set(CODE.findall(row_of(op, COMMANDS))) == set(), op
    obeyed = ast.walk(ast.parse((ROOT / "backends" / "collector.py").read_text(encoding="utf-8")))
    ops = {
        str(key.value)
        for node in obeyed
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(value, ast.Attribute) and value.attr.startswith("_")
    }
    assert {"ask", "launch"} <= ops
    for op in ops:
        row_of(op, COMMANDS)
