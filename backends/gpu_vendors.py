"""Whose GPUs can be sampled: the built-in vendors, and others by the entry point group ``phasetop.gpus``.

A vendor is a function (recorder) → `GpuSampler`, or None where it has no GPU here. Built-in ones stand in a table. Scanning
entry points costs 78 ms, so it is done only for names that the environment's PHASETOP_GPUS lists (``acme,other``).
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Final, Protocol

from phasetop import events as ev
from phasetop.backends.gpu_presence import amd_is_here, nvidia_is_here
from phasetop.backends.recorder import Recorder

ENTRY_POINTS: Final = "phasetop.gpus"
BUILT_IN: Final[dict[str, tuple[Callable[[], bool], str]]] = {
    "nvidia": (nvidia_is_here, "phasetop.backends.nvml"),
    "amd": (amd_is_here, "phasetop.backends.amd"),
}
"""Vendor → whether its GPUs may be here, and the module whose ``sampler`` looks closer (loaded only then)."""


class GpuSampler(Protocol):
    """Writes `device`, `series` and `smp` events of a vendor's GPUs. Every method may be called from any thread.

    Where it has an attribute ``settled`` (a `threading.Event`), the doctor waits for it: all was told.
    """

    def start(self) -> None:
        """Begin, on a thread or process of its own; returns at once."""
        ...

    def watch(self, pid: int, v: int) -> None:
        """The process of server ``v``, whose GPUs are to be told."""
        ...

    def seen(self, events: Sequence[ev.Event]) -> None:
        """Events as they are written, on the thread that stamps them: to be quick, and to raise nothing."""
        ...

    def stop(self) -> None:
        """A last reading, and the end; takes half a second at most."""
        ...


Vendor = Callable[[Recorder], GpuSampler | None]


def wanted_names() -> list[str]:
    """Vendors that the environment asks for, beside the built-in ones."""
    return [name for name in os.environ.get("PHASETOP_GPUS", "").replace(",", " ").split() if name not in BUILT_IN]


def samplers(recorder: Recorder, names: Iterable[str] = ()) -> list[GpuSampler]:
    """A sampler for each vendor with GPUs here: the built-in ones and ``names``. One that cannot be had is a notice."""
    found: list[GpuSampler] = []
    for name in (*(each for each, (is_here, _) in BUILT_IN.items() if is_here()), *names):
        try:
            one = _vendor(name)
            made = one(recorder) if one is not None else None
        except Exception as error:  # somebody else's code
            traceback.print_exc()
            recorder.notice("gpu-vendor", f"GPUs of {name} cannot be sampled: {type(error).__name__}", level="warn")
            continue
        if one is None:
            text = f"PHASETOP_GPUS names {name}, which nobody brings (built in: {', '.join(BUILT_IN)})"
            recorder.notice("gpu-vendor", text, level="warn")
        elif made is not None:
            found.append(made)
    return found


def _vendor(name: str) -> Vendor | None:
    if name in BUILT_IN:
        return import_module(BUILT_IN[name][1]).sampler  # type: ignore[no-any-return]
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINTS, name=name):
        return point.load()  # type: ignore[no-any-return]
    return None
