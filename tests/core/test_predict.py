"""`phasetop predict`: the worked example to the digit, the contract's keys, what people type wrong, and what is loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from phasetop import bandwidth_file
from phasetop.amounts import read_bandwidth, read_flops, read_parameters, read_share, several
from phasetop.cli import main
from phasetop.faults import UsageError
from phasetop.known_models import KNOWN
from phasetop.weight_types import bits_per_weight

if TYPE_CHECKING:
    from tests.conftest import Home

LLAMA = str(Path(__file__).parents[1] / "data" / "kv" / "headers" / "llama-gqa.gguf")
EXAMPLE = ("--params", "6607077376", "--flops", "312e12", "--bandwidth", "2.0e12", "-P", "512", "-G", "512")


@pytest.fixture(autouse=True)
def alone(state_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings of this machine's."""
    assert state_home.state.is_dir()
    monkeypatch.setenv("COLUMNS", "80")


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert main(["predict", *argv, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return dict(json.loads(out))


def shown(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(["predict", *argv]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(["predict", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err


def test_the_worked_example(capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, *EXAMPLE, "--dtype", "fp16")
    assert found["inputs"] == {
        "parameters": 6607077376,
        "active_parameters": 6607077376,
        "bits_per_weight": 16,
        "weight_bytes": 13214154752,
        "kv_bytes_per_token": None,
        "prompt_tokens": 512,
        "output_tokens": 512,
        "batch": 1,
        "context": 512,
        "bandwidth_bytes_per_s": 2.0e12,
        "flops": 3.12e14,
        "gpu": None,
        "efficiency_bandwidth": 1.0,
        "efficiency_flops": 1.0,
    }
    prefill, decode = found["prefill"], found["decode"]
    assert prefill["flops_per_token"] == decode["bytes_per_token"] == 1.3214154752e10
    assert f"{prefill['per_token_s']:.4e}" == "4.2353e-05"
    assert f"{prefill['total_s']:.6f}" == "0.021685"
    assert f"{decode['per_token_s']:.7f}" == "0.0066071"
    assert f"{decode['total_s']:.5f}" == "3.38282"  # 512 x 0.006607077376
    assert f"{decode['tok_per_s']:.2f}" == "151.35"
    assert (prefill["bound"], decode["bound"]) == ("compute", "bandwidth")
    assert found["ratio"] == found["machine_balance_flops_per_byte"] == 156.0
    assert f"{found['ttft_s']:.6f}" == "0.028292"
    assert found["decode_intensity_flops_per_byte"] == 1.0
    assert [round(each, 1) for each in found["range"]["decode_tok_per_s"]] == [90.8, 121.1]
    assert found["unknown"] == {}
    assert found["sources"]["inputs.flops"] == "given"


def test_int4_quarters_the_decode(capsys: pytest.CaptureFixture[str]) -> None:
    whole, quarter = (said(capsys, *EXAMPLE, "--dtype", dtype) for dtype in ("fp16", "int4"))
    assert quarter["decode"]["per_token_s"] == pytest.approx(whole["decode"]["per_token_s"] / 4)
    assert quarter["prefill"] == whole["prefill"]


def test_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, *EXAMPLE, "--dtype", "fp16")
    flat = " ".join(text.split())
    assert "prefill 512 tok 0.042 ms each 21.7 ms bound by the arithmetic" in flat
    assert "decode 512 tok 6.61 ms each 3.38 s bound by the memory · 151.4 tok/s (real kernels: 90.8 to 121.1)" in flat
    assert "as long as 156 of the prompt" in flat
    assert "FLOP/s over FLOP a byte" in text
    assert "d decode 2 TFLOP/s at 1 · p prefill 312 TFLOP/s at 512" in text
    assert "\x1b" not in text
    assert "FLOP/s over" not in shown(capsys, *EXAMPLE, "--no-plot")


def test_llama_3_1_8b_at_its_full_context(capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, "llama3.1-8b", "--gpu", "RTX 4090", "-c", "131072")
    assert found["inputs"]["gpu"] == "RTX 4090"
    assert found["inputs"]["kv_bytes_per_token"] == 131_072
    # the weights of a token and 17.18 GB of cache, DESIGN's other example
    assert found["decode"]["bytes_per_token"] == 4_617_396_480 + 17_179_869_184
    mean = (4_617_396_480 + (131_072 + 511 / 2) * 131_072) / 1.008e12
    assert found["decode"]["per_token_s"] == pytest.approx(mean, rel=1e-6)
    assert found["inputs"]["weight_bytes"] == 4_912_898_304
    assert found["sources"]["inputs.bandwidth_bytes_per_s"].startswith("assumed: RTX 4090 table")
    assert {row["context"] for row in found["table"]} == {131072}


def test_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, LLAMA, "--bandwidth", "20GB/s", "--flops", "500e9", "-P", "0")
    inputs = found["inputs"]
    assert inputs["active_parameters"] < inputs["parameters"]
    assert inputs["kv_bytes_per_token"]
    assert found["prefill"]["per_token_s"] is None
    assert found["unknown"]["prefill.per_token_s"] == "there is no prompt"
    assert found["prefill"]["total_s"] == 0


def test_a_given_efficiency_leaves_no_range(capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, *EXAMPLE, "--efficiency", "0.6")
    assert found["decode"]["tok_per_s"] == pytest.approx(90.8, abs=0.05)
    assert found["range"] == {"decode_tok_per_s": None}
    assert found["unknown"] == {"range": "an efficiency was given"}
    assert said(capsys, *EXAMPLE, "--efficiency", "60%") == found


def test_a_batch_shares_the_weights_until_arithmetic_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    one, some, many = (said(capsys, *EXAMPLE, "--batch", n)["decode"] for n in ("1", "64", "1024"))
    assert some["per_token_s"] == one["per_token_s"]
    assert some["tok_per_s"] == pytest.approx(64 * one["tok_per_s"])
    assert many["bound"] == "compute"
    assert many["per_token_s"] == pytest.approx(1024 * 2 * 6607077376 / 312e12)


def test_several_of_everything(capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, *EXAMPLE[:6], "-P", "128,1k", "-G", "64", "--dtype", "fp16,int4", "--batch", "1,8")
    rows = [(row["dtype"], row["prompt_tokens"], row["batch"]) for row in found["table"]]
    assert rows == [(d, p, b) for d in ("fp16", "int4") for p in (128, 1024) for b in (1, 8)]
    assert found["inputs"]["prompt_tokens"] == 128


def test_the_models_own_types_stand_once_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "llama3.1-8b", "--gpu", "RTX 4090", "-P", "512", "-G", "512")
    rows = [line.split() for line in text.partition("weights  ")[2].splitlines()[1:]]
    plain = [row[0].lower() for row in rows if row[1:3] == ["512", "1"]]
    assert plain == ["q4_k_m", "fp16", "q8_0", "int4"]


def test_several_cards_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    one, four = (said(capsys, "--params", "52B", "--gpu", "a100", "--gpus", n) for n in ("1", "4"))
    assert four["inputs"]["gpu"] == "4 × A100 SXM 80GB"
    assert four["decode"]["per_token_s"] == pytest.approx(one["decode"]["per_token_s"] / 4)


def test_a_chip_whose_flops_nobody_publishes(capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, "--params", "8B", "--gpu", "m4 max")
    assert found["inputs"]["flops"] is None
    assert (found["prefill"]["total_s"], found["ttft_s"], found["ratio"]) == (None, None, None)
    assert found["decode"]["tok_per_s"] == pytest.approx(546e9 / 16e9)
    assert found["unknown"]["prefill.total_s"] == "the FLOP/s are not published: --flops says them"
    assert "— TFLOP/s" in shown(capsys, "--params", "8B", "--gpu", "m4 max")


def test_a_mixture_of_experts(capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, "qwen3-30b-a3b", "--gpu", "RTX 3090", "--dtype", "q8_0")
    assert found["inputs"]["parameters"] == 30_532_122_624
    assert found["inputs"]["active_parameters"] < 3.4e9
    one = found["decode"]["bytes_per_token"]
    many = said(capsys, "qwen3-30b-a3b", "--gpu", "RTX 3090", "--dtype", "q8_0", "--batch", "4096")["decode"]
    assert many["bytes_per_token"] > one * 5  # by then each expert is read
    assert said(capsys, "deepseek-r1", "--params", "671e9", "--active-params", "37e9", "--gpu", "H200", "--gpus", "8")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ((), ["which model", "--params 8B"]),
        (("--params", "8B"), ["which machine", "--gpu NAME"]),
        (("--params", "eight", "--gpu", "h100"), ["--params eight", "8B"]),
        (("--params", "8B", "--gpu", "RTX 4091"), ["RTX 4091", "is RTX 40", "--bandwidth"]),
        (("--params", "8B", "--bandwidth", "fast"), ["--bandwidth fast", "936GB/s"]),
        (("--params", "8B", "--flops", "-1"), ["--flops -1"]),
        (("--params", "8B", "--gpu", "h100", "--dtype", "q9"), ["--dtype q9", "int4"]),
        (("--params", "8B", "--gpu", "h100", "--efficiency", "2"), ["--efficiency 2", "0.7"]),
        (("--params", "8B", "--gpu", "h100", "-c", "4096"), ["--kv-bytes-per-token"]),
        (("--params", "8B", "--gpu", "h100", "-P", "lots"), ["-P lots", "8k"]),
        (("no-such-thing.gguf", "--gpu", "h100"), []),
    ],
)
def test_what_cannot_be(capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], words: list[str]) -> None:
    if argv and argv[0].endswith(".gguf"):
        assert main(["predict", *argv]) in (1, 2)
        assert capsys.readouterr().out == ""
        return
    error = refused(capsys, *argv)
    assert error.count("\n") <= 2
    for word in words:
        assert word in error


