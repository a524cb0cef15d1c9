"""The evidence of a verdict, gathered from sessions as a collector writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from phasetop.metrics import measure
from phasetop.report import request_object
from phasetop.verdict import Verdict
from tests.core.roofline_sessions import CARD, HOST, MS, READ, session

if TYPE_CHECKING:
    from tests.core.conftest import Build

QUOTA = {
    "k": "hello",
    "t": 0,
    "format": 1,
    "session": "0",
    "anchor": {"mono": 1, "wall": 1},
    "by": "phasetop 0.3.0",
    "host": {"cores": 8, "cpu_quota_cores": 2.0},
}
THREADS = {"threads": {"value": 8, "from": "argv"}}
CPU_GIVEN = {**HOST, "peak_bytes_per_s": {"value": 1e12, "from": "estimate: read test"}}


def judged(session_of: Build, *devices: dict[str, Any], **more: Any) -> Verdict:
    one = session(session_of, *devices, **more)
    verdict = measure(one, one.runs[0]).verdict
    assert verdict is not None
    assert request_object(one, one.runs[0], kept_as=None)["verdict"] == {"code": verdict.code, "text": verdict.text}
    return verdict


def sampled(s: int, name: str, value: Any, *, d: int = 0, **keys: Any) -> list[dict[str, Any]]:
    """A series and its samples, 20 a second over the request: ``value`` of the moment in ms, or always the same."""
    own = {"k": "series", "t": 1, "s": s, "d": d, "name": name, "source": "NVML", **keys}
    told = value if callable(value) else lambda t: value
    return [
        own,
        *({"k": "smp", "t0": (t - 50) * MS, "t": t * MS, "v": {str(s): told(t)}} for t in range(150, 1200, 50)),
    ]


def test_threads_over_a_quota_that_stops_them(session_of: Build) -> None:
    events = sampled(0, "throttled_ns", lambda t: int(t * MS * 0.68), type="counter")
    said = judged(session_of, HOST, first=(QUOTA,), options=THREADS, events=events)
    assert said.code == "threads-over-quota"
    assert said.text.startswith("8 threads for 2 CPUs of quota, stopped by it for 68 % of decode")


def test_threads_over_an_affinity(session_of: Build) -> None:
    events = sampled(0, "server_cpus", 1, v=0)
    said = judged(session_of, HOST, first=(QUOTA,), options=THREADS, events=events)
    assert said.text.startswith("8 threads for 1 CPU by affinity")
    wide = sampled(0, "server_cpus", 8, v=0)
    assert judged(session_of, CPU_GIVEN, events=wide, options=THREADS).code != "threads-over-quota"


def test_threads_that_the_server_did_not_take_explain_nothing(session_of: Build) -> None:
    events = sampled(0, "throttled_ns", lambda t: int(t * MS * 0.68), type="counter")
    asked = {"threads": 8, "gpu_layers": 99}
    running = {"k": "request", "t": 90 * MS, "r": 0, "applied": {"max_tokens": 64}}  # not restarted for it
    said = judged(session_of, HOST, first=(QUOTA,), asked=asked, events=(*events, running))
    assert said.code != "threads-over-quota"
    assert "8 threads" not in said.text
    said = judged(session_of, HOST, NOBODY, asked=asked, events=(*busy(7.9), running))
    assert "layers" not in said.text


def test_what_the_collectors_own_machine_may_is_nothing_to_a_server_elsewhere(session_of: Build) -> None:
    said = judged(session_of, HOST, first=(QUOTA,), options=THREADS, local=False)
    assert said.code == "limit-unknown"


def test_a_power_cap(session_of: Build) -> None:
    events = sampled(0, "throttle", lambda t: 4 if t > 550 else 0, d=1, type="flags", flags={"4": "power cap"})
    said = judged(session_of, CARD, events=events)
    assert said.code == "gpu-throttled"
    assert said.text.startswith("Decode reads 397 GB/s, 39 % of peak: the power cap was active for ")
    assert 70 <= int(said.text.split(" for ")[1].split()[0]) <= 85


def test_a_sampler_on_one_core(session_of: Build) -> None:
    events = [*sampled(0, "server_cpu_cores", 1.0, v=0), *sampled(1, "sm_percent", 40.0, d=1)]
    assert judged(session_of, CARD, events=events, asked={"top_k": 0}).code == "sampler-bound"
    assert judged(session_of, CARD, events=events, asked={"top_k": 40}).code == "cpu-bound-server"
    told = {"top_k": {"value": 0, "from": "argv"}}
    assert judged(session_of, CARD, events=events, options=told).code == "sampler-bound"
    busy = [*sampled(0, "server_cpu_cores", 1.0, v=0), *sampled(1, "sm_percent", 96.0, d=1)]
    assert judged(session_of, CARD, events=busy, asked={"top_k": 0}).code == "decode-under-bandwidth"


def test_two_cards_of_which_each_is_busy_half_the_time(session_of: Build) -> None:
    events = [
        *sampled(0, "server_cpu_cores", 1.0, v=0),
        *sampled(1, "sm_percent", 47.0, d=1),
        *sampled(2, "sm_percent", 48.0, d=2),
    ]
    said = judged(session_of, CARD, {**CARD, "d": 2}, events=events)
    assert said.code == "gpus-take-turns"
    assert "each moves 20 % of its peak" in said.limit


def test_pcie_and_a_cache_in_ram(session_of: Build) -> None:
    brought = int(0.6e9 / 11.82)  # bytes a millisecond
    events = sampled(0, "pcie_rx_bytes", lambda t: t * brought, d=1, type="counter")
    assert judged(session_of, CARD, events=events).code == "pcie-bound"
    kept = {"kv_offload": {"value": False, "from": "argv"}}
    assert judged(session_of, CARD, options=kept).code == "cache-on-cpu"


def test_memory_that_comes_back(session_of: Build) -> None:
    swapped = sampled(0, "swap_in_bytes", lambda t: t << 20, type="counter")
    assert judged(session_of, HOST, events=swapped).code == "swapping"
    faults = sampled(0, "server_major_faults", lambda t: t, type="counter", v=0)
    assert judged(session_of, HOST, events=faults).code == "weights-on-disk"


def test_others_on_the_cpu(session_of: Build) -> None:
    events = [*sampled(0, "cpu_cores_used", 7.9), *sampled(1, "server_cpu_cores", 5.0, v=0)]
    two = {"threads": {"value": 2, "from": "argv"}}
    said = judged(session_of, CPU_GIVEN, first=({**QUOTA, "host": {"cores": 8}},), events=events, options=two)
    assert said.code == "cpu-contended"
    assert "other programs use 2.9 of 8 CPUs" in said.text


def test_a_prompt_that_was_cut(session_of: Build) -> None:
    cut = {"k": "prompt", "t": 120 * MS, "r": 0, "n": 499, "cut": {"asked": 8815, "kept": 499}}
    assert judged(session_of, CARD, events=(cut,)).code == "prompt-cut"


def test_the_first_run_warms_up(session_of: Build) -> None:
    started = {"k": "state", "t": 1, "v": 0, "s": "starting"}, {"k": "state", "t": 2, "v": 0, "s": "ready"}
    assert judged(session_of, CARD, before=started).code == "decode-under-bandwidth"  # its gaps are all alike


def test_a_failed_request_has_none(session_of: Build) -> None:
    one = session_of(
        {"k": "request", "t": 2, "r": 0, "api": "raw", "prompt": "x"},
        {"k": "end", "t": 3, "r": 0, "finish": "error", "error": {"status": 500}},
    )
    said = request_object(one, one.runs[0], kept_as=None)
    assert said["verdict"] == {"code": None, "text": None}
    assert said["unknown"]["verdict"] == "the request failed"


def test_no_verdict_says_more_than_is_known(session_of: Build) -> None:
    for devices, model in (((), {}), ((HOST,), {}), ((CARD,), {"weights": None}), ((CARD,), {"arch": None})):
        said = judged(session_of, *devices, model=model)
        assert said.code == "limit-unknown"
        assert "imit unknown: " in said.text
    assert pytest.approx(4.617e9, rel=1e-3) == READ


ALL_ON_GPU = {"gpu_layers": {"value": 99, "from": "argv"}}
NOBODY = {**CARD, "used_by": []}


def busy(cores: float) -> list[dict[str, Any]]:
    return sampled(9, "server_cpu_cores", cores, v=0)


@pytest.mark.parametrize(
    ("card", "options", "cores", "unseen"),
    [
        (NOBODY, ALL_ON_GPU, 7.9, True),
        (NOBODY, {"gpu_percent": {"value": 100, "from": "server: /api/ps"}}, 7.9, True),
        (CARD, ALL_ON_GPU, 7.9, False),  # the driver sees it
        ({**CARD, "used_by": None}, ALL_ON_GPU, 7.9, False),  # the driver does not tell who uses it
        (NOBODY, {"gpu_layers": {"value": -1, "from": "default"}}, 7.9, False),  # nobody claimed it
        (NOBODY, {"gpu_layers": {"value": 0, "from": "argv"}}, 7.9, False),
        (NOBODY, {"gpu_percent": {"value": 0, "from": "server: /api/ps"}}, 7.9, False),
        (NOBODY, ALL_ON_GPU, 0.2, False),
    ],
)
def test_a_gpu_that_is_claimed_and_not_used(
    session_of: Build, monkeypatch: pytest.MonkeyPatch, card: Any, options: Any, cores: float, unseen: bool
) -> None:
    monkeypatch.setattr("phasetop.verdict_machine.SEEN_S", 0.5)  # the session's decode takes 0.74 s
    said = judged(session_of, HOST, card, options=options, events=busy(cores))
    assert (said.code == "gpu-unseen") == unseen, said
    if unseen:
        assert "7.9 CPU cores" in said.text
        assert ("100 % of the model" if "gpu_percent" in options else "33 layers") in said.text


def test_a_cpu_that_is_too_hot(session_of: Build) -> None:
    events = sampled(0, "thermal_throttled_ns", lambda t: int(t * MS * 0.5), type="counter")
    said = judged(session_of, CPU_GIVEN, events=events)
    assert said.code == "cpu-throttled"
    assert "50 % of decode" in said.text
