"""What the doctor looks at of the programs: versions, packages that hide each other, optional parts that are missing."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from phasetop import __version__
from phasetop.backends.gpu_presence import nvidia_is_here
from phasetop.capabilities import Check

LIBRARIES: Final = ("textual", "httpx", "httpcore", "msgspec", "psutil", "nvidia-ml-py", "plotext")
OPTIONAL: Final = ("xllamacpp",)
"""The embedded engine; the check `embedded` says how it is had."""
PINNED: Final = {"httpx": "0.28", "httpcore": "1.0"}
"""The receive stamps replace one private attribute of these."""
LEAST_NVML: Final = (12, 560)

Version = Callable[[str], str | None]


def installed(name: str) -> str | None:
    """A package's version; None where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def python() -> Check:
    """Python, this program, and the system."""
    where = f"{platform.system()} {platform.release()}, {platform.machine()}"
    return Check("python", "ok", f"phasetop {__version__}, Python {platform.python_version()}, {where}")


def libraries(of: Version = installed) -> Check:
    """The versions of what phasetop stands on, and those that do not fit."""
    found = {name: of(name) for name in LIBRARIES}
    also = {name: told for name in OPTIONAL if (told := of(name)) is not None}
    text = ", ".join(f"{name} {told}" for name, told in {**found, **also}.items() if told is not None)
    missing = [name for name, told in found.items() if told is None]
    again = "install phasetop again: pip install --force-reinstall phasetop"
    if missing:
        return Check("libraries", "broken", f"{text}; missing: {', '.join(missing)}", again)
    odd = [f"{name} {found[name]} (made for {line})" for name, line in PINNED.items() if not _is_of(found[name], line)]
    if odd:
        return Check("libraries", "limited", f"{text}; {', '.join(odd)}: receive stamps may be lost", again)
    if _numbers(found["nvidia-ml-py"]) < LEAST_NVML:
        text = f"{text}; nvidia-ml-py is older than {LEAST_NVML[0]}.{LEAST_NVML[1]}: NVIDIA GPUs cannot be read"
        return Check("libraries", "limited", text, again)
    return Check("libraries", "ok", text)


def _is_of(told: str | None, line: str) -> bool:
    return told is not None and (told == line or told.startswith(line + "."))


def _numbers(told: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in (told or "").split(".") if part.isdigit())


def module_file(name: str) -> str | None:
    """The file that an import would load; None where there is none."""
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return None
    return spec.origin if spec is not None else None


def pynvml(
    of: Version = installed,
    file_of: Callable[[str], str | None] = module_file,
    nvidia: Callable[[], bool] = nvidia_is_here,
) -> Check | None:
    """The package that is called pynvml: up to 11.5 it hides nvidia-ml-py's module of that name, later it only warns."""
    other, file = of("pynvml"), file_of("pynvml")
    todo = "pip uninstall pynvml, then pip install --force-reinstall nvidia-ml-py"
    if file is not None and Path(file).name == "__init__.py":  # nvidia-ml-py's is one file, pynvml.py
        which = f"pynvml {other}" if other is not None else "a package called pynvml"
        state = "broken" if nvidia() else "limited"
        return Check("pynvml", state, f"{which} hides nvidia-ml-py: NVIDIA GPUs cannot be read", todo)
    if other is not None:
        text = f"pynvml {other} is installed beside nvidia-ml-py: it brings nothing, and warns at every import of it"
        return Check("pynvml", "limited", text, "pip uninstall pynvml")
    return None


def software_checks() -> Iterator[Check]:
    """All of them."""
    yield python()
    yield libraries()
    clash = pynvml()
    if clash is not None:
        yield clash
