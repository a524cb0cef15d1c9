"""What people install: the wheel and the sdist, built from this tree and really installed, into an own environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import phasetop

ROOT = Path(__file__).parents[1]
PACKAGES = {"phasetop": "phasetop", "backends": "phasetop/backends", "tui": "phasetop/tui"}
"""Folder here → folder in the wheel; so are the folders in them."""
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "build", "dist", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis")

pytestmark = pytest.mark.timeout(300)


def run(*argv: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, f"{argv}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def shipped() -> dict[str, str]:
    """The files of the packages: where each lies here → where it must lie in the wheel."""
    return {
        f"{folder}/{name}": f"{target}/{name}"
        for folder, target in PACKAGES.items()
        for file in (ROOT / folder).rglob("*")  # which goes through no link: the two in phasetop/ are other packages
        if file.suffix in (".py", ".tcss") or file.name == "py.typed"
        for name in [file.relative_to(ROOT / folder).as_posix()]
    }


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, and the wheel built from it; made in a copy, so that nothing appears in this tree."""
    tree = tmp_path_factory.mktemp("wheel") / "tree"
    shutil.copytree(ROOT, tree, symlinks=True, ignore=LEFT_OUT)
    run(sys.executable, "-m", "build", "--no-isolation", ".", cwd=tree)
    return tree / "dist"


@pytest.fixture(scope="module")
def installed(dist: Path) -> Path:
    """The bin folder of a fresh environment with the wheel; its dependencies are those of this one, by a .pth file."""
    env = dist.parent / "env"
    run(sys.executable, "-m", "venv", "--without-pip", env)
    scripts = env / ("Scripts" if os.name == "nt" else "bin")
    site = Path(run(scripts / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    wheel = next(dist.glob("*.whl"))
    run(sys.executable, "-m", "pip", "--python", scripts / "python", "install", "--quiet", "--no-index", "--no-deps", wheel)
    return scripts


def test_wheel_holds_the_packages_and_nothing_else(dist: Path) -> None:
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == set(shipped().values())
    assert {"phasetop/py.typed", "phasetop/tui/__init__.py", "phasetop/backends/protocol.py"} <= names


def test_sdist_is_laid_out_as_this_tree(dist: Path) -> None:
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        members = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    assert shipped().keys() | {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile"} <= members
    for folder in ("docs", "tests", "scripts", "benchmarks"):  # who packs it for a system runs the tests from here
        here = {
            file.relative_to(ROOT).as_posix()
            for file in (ROOT / folder).rglob("*")
            if file.is_file() and not {"__pycache__", ".mypy_cache"} & set(file.parts) and file.suffix != ".pyc"
        }
        assert here <= members


def test_installed_command_runs(installed: Path, tmp_path: Path) -> None:
    assert phasetop.__version__ in run(installed / "phasetop", "--version", cwd=tmp_path)
    assert "run" in run(installed / "phasetop", "--help", cwd=tmp_path)


def test_installed_packages_are_the_wheels(installed: Path, tmp_path: Path) -> None:
    files = run(
        installed / "python",
        "-c",
        "import phasetop, phasetop.tui, phasetop.backends as b; print(phasetop.__file__, phasetop.tui.__file__, b.__file__)",
        cwd=tmp_path,
    ).split()
    assert all(Path(file).is_relative_to(installed.parent) for file in files)
