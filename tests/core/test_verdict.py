"""Every rule of the verdict: what it takes to speak, what it says, and what keeps it silent."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop.verdict import RULES, again, judge
from phasetop.verdict_evidence import Evidence, Judged, Throttle

GPU: dict[str, Any] = {
    "judged": "decode",
    "on_cpu": False,
    "gpus": 1,
    "mbu": 0.39,
    "read_bytes_per_s": 397e9,
    "peak_bytes_per_s": 1008e9,
    "step_s": 0.0118,
    "rest_s": 0.0072,
    "phase_s": 1.0,
    "gpu_layers": 33,
    "decode_bytes_per_token": 4.7e9,
    "gpu_busy_percent": 95.0,
    "server_cores": 0.4,
}
CPU: dict[str, Any] = {
    "judged": "decode",
    "on_cpu": True,
    "mbu": 0.4,
    "at_least": True,
    "read_bytes_per_s": 5e9,
    "peak_bytes_per_s": 12.5e9,
    "step_s": 0.012,
    "rest_s": 0.006,
    "phase_s": 2.0,
    "threads": 2,
    "cpus": 2.0,
    "server_cores": 1.9,
    "used_cores": 1.95,
}
PREFILL: dict[str, Any] = {
    "judged": "prefill",
    "on_cpu": False,
    "gpus": 1,
    "mfu": 0.17,
    "prefill_flops_per_s": 28.6e12,
    "phase_s": 0.28,
    "new": 499,
    "cached": 0,
}
UNSEEN = {"mbu": None, "read_bytes_per_s": None}

SPEAKS: tuple[tuple[str, dict[str, Any], list[str]], ...] = (
    ("prompt-cut", {**GPU, "prompt_cut": (8815, 2050)}, ["8,815 tokens became 2,050", "-c"]),
    (
        "load-cold",
        {**GPU, "judged": "load", "load_s": 8.2, "wait_s": 10.1, "load_why": "not in /api/ps"},
        ["8.2 s of 10.1 s", "(not in /api/ps)"],
    ),
    ("load-cold", {"judged": "load", "running": True, "load_s": 3.0, "wait_s": 3.0}, ["3.0 s so far"]),
    ("stream-buffered", {**GPU, "buffered": True}, ["many tokens a read", "proxy"]),
    (
        "threads-over-quota",
        {**CPU, "threads": 8, "throttled_share": 0.68},
        ["8 threads for 2 CPUs of quota", "68 % of decode", "-t 2"],
    ),
    (
        "threads-over-quota",
        {**CPU, "threads": 8, "cpus": 1.0, "cpus_by": "affinity"},
        ["8 threads for 1 CPU by affinity", "-t 1"],
    ),
    ("cpu-quota", {**CPU, "throttled_share": 0.3}, ["quota of 2 CPUs", "30 % of decode"]),
    ("swapping", {**CPU, "swap_in_bytes": 512 << 20}, ["512 MiB came back from swap during decode"]),
    ("weights-on-disk", {**CPU, "major_faults": 3115}, ["3,115 page faults", "during decode"]),
    (
        "gpu-idle",
        {**GPU, "gpu_busy_percent": 0.0, "server_cores": 8.0},
        ["busy 0 % of the time", "8.0 CPU cores", "runs on the CPU"],
    ),
    (
        "gpu-unseen",
        {**CPU, "unseen_claim": "33 layers are said", "server_cores": 7.9, "phase_s": 3.0},
        ["33 layers are said to be on a GPU", "sees no process", "7.9 CPU cores"],
    ),
    (
        "cpu-throttled",
        {**CPU, "on_cpu": True, "thermal_share": 0.4},
        ["Heat held the CPU back for 40 % of decode"],
    ),
    (
        "partial-offload",
        {**GPU, "gpu_layers": 12, "cpu_layers": 21, "gpu_busy_percent": 14.0},
        ["21 of 33 layers run on the CPU", "14 % of the time"],
    ),
    (
        "gpu-throttled",
        {**GPU, "throttles": (Throttle("power cap", 0.8), Throttle("thermal (driver)", 0.2))},
        ["Decode reads 397 GB/s, 39 % of peak: the power cap was active for 80 % of it"],
    ),
    ("gpu-throttled", {**PREFILL, "throttles": (Throttle("power cap", 0.5),)}, ["Prefill computes 28.6 TFLOP/s", "50 %"]),
    (
        "sampler-bound",
        {**GPU, "top_k": 0, "server_cores": 1.0, "gpu_busy_percent": 40.0},
        ["whole vocabulary", "top_k 0", "40 % busy", "--top-k 40"],
    ),
    ("sampler-bound", {**CPU, "top_k": 0, "threads": 4, "cpus": 4.0, "server_cores": 1.1}, ["the other 3 threads wait"]),
    ("cache-on-cpu", {**GPU, "kv_on_cpu": True}, ["stays in RAM", "--no-kv-offload"]),
    ("pcie-bound", {**GPU, "pcie_bytes_per_token": 0.6e9}, ["0.60 GB a token come over PCIe", "13 %"]),
    ("decode-over-ceiling", {**CPU, "mbu": 1.3}, ["130 % of the measured ceiling", "at least that"]),
    ("decode-over-ceiling", {**GPU, "mbu": 1.2}, ["120 % of peak, which cannot be"]),
    (
        "context-near-full",
        {**GPU, "mbu": 0.7, "kv_tokens": 8100, "kv_context": 8192, "when_full": "stops"},
        ["8,100 of 8,192"],
    ),
    (
        "decode-at-bandwidth",
        {**GPU, "mbu": 0.61, "read_bytes_per_s": 611e9},
        ["611 GB/s, 61 % of peak", "smaller quantisation"],
    ),
    (
        "cpu-bound-server",
        {**GPU, "gpu_busy_percent": 45.0, "server_cores": 1.0},
        ["busy 45 % of the time", "1.0 CPU cores", "between steps"],
    ),
    (
        "gpus-take-turns",
        {**GPU, "gpus": 2, "mbu": 0.45, "peak_bytes_per_s": 3352e9},
        ["one GPU after the other", "45 % of 3,352 GB/s, shared", "--split-mode row"],
    ),
    ("cpu-contended", {**CPU, "server_cores": 1.2, "used_cores": 1.95}, ["other programs use 0.8 of 2 CPUs"]),
    ("threads-too-few", {**CPU, "threads": 1, "server_cores": 1.0, "used_cores": 1.1}, ["1 thread for 2 CPUs", "-t 2"]),
    (
        "first-run",
        {**GPU, "first": True, "first_gap_ns": 14.2e6, "last_gap_ns": 10.1e6},
        ["14.2 ms a token at first and 10.1 at the end", "Ask again"],
    ),
    (
        "decode-under-bandwidth",
        GPU,
        [
            "Decode reads 397 GB/s, 39 % of peak",
            "7.2 of 11.8 ms a token",
            "GPU busy 95 % of the time",
            "no counter here tells",
        ],
    ),
    (
        "cache-cannot-rewind",
        {**PREFILL, "diverge": 480, "cached": 0, "cache_kind": "iswa"},
        ["480 tokens of the prompt are as before", "499 were read again", "sliding window"],
    ),
    ("cache-cannot-rewind", {**PREFILL, "diverge": 480, "cache_kind": "hybrid_iswa"}, ["recurrent state"]),
    (
        "cache-cannot-rewind",
        {**GPU, "diverge": 480, "cached": 0, "new": 499, "cache_kind": "iswa", "prefill_s": 4.0, "wait_s": 10.0},
        ["499 were read again"],
    ),
    ("prefill-small-batch", {**PREFILL, "new": 12, "cached": 487}, ["Only 12 new tokens after 487 from the cache"]),
    ("prefill-small-batch", {**PREFILL, "new": 1, "cached": 487}, ["Only 1 new token after"]),
    ("prefill-compute-bound", {**PREFILL, "mfu": 0.48, "prefill_flops_per_s": 79e12}, ["79.0 TFLOP/s, 48 % of peak"]),
    ("prefill-under-compute", PREFILL, ["28.6 TFLOP/s, 17 % of peak", "far from the peak"]),
    (
        "limit-unknown",
        {**PREFILL, "mfu": None, "why_no_mfu": "no peak"},
        ["Prefill computes 28.6 TFLOP/s; limit unknown: no peak"],
    ),
    ("limit-unknown", {**GPU, **UNSEEN}, ["Limit unknown: no bandwidth counter, no peak for this device."]),
    ("limit-unknown", {**GPU, "mbu": None, "why_no_mbu": "no peak"}, ["Decode reads 397 GB/s; limit unknown: no peak."]),
    ("load-cold", {"judged": "load", "load_s": None}, ["The model was loaded"]),
)


@pytest.mark.parametrize(("code", "known", "words"), SPEAKS, ids=[f"{code}-{i}" for i, (code, _, _) in enumerate(SPEAKS)])
def test_a_rule_speaks(code: str, known: dict[str, Any], words: list[str]) -> None:
    said = judge(Evidence(**known))
    assert said.code == code, said
    for word in words:
        assert word in said.text
    assert said.text.endswith(".")
    assert said.text[0].isupper() or said.text[0].isdigit()
    assert 0 < len(said.limit) <= 60
    assert "\n" not in said.text
    assert "None" not in said.text


@pytest.mark.parametrize(
    ("code", "known"),
    [
        ("threads-over-quota", {**CPU, "threads": 4, "cpus": 3.0, "throttled_share": 0.01}),  # never felt
        ("threads-over-quota", {**GPU, "threads": 16, "cpus": 4.0}),  # a GPU does the work
        ("threads-over-quota", {**CPU, "threads": None, "throttled_share": 0.5}),
        ("gpu-unseen", {**CPU, "unseen_claim": "33 layers are said", "server_cores": 0.3, "phase_s": 3.0}),
        ("gpu-unseen", {**CPU, "unseen_claim": "33 layers are said", "server_cores": 8.0, "phase_s": 1.0}),
        ("cpu-throttled", {**CPU, "thermal_share": 0.04}),
        ("cpu-throttled", {**GPU, "thermal_share": 0.9}),  # a GPU does the work
        ("swapping", {**CPU, "swap_in_bytes": 4096}),
        ("weights-on-disk", {**CPU, "major_faults": 3}),
        (
            "gpu-throttled",
            {**GPU, "mbu": 0.72, "throttles": (Throttle("power cap", 1.0),)},
        ),  # it is at the ceiling all the same
        ("gpu-throttled", {**GPU, "throttles": (Throttle("power cap", 0.04),)}),
        ("sampler-bound", {**GPU, "top_k": 0, "server_cores": 1.0}),  # the GPU does not wait
        ("sampler-bound", {**GPU, "top_k": 0, "server_cores": 1.0, "gpu_busy_percent": None}),
        ("sampler-bound", {**GPU, "top_k": 40, "server_cores": 1.0, "gpu_busy_percent": 40.0}),
        ("sampler-bound", {**CPU, "top_k": 0}),  # both cores work
        ("gpus-take-turns", {**GPU, "gpus": 2, "by_rows": True}),
        ("first-run", {**GPU, "first": True, "first_gap_ns": 10.2e6, "last_gap_ns": 10.1e6}),
        ("first-run", {**GPU, "first_gap_ns": 14.2e6, "last_gap_ns": 10.1e6}),
        ("cpu-contended", {**CPU, "server_cores": 1.9}),
        ("cpu-contended", {**CPU, "server_cores": 1.9, "used_cores": 9.0, "machine_cpus": 16}),  # beside a quota of 2
        ("cache-cannot-rewind", {**PREFILL, "diverge": 480, "cache_kind": "kv"}),
        ("cache-cannot-rewind", {**PREFILL, "diverge": 3, "cache_kind": "iswa"}),
        (
            "cache-cannot-rewind",
            {**GPU, "diverge": 480, "cached": 0, "new": 499, "cache_kind": "iswa", "prefill_s": 1.0, "wait_s": 10.0},
        ),
        ("prefill-small-batch", {**PREFILL, "new": 12, "cached": 0}),
        ("load-cold", {**GPU, "load_s": 0.2, "wait_s": 10.0}),
        ("load-cold", {**GPU, "running": True, "load_s": 8.2, "wait_s": 10.1}),  # it is over, and something else runs
        ("load-cold", {**PREFILL, "running": True, "load_s": 8.2, "wait_s": 10.1}),
        ("partial-offload", {**GPU, "gpu_layers": 33, "cpu_layers": None}),
        ("decode-under-bandwidth", {**GPU, **UNSEEN}),
    ],
)
def test_a_rule_is_silent(code: str, known: dict[str, Any]) -> None:
    assert judge(Evidence(**known)).code != code


@pytest.mark.parametrize("judged", ["load", "prefill", "decode"])
def test_nothing_known_is_said_to_be_so(judged: Judged) -> None:
    said = judge(Evidence(judged=judged))
    assert said.code == ("load-cold" if judged == "load" else "limit-unknown")


def _some(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


RATES = st.floats(0, 2e13, allow_nan=False)
SHARES = st.floats(0, 30, allow_nan=False)
TIMES = st.floats(0, 1e5, allow_nan=False)
COUNTS = st.integers(0, 10**7)
ANY = st.builds(
    Evidence,
    judged=st.sampled_from(["load", "prefill", "decode"]),
    running=st.booleans(),
    on_cpu=_some(st.booleans()),
    gpus=st.integers(0, 16),
    by_rows=st.booleans(),
    mbu=_some(SHARES),
    at_least=st.booleans(),
    read_bytes_per_s=_some(RATES),
    peak_bytes_per_s=_some(RATES),
    step_s=_some(TIMES),
    rest_s=_some(TIMES),
    mfu=_some(SHARES),
    prefill_flops_per_s=_some(RATES),
    phase_s=_some(TIMES),
    prefill_s=_some(TIMES),
    load_s=_some(TIMES),
    wait_s=_some(TIMES),
    new=_some(COUNTS),
    cached=_some(COUNTS),
    buffered=st.booleans(),
    kv_tokens=_some(COUNTS),
    kv_context=_some(COUNTS),
    threads=_some(st.integers(0, 512)),
    cpus=_some(st.floats(0.05, 512, allow_nan=False)),
    throttled_share=_some(SHARES),
    thermal_share=_some(SHARES),
    unseen_claim=_some(st.just("33 layers are said")),
    server_cores=_some(st.floats(0, 512, allow_nan=False)),
    used_cores=_some(st.floats(0, 512, allow_nan=False)),
    swap_in_bytes=_some(st.integers(0, 2**45)),
    major_faults=_some(COUNTS),
    gpu_busy_percent=_some(st.floats(0, 100, allow_nan=False)),
    throttles=st.lists(st.builds(Throttle, st.just("power cap"), st.floats(0, 1, allow_nan=False)), max_size=2).map(tuple),
    gpu_layers=_some(st.integers(0, 130)),
    cpu_layers=_some(st.integers(0, 130)),
    top_k=_some(st.integers(0, 100)),
    kv_on_cpu=st.booleans(),
    pcie_bytes_per_token=_some(RATES),
    decode_bytes_per_token=_some(RATES),
    diverge=_some(COUNTS),
    cache_kind=_some(st.sampled_from(["kv", "iswa", "hybrid_iswa", "recurrent", "dsa"])),
    first=st.booleans(),
    first_gap_ns=_some(TIMES),
    last_gap_ns=_some(TIMES),
)


@given(ANY)
def test_whatever_is_known_one_sentence_comes_of_it(evidence: Evidence) -> None:
    said = judge(evidence)
    assert said.text.endswith(".")
    assert "None" not in said.text
    assert "nan" not in said.text
    assert "—" not in said.text
    assert 0 < len(said.limit) <= 60


def test_every_rule_has_a_test_and_a_row_in_the_documentation() -> None:
    codes = {rule.code for rule in RULES}
    assert {code for code, _, _ in SPEAKS} == codes
    page = (Path(__file__).parents[2] / "docs" / "verdicts.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)) == codes


def test_a_verdict_that_stands_is_said_again_in_newer_figures_until_it_no_longer_holds() -> None:
    near = {**CPU, "mbu": 0.67, "read_bytes_per_s": 2.66e9, "server_cores": 0.32, "used_cores": 2.0}
    code = judge(Evidence(**near)).code
    assert code == "decode-at-bandwidth"
    newer = again(code, Evidence(**{**near, "mbu": 0.57, "read_bytes_per_s": 2.2e9}))
    assert newer is not None
    assert newer.limit == "memory bandwidth: 2.20 GB/s, 57 % of peak"
    # 1.14 GB/s, 29 %, while others hold the cores
    fallen = Evidence(**{**near, "mbu": 0.29, "read_bytes_per_s": 1.14e9})
    assert again(code, fallen) is None
    assert judge(fallen).code == "cpu-contended"
    assert "other programs use 1.7 of 2 CPUs" in judge(fallen).text
    # and the other way round, a little over the border
    assert again("cpu-contended", Evidence(**{**near, "mbu": 0.62})) is not None
    assert again("cpu-contended", Evidence(**{**near, "mbu": 0.66})) is None


def test_a_mean_that_most_steps_beat_is_called_one() -> None:
    said = judge(Evidence(**{**CPU, "mbu": 0.3, "uneven": True})).text
    assert said.startswith("Decode reads 5.00 GB/s on average, 30 % of the measured ceiling")
