"""GPUs in prefill and decode, from sessions whose figures are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from phasetop.columns import LIVE, Versions
from phasetop.gpuphases import why_none
from phasetop.hostphases import weighed_over
from phasetop.metrics import measure
from phasetop.report import request_object
from phasetop.samples import Samples
from phasetop.summary import lines

if TYPE_CHECKING:
    from phasetop.gpuphases import Gpu
    from tests.core.conftest import Build

MS = 1_000_000
Line = dict[str, Any]
NAMES = (
    *("sm_percent", "memory_busy_percent", "dram_percent", "power_w", "sm_mhz", "temperature_c", "memory_used_bytes"),
    *("energy_uj", "throttle"),
)
FLAGS = {"4": "power cap", "32": "thermal (driver)"}
# Sent at 100 ms, first token at 300 ms, last at 700 ms.
REQUEST: list[Line] = [
    {"k": "server", "t": 0, "v": 0, "backend": "llamacpp", "local": True},
    {"k": "request", "t": 1, "r": 0, "v": 0},
    {"k": "state", "t": 100 * MS, "r": 0, "s": "sent", "at": 100 * MS},
    {"k": "prog", "t": 100 * MS, "r": 0, "total": 10, "cached": 0, "done": 0},
    {"k": "prog", "t": 300 * MS, "r": 0, "total": 10, "cached": 0, "done": 10},
    *({"k": "tok", "t": t * MS, "r": 0, "x": "a"} for t in range(300, 701, 100)),
    {"k": "end", "t": 700 * MS, "r": 0, "finish": "stop"},
]


def card(d: int = 1, **more: Any) -> list[Line]:
    """A GPU and its series: number 10·d and on, in the order of NAMES."""
    device: Line = {"k": "device", "t": 0, "d": d, "vendor": "nvidia", "name": f"GPU {d}", "index": d - 1, "mem_bytes": 80}
    device |= more
    series: list[Line] = [
        {"k": "series", "t": 0, "s": 10 * d + i, "d": d, "name": name, "source": "GPM"} for i, name in enumerate(NAMES)
    ]
    series[8] |= {"type": "flags", "flags": FLAGS}
    series[7] |= {"type": "counter"}
    return [device, *series]


def smp(t0: int, t: int, d: int = 1, **values: Any) -> Line:
    line: Line = {"k": "smp", "t0": t0 * MS, "t": t * MS}
    line |= {key: values.pop(key) for key in ("r", "phase", "e") if key in values}
    return {**line, "v": {str(10 * d + NAMES.index(name)): value for name, value in values.items()}}


def gpus(session_of: Callable[..., Any], *lines: Line, cursor: int = LIVE) -> tuple[tuple[Gpu, ...], dict[str, str]]:
    session = session_of(*lines)
    found = measure(session, session.run(0), cursor)
    return found.gpus, dict(found.unknown)


def test_means_by_overlap(session_of: Build) -> None:
    samples = [smp(0, 200, sm_percent=50, power_w=100), smp(200, 500, sm_percent=90, power_w=300)]
    samples.append(smp(500, 800, sm_percent=30, power_w=200))
    (gpu,), _ = gpus(session_of, *card(), *REQUEST, *samples)
    prefill, decode = gpu.phases["prefill"], gpu.phases["decode"]
    assert prefill.sm_percent == pytest.approx((100 * 50 + 100 * 90) / 200)
    assert decode.sm_percent == pytest.approx((200 * 90 + 200 * 30) / 400)
    assert decode.power_w == pytest.approx(250)
    assert (prefill.coverage, decode.coverage) == (1.0, 1.0)


def test_too_little_is_a_dash_with_its_coverage(session_of: Build) -> None:
    (gpu,), unknown = gpus(session_of, *card(), *REQUEST, smp(100, 300, sm_percent=50), smp(300, 600, sm_percent=50))
    assert gpu.phases["prefill"].sm_percent == 50
    assert gpu.phases["decode"].sm_percent is None
    assert gpu.phases["decode"].coverage == 0.75
    assert unknown["gpus.phases.decode.sm_percent"] == "samples cover 75 % of the phase"


def test_the_exact_mean_wins_where_its_borders_are_the_phase_s(session_of: Build) -> None:
    rough = smp(0, 800, sm_percent=10)
    exact = smp(302, 705, sm_percent=77, r=0, phase="decode")
    (gpu,), _ = gpus(session_of, *card(), *REQUEST, rough, exact)
    assert gpu.phases["decode"].sm_percent == 77
    assert gpu.phases["decode"].coverage == pytest.approx(398 / 400)
    for other in (
        smp(302, 705, sm_percent=77, r=1, phase="decode"),
        smp(302, 705, sm_percent=77, r=0, phase="prefill"),
        smp(302, 1200, sm_percent=77, r=0, phase="decode"),  # the border was not the end of decode
    ):
        (gpu,), _ = gpus(session_of, *card(), *REQUEST, rough, other)
        assert gpu.phases["decode"].sm_percent == 10


def test_energy_is_a_counter_s_growth(session_of: Build) -> None:
    counter = [smp(0, t, energy_uj=t * 1000 * 350) for t in (50, 250, 450, 650, 720)]  # 350 W
    (gpu,), _ = gpus(session_of, *card(), *REQUEST, *counter)
    assert gpu.phases["prefill"].energy_j == pytest.approx(350 * 0.2)
    assert gpu.phases["decode"].energy_j == pytest.approx(350 * 0.4)


def test_a_short_phase_has_no_energy(session_of: Build) -> None:
    short = [dict(line) for line in REQUEST]
    short[2] |= {"t": 250 * MS, "at": 250 * MS}
    short[3] |= {"t": 250 * MS}
    counter = [smp(0, t, energy_uj=t * 1000 * 350) for t in (50, 250, 450, 650, 720)]
    (gpu,), unknown = gpus(session_of, *card(), *short, *counter)
    assert gpu.phases["prefill"].energy_j is None
    assert unknown["gpus.phases.prefill.energy_j"] == "the phase is too short for the energy counter"


def test_throttling_in_words_and_shares(session_of: Build) -> None:
    flags = [smp(0, 300, throttle=0), smp(300, 600, throttle=4), smp(600, 800, throttle=4 + 32 + 2 + 256)]
    (gpu,), _ = gpus(session_of, *card(), *REQUEST, *flags)
    assert gpu.phases["prefill"].throttled == []
    decode = gpu.phases["decode"]
    assert decode.throttle_shares == {"power cap": 1.0, "thermal (driver)": 0.25}
    assert decode.throttled == ["power cap", "thermal (driver)"]


def test_a_bit_that_is_always_set_is_no_throttling(session_of: Build) -> None:
    flags = [smp(0, 90, throttle=1 + 4), smp(90, 800, throttle=4 + 32), smp(800, 900, throttle=1 + 4)]
    (gpu,), _ = gpus(session_of, *card(), *REQUEST, *flags)
    assert gpu.phases["decode"].throttled == ["thermal (driver)"]
    flags[2] = smp(800, 900, throttle=1)  # once at rest without it: it was no constant
    (gpu,), _ = gpus(session_of, *card(), *REQUEST, *flags)
    assert gpu.phases["decode"].throttled == ["power cap", "thermal (driver)"]


def test_what_is_read_once_a_second_stands_for_a_short_phase(session_of: Build) -> None:
    (gpu,), _ = gpus(session_of, *card(), *REQUEST, smp(1650, 1700, temperature_c=61, memory_used_bytes=70))
    assert gpu.phases["decode"].temperature_c == 61
    assert gpu.memory_used_bytes == 70
    (gpu,), unknown = gpus(session_of, *card(), *REQUEST, smp(9000, 9000, temperature_c=61))
    assert gpu.phases["decode"].temperature_c is None
    assert unknown["gpus.phases.decode.temperature_c"] == "no sample is near the phase"


def test_who_uses_it(session_of: Build) -> None:
    lines = [*card(1), *card(2), *card(3), *REQUEST]
    lines += [{"k": "device", "t": 5, "d": 1, "used_by": [0]}, {"k": "device", "t": 5, "d": 2, "used_by": []}]
    found, unknown = gpus(session_of, *lines)
    assert [gpu.in_use for gpu in found] == [True, False, None]
    assert "gpus.in_use" in unknown
    away = [dict(line, local=False) if line["k"] == "server" else line for line in lines]
    assert [gpu.in_use for gpu in gpus(session_of, *away)[0]] == [False, False, False]


def test_each_dash_has_its_reason(session_of: Build) -> None:
    off = {"k": "series", "t": 1, "s": 12, "d": 1, "name": "dram_percent", "off": "needs GPM"}
    gap = smp(300, 700, sm_percent=None, e={"10": "the GPU fell off the bus"})
    (gpu,), unknown = gpus(session_of, *card(), off, *REQUEST, gap)
    assert gpu.phases["decode"].group() == {
        **dict.fromkeys(("sm_percent", "memory_busy_percent", "dram_percent", "power_w", "energy_j", "sm_mhz")),
        "temperature_c": None,
        "throttled": None,
        "coverage_percent": 0.0,
    }
    assert unknown["gpus.phases.decode.dram_percent"] == "needs GPM"
    assert unknown["gpus.phases.decode.sm_percent"] == "the GPU fell off the bus"
    for path in ("power_w", "energy_j", "sm_mhz", "temperature_c", "throttled"):
        assert unknown[f"gpus.phases.decode.{path}"]


def test_the_object_of_run(session_of: Build) -> None:
    peak = {"value": 1.008e12, "from": "NVML: bus 384 bit x 10501 MHz"}
    samples = [smp(0, 800, sm_percent=97.04, dram_percent=61.25, power_w=350.06, sm_mhz=2610.4, throttle=4)]
    session = session_of(*card(peak_bytes_per_s=peak, uuid="GPU-x"), *REQUEST, *samples)
    told = request_object(session, session.run(0), kept_as=None)
    (gpu,) = told["gpus"]
    assert (gpu["index"], gpu["uuid"], gpu["name"], gpu["memory_total_bytes"]) == (0, "GPU-x", "GPU 1", 80)
    assert gpu["peak_bandwidth_bytes_per_s"] == 1.008e12
    assert told["sources"]["gpus.peak_bandwidth_bytes_per_s"] == "NVML: bus 384 bit x 10501 MHz"
    decode = gpu["phases"]["decode"]
    assert decode == {
        "sm_percent": 97.0,
        "memory_busy_percent": None,
        "dram_percent": 61.2,
        "power_w": 350.1,
        "energy_j": None,
        "sm_mhz": 2610,
        "temperature_c": None,
        "throttled": ["power cap"],
        "coverage_percent": 100.0,
    }
    assert told["unknown"]["gpus.phases.decode.memory_busy_percent"]
    assert told["sources"]["gpus.phases.decode.dram_percent"] == "GPM"


def test_no_gpu_and_why(session_of: Build) -> None:
    session = session_of(*REQUEST)
    told = request_object(session, session.run(0), kept_as=None)
    assert told["gpus"] == []
    assert told["unknown"]["gpus"] == "no GPU that can be measured is here"
    finding = {"k": "finding", "t": 3, "name": "nvml", "state": "broken", "text": "the driver is not loaded"}
    assert why_none(session_of(finding), LIVE) == "the driver is not loaded"


def test_as_of_a_cursor(session_of: Build) -> None:
    lines = [*card(), *REQUEST, smp(0, 450, sm_percent=80), smp(450, 800, sm_percent=20)]
    (gpu,), _ = gpus(session_of, *lines, cursor=500 * MS)
    assert gpu.phases["decode"].sm_percent is None  # 150 of 200 ms are covered
    assert gpu.phases["decode"].coverage == 0.75
    (gpu,), _ = gpus(session_of, *lines, cursor=800 * MS)
    assert gpu.phases["decode"].sm_percent == pytest.approx((150 * 80 + 250 * 20) / 400)


def test_what_samples_cover() -> None:
    samples = Samples(Versions())
    for t0, t, value in ((0, 100, 1.0), (150, 200, float("nan")), (200, 300, 3.0)):
        samples.t0.append(t0)
        samples.t.append(t)
        samples.value.append(value)
    assert weighed_over(samples, 50, 250, LIVE) == (50 + 50, 50 * 1.0 + 50 * 3.0)
    assert weighed_over(samples, 400, 500, LIVE) == (0.0, 0.0)


def summary_line(session: Any, label: str) -> str | None:
    found = [line for line in lines(session, session.run(0), None) if line.startswith(label)]
    return found[0] if found else None


def test_the_line_of_the_summary(session_of: Build) -> None:
    peak = {"value": 2.0e12, "from": "NVML: …"}
    used = {"used_by": [0], "peak_bytes_per_s": peak}
    first = smp(0, 800, sm_percent=52.4, dram_percent=30, power_w=310.2)
    second = smp(0, 800, d=2, sm_percent=48, dram_percent=25, power_w=290)
    session = session_of(*card(1, **used), *card(2, **used), *REQUEST, first, second)
    assert summary_line(session, "gpu") == "gpu      52 + 48 % busy · 1,100 GB/s · 600 W"
    assert summary_line(session, "cpu") is None
    idle = session_of(*card(1, **used), *card(2, used_by=[]), *REQUEST, smp(0, 800, sm_percent=97, power_w=380))
    assert summary_line(idle, "gpu") == "gpu      97 % busy · 380 W"
    assert summary_line(session_of(*REQUEST), "gpu") is None


def test_what_holds_a_gpu_in_use_back_is_a_notice(session_of: Build) -> None:
    flags = [smp(0, 300, throttle=0), smp(300, 500, throttle=4), smp(500, 800, throttle=0)]
    session = session_of(*card(used_by=[0]), *REQUEST, *flags)
    told = [(flag.code, flag.text) for flag in measure(session, session.run(0)).flags]
    assert told == [("throttle", "the GPU's clocks were held back in 50 % of decode: power cap")]
    other = session_of(*card(used_by=[]), *REQUEST, *flags)
    assert measure(other, other.run(0)).flags == ()


def test_a_quota_that_stops_the_server_is_a_notice(session_of: Build) -> None:
    series = {"k": "series", "t": 0, "s": 5, "name": "throttled_ns", "type": "counter"}
    counts = (
        {"k": "smp", "t0": t * MS, "t": t * MS, "v": {"5": v * MS}} for t, v in ((50, 0), (300, 0), (700, 160), (800, 160))
    )
    session = session_of(series, *REQUEST, *counts)
    told = [(flag.code, flag.text) for flag in measure(session, session.run(0)).flags]
    assert told == [("throttle", "the CPU quota stopped the server for 0.16 s in decode")]