def test_this_cpu_as_it_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert "phasetop doctor --measure-bandwidth" in refused(capsys, "--params", "1B", "--gpu", "this")
    bandwidth_file.keep(bandwidth_file.ReadTest("EPYC", 2, 2, 48, 20e9, 15e9, 10e9, "2026-11-30"))
    found = said(capsys, "--params", "1B", "--gpu", "this")
    assert (found["inputs"]["gpu"], found["inputs"]["bandwidth_bytes_per_s"]) == ("EPYC", 20e9)
    assert found["decode"]["tok_per_s"] == 10
    assert found["sources"]["inputs.bandwidth_bytes_per_s"].startswith("estimate: read test of 2026-11-30")


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "--list-gpus")
    assert "RTX 4090" in text
    assert "NVIDIA A100 datasheet" in text
    listed = said(capsys, "--list-gpus")["gpus"]
    assert {"name", "kind", "bandwidth_bytes_per_s", "flops", "source"} == listed[0].keys()


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (read_parameters, "6607077376", 6607077376),
        (read_parameters, "81.22e9", 81_220_000_000),
        (read_parameters, "8B", 8_000_000_000),
        (read_parameters, "135M", 135_000_000),
        (read_parameters, "6_607_077_376", 6607077376),
        (read_bandwidth, "2.0e12", 2e12),
        (read_bandwidth, "2TB/s", 2e12),
        (read_bandwidth, "936 GB/s", 936e9),
        (read_bandwidth, "936g", 936e9),
        (read_bandwidth, "1GiB/s", 2**30),
        (read_flops, "312e12", 312e12),
        (read_flops, "312T", 312e12),
        (read_flops, "312 TFLOPS", 312e12),
        (read_flops, "1.5 PFLOP/s", 1.5e15),
        (read_share, "70%", 0.7),
    ],
)
def test_amounts(read: Any, text: str, value: float) -> None:
    assert read("--x", text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "x", "-3", "nan", "1e999", "8 B B"])
