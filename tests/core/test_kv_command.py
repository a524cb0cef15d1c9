"""`phasetop kv` as people use it: the text, the plot, its errors, what fits, and what it loads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from phasetop.amounts import read_size
from phasetop.cli import main
from phasetop.faults import UsageError
from phasetop.kv import Options
from phasetop.kv_command import gpu_memory_bytes
from phasetop.kv_report import contexts, kv_object, study
from phasetop.kv_text import plot
from phasetop.model_metadata import from_file
from tests.core.gguf_writer import small

if TYPE_CHECKING:
    from tests.conftest import Home

HEADERS = Path(__file__).parents[1] / "data" / "kv" / "headers"
GEMMA = str(HEADERS / "gemma3.gguf")


@pytest.fixture(autouse=True)
def alone(state_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings and no GPU of this machine's."""
    assert state_home.state.is_dir()
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("COLUMNS", "80")


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert main(["kv", *argv]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return dict(json.loads(out))


def shown(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(["kv", *argv]) == 0
    return capsys.readouterr().out


def test_llama_3_1_8b_as_everybody_knows_it(capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, "llama3.1:8b", "--json", "--", "-c", "131072", "-np", "1")
    assert found["bytes_per_token"] == 131_072
    assert found["kv_bytes_total"] == 17_179_869_184
    assert round(found["kv_bytes_total"] / found["model"]["tensor_bytes"], 1) == 3.5
    assert found["model"]["read_bytes_per_token"] == 4_617_396_480
    assert found["sources"]["model.arch"] == "assumed: config.json of meta-llama/Llama-3.1-8B-Instruct"
    assert found["fill"] is found["max_context"] is None


def test_the_keys_of_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, GEMMA, "--json", "--fill", "297", "--max-context", "--memory", "24GiB", "--", "-c", "4096")
    assert list(found)[:4] == ["model", "options", "caches", "k_bytes"]
    assert {"name", "file", "arch", "layers", "context_trained", "tensor_bytes", "quantisation"} <= found["model"].keys()
    assert found["model"]["file"] == "gemma3.gguf"
    assert list(found["options"]) == [
        *("n_ctx", "n_ctx_seq", "n_seq_max", "kv_unified", "n_batch", "n_ubatch", "type_k", "type_v", "flash_attn"),
        *("swa_full", "n_rs_seq"),
    ]
    assert found["assumed"] == [
        *("n_seq_max", "kv_unified", "n_batch", "n_ubatch", "type_k", "type_v", "flash_attn", "swa_full"),
    ]
    assert found["sources"]["options.n_ctx"] == "given"
    assert found["sources"]["options.n_ubatch"] == "default"
    assert found["unknown"] == {}
    assert found["fill"]["n_past"] == 297
    assert found["max_context"]["tokens"] == 8192
    assert found["table"][0] == {"context": 1024, "type_k": "f16", "type_v": "f16", "kv_bytes_total": 2097152}


def test_compact_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kv", GEMMA, "--json=compact"]) == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, GEMMA, "--fill", "2000", "--", "-c", "4096", "-np", "1")
    rows = [line.split() for line in text.splitlines() if line.startswith(("base", "swa", "all"))]
    assert rows[0] == ["base", "1", "4,096", "1", "64", "64", "256", "B", "1.00", "MiB"]
    assert rows[1] == ["swa", "7", "1,024", "1", "64", "64", "1,792", "B", "1.75", "MiB"]
    assert rows[2] == ["all", "2,048", "B", "2.75", "MiB"]
    assert "past 1,024 tokens the window is full: a token adds 256 B" in text
    assert "2,000 tokens of one sequence" in text
    assert "swa 1,024 of 1,024" in " ".join(text.split())
    assert "not given, so llama-server's own: kv_unified, n_batch" in text
    assert "KV cache over the context" in text  # the plot's title
    assert "\x1b" not in text
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "KV cache over the context" not in shown(capsys, GEMMA, "--no-plot")


def test_a_model_with_nothing_to_keep(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, str(HEADERS / "llada-diffusion.gguf"))
    assert "none: llada looks at a whole text at once" in text
    recurrent = shown(capsys, str(HEADERS / "mamba.gguf"), "--fill", "10", "--", "-np", "2")
    assert "state" in recurrent
    assert "57.0 KiB" in recurrent or "58,368 B" in recurrent


def test_an_unknown_architecture_is_never_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = small()
    one.keys = [(key.replace("llama.", "new."), kind, "new" if value == "llama" else value) for key, kind, value in one.keys]
    (tmp_path / "m.gguf").write_bytes(one.written())
    found = said(capsys, str(tmp_path / "m.gguf"), "--json")
    assert "arch-unknown" in found["assumed"]
    assert found["memory_kind"] == "kv"
    assert found["sources"]["memory_kind"].startswith("assumed:")
    assert "nobody here knows the architecture new: computed as a plain cache" in shown(capsys, str(tmp_path / "m.gguf"))


def test_names_in_files_are_made_harmless(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = small()
    one.keys[1] = ("general.name", 8, "evil\x1b[31m\nname")
    (tmp_path / "m.gguf").write_bytes(one.written())
    text = shown(capsys, str(tmp_path / "m.gguf"), "--no-plot")
    assert "\x1b" not in text
    assert "evil␛[31m␊name" in text.splitlines()[0]


def test_options_pasted_with_program_and_model(capsys: pytest.CaptureFixture[str]) -> None:
    words = f"LLAMA_ARG_UBATCH=128 llama-server -m {GEMMA} --host 0.0.0.0 -c 4096 -np 2 --jinja".split()
    found = said(capsys, "--json", "--", *words)
    assert found["options"] | {"n_ctx": 4096, "n_ubatch": 128, "n_seq_max": 2} == found["options"]
    assert found["sources"]["options.n_ubatch"] == "given: LLAMA_ARG_UBATCH"


def test_variables_of_the_environment(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "2048")
    assert said(capsys, GEMMA, "--json")["options"]["n_ctx"] == 2048
    assert said(capsys, GEMMA, "--json", "--", "-c", "512")["options"]["n_ctx"] == 512


def test_metadata_that_the_server_is_told_to_take(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--override-kv", "gemma3.context_length=int:1024", "-np", "1"]
    assert said(capsys, GEMMA, "--json", "--", *words)["options"]["n_ctx"] == 1024


def test_an_option_that_was_meant_is_asked_about(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kv", GEMMA, "--json", "--", "--ctx-sise", "512"]) == 0
    assert capsys.readouterr().err == "phasetop: --ctx-sise is passed over: is --ctx-size meant?\n"


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ([], "which model? Give a .gguf file, a server's URL, or one of llama3.1-8b"),
        (["nothing.gguf"], "nothing.gguf: no such file or directory"),
        ([GEMMA, "-c", "512"], "llama-server's options stand after --"),
        ([GEMMA, "--", "-c"], "-c lacks its value"),
        ([GEMMA, "--", "-ctv", "q8_0", "-fa", "off"], "a V cache of q8_0 needs flash attention"),
        ([GEMMA, "--max-context"], "--max-context needs --memory"),
        ([GEMMA, "--memory", "much"], "--memory much: such as 24GiB"),
    ],
)
def test_errors(argv: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["kv", *argv, *([] if "--" in argv else ["--json"])])
    out, err = capsys.readouterr()
    assert (status, out) == (1 if "nothing.gguf" in argv else 2, "")
    assert text in err
    assert len(err.splitlines()) <= 4


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *(("24GiB", 24 << 30), ("24G", 24 << 30), ("24 gib", 24 << 30), ("24GB", 24 * 10**9), ("512MiB", 512 << 20)),
        *(("1.5TiB", 3 << 39), ("1000", 1000), ("8000B", 8000)),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert read_size("--memory", text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1e9", "24GiBs", "24 24", "9" * 30])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match="--memory"):
        read_size("--memory", text)


def test_what_fits(capsys: pytest.CaptureFixture[str]) -> None:
    def largest(*argv: str) -> dict[str, Any]:
        return dict(said(capsys, "llama3.1-8b", "--json", "--max-context", *argv)["max_context"])

    weights, a_token = 4_912_898_304, 131_072
    room = weights + 20_000 * a_token
    found = largest("--memory", str(room), "--", "-np", "1")
    assert found["tokens"] == 20_000 // 256 * 256
    assert (found["kv_bytes"], found["weights_bytes"], found["limit"]) == (found["tokens"] * a_token, weights, "memory")
    assert largest("--memory", "24GiB", "--", "-np", "1")["tokens"] == 131_072  # no more than it was trained for
    assert largest("--memory", "24GiB", "--", "-np", "1")["limit"] == "trained"
    quantised = largest("--memory", str(room), "--", "-np", "1", "-ctk", "q8_0", "-ctv", "q8_0")
    assert quantised["tokens"] == 20_000 * 64 // 34 // 256 * 256
    none = said(capsys, "llama3.1-8b", "--json", "--max-context", "--memory", "4GiB")
    assert none["max_context"]["tokens"] is None
    assert none["unknown"]["max_context.tokens"] == "not even 256 tokens fit"


def test_what_fits_where_the_weights_are_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, "gemma3-27b", "--json", "--max-context", "--memory", "24GiB")
    assert found["max_context"]["tokens"] is None
    assert "--weights" in found["unknown"]["max_context"]
    told = said(capsys, "gemma3-27b", "--json", "--max-context", "--memory", "24GiB", "--weights", "17GB", "--", "-np", "1")
    assert told["max_context"]["weights_bytes"] == 17 * 10**9
    assert told["max_context"]["tokens"] == 98_816  # (24 GiB − 17 GB − 624 MiB of windows) ÷ 81,920 B, in steps of 256
    assert told["sources"]["model.tensor_bytes"] == "given"


@pytest.mark.skipif(os.name == "nt", reason="a script for a shell")
def test_the_memory_of_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 24564\necho 8192\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_memory_bytes() == 24564 << 20
    assert "fits 24.0 GiB" in shown(capsys, GEMMA, "--no-plot")
    program.write_text("#!/bin/sh\necho 'NVIDIA-SMI has failed'\nexit 9\n", encoding="utf-8")
    assert gpu_memory_bytes() is None


def test_contexts_of_the_table() -> None:
    assert contexts(131072) == [4096, 8192, 16384, 32768, 65536, 131072]
    assert contexts(40960) == [4096, 8192, 16384, 32768, 40960]
    assert contexts(2048) == [256, 512, 1024, 2048]
    assert contexts(100) == [100]


def test_a_type_that_llama_cpp_refuses_is_a_gap() -> None:
    metadata = from_file(HEADERS / "llama-gqa.gguf")
    odd = {**metadata.hparams, "llama.attention.key_length": 80}
    found = kv_object(study(type(metadata)(arch="llama", hparams=odd), Options(slots=1)))
    assert [row["kv_bytes_total"] for row in found["table"][1:3]] == [None, None]
    assert "refuses" in found["unknown"]["table.kv_bytes_total"]


@pytest.mark.parametrize("colour", [True, False])
def test_the_plot_tells_its_lines_apart_without_colour(colour: bool) -> None:
    drawn = plot(study(from_file(Path(GEMMA)), Options(slots=1)), 80, colour=colour)
    assert ("\x1b[" in drawn) == colour
    if not colour:
        assert {"f", "8", "4"} <= set(drawn.splitlines()[6] + drawn.splitlines()[8] + drawn.splitlines()[10])
    assert all(len(line) <= 80 for line in drawn.splitlines()) or colour


def test_json_loads_nothing_heavy() -> None:
    script = (
        "import sys; from phasetop.cli import main; main(['kv', sys.argv[1], '--json']);"
        "print([m for m in ('httpx', 'textual', 'plotext', 'psutil', 'pynvml', 'phasetop.lifeline') if m in sys.modules],"
        " file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script, GEMMA], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == "[]\n"
