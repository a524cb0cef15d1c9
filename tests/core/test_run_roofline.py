"""The roofline of a request that ran, against sums done by hand, and what is said where something is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from phasetop.bandwidth_file import ReadTest
from phasetop.metrics import Measures, measure
from phasetop.report import request_object
from tests.core.roofline_sessions import CARD, HOST, LLAMA_8B, MS, READ, session

if TYPE_CHECKING:
    from tests.core.conftest import Build


def found(session_of: Build, *devices: dict[str, Any], **more: Any) -> tuple[Measures, dict[str, Any]]:
    one = session(session_of, *devices, **more)
    return measure(one, one.runs[0]), request_object(one, one.runs[0], kept_as=None)


def test_the_contracts_example(session_of: Build) -> None:
    card = {**CARD, "peak_bytes_per_s": {"value": 1.008e12, "from": "NVML: bus 384 bit x 10501 MHz"}}
    measures, said = found(session_of, HOST, card)
    group = said["roofline"]
    cache = (499 + 32) * 131_072  # as deep as in the middle of the reply
    assert group["peak_bandwidth_bytes_per_s"] == 1.008e12
    assert group["decode_bytes_per_token"] == READ + cache
    assert group["weights_s_per_token"] == pytest.approx(0.004581, abs=5e-7)
    assert group["cache_s_per_token"] == pytest.approx(0.000069, abs=5e-7)
    assert group["rest_s_per_token"] == pytest.approx(0.00717, abs=5e-6)
    assert group["mbu_percent"] == pytest.approx(39.3, abs=0.05)
    assert group["predicted_decode_tok_per_s"] == pytest.approx(215.1, abs=0.05)
    attention = 4 * 4096 * 32 * 499 * 500 / 2  # 4·t·(heads × width) FLOPs a layer and query
    flops = 2 * 8_030_261_312 * 499 + attention
    assert group["peak_flops"] == 165.2e12
    assert group["mfu_percent"] == pytest.approx(100 * flops / 0.280 / 165.2e12, abs=0.005)
    assert group["mfu_percent"] == pytest.approx(17.3, abs=0.2)  # the contract leaves attention out
    assert group["predicted_prefill_s"] == pytest.approx(flops / 165.2e12, rel=1e-4)
    assert said["sources"]["roofline.peak_bandwidth_bytes_per_s"] == "NVML: bus 384 bit x 10501 MHz"
    assert said["sources"]["roofline.peak_flops"] == "assumed: RTX 4090 table, fp16"
    assert measures.roofline.device == "NVIDIA GeForce RTX 4090"
    assert measures.roofline.read_bytes_per_s == pytest.approx((READ + cache) / 0.01182)
    assert measures.roofline.balance == pytest.approx(165.2e12 / 1.008e12)
    assert said["verdict"]["code"] == "decode-under-bandwidth"
    assert said["verdict"]["text"].startswith("Decode reads 397 GB/s, 39 % of peak")


def test_the_table_stands_in_for_a_driver_that_does_not_tell(session_of: Build) -> None:
    _, said = found(session_of, CARD)
    assert said["roofline"]["peak_bandwidth_bytes_per_s"] == 1.008e12
    assert said["sources"]["roofline.peak_bandwidth_bytes_per_s"] == "assumed: RTX 4090 table"
    _, said = found(session_of, {**CARD, "name": "A card of tomorrow"})
    assert said["roofline"]["peak_bandwidth_bytes_per_s"] is None
    assert said["unknown"]["roofline.mbu_percent"] == "no peak for this device: --peak-bandwidth sets it"
    assert said["roofline"]["decode_bytes_per_token"]
    assert said["verdict"]["code"] == "limit-unknown"
    assert "no peak for this device" in said["verdict"]["text"]


def test_given_peaks_win_whatever_ran_it(session_of: Build) -> None:
    given = {
        **HOST,
        "peak_bytes_per_s": {"value": 5e11, "from": "given"},
        "peak_flops": {"fp16": {"value": 1e14, "from": "given"}},
    }
    for devices, local in (((given, CARD), True), ((given,), True), ((given,), False)):
        _, said = found(session_of, *devices, local=local)
        assert said["roofline"]["peak_bandwidth_bytes_per_s"] == 5e11
        assert said["roofline"]["peak_flops"] == 1e14
        assert said["sources"]["roofline.peak_bandwidth_bytes_per_s"] == "given"


def test_a_cpu_is_held_against_what_was_measured(session_of: Build) -> None:
    source = "estimate: read test of 2026-11-30, 2 threads, 11 to 13 GB/s"
    measures, said = found(session_of, {**HOST, "peak_bytes_per_s": {"value": 5e11, "from": source}})
    assert measures.roofline.at_least
    assert said["roofline"]["mbu_percent"] == pytest.approx(79.3, abs=0.1)
    assert said["sources"]["roofline.peak_bandwidth_bytes_per_s"] == source
    assert said["unknown"]["roofline.peak_flops"].startswith("the peak FLOP/s of this device are not known")
    assert said["verdict"]["code"] == "decode-at-bandwidth"
    measures, said = found(session_of, {**HOST, "peak_bytes_per_s": {"value": 3e11, "from": source}})
    assert said["roofline"]["mbu_percent"] > 100
    assert "above the measured ceiling" in said["sources"]["roofline.mbu_percent"]
    assert said["verdict"]["code"] == "decode-over-ceiling"
    _, said = found(session_of, HOST)
    assert "phasetop doctor --measure-bandwidth" in said["unknown"]["roofline.peak_bandwidth_bytes_per_s"]


def test_a_ceiling_that_was_measured_on_a_busy_machine_is_told_as_one(session_of: Build) -> None:
    source = ReadTest("EPYC", 2, 2, 48, 8e11, 3e11, 1e11, "2026-11-30").source
    measures, said = found(session_of, {**HOST, "peak_bytes_per_s": {"value": 8e11, "from": source}})
    assert measures.roofline.disturbed
    assert " % of a ceiling measured on a busy machine" in said["verdict"]["text"]
    assert said["sources"]["roofline.peak_bandwidth_bytes_per_s"] == source


def test_a_processors_table_is_no_measurement_of_this_machine(session_of: Build) -> None:
    _, said = found(session_of, {**HOST, "name": "Graviton4"})  # a virtual machine has a part of it
    assert said["roofline"]["peak_bandwidth_bytes_per_s"] is None
    _, said = found(session_of, {**HOST, "name": "Apple M2 Ultra"})  # where CPU and GPU share what the table says
    assert said["roofline"]["peak_bandwidth_bytes_per_s"] == 800e9
    assert said["sources"]["roofline.peak_bandwidth_bytes_per_s"] == "assumed: M2 Ultra table"


def test_what_cannot_be_is_flagged(session_of: Build) -> None:
    # a server that timed its last batch alone (a public report: 139,356 tok/s where it was 4,212)
    measures, said = found(session_of, {**CARD, "name": "Tesla T4"}, timings={"prompt_n": 32_768})
    assert said["roofline"]["mfu_percent"] > 100
    flagged = [flag.text for flag in measures.flags if flag.code == "implausible"]
    assert len(flagged) == 2
    assert "TFLOP/s would be" in flagged[0]
    assert "GB/s would be" in flagged[1]
    assert flagged[0] in [notice["text"] for notice in said["notices"]]


def test_elsewhere_nothing_is_known(session_of: Build) -> None:
    _, said = found(session_of, HOST, local=False)
    assert said["unknown"]["roofline.peak_bandwidth_bytes_per_s"].startswith("the server runs on another machine")
    assert said["unknown"]["energy.decode_j"] == "the server runs on another machine"


def test_layers_on_the_cpu_need_both_ceilings(session_of: Build) -> None:
    options = {"gpu_layers": {"value": 16, "from": "argv"}}
    _, said = found(session_of, HOST, CARD, options=options)
    why = said["unknown"]["roofline.peak_bandwidth_bytes_per_s"]
    assert why.startswith("17 layers run on the CPU; the CPU's bandwidth was not measured")
    assert said["verdict"]["code"] == "partial-offload"
    assert "17 of 33 layers run on the CPU" in said["verdict"]["text"]
    host = {**HOST, "peak_bytes_per_s": {"value": 5e10, "from": "estimate: read test"}}
    measures, said = found(session_of, host, CARD, options=options)
    layers, cache = READ - 430_960_640, (499 + 32) * 131_072
    floor = (layers + cache) / 2 / 1.008e12 + ((layers + cache) / 2 + 430_960_640) / 5e10
    assert measures.roofline.token is not None
    assert measures.roofline.token.floor_s == pytest.approx(floor)
    assert said["roofline"]["peak_bandwidth_bytes_per_s"] == pytest.approx((READ + cache) / floor)


def test_cards_that_take_turns_and_cards_that_do_not(session_of: Build) -> None:
    cards = [{**CARD, "d": d} for d in (1, 2)]
    measures, said = found(session_of, *cards)
    assert said["roofline"]["peak_bandwidth_bytes_per_s"] == pytest.approx(1.008e12)
    assert said["sources"]["roofline.peak_bandwidth_bytes_per_s"] == "assumed: RTX 4090 table; 2 GPUs take turns"
    assert said["verdict"]["code"] == "gpus-take-turns"
    assert measures.roofline.device == "2 × NVIDIA GeForce RTX 4090"
    _, said = found(session_of, *cards, options={"split_mode": {"value": "row", "from": "argv"}})
    assert said["roofline"]["peak_bandwidth_bytes_per_s"] == pytest.approx(2.016e12)
    assert said["roofline"]["peak_flops"] == pytest.approx(2 * 165.2e12)


def test_which_gpu_is_used_may_not_be_known(session_of: Build) -> None:
    unseen = {key: value for key, value in CARD.items() if key != "used_by"}
    _, said = found(session_of, unseen)
    assert said["sources"]["roofline"].startswith("assumed: the server uses the only GPU")
    _, said = found(session_of, unseen, {**unseen, "d": 2})
    assert said["unknown"]["roofline.peak_bandwidth_bytes_per_s"].startswith(
        "which of the GPUs the server uses is not known"
    )
    measures, _ = found(session_of, HOST, {**CARD, "used_by": []})
    assert measures.roofline.ran.on_cpu


def test_what_makes_figures_unknown(session_of: Build) -> None:
    _, said = found(session_of, CARD, timings={"draft_n": 40, "accepted_n": 20})
    assert said["roofline"]["decode_bytes_per_token"] is None
    assert "drafted" in said["unknown"]["roofline.mbu_percent"]
    _, said = found(session_of, CARD, model={"weights": None})
    assert "which weights a token reads" in said["unknown"]["roofline.decode_bytes_per_token"]
    moe = {**LLAMA_8B, "llama.expert_count": 8, "llama.expert_used_count": 2}
    _, said = found(session_of, CARD, model={"hparams": moe})
    assert "how many of its parameters a token uses" in said["unknown"]["roofline.mfu_percent"]
    _, said = found(session_of, CARD, model={"hparams": moe, "active_params": 2_000_000_000})
    assert said["roofline"]["mfu_percent"]


def test_every_null_has_its_reason_and_no_other_has(session_of: Build) -> None:
    for devices in ((), (HOST,), (CARD,), (HOST, CARD)):
        _, said = found(session_of, *devices)
        for group in ("roofline", "energy"):
            for name, value in said[group].items():
                assert (value is None) == (f"{group}.{name}" in said["unknown"]), (group, name)


def test_energy_of_the_cards(session_of: Build) -> None:
    events = (
        {"k": "series", "t": 1, "s": 0, "d": 1, "name": "energy_uj", "unit": "uJ", "source": "NVML", "type": "counter"},
        *({"k": "smp", "t0": t * MS, "t": t * MS, "v": {"0": t * 100_000}} for t in range(100, 1200, 50)),
    )
    _, said = found(session_of, CARD, events=events)  # 100 W
    assert said["energy"]["prefill_j"] == pytest.approx(28.0, rel=0.01)
    assert said["energy"]["decode_j"] == pytest.approx(74.466, rel=0.01)
    assert said["energy"]["j_per_output_token"] == pytest.approx(74.466 / 64, rel=0.01)
    assert said["sources"]["energy.decode_j"].startswith("NVML")


def test_live_it_grows_with_the_cache(session_of: Build) -> None:
    one = session(session_of, CARD)
    early = measure(one, one.runs[0], 500 * MS)
    late = measure(one, one.runs[0], 1100 * MS)
    assert early.roofline.weights_bytes == late.roofline.weights_bytes == READ
    assert early.roofline.cache_bytes is not None
    assert late.roofline.cache_bytes is not None
    assert late.roofline.cache_bytes > early.roofline.cache_bytes
    assert early.verdict is not None
    assert early.verdict.code == "decode-under-bandwidth"
    prefill = measure(one, one.runs[0], 200 * MS)
    assert prefill.roofline.mbu is None
    assert prefill.verdict is None or prefill.verdict.code == "limit-unknown"


def test_a_gpu_that_is_claimed_and_where_the_driver_sees_nobody_is_no_ground_for_a_roofline(session_of: Build) -> None:
    placed = {"placed": {"CUDA0": 33}}
    seen = session(session_of, HOST, CARD, model=placed)
    assert request_object(seen, seen.runs[0], kept_as=None)["roofline"]["peak_bandwidth_bytes_per_s"] == 1.008e12
    nobody = session(session_of, HOST, {**CARD, "used_by": []}, model=placed)
    told = request_object(nobody, nobody.runs[0], kept_as=None)
    assert told["roofline"]["peak_bandwidth_bytes_per_s"] is None
    assert "no driver sees a process" in str(told["unknown"])
