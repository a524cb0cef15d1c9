"""The roofline against what others have published, each within its own rounding, and against sums done by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from phasetop import peaks
from phasetop.kv import Options, attended_bytes, bytes_per_token, layout
from phasetop.roofline import (
    Attention,
    Machine,
    Offload,
    Share,
    Subject,
    Weights,
    attention_of,
    mean_step_s,
    one_token,
    predict,
    prefill_flops,
    turns_bytes_per_s,
    weights_of,
)

GIB = 2**30


def bandwidth(name: str) -> float:
    found = peaks.find(name)
    assert found is not None
    return found.bytes_per_s


def llama(layers: int, embedding: int, heads: int, kv_heads: int, **more: int) -> dict[str, Any]:
    return {
        "llama.block_count": layers,
        "llama.context_length": 4096,
        "llama.embedding_length": embedding,
        "llama.attention.head_count": heads,
        "llama.attention.head_count_kv": kv_heads,
        **more,
    }


def test_the_worked_example() -> None:
    # 6,607,077,376 parameters at FP16 on 312 TFLOP/s and 2.0 TB/s (DESIGN)
    n = 6_607_077_376
    found = predict(Subject(n, Weights(2 * n)), Machine(2.0e12, 312e12), prompt=512, output=512)
    assert found.prefill_s is not None
    assert found.step_s is not None
    assert found.decode_s is not None
    assert f"{found.prefill_s / 512:.3e}" == "4.235e-05"
    assert f"{1e3 * found.step_s:.2f}" == "6.61"
    assert f"{found.step_s / (found.prefill_s / 512):.1f}" == "156.0"
    assert f"{1e3 * found.prefill_s:.1f}" == "21.7"
    assert f"{found.decode_s:.2f}" == "3.38"
    assert (found.prefill_bound, found.step_bound) == ("compute", "bandwidth")
    quarter = predict(Subject(n, Weights(n / 2)), Machine(2.0e12, 312e12), prompt=512, output=512)
    assert quarter.step_s == pytest.approx(found.step_s / 4)
    assert quarter.prefill_s == pytest.approx(found.prefill_s)


def test_databricks_mbu() -> None:
    # 7B at fp16, 14 ms a token, 2 TB/s: 50 %
    assert Share(14e9, 0, 2e12).seconds / 0.014 == pytest.approx(0.50)


@pytest.mark.parametrize(
    ("gpu", "bandwidth_gb", "tera", "token_ms", "exact_ms", "prefill_ms", "total_s"),
    [("T4", 300, 65, 46, 46.67, 75, 6.98), ("A10", 600, 125, 23, 23.33, 39, 3.49), ("A100", 2039, 312, 6, 6.87, 16, 0.92)],
)
def test_baseten(
    gpu: str, bandwidth_gb: float, tera: float, token_ms: int, exact_ms: float, prefill_ms: int, total_s: float
) -> None:
    # Llama 2 7B at fp16, 350 tokens of prompt, 150 of reply; they cut the time of a token to whole milliseconds
    found = predict(Subject(7e9, Weights(14e9)), Machine(bandwidth_gb * 1e9, tera * 1e12), prompt=350, output=150)
    assert found.step_s is not None
    assert found.prefill_s is not None
    assert math.floor(1e3 * found.step_s) == token_ms
    assert round(1e3 * found.step_s, 2) == exact_ms
    assert round(1e3 * found.prefill_s) == prefill_ms
    assert round(round(1e3 * found.prefill_s) / 1e3 + 150 * token_ms / 1e3, 2) == pytest.approx(total_s, abs=0.0051)
    known = peaks.find(gpu)
    assert known is not None
    assert known.flops["fp16"] == tera * 1e12


def test_baseten_a10_balance_and_cache() -> None:
    a10 = peaks.find("A10")
    assert a10 is not None
    assert round(Machine(a10.bytes_per_s, a10.flops["fp16"]).balance or 0, 1) == 208.3
    assert bytes_per_token(layout("llama", llama(32, 4096, 32, 32), Options(context=4096))) == 524_288


def test_kipply() -> None:
    # 52B: 64 layers of 8,192; A100 at 1.5 TB/s and 312 TFLOP/s
    assert bytes_per_token(layout("llama", llama(64, 8192, 64, 64), Options(context=4096))) == 2_097_152
    one = predict(Subject(52e9, Weights(104e9)), Machine(1.5e12, 312e12), prompt=0, output=1)
    four = predict(Subject(52e9, Weights(104e9)), Machine(4 * 1.5e12, 4 * 312e12), prompt=0, output=1)
    assert round(1e3 * (one.step_s or 0)) == 69
    assert round(1e3 * (four.step_s or 0)) == 17
    assert Machine(1.5e12, 312e12).balance == 208
    subject = Subject(52e9, Weights(104e9))
    assert subject.prefill(207).bound(Machine(1.5e12, 312e12)) == "bandwidth"
    assert subject.prefill(208).bound(Machine(1.5e12, 312e12)) == "compute"


@pytest.mark.parametrize(
    ("tok_per_s", "gb_per_s", "params", "vocabulary", "bits", "rel"),
    [
        (104.9, 1397.31, 6_738_415_616, 32_000, 16, 0.01),
        (93.89, 1410.76, 8_030_261_248, 128_256, 16, 0.002),
        (137.64, 1030.89, 8_030_261_248, 128_256, 8, 0.005),
    ],
)
def test_gpt_fast_reads_no_embedding(
    tok_per_s: float, gb_per_s: float, params: int, vocabulary: int, bits: int, rel: float
) -> None:
    # 15.03 GB a token for a model of 16.06 GB: the table of 128,256 rows of 4,096 is not read
    read = (params - vocabulary * 4096) * bits / 8
    assert gb_per_s / tok_per_s == pytest.approx(read / 1e9, rel=rel)
    assert Share(read, 0, gb_per_s * 1e9).seconds == pytest.approx(1 / tok_per_s, rel=rel)


def test_gpt_fast_on_a_4090() -> None:
    # 7B in bfloat16 at 65 tok/s: 910 GB/s
    assert 65 / (1 / Share(14e9, 0, 910e9).seconds) == pytest.approx(1)
    assert round(100 * 65 * Share(14e9, 0, bandwidth("RTX 4090")).seconds) == 90


@pytest.mark.parametrize(
    ("gpu", "weights_gib", "tok_per_s", "percent"),
    [
        ("RTX 4090", 14.96, 54.84, 87),
        ("RTX 3090", 14.96, 47.40, 81),
        ("A6000", 14.96, 40.71, 85),
        ("L40S", 14.96, 43.69, 81),
        ("RTX 4080", 14.96, 40.58, 91),
        ("A100 PCIe 80GB", 14.96, 54.84, 46),
        ("H100 PCIe", 14.96, 68.03, 54),
        ("M2 Ultra", 14.96, 36.90, 74),
        ("RTX 3090", 4.58, 115.42, 61),
        ("RTX 4090", 4.58, 130.58, 64),
        ("RTX 3070", 4.58, 72.79, 80),
    ],
)
def test_mbu_of_llama_cpp(gpu: str, weights_gib: float, tok_per_s: float, percent: int) -> None:
    # Llama 3 8B, F16 and Q4_K_M, tg512: whole percent
    assert round(100 * tok_per_s * Share(weights_gib * GIB, 0, bandwidth(gpu)).seconds) == percent


def test_experts_are_read_as_they_are_used() -> None:
    one = Weights(100, 40, used=8, count=128)
    assert one.read() == pytest.approx(140)
    assert one.read(16) == pytest.approx(100 + 640 * (1 - (1 - 8 / 128) ** 16))
    assert one.read(10_000) == pytest.approx(100 + 640)  # every expert, once
    assert Weights(100, 40).read(16) == 140
    parts = {"layers": 60, "head": 40, "experts": 40}
    hparams = {"m.expert_used_count": 8, "m.expert_count": 128}
    assert weights_of(parts, "m", hparams) == one
    assert weights_of(parts, "m", None) == Weights(100, 40)


def test_attention_by_hand() -> None:
    # two layers, 4 heads of 64: 2·t·(256 + 256) FLOPs a query against t keys; the third looks back 2 tokens only
    attention = Attention(((512, None), (512, None), (512, 2)))
    assert attention.flops(0, 1) == 3 * 2 * 512
    assert attention.flops(3, 2) == 2 * 512 * (2 * (4 + 5) + (2 + 2))
    assert attention.flops(0, 5) == sum(attention.flops(i, 1) for i in range(5))
    assert prefill_flops(1000, 5, attention=attention) == 10_000 + attention.flops(0, 5)
    hparams = llama(2, 256, 4, 1)
    found = attention_of(layout("llama", hparams, Options()), hparams)
    assert found == Attention(((512, None), (512, None)))


def test_the_cache_is_read_at_its_depth() -> None:
    hparams = llama(2, 256, 4, 1)
    found = layout("llama", hparams, Options(context=4096))
    subject = Subject(1000, Weights(2000), lambda depth: attended_bytes(found, depth))
    step = subject.step(100, batch=3)
    assert step.read_bytes == 2000 + 3 * 100 * 512
    assert step.flops == 3 * 2000
    machine = Machine(1e9, None)
    mean = mean_step_s(subject, machine, 100, 64)
    by_hand = sum(2000 + (100 + i) * 512 for i in range(64)) / 64 / 1e9
    assert mean == pytest.approx(by_hand, rel=1e-4)


def test_a_missing_peak_is_no_guess() -> None:
    step = Subject(1e9, Weights(1e9)).step(0)
    assert step.seconds(Machine(1e9, None)) == 1.0  # two FLOPs a byte: no machine's arithmetic bounds that
    assert step.seconds(Machine(None, 1e12)) is None
    assert Subject(1e9, Weights(1e9)).prefill(512).seconds(Machine(1e9, None)) is None


def test_one_token_and_cards_that_take_turns() -> None:
    shares = [Share(10e9, 1e9, 1e12), Share(10e9, 1e9, 1e12)]
    found = one_token(shares, 0.030)
    assert (found.weights_s, found.cache_s, found.rest_s) == pytest.approx((0.020, 0.002, 0.008))
    assert found.floor_s == pytest.approx(0.022)
    assert turns_bytes_per_s(shares) == pytest.approx(1e12)  # one card's, not both
    assert turns_bytes_per_s([Share(9e9, 0, 1e12), Share(1e9, 0, 0.05e12)]) == pytest.approx(10e9 / 0.029)


def test_partial_offload() -> None:
    half = Offload(12, 32)
    assert (half.on_gpu, half.on_cpu, half.is_partial, half.head_on_gpu) == (12, 21, True, False)
    assert half.bytes_on_gpu(3200, 400) == 1200
    assert not Offload(33, 32).is_partial
    assert Offload(99, 32).bytes_on_gpu(3200, 400) == 3600
    assert (Offload(32, 32).is_partial, Offload(32, 32).on_cpu) == (True, 1)  # the head stays
    assert not Offload(0, 32).is_partial
