"""Acme's GPU, which tells how busy it is in a file."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

from phasetop import events as ev
from phasetop.backends.recorder import Recorder


def sampler(recorder: Recorder) -> AcmeGpu | None:
    """What the entry point names: a sampler where such a GPU is here. It is asked where PHASETOP_GPUS names ``acme``."""
    file = Path(os.environ.get("ACME_GPU", "/sys/class/acme/busy"))
    return AcmeGpu(recorder, file) if file.exists() else None


class AcmeGpu:
    """A `phasetop.backends.gpu_vendors.GpuSampler`: a thread that writes `device`, `series` and `smp` events."""

    def __init__(self, recorder: Recorder, file: Path) -> None:
        self._recorder, self._file = recorder, file
        self._d, self._s = recorder.new_id("d"), recorder.new_id("s")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="acme-gpu", daemon=True)
        self._last = recorder.now()

    def start(self) -> None:
        """Say what there is, then begin; returns at once."""
        t = self._recorder.now()
        self._recorder.emit(
            ev.Device(t=t, d=self._d, vendor="acme", name="Acme GPU", index=0),
            ev.Series(t=t, s=self._s, d=self._d, name="sm_percent", unit="%", source="sysfs"),
        )
        self._thread.start()

    def watch(self, pid: int, v: int) -> None:
        """The server's process: which of its GPUs it uses would be told by a `device` event with ``used_by``."""
        self._recorder.emit(ev.Device(t=self._recorder.now(), d=self._d, used_by=[v]))

    def seen(self, events: Sequence[ev.Event]) -> None:
        """Nothing is read at the borders of phases; what would be has to be quick: this is the thread that stamps."""

    def stop(self) -> None:
        """A last reading, and the end."""
        self._over.set()
        self._thread.join(0.5)
        self._read()

    def _run(self) -> None:
        while not self._over.wait(0.1):
            self._read()

    def _read(self) -> None:
        """A value covers the time since the one before it; one that is missing is a gap with its reason, never 0."""
        t, t0 = self._recorder.now(), self._last
        self._last = t
        try:
            value, why = float(self._file.read_text()), {}
        except (OSError, ValueError) as error:
            value, why = None, {str(self._s): type(error).__name__}
        self._recorder.emit(ev.Smp(t=t, t0=t0, v={str(self._s): value}, e=why or None))
