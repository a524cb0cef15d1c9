"""The process that asks NVML, against a false driver: every metric's ways, every error, MIG, sleep, loss, a hang."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from phasetop.backends.nvml_lines import Order
from phasetop.backends.nvml_ticks import NvmlTicks

if TYPE_CHECKING:
    from tests.backends.gpu.conftest import Child, FakeNvml

    Start = Callable[[], Child]

ALL = (
    *("sm_percent", "dram_percent", "memory_busy_percent", "power_w", "energy_uj", "sm_mhz", "memory_mhz", "throttle"),
    *("pcie_rx_bytes", "pcie_tx_bytes", "nvlink_rx_bytes", "nvlink_tx_bytes", "temperature_c", "memory_used_bytes"),
)
NEEDS_GPM = "needs GPM: Hopper, or GeForce from Blackwell on"


def told(*names: str, g: int = 0) -> Callable[[list[Any]], bool]:
    """All these metrics were announced, and what was read with them was printed."""

    def done(lines: list[Any]) -> bool:
        there = {(line["g"], line["name"]) for line in lines if line["k"] == "metric"}
        return {(g, name) for name in names} <= there and lines[-1]["k"] != "metric"

    return done


def word(code: str) -> Callable[[list[Any]], bool]:
    return lambda lines: any(line["k"] == "word" and line["code"] == code for line in lines)


def after(child: Child, name: str, count: int = 1, g: int = 0) -> list[Any]:
    """Values of a metric that come after this moment."""
    before = len(child.values(name, g))
    child.until(lambda _: len(child.values(name, g)) >= before + count)
    return child.values(name, g)[before:]


def test_a_gpu_without_gpm(start: Start) -> None:
    child = start()
    child.until(told(*ALL))
    gpu = next(line for line in child.lines if line["k"] == "gpu")
    assert (gpu["uuid"], gpu["name"], gpu["index"], gpu["pci"], gpu["driver"]) == (
        *("GPU-fake-0", "NVIDIA H100 80GB HBM3", 0, "00000000:01:00.0", "610.43"),
    )
    assert gpu["mem_bytes"] == 85520809984
    assert gpu["peak_bytes_per_s"] == 5120 / 8 * 2619e6 * 2 == 3.35232e12
    assert gpu["peak_source"] == "NVML: bus 5120 bit x 2619 MHz"
    child.rest()
    metrics = child.metrics()
    assert metrics[0, "sm_percent"]["source"] == "NVML: share of time in which any kernel ran"
    assert metrics[0, "memory_busy_percent"]["source"] == "mem-ctrl"
    assert metrics[0, "dram_percent"]["off"] == NEEDS_GPM
    assert {name for (_, name), line in metrics.items() if "off" in line} == {
        *("dram_percent", "nvlink_rx_bytes", "nvlink_tx_bytes"),
    }
    for name, value in {
        "sm_percent": 97,
        "memory_busy_percent": 41,
        "power_w": 350.0,
        "sm_mhz": 1755,
        "memory_mhz": 2619,
        "throttle": 0,
        "temperature_c": 61,
        "memory_used_bytes": 5_000_000_000,
        "pcie_rx_bytes": 1000,
    }.items():
        assert set(child.values(name)) == {value}, name
    energy = child.values("energy_uj")
    assert all(isinstance(value, int) for value in energy)
    assert energy == sorted(energy)
    samples = [line for line in child.lines if line["k"] == "smp"]
    assert all(0 <= line["t"] - line["t0"] < 10e9 for line in samples)


def test_a_gpu_with_gpm(fake: FakeNvml, start: Start) -> None:
    fake.set({"gpm": 1, "gpm.60": 100.0, "fail.field.197": 3, "fail.field.198": 3})
    child = start()
    child.until(told(*ALL))
    after(child, "dram_percent", 2)
    child.rest()
    metrics = child.metrics()
    assert {metrics[0, name]["source"] for name in ("sm_percent", "dram_percent", "pcie_rx_bytes", "nvlink_rx_bytes")} == {
        "GPM"
    }
    assert not any("off" in line for line in metrics.values())
    assert set(child.values("sm_percent")) == {98.25}
    assert set(child.values("dram_percent")) == {61.5}
    number = str(metrics[0, "nvlink_rx_bytes"]["m"])
    rows = [(line["t0"], line["t"], line["v"][number]) for line in child.lines if line["k"] == "smp" and number in line["v"]]
    moved, span = rows[-1][2] - rows[0][2], rows[-1][1] - rows[0][1]
    assert moved == pytest.approx(100 * 2**20 * span / 1e9, rel=0.05)  # 100 MiB/s, added up
    assert all(t - t0 > 100_000_000 for t0, t, _ in rows)


@pytest.mark.parametrize(
    ("code", "fate", "why"),
    [
        (2, "off", "not valid for this device"),
        (3, "off", "not supported by this GPU or driver"),
        (4, "off", "no permission"),
        (6, "gap", "nothing newer was measured"),
        (10, "gap", "the driver did not answer in time"),
        (13, "off", "this driver does not know the call"),
        (19, "gap", "the GPU is in use"),
        (21, "gap", "no data"),
        (25, "off", "this driver has another version of the call"),
        (27, "gap", "not ready"),
        (999, "gap", "the driver gives an unknown error"),
        (77, "gap", "NVML error 77"),
    ],
)
def test_each_error_for_each_call(fake: FakeNvml, start: Start, code: int, fate: str, why: str) -> None:
    """An error of every call at once; each metric has it, and none gives a 0."""
    calls = (
        *("UtilizationRates", "FieldValues", "PowerUsage", "TotalEnergyConsumption", "ClockInfo", "Temperature"),
        *("TemperatureV", "CurrentClocksEventReasons", "CurrentClocksThrottleReasons"),
        *("ComputeRunningProcesses_v3", "GraphicsRunningProcesses_v3"),
    )
    fake.set({f"fail.nvmlDeviceGet{call}": code for call in calls})
    child = start()
    names = (
        *("sm_percent", "memory_busy_percent", "power_w", "energy_uj", "sm_mhz", "memory_mhz", "throttle"),
        *("temperature_c", "memory_used_bytes"),
    )
    child.until(told(*names))
    child.until(lambda lines: any(line["k"] == "users" for line in lines))
    child.rest()
    metrics = child.metrics()
    for name in names[:-1]:
        assert not any(value is not None for value in child.values(name)), name
        if fate == "off":
            assert metrics[0, name]["off"] == why, name
        else:
            assert "off" not in metrics[0, name]
            assert child.reasons(name) == {why}, name
    assert set(child.values("memory_used_bytes")) == {5_000_000_000}  # one that fails takes no other with it
    users = next(line for line in child.lines if line["k"] == "users")
    assert users.get("pids") is None
    assert users["why"] == why


@pytest.mark.parametrize(
    ("call", "code", "dark"),
    [
        ("nvmlDeviceGetUtilizationRates", 3, {"sm_percent", "memory_busy_percent"}),
        ("nvmlDeviceGetClockInfo", 3, {"sm_mhz", "memory_mhz"}),
        ("nvmlDeviceGetMemoryInfo", 4, {"memory_used_bytes"}),
        ("nvmlDeviceGetFieldValues", 13, {"pcie_rx_bytes", "pcie_tx_bytes"}),
        ("nvmlDeviceGetTemperatureV", 13, set()),
        ("nvmlDeviceGetCurrentClocksEventReasons", 13, set()),
    ],
)
def test_one_call_fails_and_the_next_way_is_taken(
    fake: FakeNvml, start: Start, call: str, code: int, dark: set[str]
) -> None:
    fake.set({f"fail.{call}": code})
    child = start()
    child.until(told(*ALL))
    child.rest()
    without = {"dram_percent", "nvlink_rx_bytes", "nvlink_tx_bytes"}
    assert {name for (_, name), line in child.metrics().items() if "off" in line} == without | dark
    assert child.values("power_w")[-1] == 350.0
    if call == "nvmlDeviceGetFieldValues":
        assert child.metrics()[0, "power_w"]["source"] == "NVML: the driver's mean, of up to 1 s"
        assert child.values("energy_uj")[-1] > 0


@pytest.mark.parametrize(
    ("knobs", "why"),
    [
        ({"fail.nvmlGpmSampleGet": 4}, "GPM: no permission"),
        ({"fail.nvmlGpmMetricsGet": 3}, "GPM: not supported by this GPU or driver"),
        ({"fail.nvmlGpmQueryDeviceSupport": 13}, NEEDS_GPM),
        ({"fail.nvmlGpmQueryDeviceSupport": 999}, "GPM: the driver gives an unknown error"),
        ({"fail.gpm.10": 3}, "GPM: not supported by this GPU or driver"),
    ],
)
def test_gpm_that_is_refused_leaves_the_rest(fake: FakeNvml, start: Start, knobs: dict[str, object], why: str) -> None:
    fake.set({"gpm": 1, **knobs})
    child = start()
    child.until(told("sm_percent", "dram_percent", "memory_busy_percent"))
    after(child, "sm_percent")
    child.rest()
    assert child.metrics()[0, "dram_percent"]["off"] == why
    alone = "fail.gpm.10" in knobs
    assert child.metrics()[0, "sm_percent"]["source"] == ("GPM" if alone else "NVML: share of time in which any kernel ran")
    assert child.values("sm_percent")[-1] == (98.25 if alone else 97)


def test_gpm_without_a_number_is_a_gap(fake: FakeNvml, start: Start) -> None:
    fake.set({"gpm": 1, "gpm.nan": 1})
    child = start()
    child.until(lambda _: child.reasons("dram_percent"))
    assert child.reasons("dram_percent") == {"GPM gave no number"}
    assert set(child.values("dram_percent")) == {None}


def test_the_border_pairs_give_exact_means(fake: FakeNvml, start: Start) -> None:
    fake.set({"gpm": 1, "gpm.2": 90, "gpm.10": 20})
    child = start()
    child.until(told("sm_percent", "dram_percent"))
    child.order(op="border", r=3, phase="prefill")
    after(child, "sm_percent", 3)
    child.order(op="border", r=3, phase="decode")
    child.until(lambda lines: any(line.get("phase") == "prefill" for line in lines))
    fake.set({"gpm.2": 70, "gpm.10": 60})
    after(child, "sm_percent", 3)
    child.order(op="border", r=3, phase="")
    child.until(lambda lines: any(line.get("phase") == "decode" for line in lines))
    sm, dram = (str(child.metrics()[0, name]["m"]) for name in ("sm_percent", "dram_percent"))
    first, second = (line for line in child.lines if "phase" in line)
    assert (first["r"], first["phase"], first["v"]) == (3, "prefill", {sm: 90, dram: 20})
    assert (second["r"], second["phase"], second["v"]) == (3, "decode", {sm: 70, dram: 60})
    assert abs(first["t"] - second["t0"]) < 1_000_000  # one snapshot ends the one and begins the other
    assert first["t"] - first["t0"] > 100_000_000


def test_a_phase_under_100_ms_gets_no_gpm_figure(fake: FakeNvml, start: Start) -> None:
    fake.set(gpm=1)
    child = start()
    child.until(told("sm_percent"))
    child.order(op="border", r=0, phase="prefill")
    child.order(op="border", r=0, phase="decode")
    child.order(op="border", r=0, phase="")
    assert not [line for line in child.rest() if "phase" in line]


def test_mig_slices(fake: FakeNvml, start: Start) -> None:
    fake.set({"gpm": 1, "mig": 2, "memory.used": 1e9})
    child = start()
    child.until(lambda _: told(*ALL[:8], g=0)(child.lines) and told(*ALL[:8], g=1)(child.lines))
    after(child, "dram_percent", 1, g=1)
    child.rest()
    gpus = [line for line in child.lines if line["k"] == "gpu"]
    assert [gpu["uuid"] for gpu in gpus] == ["MIG-fake-0-0", "MIG-fake-0-2"]
    assert gpus[0]["mem_bytes"] == 85520809984 // 8
    assert gpus[0]["peak_bytes_per_s"] == 3.35232e12 / 8
    assert gpus[0]["peak_source"].startswith("estimate: 1 of 8 memory slices")
    metrics = child.metrics()
    assert metrics[1, "sm_percent"]["source"] == "GPM"
    assert child.values("dram_percent", 1)[-1] == 61.5
    assert metrics[0, "memory_busy_percent"]["off"] == "not supported under MIG"
    assert metrics[0, "energy_uj"]["off"] == "not told for one MIG slice, only for the whole GPU"
    assert child.values("sm_mhz", 1)[-1] == 1755  # the clock is the whole GPU's
    assert "nvmlGpmMigSampleGet" in fake.calls()
    assert "nvmlGpmSampleGet" not in fake.calls()


def test_mig_without_gpm_is_dark_and_never_0(fake: FakeNvml, start: Start) -> None:
    fake.set(mig=1)
    child = start()
    child.until(told("sm_percent", "dram_percent"))
    assert child.metrics()[0, "sm_percent"]["off"] == "not supported under MIG"


def test_eight_gpus(fake: FakeNvml, start: Start) -> None:
    fake.set({"gpus": 8, **{f"util.{i}": 10 * i for i in range(8)}})
    child = start()
    child.until(lambda lines: all(told("sm_percent", g=g)(lines) for g in range(8)))
    after(child, "sm_percent", 1, g=7)
    assert [child.values("sm_percent", g)[-1] for g in range(8)] == [10 * i for i in range(8)]
    sample = [line for line in child.lines if line["k"] == "smp"][-1]
    assert len(sample["v"]) >= 8  # one line for all of them


def test_a_gpu_is_lost_and_comes_back(fake: FakeNvml, start: Start) -> None:
    fake.set(gpus=2)
    child = start()
    child.until(lambda lines: told("sm_percent", g=1)(lines))
    fake.set(lost=2)
    child.until(word("gpu-lost"))
    assert after(child, "sm_percent") == [97]  # the other goes on
    assert child.values("sm_percent", 1)[-1] is None
    assert child.reasons("sm_percent", 1) == {"the GPU fell off the bus"}
    fake.set(lost=None)
    child.until(word("gpu-back"))
    assert after(child, "sm_percent", g=1)[-1] == 97
    assert {line["g"] for line in child.lines if line["k"] == "gpu" and line["uuid"] == "GPU-fake-1"} == {1}


@pytest.mark.parametrize("code", [1, 9, 18])
def test_the_driver_goes_in_mid_run_and_comes_back(fake: FakeNvml, start: Start, code: int) -> None:
    child = start()
    child.until(told("sm_percent"))
    fake.set({"fail.nvmlDeviceGetUtilizationRates": code, "fail.nvmlInitWithFlags": code})
    child.until(word("nvml-broken"))
    fake.set({"fail.nvmlDeviceGetUtilizationRates": None, "fail.nvmlInitWithFlags": None})
    assert after(child, "sm_percent")[-1] == 97


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (9, "the NVIDIA driver is not loaded"),
        (18, "a reboot mends it"),
        (4, "no permission"),
        (999, "device files are gone or broken"),
    ],
)
def test_a_driver_that_cannot_be_opened(fake: FakeNvml, start: Start, code: int, words: str) -> None:
    fake.set({"fail.nvmlInitWithFlags": code})
    child = start()
    child.until(word("nvml-broken"))
    said = next(line for line in child.lines if line["k"] == "word")
    assert words in said["text"]
    assert not said.get("last")
    child.until(lambda lines: sum(line["k"] == "beat" for line in lines) >= 2)  # it lives, and tries again
    fake.set({"fail.nvmlInitWithFlags": None})
    child.until(told("sm_percent"))


def test_no_library(fake: FakeNvml, start: Start) -> None:
    fake.env["LD_LIBRARY_PATH"] = ""
    child = start()
    child.until(word("no-nvml"))
    assert child.lines[-1] == {
        "k": "word",
        "code": "no-nvml",
        "state": "missing",
        "last": True,
        "text": "there is no NVML library (libnvidia-ml.so.1)",
    }
    assert child.process.wait(10) == 0


def test_no_gpu(fake: FakeNvml, start: Start) -> None:
    fake.set(gpus=0)
    child = start()
    child.until(word("no-gpu"))
    assert child.process.wait(10) == 0


def test_a_sleeping_gpu_is_not_woken(fake: FakeNvml, start: Start) -> None:
    folder = fake.pci(0, status="suspended", control="auto")
    child = start()
    child.until(word("gpu-asleep"))
    child.until(lambda lines: sum(line["k"] == "beat" for line in lines) >= 2)
    assert fake.calls() == []
    (folder / "power/runtime_status").write_text("active\n")
    child.until(told("sm_percent"))


def test_the_sleeping_one_of_two_is_left_alone(fake: FakeNvml, start: Start) -> None:
    fake.set(gpus=2)
    fake.pci(0)
    fake.pci(1, status="suspended", control="auto")
    child = start()
    child.until(told("sm_percent"))
    child.rest()
    assert [line["uuid"] for line in child.lines if line["k"] == "gpu"] == ["GPU-fake-0"]
    assert {line.split()[1] for line in fake.calls_file.read_text().splitlines()} == {"-1", "0"}


def test_counters_that_wrap_go_on(fake: FakeNvml, start: Start) -> None:
    top = 2**32
    fake.set({"pcie.rx": top - 5})
    child = start()
    child.until(told("pcie_rx_bytes"))
    fake.set({"pcie.rx": 20})
    child.until(lambda _: child.values("pcie_rx_bytes")[-1] != top - 5)
    assert child.values("pcie_rx_bytes")[-1] == top + 20
    before = child.values("energy_uj")[-1]
    fake.set({"energy.mj": -1e12 / 1e3, "power.mw": 350000})  # the driver began anew
    later = after(child, "energy_uj", 3)
    assert later == sorted(later)
    assert later[0] >= before


@pytest.mark.parametrize("clock", [0, 1, 2])
def test_the_three_clocks_of_the_stamps(fake: FakeNvml, start: Start, clock: int) -> None:
    fake.set(stamps=clock)
    child = start()
    child.until(told("power_w", "energy_uj"))
    assert child.values("power_w") == [350.0]
    fake.set(stale=5)
    child.until(lambda _: child.reasons("energy_uj"))
    assert child.reasons("energy_uj") <= {"stale: the driver's value is 5 s old", "stale: the driver's value is 6 s old"}


def test_unified_memory(fake: FakeNvml, start: Start) -> None:
    (fake.root / "proc").mkdir()
    (fake.root / "proc/meminfo").write_text("MemTotal:       125000000 kB\nMemFree: 1 kB\n")
    fake.set({"name": "NVIDIA GB10", "bus": 0, "memory.mhz": 0, "fail.nvmlDeviceGetMemoryInfo": 3})
    child = start()
    child.until(told("sm_percent", "memory_busy_percent", "memory_used_bytes"))
    gpu = next(line for line in child.lines if line["k"] == "gpu")
    assert gpu["mem_bytes"] == 128_000_000_000
    assert gpu["peak_bytes_per_s"] == 273e9
    assert gpu["peak_source"].startswith("assumed: ")
    assert "whatever happens" in child.metrics()[0, "memory_busy_percent"]["off"]
    assert "the host's" in child.metrics()[0, "memory_used_bytes"]["source"]
    assert child.values("sm_percent")[-1] == 97


def test_thor_says_0_for_ever_and_is_not_believed(fake: FakeNvml, start: Start) -> None:
    fake.set({"name": "NVIDIA Thor", "util": 0})
    child = start()
    child.until(told("sm_percent"))
    assert child.metrics()[0, "sm_percent"]["off"] == "the driver tells no load"
    assert child.values("sm_percent") == []


def test_a_jetson_tells_its_load_in_sysfs(fake: FakeNvml, start: Start) -> None:
    load = fake.root / "sys/devices/platform/17000000.gpu/load"
    load.parent.mkdir(parents=True)
    load.write_text("873\n")
    fake.set({"name": "Orin (nvgpu)", "fail.nvmlDeviceGetUtilizationRates": 3, "bus": 0})
    child = start()
    child.until(told("sm_percent"))
    assert child.metrics()[0, "sm_percent"]["source"] == "sysfs: the GPU's load"
    assert child.values("sm_percent") == [87.3]
    gpu = next(line for line in child.lines if line["k"] == "gpu")
    assert gpu.get("peak_bytes_per_s") is None
    assert gpu["peak_source"]


def test_nonsense_is_a_gap(fake: FakeNvml, start: Start) -> None:
    fake.set({"util": 255, "memory.used": 9e11})
    child = start()
    child.until(told("sm_percent", "memory_used_bytes"))
    assert child.reasons("sm_percent") == {"the driver said 255 %"}
    assert child.reasons("memory_used_bytes") == {"the driver said more than there is"}


def test_who_uses_it(fake: FakeNvml, start: Start) -> None:
    fake.set(pid=4711)
    child = start()
    child.until(lambda lines: any(line["k"] == "users" for line in lines))
    assert [line["pids"] for line in child.lines if line["k"] == "users"] == [[4711]]


def test_the_end_of_stdin_ends_it_even_while_a_call_hangs(fake: FakeNvml, start: Start) -> None:
    child = start()
    child.until(told("sm_percent"))
    fake.set({"hang.nvmlDeviceGetUtilizationRates": 1})
    after(child, "power_w", 0)
    assert child.process.stdin is not None
    child.process.stdin.close()
    assert child.process.wait(10) == 0


def test_sampling_tells_its_cost(start: Start) -> None:
    child = start()
    child.until(lambda lines: any("core_percent" in line for line in lines))
    beat = next(line for line in child.lines if "core_percent" in line)
    assert beat["tick_ms"] > 0
    assert beat["period_ms"] >= 110


def test_over_the_budget_it_reads_half_as_often(fake: FakeNvml, start: Start) -> None:
    fake.set({"slow.us": 2000})
    child = start()
    child.until(lambda lines: sum("core_percent" in line for line in lines) >= 2)
    word = next(line for line in child.lines if line["k"] == "word" and line["code"] != "nvml")
    assert (word["code"], word["state"]) == ("gpu-slow", "limited")
    assert "ms a tick" in word["text"]
    periods = [line["period_ms"] for line in child.lines if "period_ms" in line]
    assert periods[:2] == [220.0, 440.0]


def test_only_the_gpus_in_use_are_read_often(fake: FakeNvml, start: Start) -> None:
    fake.set(gpus=3)
    child = start()
    child.until(lambda lines: all(told(*ALL, g=g)(lines) for g in range(3)))
    child.order(op="focus", uuids=["GPU-fake-1"])
    after(child, "sm_percent", 4, g=1)
    before = len(child.values("sm_percent", 0))
    after(child, "sm_percent", 6, g=1)
    assert len(child.values("sm_percent", 0)) == before
    after(child, "temperature_c", 1, g=0)  # still there


class Stub:
    """A binding whose driver has one GPU that supports nothing."""

    class NVMLError(Exception):
        value = 3

    c_nvmlGpmMetricsGet_t = object

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: object) -> Any:
            self.calls.append(name)
            known = {"nvmlInit": None, "nvmlShutdown": None, "nvmlDeviceGetCount": 1, "nvmlDeviceGetUUID": "GPU-s"}
            if name in known:
                return known[name]
            if name == "nvmlDeviceGetHandleByIndex":
                return "handle"
            raise self.NVMLError

        return call


def test_a_gpu_that_may_sleep_is_let_go_and_taken_again(fake: FakeNvml) -> None:
    fake.pci(0, control="auto")
    stub = Stub()
    written: list[bytes] = []
    ticks = NvmlTicks(stub, written.append, fake.root)
    assert ticks.step()
    assert stub.calls.count("nvmlShutdown") == 0
    ticks._busy_until = 0.0  # no request for a long time
    ticks.step()
    assert stub.calls.count("nvmlShutdown") == 1
    before = len(stub.calls)
    ticks.step()
    assert len(stub.calls) == before  # nothing that would keep it awake
    ticks.obey(Order(op="border", r=0, phase="prefill"))
    ticks.step()
    assert stub.calls.count("nvmlInit") == 2
    assert sum(b'"gpu-released"' in line for line in written) == 1


def test_a_gpu_that_may_not_sleep_is_read_on(fake: FakeNvml) -> None:
    fake.pci(0, control="on")
    stub = Stub()
    ticks = NvmlTicks(stub, lambda _: None, fake.root)
    ticks.step()
    ticks._busy_until = 0.0
    ticks.step()
    assert "nvmlShutdown" not in stub.calls
