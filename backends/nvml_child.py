"""The process that asks NVML, run as ``python -P -m phasetop.backends.nvml_child``: what it reads, it prints as lines.

A call that hangs or a library that crashes ends only this process. Orders come on stdin (`nvml_lines.Order`), and its end is
the collector's death, and this process's. ``--root PATH``: where /sys and /proc lie (for tests).
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from pathlib import Path
from typing import Final

import msgspec

from phasetop.backends import nvml_lines as lines
from phasetop.backends.nvml_ticks import BEAT_S, NvmlTicks

_NICE: Final = 10


def _orders(orders: queue.SimpleQueue[lines.Order]) -> None:
    """Read stdin to its end, which is this process's too, wherever it hangs; a buffered reader would abort its exit."""
    rest = b""
    while data := os.read(0, 4096):
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            try:
                orders.put(lines.decode_order(line))
            except msgspec.DecodeError:
                continue
    os._exit(0)


def _write(data: bytes) -> None:
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError:
        os._exit(0)


def main() -> int:
    """Read until told to stop, or until stdin ends."""
    root = Path(sys.argv[sys.argv.index("--root") + 1]) if "--root" in sys.argv else Path("/")
    try:
        os.nice(_NICE)
    except OSError:
        pass
    orders: queue.SimpleQueue[lines.Order] = queue.SimpleQueue()
    threading.Thread(target=_orders, args=(orders,), daemon=True).start()
    import pynvml

    if not hasattr(pynvml, "nvmlDeviceGetProcessesUtilizationInfo"):
        text = "another package, pynvml, hides nvidia-ml-py: `pip uninstall pynvml`, then install nvidia-ml-py again"
        _write(lines.encode(lines.Word(code="nvml-broken", state="broken", text=text, last=True)))
        return 0
    child = NvmlTicks(pynvml, _write, root)
    due = time.monotonic()
    beat_at = due
    while True:
        try:
            order = orders.get(timeout=max(0.0, due - time.monotonic()))
        except queue.Empty:
            now = time.monotonic()
            if not child.step():
                return 0
            if now >= beat_at:
                child.beat()
                beat_at = now + BEAT_S
            due = max(due + child.period_s, time.monotonic())  # a late tick is skipped, never made up for
            continue
        if not child.obey(order):
            return 0


if __name__ == "__main__":
    sys.exit(main())
