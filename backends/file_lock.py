"""One process at a time for a file: a lock beside it that leaves nothing behind."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone(path: Path, wait: Callable[[], None]) -> Iterator[None]:
    """Hold the file's lock, so that one process fetches it; ``wait`` is called again and again while another does."""
    lock = path.with_name(f".{path.name}.lock")
    try:
        import fcntl
    except ImportError:  # Windows
        import filelock

        other = filelock.FileLock(lock)
        while True:
            try:
                other.acquire(timeout=0)
                break
            except filelock.Timeout:
                wait()
        try:
            yield
        finally:
            other.release()
        return
    while True:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if not isinstance(error, BlockingIOError):
                raise
            wait()
            continue
        if _is_still(lock, fd):
            break
        os.close(fd)  # its last holder removed it meanwhile: the name is somebody else's
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(fd)


def _is_still(path: Path, fd: int) -> bool:
    """Whether an open file is the one that its name leads to."""
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except OSError:
        return False