def test_no_amounts(text: str) -> None:
    for read in (read_parameters, read_bandwidth, read_flops, read_share):
        with pytest.raises(UsageError, match="--x"):
            read("--x", text)
    assert several("--x", "8B,8e9,1B", read_parameters) == [8_000_000_000, 1_000_000_000]


def test_bits() -> None:
    # 7B: 12.55 GiB at F16, 6.67 at Q8_0 (llama.cpp's own sizes); Llama 3.1 8B at Q4_K_M 4,912,898,304 B
    assert round(6_738_415_616 * bits_per_weight("f16") / 8 / 2**30, 2) == 12.55
    assert round(6_738_415_616 * bits_per_weight("Q8_0") / 8 / 2**30, 2) == 6.67
    assert 8_030_261_312 * bits_per_weight("q4_k_m") / 8 == pytest.approx(4_912_898_304, rel=1e-4)
    assert [bits_per_weight(each) for each in ("fp32", "bf16", "int8", "int4", "mxfp4")] == [32, 16, 8, 4, 4.25]


def test_parameters_of_known_models() -> None:
    # as their pages on Hugging Face count them
    wanted = {
        "llama3.1-8b": 8_030_261_248,
        "llama3.1-70b": 70_553_706_496,
        "llama3.2-1b": 1_235_814_400,
        "llama3.2-3b": 3_212_749_824,
        "gemma3-1b": 999_885_952,
        "gpt-oss-20b": 20_914_757_184,
        "mistral-7b": 7_248_023_552,
        "qwen2.5-7b": 7_615_616_512,
        "qwen3-8b": 8_190_735_360,
        "qwen3-30b-a3b": 30_532_122_624,
    }
    assert {name: KNOWN[name].parameters() for name in wanted} == wanted


def test_it_loads_neither_http_nor_textual() -> None:
    code = (
        "import sys; from phasetop.cli import main; main(sys.argv[1:]); "
        "print([m for m in ('httpx', 'textual', 'plotext') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "predict", "--params", "8B", "--gpu", "h100", "--no-plot"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_no_token_uses_more_parameters_than_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "--params", "8B", "--active-params", "80B", "--gpu", "H100"]) == 2
    assert "--active-params 80B: a token uses no more than there are (--params 8B)" in capsys.readouterr().err
