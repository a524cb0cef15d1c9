"""What the kernel keeps in files: cgroup limits of both versions, throttling, swap, RAPL, heat; and that runs tell it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from phasetop.backends.cgroup import limits_of, throttled_ns, used_bytes
from phasetop.backends.host import cores_used
from phasetop.backends.host_counters import (
    Rapl,
    allowed_cores,
    file_rss_bytes,
    frequency_files,
    frequency_mhz,
    swapped_in_bytes,
    thermal_files,
    thermal_throttled_ns,
)
from phasetop.backends.host_series import Cores, often
from phasetop.recording import load

if TYPE_CHECKING:
    from tests.conftest import Home, Metronome

Beat = Callable[..., "Metronome"]


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


V2 = "sys/fs/cgroup"


def test_the_narrowest_group_of_version_2_counts(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/42/cgroup": "0::/user.slice/run-1.scope/inner\n",
            f"{V2}/cgroup.controllers": "cpu memory\n",
            f"{V2}/user.slice/cpu.max": "400000 100000\n",
            f"{V2}/user.slice/memory.max": "8000000000\n",
            f"{V2}/user.slice/run-1.scope/cpu.max": "150000 100000\n",
            f"{V2}/user.slice/run-1.scope/memory.max": "max\n",
            f"{V2}/user.slice/run-1.scope/cpu.stat": "nr_periods 4567\nnr_throttled 3115\nthrottled_usec 1234567\n",
            f"{V2}/user.slice/run-1.scope/inner/cpu.max": "max 100000\n",
        },
    )
    limits = limits_of(42, tmp_path)
    assert (limits.cores, limits.memory_bytes) == (1.5, 8_000_000_000)
    assert limits.throttle_file is not None
    assert throttled_ns(limits.throttle_file) == 1_234_567_000
    assert limits.memory_folder == tmp_path / V2 / "user.slice"
    assert limits_of(43, tmp_path).cores is None
    write(tmp_path, {f"{V2}/user.slice/cpu.max": "120000 100000\n"})
    assert limits_of(42, tmp_path).cores == 1.2  # now the one above is narrower


def test_version_1(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/42/cgroup": "4:memory:/box\n3:cpu,cpuacct:/box/deep\n0::/\n",
            f"{V2}/cpu,cpuacct/box/deep/cpu.cfs_quota_us": "200000\n",
            f"{V2}/cpu,cpuacct/box/deep/cpu.cfs_period_us": "100000\n",
            f"{V2}/cpu,cpuacct/box/deep/cpu.stat": "nr_periods 10\nnr_throttled 2\nthrottled_time 777\n",
            f"{V2}/memory/memory.limit_in_bytes": "9223372036854771712\n",
            f"{V2}/memory/box/memory.limit_in_bytes": "1073741824\n",
            f"{V2}/memory/box/memory.usage_in_bytes": "900000000\n",
            f"{V2}/memory/box/memory.stat": "cache 1\ntotal_inactive_file 300000000\n",
        },
    )
    limits = limits_of(42, tmp_path)
    assert (limits.cores, limits.memory_bytes) == (2.0, 1 << 30)
    assert limits.throttle_file is not None
    assert throttled_ns(limits.throttle_file) == 777
    assert limits.memory_folder is not None
    assert used_bytes(limits.memory_folder) == 600_000_000


def test_in_a_container_the_root_is_the_group(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/../../kubepods/pod1\n",
            f"{V2}/cgroup.controllers": "cpu\n",
            f"{V2}/cpu.max": "50000 100000\n",
            f"{V2}/memory.max": "1000\n",
            f"{V2}/memory.current": "900\n",
            f"{V2}/memory.stat": "anon 5\ninactive_file 100\n",
        },
    )
    limits = limits_of(root=tmp_path)
    assert (limits.cores, limits.memory_bytes) == (0.5, 1000)
    assert limits.memory_folder is not None
    assert used_bytes(limits.memory_folder) == 800


def test_what_is_not_there_is_unknown(tmp_path: Path) -> None:
    limits = limits_of(root=tmp_path)
    assert (limits.cores, limits.throttle_file, limits.memory_bytes, limits.memory_folder) == (None, None, None, None)
    assert throttled_ns(tmp_path / "cpu.stat") is None
    assert used_bytes(tmp_path) is None
    assert swapped_in_bytes(tmp_path) is None
    assert frequency_mhz(frequency_files(tmp_path)) is None
    assert thermal_throttled_ns(tmp_path) is None
    assert file_rss_bytes(1, tmp_path) is None


def test_swap_frequency_heat_and_mapped_weights(tmp_path: Path) -> None:
    cpu = "sys/devices/system/cpu"
    write(
        tmp_path,
        {
            "proc/vmstat": "pswpin 12\npswpout 99\nzswpin 7\n",
            f"{cpu}/cpu0/cpufreq/scaling_cur_freq": "3000000\n",
            f"{cpu}/cpu1/cpufreq/scaling_cur_freq": "2000000\n",
            f"{cpu}/cpu0/thermal_throttle/package_throttle_total_time_ms": "5\n",
            f"{cpu}/cpu1/thermal_throttle/package_throttle_total_time_ms": "17\n",
            "proc/42/status": "VmRSS:\t 200 kB\nRssAnon:\t 50 kB\nRssFile:\t 150 kB\n",
        },
    )
    assert swapped_in_bytes(tmp_path) == 12 * os.sysconf("SC_PAGE_SIZE")
    assert frequency_mhz(frequency_files(tmp_path)) == 2500
    assert thermal_throttled_ns(tmp_path) == 17_000_000
    assert file_rss_bytes(42, tmp_path) == 150 * 1024


def test_rapl_adds_packages_and_goes_on_over_its_wrap(tmp_path: Path) -> None:
    zones = "sys/class/powercap"
    files = {f"{zones}/intel-rapl:{i}/name": f"package-{i}\n" for i in (0, 1)}
    files |= {f"{zones}/intel-rapl:{i}/max_energy_range_uj": "1000\n" for i in (0, 1)}
    files |= {f"{zones}/intel-rapl:{i}/energy_uj": "900\n" for i in (0, 1)}
    files |= {f"{zones}/intel-rapl:0:0/name": "core\n", f"{zones}/intel-rapl:2/name": "psys\n"}
    write(tmp_path, files)
    rapl = Rapl.find(tmp_path)
    assert rapl.off is None
    assert rapl.read() == 0
    write(tmp_path, {f"{zones}/intel-rapl:0/energy_uj": "950\n", f"{zones}/intel-rapl:1/energy_uj": "30\n"})
    assert rapl.read() == 50 + 130
    (tmp_path / zones / "intel-rapl:1/energy_uj").unlink()
    assert rapl.read() is None


def test_rapl_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    assert Rapl.find(tmp_path).off == "the CPU tells no energy here (no RAPL: a virtual machine, or another CPU)"
    write(tmp_path, {"sys/class/powercap/intel-rapl:0/name": "package-0\n"})
    assert Rapl.find(tmp_path).off == "RAPL is readable by root only"


def test_cores_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def times(*rows: tuple[float, float]) -> list[object]:
        return [psutil._psplatform.scputimes(*([user, 0, 0, idle] + [0] * 6)) for user, idle in rows]

    if sys.platform != "linux":
        pytest.skip("the fields are Linux's")
    now = times((0, 0), (0, 0))
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: now)
    cores = Cores()
    now = times((1, 3), (4, 0))
    assert [cores.reader(i)() for i in range(2)] == [25.0, 100.0]
    now = times((1, 3), (4, 4))
    assert [cores.reader(i)() for i in range(2)] == [None, 0.0]  # no time went by for the first


def test_affinity() -> None:
    assert allowed_cores(os.getpid()) == len(os.sched_getaffinity(0))
    assert allowed_cores(2**22 + 1) is None


def test_a_run_tells_what_the_host_did(state_home: Home, metronome: Beat) -> None:
    url = metronome(rate=40, tokens=40, prefill_ms=600, prompt=20).url
    done = subprocess.run(
        [sys.executable, "-m", "phasetop", "run", url, "-p", "hi", "--json", "--record=r"],
        env=state_home.env,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    told = json.loads(done.stdout)
    decode = told["host"]["phases"]["decode"]
    assert decode["swap_in_bytes"] == 0 or decode["swap_in_bytes"] > 0
    assert (decode["energy_j"] is None) == ("host.phases.decode.energy_j" in told["unknown"])
    assert decode["major_faults"] is not None
    limits = limits_of()
    assert told["host"]["cpu_quota_cores"] == limits.cores
    assert told["host"]["memory_total_bytes"] <= psutil.virtual_memory().total
    session = load(state_home.state / "phasetop/recordings/r.phasetop")
    infos = [info for samples in session.samples.values() if (info := samples.info.at()) is not None]
    assert {"swap_in_bytes", "energy_uj", "load_1m", "server_cpus", "server_file_rss_bytes"} <= {i.name for i in infos}
    cpus = session.series("server_cpus", v=0)
    assert cpus is not None
    assert cpus.value[0] == len(os.sched_getaffinity(0))
    off = {info.name for info in infos if info.off}
    assert off <= {"energy_uj", "swap_in_bytes", "thermal_throttled_ns"}


def test_heat_is_read_once_a_package_and_counts_the_hottest(tmp_path: Path) -> None:
    (cold,) = [each for each in often(tmp_path) if each.name == "thermal_throttled_ns"]
    assert cold.off is not None
    cpu = "sys/devices/system/cpu"
    files = {}
    for core, (package, ms) in enumerate([(0, 4), (0, 4), (1, 9), (1, 9)]):
        files[f"{cpu}/cpu{core}/topology/physical_package_id"] = f"{package}\n"
        files[f"{cpu}/cpu{core}/thermal_throttle/package_throttle_total_time_ms"] = f"{ms}\n"
    write(tmp_path, files)
    assert [file.parent.parent.name for file in thermal_files(tmp_path)] == ["cpu0", "cpu2"]
    (hot,) = [each for each in often(tmp_path) if each.name == "thermal_throttled_ns"]
    assert (hot.off, hot.kind, hot.read()) == (None, "counter", 9_000_000)
    for package, ms, counted in ((0, 6, 11), (1, 10, 12), (0, 5, 12)):  # the other package's 9 ms hide nothing
        core = 2 * package
        (tmp_path / f"{cpu}/cpu{core}/thermal_throttle/package_throttle_total_time_ms").write_text(f"{ms}\n")
        assert hot.read() == counted * 1_000_000


def test_no_more_cores_work_than_there_are() -> None:
    assert cores_used(1.0, 2.0, 2) == 1.0
    assert cores_used(2.04, 2.04, 2) == 2.0  # in a second: ticks that ended a little later than the span
    assert cores_used(2.05, 2.04, 2) == 2.0
    assert cores_used(-0.01, 2.0, 2) == 0.0  # a counter that fell, as iowait's may
    assert cores_used(0.0, 0.0, 2) == 0.0
