"""All that is sampled beside the stream: this machine's counters, and those of its GPUs."""

from __future__ import annotations

import threading
import time

from phasetop import events as ev
from phasetop.backends.gpu_vendors import GpuSampler, samplers, wanted_names
from phasetop.backends.host import HostSampler
from phasetop.backends.recorder import Recorder


class Samplers:
    """One for the host, one for each vendor of GPUs that is here."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._host = HostSampler(recorder)
        self._gpus: list[GpuSampler] = []

    def start(self, host: ev.Host, *, gpus: bool = True) -> None:
        """Declare the host and sample it; look for GPUs."""
        self._host.start(host)
        if not gpus:
            return
        self._gpus = samplers(self._recorder, wanted_names())
        for gpu in self._gpus:
            self._recorder.listen(gpu.seen)
            gpu.start()

    def watch(self, pid: int, v: int) -> None:
        """The process that does the work of server ``v``."""
        self._host.watch(pid, v)
        for gpu in self._gpus:
            gpu.watch(pid, v)

    def set_hz(self, hz: float) -> None:
        """The rate of the host's samples, 0.2 to 20 a second (a GPU's is its driver's to bear)."""
        self._host.set_hz(hz)

    def settle(self, limit_s: float) -> None:
        """Wait until each GPU's driver has told what it has, or why it tells nothing; one that does not is a finding."""
        end = time.monotonic() + limit_s
        for gpu in self._gpus:
            settled = getattr(gpu, "settled", None)  # another vendor's sampler may have none
            if isinstance(settled, threading.Event) and not settled.wait(max(0.0, end - time.monotonic())):
                text, todo = f"the GPU's driver has not answered within {limit_s:g} s", "see what dmesg says of it"
                name = str(getattr(gpu, "check", "gpu"))
                t = self._recorder.now()
                self._recorder.emit(ev.Finding(t=t, name=name, state="broken", text=text, todo=todo))

    def stop(self) -> None:
        """A last reading, and the end."""
        for gpu in self._gpus:
            gpu.stop()
        self._host.stop()
