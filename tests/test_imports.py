"""The arrows between the packages, what a command may load, and the names and first lines of modules."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {"phasetop": ROOT / "phasetop", "phasetop.backends": ROOT / "backends", "phasetop.tui": ROOT / "tui"}
VAGUE = ("util", "helper", "manager")

LOADED = """
import importlib, json, sys
for name in {modules!r}:
    importlib.import_module(name)
print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}} & {{*{forbidden!r}}})))
"""
COMMAND = """
import contextlib, io, json, sys
sys.argv = ["phasetop", *{arguments!r}]
from phasetop.cli import main
with contextlib.redirect_stdout(io.StringIO()) as out:
    try:
        status = main()
    except SystemExit as end:
        status = end.code
print(json.dumps([status, out.getvalue(), sorted({{name.partition(".")[0] for name in sys.modules}})]))
"""


def python(source: str) -> str:
    """What a fresh interpreter prints; it fails with what that says."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", source], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def modules(package: str) -> list[str]:
    """All modules of one package (its folder has no sub-packages of its own)."""
    stems = {file.stem for file in PACKAGES[package].glob("*.py")} - {"__init__", "__main__"}
    return sorted(f"{package}.{stem}" for stem in stems)


def sources(*more: str) -> list[Path]:
    """Every Python file of the packages, and of other folders."""
    folders = [*PACKAGES.values(), *(ROOT / name for name in more)]
    return sorted({file.resolve() for folder in folders for file in folder.rglob("*.py")})


def test_contracts() -> None:
    script = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("phasetop", ["httpx", "httpcore", "textual", "rich", "plotext", "pynvml", "xllamacpp"]),
        ("phasetop.backends", ["textual", "plotext", "xllamacpp"]),  # httpx loads rich by itself, where it is
        ("phasetop.tui", ["httpx", "httpcore", "pynvml", "xllamacpp"]),
    ],
)
def test_a_package_loads_only_what_is_its_own(package: str, forbidden: list[str]) -> None:
    assert json.loads(python(LOADED.format(modules=modules(package), forbidden=forbidden))) == []


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_what_only_prints_a_line_loads_nothing_heavy(argument: str) -> None:
    status, text, loaded = json.loads(python(COMMAND.format(arguments=[argument])))
    assert status in (0, None)
    assert "phasetop" in text
    assert not {"textual", "rich", "httpx", "httpcore", "plotext", "pynvml", "xllamacpp", "psutil"} & set(loaded)


@pytest.mark.parametrize("package", ["tui", "backends"])
def test_no_second_copy_of_a_package(package: str) -> None:
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {package}"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"import phasetop.{package}, not {package}" in done.stderr


def test_every_module_says_what_it_is_for() -> None:
    bare = [
        str(file.relative_to(ROOT))
        for file in sources("scripts", "benchmarks", "tests")
        if not ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert bare == []


def test_every_module_is_named_for_its_job() -> None:
    vague = [
        str(file.relative_to(ROOT))
        for file in sources("scripts", "benchmarks", "tests")
        if any(word in file.stem.lower() for word in VAGUE)
    ]
    assert vague == []


@pytest.mark.skipif(os.name == "nt", reason="a checkout may have no links there")
def test_type_checkers_find_both_packages() -> None:
    assert (ROOT / "phasetop" / "tui").readlink() == Path("../tui")
    assert (ROOT / "phasetop" / "backends").readlink() == Path("../backends")
