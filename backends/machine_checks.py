"""What the doctor looks at of the machine itself: clock, swap, disk, heat, who may be seen. Each check is a pure read.

They take the root of the file system where that is possible, so that tests bring their own; the disk's writes a file of its
own in the state folder and removes it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import psutil

from phasetop import places
from phasetop.backends.cores import quota_cores
from phasetop.backends.host_counters import thermal_throttled_ns
from phasetop.capabilities import Check
from phasetop.figures import memory, size

SLOW_CLOCKS: Final = ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit")
"""Clock sources that take a microsecond or more to read, or step in milliseconds."""
SLOW_READ_NS: Final = 1_000
_READS, _BATCHES = 100, 20
FULL_BYTES: Final = 100 * 1000 * 1000
"""A long session with log-probabilities takes tens of megabytes."""
SLOW_SYNC_MS: Final = 200.0
_TRIAL_BYTES: Final = 1 << 20
_REMOTE: Final = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "ceph", "glusterfs", "afs", "lustre")


def clock(root: Path = Path("/"), read_ns: Callable[[], int] = time.monotonic_ns) -> Check:
    """The clock that stamps: its source, its resolution, and what a reading costs."""
    batches = [[read_ns() for _ in range(_READS)] for _ in range(_BATCHES)]
    cost_ns = min(batch[-1] - batch[0] for batch in batches) / (_READS - 1)  # the others were held up by other programs
    resolution_ns = min((b - a for batch in batches for a, b in pairwise(batch) if b > a), default=0)
    source = _word(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")
    name = f"source {source}, " if source else ""
    text = f"{name}steps of {_ns(resolution_ns)}, {_ns(cost_ns)} a reading"
    if source in SLOW_CLOCKS or cost_ns > SLOW_READ_NS or resolution_ns > 100_000:
        others = (_word(root / "sys/devices/system/clocksource/clocksource0/available_clocksource") or "").split()
        better = next((each for each in ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page") if each in others), None)
        todo = f"{better} is there too: boot with clocksource={better}" if better and better != source else None
        return Check("clock", "limited", f"{text}: stamps cost, and small gaps are blurred", todo)
    return Check("clock", "ok", text)


def _ns(ns: float) -> str:
    return f"{ns / 1e6:.3g} ms" if ns >= 1e6 else f"{ns / 1e3:.3g} µs" if ns >= 1e3 else f"{ns:.3g} ns"


def swap(used: int | None = None, total: int | None = None) -> Check:
    """Swap space, and how much lies in it now."""
    if used is None or total is None:
        try:
            told = psutil.swap_memory()
            used, total = int(told.used), int(told.total)
        except (OSError, psutil.Error, RuntimeError):
            return Check("swap", "off", "the system does not tell its swap")
    if total == 0:
        return Check("swap", "ok", "none")
    if used > total // 10:
        text = f"{' '.join(memory(used))} of {' '.join(memory(total))} are in use: what comes back from there is slow"
        return Check("swap", "limited", text, "close what needs memory, or run a smaller model or context")
    return Check("swap", "ok", f"{' '.join(memory(total))}, hardly used")


def heat(root: Path = Path("/")) -> Check | None:
    """How long heat has held the CPU back since the machine started; None where nobody counts that."""
    held = thermal_throttled_ns(root)
    if held is None:
        return None
    if held < 1_000_000_000:
        return Check("heat", "ok", "heat has not held the CPU back since the machine started")
    text = f"heat held the CPU back for {held / 1e9:,.0f} s since the machine started: its clocks fall in long runs"
    return Check("heat", "limited", text, "clean its fans, or give it room; a run tells its share (thermal_throttled_s)")


def processes(root: Path = Path("/")) -> Check | None:
    """Whether the processes of other users can be seen, as a server's often is; None elsewhere than on Linux."""
    hidden = None
    try:
        for line in (root / "proc/self/mounts").read_text().splitlines():
            words = line.split()
            if len(words) > 3 and words[1] == "/proc":
                options = dict(part.partition("=")[::2] for part in words[3].split(","))
                hidden = options.get("hidepid")
    except OSError:
        return None
    if hidden in ("1", "2", "4", "noaccess", "invisible", "ptraceable"):
        text = f"/proc hides other users' processes (hidepid={hidden}): a server of another user is not measured"
        return Check("processes", "limited", text, "run as the server's user, or in the group of /proc's gid option")
    return Check("processes", "ok", "a server's process can be seen, whoever runs it")


