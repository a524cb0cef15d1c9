"""What set-up says on a system that lacks something."""

from __future__ import annotations

import ast
import ctypes
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def setup() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "setup.py"), run_name="setup")


def only(manager: str) -> Any:
    return lambda name, *a, **k: f"/usr/bin/{name}" if name == manager else None


@pytest.mark.skipif(sys.platform != "linux", reason="looks for Linux's libraries")
def test_bare_debian_is_told_the_line(setup: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def cdll(name: str) -> None:
        if "gomp" in name:
            raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", cdll)
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    monkeypatch.setattr(shutil, "which", only("apt-get"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: pytest.fail("nothing may be started"))
    assert setup["main"]() == 1
    assert "\n    sudo apt-get install python3-venv libgomp1\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("manager", "line"),
    [("dnf", "dnf install libgomp"), ("zypper", "zypper install libgomp1"), ("brew", None), ("none", None)],
)
def test_each_package_manager(
    setup: dict[str, Any], monkeypatch: pytest.MonkeyPatch, manager: str, line: str | None
) -> None:
    monkeypatch.setattr(shutil, "which", only(manager))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert setup["install_line"](["gomp"]) == line


def test_debian_packs_venv_by_version(setup: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/another-python" if name == "python3" else "/usr/bin/apt-get")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert setup["install_line"](["venv"]) == f"apt-get install python3.{sys.version_info[1]}-venv"


def test_old_python_can_read_it() -> None:
    source = (ROOT / "scripts" / "setup.py").read_text(encoding="utf-8")
    assert ast.parse(source, feature_version=(3, 7))
