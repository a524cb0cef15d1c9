"""What the core and the backends import on macOS and on Windows, as far as that can be seen from elsewhere: no module of
another system at import time, and one plain line where something cannot be there (docs/platforms.md)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Home

ROOT = Path(__file__).parents[1]
FOREIGN = {
    "win32": ["fcntl", "termios", "pwd", "grp", "resource", "pty", "tty", "syslog"],
    "darwin": [],
}
"""Modules of the standard library that a system does not have."""
NAMES = {
    "win32": {
        "os": "O_CLOEXEC getuid geteuid nice getpriority setpriority sched_getaffinity getloadavg killpg setsid fork pread "
        "sysconf uname",
        "signal": "SIGHUP SIGKILL SIGTSTP SIGCONT SIGWINCH SIGPIPE SIGIO SIGUSR1 SIGQUIT",
        "time": "CLOCK_BOOTTIME clock_gettime_ns clock_gettime",
    },
    "darwin": {"os": "sched_getaffinity", "time": "CLOCK_BOOTTIME"},
}
"""What their modules lack there."""
PRELUDE = """
import importlib, sys
# What others bring chooses by the real system: it is loaded first.
for name in (
    "asyncio subprocess ssl urllib.request socket selectors ctypes email logging signal time tempfile uuid multiprocessing "
    "tomllib gzip mmap http.client http.server click click.shell_completion msgspec platformdirs psutil httpx httpcore "
    "plotext pynvml rich.console"
).split():
    importlib.import_module(name)
import textual.app, textual.drivers.linux_driver
platform, foreign, names = {platform!r}, {foreign!r}, {names!r}
for name in foreign:
    sys.modules[name] = None
for owner, lacking in names.items():
    for name in lacking.split():
        if hasattr(sys.modules[owner], name):
            delattr(sys.modules[owner], name)
importlib.import_module("shutil").which = lambda *a, **k: None  # from 3.12 on it asks Windows itself
sys.platform = platform  # os.name stays: pathlib would make paths of another system
"""
IMPORTS = """
failed = []
for name in {modules!r}:
    try:
        importlib.import_module(name)
    except Exception as error:
        failed.append(f"{{name}}: {{type(error).__name__}}: {{error}}")
print("\\n".join(failed))
"""
WORK = (
    "predict --params 7B --gpu 4090",
    "kv llama3.1-8b --no-plot",
    "replay tests/data/events-format-1.jsonl --plain",
    "export tests/data/events-format-1.jsonl --to md",
    "sessions --json",
)
"""What docs/platforms.md says of Windows."""
COMMANDS = """
import contextlib, io
from phasetop.cli import main
for argv in (*{work!r}, "run model -p hi"):
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) as out:
        status = main(argv.split())
    print(status)
    out.flush()
    assert out.buffer.getvalue() or status
"""


def modules(package: str, folder: str) -> list[str]:
    """All modules of a package and of those in it, the links to others left out."""
    files = sorted((ROOT / folder).rglob("*.py"))
    names = [".".join((package, *file.relative_to(ROOT / folder).with_suffix("").parts)) for file in files]
    return [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]


def python(platform: str, source: str) -> subprocess.CompletedProcess[str]:
    prelude = PRELUDE.format(platform=platform, foreign=FOREIGN[platform], names=NAMES[platform])
    argv = [sys.executable, "-P", "-c", prelude + source]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=90, check=False)


@pytest.mark.parametrize(
    ("platform", "packages"),
    [
        ("win32", {"phasetop": "phasetop", "phasetop.backends": "backends"}),
        ("darwin", {"phasetop": "phasetop", "phasetop.backends": "backends", "phasetop.tui": "tui"}),
    ],
)
def test_every_module_can_be_imported(platform: str, packages: dict[str, str]) -> None:
    names = [name for package, folder in packages.items() for name in modules(package, folder)]
    done = python(platform, IMPORTS.format(modules=names))
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == ""


def test_on_windows_what_needs_no_session_works_and_what_needs_one_says_so(state_home: Home) -> None:
    done = python("win32", COMMANDS.format(work=WORK))
    assert done.stdout.split() == [*["0"] * len(WORK), "1"], done.stderr[-2000:]
    assert done.stderr.splitlines()[-1] == (
        "phasetop: sessions need Linux, macOS or another POSIX system: on Windows, run phasetop in WSL"
    )