def disk(folder: Path | None = None) -> Check:
    """The state folder: whether it can be written, has locks and room, and how fast it is."""
    folder = folder or places.state_folder()
    shown = home_as_tilde(folder)
    todo = "XDG_STATE_HOME names another folder"
    try:
        places.make_private(folder)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as trial:
            os.fchmod(trial.fileno(), 0o600) if hasattr(os, "fchmod") else None
            began = time.monotonic()
            trial.write(bytes(_TRIAL_BYTES))
            trial.flush()
            os.fsync(trial.fileno())
            took_ms = (time.monotonic() - began) * 1e3
            locks = _has_locks(Path(trial.name))
        free = shutil.disk_usage(folder).free
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        return Check("disk", "broken", f"{shown} cannot be written ({why}): sessions are not recorded", todo)
    room = f"{shown}: {size(free)} free"
    if free < FULL_BYTES:
        return Check("disk", "limited", f"{room}: long sessions will not fit", f"make room, or {todo}")
    kind = _kind_of(folder)
    if not locks:
        text = f"{room}, on {kind or 'a file system'} without locks: live and dead sessions cannot be told apart"
        return Check("disk", "limited", text, todo)
    if took_ms > SLOW_SYNC_MS:
        text = f"{room}; 1 MB takes {took_ms:.0f} ms to write: a busy or a slow disk"
        return Check("disk", "limited", text, todo if kind in _REMOTE else None)
    far = f", over the network ({kind})" if kind in _REMOTE else ""
    return Check("disk", "ok", f"{room}{far}; 1 MB takes {took_ms:.0f} ms to write and sync")


def _has_locks(file: Path) -> bool:
    """Whether a second opening of a file sees the lock of the first."""
    first = os.open(file, os.O_RDWR)
    second = os.open(file, os.O_RDWR)
    try:
        return places.lock(first) and not places.lock(second)
    finally:
        os.close(first)
        os.close(second)


def _kind_of(folder: Path) -> str | None:
    """The type of the file system that holds a folder, where /proc tells."""
    best, kind = "", None
    try:
        real = str(folder.resolve())
        for line in Path("/proc/self/mounts").read_text().splitlines():
            words = line.split()
            if len(words) < 3:
                continue
            mount = words[1].replace("\\040", " ")
            if (real == mount or real.startswith(mount.rstrip("/") + "/")) and len(mount) >= len(best):
                best, kind = mount, words[2]
    except OSError:
        return None
    return kind


def home_as_tilde(path: Path) -> str:
    """A path with the home folder as ``~``."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)


def affinity(cores: int, allowed: int, quota: float | None) -> Check | None:
    """The CPUs that this process may run on, where that is what limits it most; None where it does not."""
    if allowed >= cores or (quota is not None and quota <= allowed):
        return None
    text = f"{allowed} of {cores} CPUs, by affinity (taskset, a cpuset): more threads than that wait for each other"
    return Check("cpu", "limited", text, f"give a server here -t {allowed}")


def ssh(program: str | None) -> Check:
    """The system's ssh, which `watch USER@HOST` goes through."""
    if program is None:
        return Check("ssh", "missing", "not in PATH; `phasetop watch USER@HOST` needs it", "apt-get install openssh-client")
    return Check("ssh", "ok", "there, for `phasetop watch USER@HOST`")


def machine_checks() -> Iterator[Check]:
    """All of them."""
    if hasattr(os, "sched_getaffinity"):
        held = affinity(os.cpu_count() or 1, len(os.sched_getaffinity(0)), quota_cores())
        if held is not None:
            yield held
    yield ssh(shutil.which("ssh"))
    yield clock()
    yield swap()
    yield disk()
    if sys.platform == "linux":
        yield from (check for check in (heat(), processes()) if check is not None)


def _word(file: Path) -> str | None:
    try:
        return file.read_text().strip() or None
    except OSError:
        return None
