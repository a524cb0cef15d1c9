"""A read test of the memory: how many bytes a second all CPUs together can read, which is what bounds decode on a CPU.

Threads search memory that is far larger than any cache for bytes that are not there, by the C library's memchr and memcmp:
vectorised loops that do nothing but read, and that run without Python's lock. The best round counts: a ceiling is what can
be reached, and whatever else runs meanwhile only takes from it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from statistics import median
from typing import Final

import psutil

from phasetop.bandwidth_file import ReadTest

ROUNDS: Final = 48
LEAST_BYTES: Final = 256 << 20
MOST_BYTES: Final = 4 << 30
_CACHES: Final = 4
"""The memory that is read is so many times the largest cache."""
_PATIENCE_S: Final = 15.0


class TestFailed(Exception):
    """The memory for the test is not there."""


def measure(
    cpu: str | None, *, threads: int | None = None, rounds: int = ROUNDS, total_bytes: int | None = None
) -> ReadTest:
    """Read memory for some seconds with as many threads as there are CPUs for this process.

    Args:
        cpu: the processor's name, to know later whose test it is.
        threads: so many instead.
        rounds: how often; half of them by each of the two loops.
        total_bytes: read by all threads in a round; None: four times the largest cache.

    Raises:
        TestFailed: there is not that much free memory.
    """
    cpus = os.cpu_count() or 1
    if threads is None:
        threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cpus
    size = (total_bytes if total_bytes is not None else _enough()) // threads // 4096 * 4096
    buffers = [_buffer(size) for _ in range(threads)]
    loops = _loops(size)
    rates: list[float] = []
    deadline = time.monotonic() + _PATIENCE_S
    for n in range(rounds):
        rates.append(threads * size / _round(loops[n % len(loops)], [address for _, address in buffers]))
        if time.monotonic() > deadline:
            break
    return ReadTest(
        cpu=cpu or "",
        cpus=psutil.cpu_count() or cpus,
        threads=threads,
        rounds=len(rates),
        best_bytes_per_s=float(round(max(rates))),
        median_bytes_per_s=float(round(median(rates))),
        low_bytes_per_s=float(round(min(rates))),
        day=date.today().isoformat(),
    )


def _enough() -> int:
    """Four times the largest cache, no more than a quarter of what is free. Raises `TestFailed`."""
    wanted = min(MOST_BYTES, max(LEAST_BYTES, _CACHES * largest_cache_bytes()))
    free = int(psutil.virtual_memory().available) // 4
    if free < LEAST_BYTES // 2:
        raise TestFailed(f"the test needs {LEAST_BYTES >> 20} MiB of free memory")
    return min(wanted, free)


def largest_cache_bytes(root: Path = Path("/")) -> int:
    """The largest CPU cache that the kernel tells of; 0 where it tells none."""
    found = 0
    for file in (root / "sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        try:
            text = file.read_text().strip()
            found = max(found, int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]])
        except (OSError, ValueError, KeyError, IndexError):
            continue
    return found


def _buffer(size: int) -> tuple[mmap.mmap, int]:
    """Memory that is there (written once), in large pages where those can be had, and its address."""
    try:
        memory = mmap.mmap(-1, size)
    except (OSError, ValueError) as error:
        raise TestFailed(f"the test needs {size >> 20} MiB of memory a thread: {error}") from None
    try:
        memory.madvise(mmap.MADV_HUGEPAGE)
    except (AttributeError, OSError):
        pass
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    ctypes.memset(address, 1, size)
    return memory, address


def _loops(size: int) -> list[Callable[[int], object]]:
    """Two ways to read ``size`` bytes at an address: one stream, and two halves side by side."""
    library = ctypes.CDLL(None)
    library.memchr.restype = ctypes.c_void_p
    library.memchr.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    library.memcmp.restype = ctypes.c_int
    library.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    half = size // 2
    return [lambda at: library.memchr(at, 0, size), lambda at: library.memcmp(at, at + half, half)]


def _round(loop: Callable[[int], object], addresses: list[int]) -> float:
    """Seconds from the first thread's begin to the last one's end; they begin together."""
    barrier = threading.Barrier(len(addresses))
    begun: list[float] = []
    ended: list[float] = []

    def work(address: int) -> None:
        barrier.wait()
        begun.append(time.perf_counter())  # by the thread itself: whoever waits may be late
        loop(address)
        ended.append(time.perf_counter())

    workers = [threading.Thread(target=work, args=(address,), daemon=True) for address in addresses]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return max(max(ended) - min(begun), 1e-9)
