"""The sampler when a server's process is replaced: the same quantities go on, and a counter never falls."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from phasetop.backends.host import HostSampler
from phasetop.backends.recorder import Recorder, this_host
from phasetop.recording import load

if TYPE_CHECKING:
    from tests.conftest import Spawn


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not what():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)


def test_a_process_that_is_replaced(tmp_path: Path, spawn: Spawn) -> None:
    path = tmp_path / "s.phasetop"
    pipe, write = os.pipe()
    recorder = Recorder(path, write)
    host = this_host()
    recorder.open("s", [], "run", host)
    sampler = HostSampler(recorder, hz=20)
    sampler.start(host)
    sleep = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    first = spawn(sleep, stdout=subprocess.PIPE)
    second = spawn(sleep, stdout=subprocess.PIPE)
    for each in (first, second):
        assert each.stdout is not None
        each.stdout.readline()

    def samples() -> int:
        session = load(path)
        series = session.series("server_rss_bytes")
        return len(series.t) if series is not None else 0

    sampler.watch(first.pid, 0)
    wait_for(lambda: samples() >= 2)
    first.kill()
    first.wait()
    before = samples()
    sampler.watch(second.pid, 0)
    wait_for(lambda: samples() >= before + 3)
    sampler.stop()
    recorder.close("done")
    os.close(pipe)
    os.close(write)
    session = load(path)
    names = [info.info.at().name for info in session.samples.values()]  # type: ignore[union-attr]
    assert names.count("server_rss_bytes") == 1
    faults = session.series("server_major_faults")
    if faults is not None:
        known = [value for value in faults.value if value == value]
        assert known == sorted(known)
