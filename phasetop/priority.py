"""Drawing at a lower priority than everything it watches.

The threads of a server on this machine's CPU meet at barriers: one that is held up holds all. So the view steps back, but
only after it has started the collector, which inherits what its parent has at that moment, and must not be held up itself.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Final

STARTING: Final = 10
"""While the view is loaded: it should still come up on a busy machine."""
DRAWING: Final = 19
"""Once it stands: it lives on what the server leaves."""


LOOKING: Final = 5
"""Of the start screen's collector: behind the screen, yet with a quarter of a server's share on a machine that is full."""

CPU_HZ: Final = 5.0
"""Frames a second where the model runs on this machine's CPU: half the frames cost its decode half as much."""

_GPU_FILES: Final = ("/dev/nvidiactl", "/dev/kfd", "/dev/dri/renderD128", "/dev/dxg")


def has_gpu() -> bool:
    """Whether a GPU's device file is here (a server may use it); elsewhere than on Linux nobody looks."""
    return not sys.platform.startswith("linux") or any(os.path.exists(path) for path in _GPU_FILES)


def step_back_thread(nice: int = STARTING) -> None:
    """Lower this thread alone, beside others that stamp; only Linux gives a thread a priority of its own."""
    if sys.platform.startswith("linux"):
        try:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)
        except OSError:
            pass


def step_back(nice: int) -> None:
    """Take at most the priority ``nice`` (0 to 19) from here on; where that cannot be done, nothing changes."""
    try:
        os.nice(max(0, nice - os.nice(0)))
    except OSError:
        pass
