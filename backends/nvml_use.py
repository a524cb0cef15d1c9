"""Which GPUs a server's process uses: by the process lists of NVML, or by what can be ruled out where those say nothing.

In a container NVML tells the host's process ids, which mean nothing there.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

_FIRST_PID_NAMESPACE: Final = 0xEFFFFFFC  # Linux: PROC_PID_INIT_INO


@dataclass(frozen=True, slots=True)
class Place:
    """A GPU as the process could name it."""

    uuid: str
    pci: str | None
    minor: int | None


def visible(value: str | None, order: str | None, gpus: Sequence[Place]) -> frozenset[str] | None:
    """The UUIDs that CUDA_VISIBLE_DEVICES leaves a process; None: it cannot be told, or all.

    Numbers count by PCI address only with CUDA_DEVICE_ORDER=PCI_BUS_ID; by default the fastest comes first, and no order is
    promised, so they are told only where there is one GPU. An entry that is no GPU ends the list (CUDA's rule).

    Args:
        value: CUDA_VISIBLE_DEVICES; None: not set.
        order: CUDA_DEVICE_ORDER.
        gpus: the GPUs here.

    """
    if value is None:
        return None
    by_number = sorted(gpus, key=lambda gpu: gpu.pci or "") if order == "PCI_BUS_ID" or len(gpus) == 1 else None
    found: set[str] = set()
    for word in (each.strip() for each in value.split(",")):
        if word.startswith(("GPU-", "MIG-")):
            matches = [gpu.uuid for gpu in gpus if gpu.uuid.startswith(word)]
            if len(matches) != 1:
                break
            found.add(matches[0])
        elif word.isdigit():
            if by_number is None:
                return None
            if int(word) >= len(by_number):
                break
            found.add(by_number[int(word)].uuid)
        else:  # "", "-1", "none"
            break
    return frozenset(found)


def in_namespace(root: Path = Path("/")) -> bool:
    """Whether this process has process ids of its own (a container): NVML's mean nothing then."""
    try:
        return os.stat(root / "proc/self/ns/pid").st_ino != _FIRST_PID_NAMESPACE
    except OSError:
        return False


def process_of(pid: int) -> psutil.Process | None:
    """A process by its id and start time (an id is given again); None when it is gone."""
    try:
        return psutil.Process(pid)
    except psutil.Error:
        return None


def family(process: psutil.Process | None) -> frozenset[int]:
    """The ids of a process and its descendants; {} when it is gone, also where another has its id now."""
    try:
        if process is None or not process.is_running():
            return frozenset()
        pid = process.pid
        return frozenset((pid, *(child.pid for child in process.children(recursive=True))))
    except psutil.Error:
        return frozenset()


def ruled_out(pids: Collection[int], gpus: Sequence[Place], root: Path = Path("/")) -> frozenset[str]:
    """GPUs that these processes cannot use: CUDA_VISIBLE_DEVICES hides them, or no process has their device file open."""
    seen_env = False
    allowed: set[str] = set()
    opened: set[int] = set()
    told = False
    for pid in pids:
        folder = root / "proc" / str(pid)
        try:
            values = dict(part.split(b"=", 1) for part in (folder / "environ").read_bytes().split(b"\0") if part.count(b"="))
            cvd = visible(_word(values.get(b"CUDA_VISIBLE_DEVICES")), _word(values.get(b"CUDA_DEVICE_ORDER")), gpus)
            allowed |= {gpu.uuid for gpu in gpus} if cvd is None else cvd
            seen_env = True
        except OSError:
            allowed |= {gpu.uuid for gpu in gpus}
        try:
            for link in (folder / "fd").iterdir():
                name = os.readlink(link) if link.is_symlink() else ""
                if name.startswith("/dev/nvidia") and name[11:].isdigit():
                    opened.add(int(name[11:]))
            told = True
        except OSError:
            opened |= {gpu.minor for gpu in gpus if gpu.minor is not None}
    hidden = {gpu.uuid for gpu in gpus if gpu.uuid not in allowed} if seen_env else set()
    # Under WSL and on Tegra a GPU has no file of its own: nothing can be told by it.
    with_file = [gpu for gpu in gpus if gpu.minor is not None and (root / f"dev/nvidia{gpu.minor}").exists()]
    closed = {gpu.uuid for gpu in with_file if gpu.minor not in opened} if told else set()
    return frozenset(hidden | closed)


def _word(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")
