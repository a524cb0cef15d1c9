"""Whether GPUs of a vendor may be here, by looking for files: cheap at every start, and nothing is loaded or woken."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

NVML_LIBRARY: Final = "libnvidia-ml.so.1"
UNKNOWN_FOLDERS: Final = ("usr/lib/wsl/lib", "run/opengl-driver/lib")
"""Where WSL and NixOS keep the library, which the loader may not know."""
_FOLDERS: Final = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib", *UNKNOWN_FOLDERS)
_AMD: Final = "0x1002"


def nvidia_is_here(root: Path = Path("/"), environ: Mapping[str, str] | None = None) -> bool:
    """Whether there may be something for NVML to read: its library, or a device of its driver."""
    if sys.platform == "win32":
        return (Path(os.environ.get("WINDIR", "C:/Windows")) / "System32/nvml.dll").exists()
    if sys.platform != "linux":
        return False
    if any((root / "dev" / name).exists() for name in ("nvidiactl", "dxg", "nvhost-gpu", "nvgpu")):
        return True
    environ = os.environ if environ is None else environ
    own = [Path(folder) for folder in environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    if any((folder / NVML_LIBRARY).exists() for folder in (*own, *(root / folder for folder in _FOLDERS))):
        return True
    try:
        return NVML_LIBRARY.encode() in (root / "etc/ld.so.cache").read_bytes()
    except OSError:
        return False


def amd_cards(root: Path = Path("/")) -> list[Path]:
    """The folders in sysfs of AMD's cards, awake or not."""
    found = []
    for folder in sorted((root / "sys/class/drm").glob("card[0-9]*/device")):
        try:
            if (folder / "vendor").read_text().strip() == _AMD:
                found.append(folder)
        except OSError:
            continue
    return found


def amd_is_here() -> bool:
    """Whether there is an AMD card."""
    return bool(amd_cards())
