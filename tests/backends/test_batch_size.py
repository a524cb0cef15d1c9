"""Which batch a measured speed allows, and what is remembered of it; how many cores there are."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop.backends import batch_size
from phasetop.backends.batch_size import Measured, recall, remember
from phasetop.backends.cgroup import limits_of
from phasetop.backends.cores import usable_cores

if TYPE_CHECKING:
    from tests.conftest import Metronome


@pytest.mark.parametrize(
    ("ms_per_token", "batch"),
    [(0.01, 512), (1.953, 512), (1.954, 256), (3.9, 256), (3.91, 128), (7.8, 128), (31.2, 32), (31.3, 32), (500.0, 32)],
)
def test_batch_for_a_speed(ms_per_token: float, batch: int) -> None:
    assert Measured(ms_per_token).batch == batch


@given(ms=st.floats(0.001, 31.25))
def test_a_batch_takes_at_most_a_second_and_twice_it_would_not(ms: float) -> None:
    batch = Measured(ms).batch
    assert batch * ms <= 1000
    assert batch == 512 or 2 * batch * ms > 1000


def test_remembers_for_a_week(tmp_path: Path) -> None:
    store = tmp_path / "state" / "batches.json"
    assert recall(store, "a") is None
    remember(store, "a", Measured(3.25), now=1000.0)
    remember(store, "b", Measured(125.0, at_least=True), now=1000.0)
    assert recall(store, "a", now=1001.0) == Measured(3.25)
    assert recall(store, "b", now=1001.0) == Measured(125.0, at_least=True)
    assert recall(store, "a", now=1000.0 + 7 * 86_400) is None
    assert recall(store, "a", now=999.0) is None  # the clock went back
    assert [file.name for file in store.parent.iterdir()] == ["batches.json"]


def test_remembers_the_newest_64(tmp_path: Path) -> None:
    store = tmp_path / "batches.json"
    for i in range(70):
        remember(store, str(i), Measured(1.0))
    remember(store, "10", Measured(2.0))
    assert list(json.loads(store.read_text())) == [*(str(i) for i in range(6, 70) if i != 10), "10"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"a": 1}', '{"a": {"at": "x"}}', '{"a": {"at": 5}}', '{"a": null}'])
def test_a_spoilt_store_only_means_measuring_again(tmp_path: Path, content: str) -> None:
    store = tmp_path / "batches.json"
    store.write_text(content)
    assert recall(store, "a", now=6.0) is None
    remember(store, "b", Measured(1.0), now=6.0)
    assert recall(store, "b", now=7.0) == Measured(1.0)


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    remember(tmp_path / "file" / "batches.json", "a", Measured(1.0))
    assert recall(tmp_path / "file" / "batches.json", "a") is None


def test_key_tells_files_and_threads_apart(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(b"GGUF")
    os.utime(file, ns=(5, 5))
    keys = {
        batch_size.key(file, {"threads": 1}),
        batch_size.key(file, {"threads": 2}),
        batch_size.key(file, {"gpu_layers": 9}),
    }
    os.utime(file, ns=(6, 6))
    keys.add(batch_size.key(file, {"threads": 1}))
    assert len(keys) == 4


def test_nobody_there_or_another_kind_of_server(metronome: Callable[..., Metronome], free_port: int) -> None:
    assert batch_size.measure("127.0.0.1", free_port) is None
    assert batch_size.measure("127.0.0.1", metronome(tokens=1, prefill_ms=0, rate=1000).port) is None  # a stream, no JSON


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4.0),
        ({"cpu.max": "garbage"}, None),
        ({"cpu.max": "1 0"}, None),
        ({}, None),
    ],
)
def test_cgroup_quota(tmp_path: Path, files: dict[str, str], cores: float | None) -> None:
    for name, text in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert limits_of(root=tmp_path).cores == cores


@pytest.mark.parametrize(("quota", "cores"), [(0.5, 1), (1.5, 1), (2.0, 2), (64.0, 4), (None, 4)])
def test_usable_cores(monkeypatch: pytest.MonkeyPatch, quota: float | None, cores: int) -> None:
    monkeypatch.setattr("phasetop.backends.cores.quota_cores", lambda: quota)
    monkeypatch.setattr("phasetop.backends.cores.psutil.cpu_count", lambda logical: 4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    assert usable_cores() == cores
