"""The read test of the memory, where it is kept, and the peaks that a session begins with."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import psutil
import pytest

from phasetop import bandwidth_file
from phasetop import events as ev
from phasetop.backends import bandwidth, peaks
from phasetop.bandwidth_file import ReadTest
from phasetop.cli import main
from phasetop.lifeline import Start

if TYPE_CHECKING:
    from tests.conftest import Collected, Home

TEST = ReadTest("EPYC", 2, 2, 48, 20e9, 15e9, 10e9, "2026-11-30")


def test_a_test_reads_all_its_memory_in_every_thread() -> None:
    test = bandwidth.measure("EPYC", threads=2, rounds=4, total_bytes=32 << 20)
    assert (test.cpu, test.threads, test.rounds) == ("EPYC", 2, 4)
    assert 1e7 < test.low_bytes_per_s <= test.median_bytes_per_s <= test.best_bytes_per_s < 1e13
    size = 4 << 20
    memory, address = bandwidth._buffer(size)
    assert memory[:] == b"\1" * size  # pages of its own, not the one page of zeros
    one, two = bandwidth._loops(size)
    assert one(address) is None  # nothing found: it looked to the end
    memory[size - 1] = 0
    assert one(address) == address + size - 1
    assert two(address) != 0  # the halves differ in their last byte alone


def test_a_round_lasts_from_the_first_begin_to_the_last_end() -> None:
    gate = threading.Event()
    seen: list[int] = []

    def loop(address: int) -> None:
        seen.append(address)
        if address == 1:
            gate.set()
        else:
            assert gate.wait(10)

    assert bandwidth._round(loop, [1, 2, 3]) > 0
    assert sorted(seen) == [1, 2, 3]


def test_the_memory_is_larger_than_the_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "sys/devices/system/cpu/cpu0/cache"
    for index, size in enumerate(("32K", "1M", "256M", "soon")):
        (folder / f"index{index}").mkdir(parents=True)
        (folder / f"index{index}" / "size").write_text(size + "\n")
    assert bandwidth.largest_cache_bytes(tmp_path) == 256 << 20
    assert bandwidth.largest_cache_bytes(tmp_path / "nowhere") == 0
    monkeypatch.setattr(bandwidth, "largest_cache_bytes", lambda: 256 << 20)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("M", (), {"available": 64 << 30})())
    assert bandwidth._enough() == 1 << 30
    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("M", (), {"available": 100 << 20})())
    with pytest.raises(bandwidth.TestFailed, match="256 MiB"):
        bandwidth._enough()


def test_what_is_kept_is_this_machines(state_home: Home) -> None:
    assert bandwidth_file.kept("EPYC", 2) is None
    bandwidth_file.keep(TEST)
    assert bandwidth_file.path().parent == state_home.state / "phasetop"
    assert bandwidth_file.kept("EPYC", 2) == TEST
    assert bandwidth_file.kept("EPYC", 4) is None  # another share of it
    assert bandwidth_file.kept("Xeon", 2) is None
    assert TEST.source == "estimate: read test of 2026-11-30, 2 threads, the best of 48 rounds (10 to 20 GB/s)"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"cpu":"EPYC"}', json.dumps({**msgspec.to_builtins(TEST), "low_bytes_per_s": -1})]
)
def test_a_file_that_is_damaged_is_none(state_home: Home, text: str) -> None:
    bandwidth_file.keep(TEST)
    bandwidth_file.path().write_text(text)
    assert bandwidth_file.kept("EPYC", 2) is None


def test_a_test_on_a_busy_machine_is_remembered_as_one(state_home: Home) -> None:
    assert state_home.state.is_dir()
    busy = ReadTest("EPYC", 2, 2, 48, 4e9, 1.9e9, 1.31e9, "2026-11-30")  # the median below half of the best
    assert busy.disturbed
    assert not TEST.disturbed
    bandwidth_file.keep(busy)
    kept = peaks.peaks_of(ev.Host(cpu="EPYC", cores=2), {}, 5)
    assert kept is not None
    assert kept.peak_bytes_per_s is not None
    assert bandwidth_file.was_disturbed(kept.peak_bytes_per_s.source)
    assert not bandwidth_file.was_disturbed(TEST.source)
    assert kept.peak_bytes_per_s.source == (
        "estimate: read test of 2026-11-30 while other programs were busy, 2 threads, the best of 48 rounds (1.31 to 4 GB/s)"
    )


def test_given_peaks_win_over_what_was_measured(state_home: Home) -> None:
    host = ev.Host(cpu="EPYC", cores=2)
    assert state_home.state.is_dir()
    assert peaks.peaks_of(host, {}, 5) is None
    bandwidth_file.keep(TEST)
    measured = peaks.peaks_of(host, {"bytes_per_s": None}, 5)
    assert measured is not None
    assert measured.peak_bytes_per_s == ev.Sourced(20e9, TEST.source)
    given = peaks.peaks_of(host, {"bytes_per_s": 4e11, "flops": 1e14}, 5)
    assert given is not None
    assert given.peak_bytes_per_s == ev.Sourced(4e11, "given")
    assert given.peak_flops == {"fp16": ev.Sourced(1e14, "given")}


def test_the_collector_measures_when_it_is_told_to(collect: Callable[..., Collected]) -> None:
    one = collect(Start(target=None))
    command = one.lifeline.measure()
    answer = one.until(lambda s: next((c for c in s.controls.items if c.id == command), None))
    assert answer.ok, answer.why
    found = next(each for each in one.session.findings.items if each.name == "bandwidth")
    assert found.state in ("ok", "limited")
    host = one.session.devices[0].at()
    assert host is not None
    assert host.peak_bytes_per_s is not None
    assert host.mem_bytes  # what was known before stays
    kept = bandwidth_file.kept(host.name, os.cpu_count())
    assert kept is not None
    assert kept.best_bytes_per_s == host.peak_bytes_per_s.value
    again = collect(Start(target=None))
    began = again.until(lambda s: 0 in s.devices and (d := s.devices[0].at()) and d.peak_bytes_per_s)
    assert began.source == kept.source


def test_a_session_begins_with_given_peaks(collect: Callable[..., Collected]) -> None:
    one = collect(Start(target=None, peak_bytes_per_s=5e11, peak_flops=1e14))
    peak = one.until(lambda s: 0 in s.devices and (d := s.devices[0].at()) and d.peak_bytes_per_s)
    assert (peak.value, peak.source) == (5e11, "given")


def test_the_doctor(state_home: Home, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert state_home.state.is_dir()
    monkeypatch.setenv("PATH", "")
    assert main(["doctor", "--json"]) == 0
    found: dict[str, Any] = json.loads(capfd.readouterr().out)
    assert {"checks", "metrics"} == found.keys()
    assert all({"id", "state", "text", "todo"} == check.keys() for check in found["checks"])
    own = next(metric for metric in found["metrics"] if metric["name"] == "host.peak_bytes_per_s")
    assert own["source"] is None
    assert "doctor --measure-bandwidth" in own["why_not_better"]
    assert main(["doctor"]) == 0
    out = capfd.readouterr().out
    assert "embedded" in out
    assert "the CPU's bandwidth was not measured" in out
