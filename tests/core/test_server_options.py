"""A llama-server's options: pasted, of a running process, from the environment; and what is never kept of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop.kv import OptionsError
from phasetop.server_options import KNOWN, looks_like, read_argv, read_given

CASES = [json.loads(line) for line in (Path(__file__).parents[1] / "data" / "kv" / "truth.jsonl").read_text().splitlines()]
NAMES = {
    "n_ctx": "context",
    "n_parallel": "parallel",
    "n_ubatch": "ubatch",
    "type_k": "cache_type_k",
    "type_v": "cache_type_v",
    "fa": "flash_attention",
}


def test_the_options_of_every_measured_case() -> None:
    for case in CASES:
        found = read_given(case["argv"]).values
        for name, value in case["options"].items():
            if name != "n_rs_seq":  # what --spec-type makes of it
                assert found[NAMES.get(name, name)] == value, case["id"]


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("-c 32768 -np 4 -ctk q8_0 -ctv q8_0 -fa on --swa-full --kv-unified -ub 256", 8),
        ("--ctx-size 4096 --parallel 2 --cache-type-k f32 --batch-size 1024 --ubatch-size 64 --flash-attn off", 6),
        ("--ctx_size 4096 --cache_type_k q4_0", 2),
    ],
)
def test_short_and_long_names(words: str, values: int) -> None:
    assert len(read_given(words.split()).values) == values


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-fa"], {"flash_attention": "on"}),  # as older servers took it
        (["-fa", "-c", "512"], {"flash_attention": "on", "context": 512}),
        (["-fa", "1"], {"flash_attention": "on"}),
        (["-fa", "disabled"], {"flash_attention": "off"}),
        (["-fa", "-1"], {"flash_attention": "auto"}),
        (["-kvu", "-no-kvu"], {"kv_unified": False}),
        (["-c", "1", "-c", "2"], {"context": 2}),
        (["-np", "-1"], {"parallel": -1}),
        (["-ngl", "all"], {"gpu_layers": "all"}),
        (["-ngl", "99"], {"gpu_layers": 99}),
        (["--spec-type", "draft-mtp,ngram-mod", "--spec-type", "none"], {"spec_type": ["draft-mtp", "ngram-mod", "none"]}),
        (["-fit", "off", "-nkvo"], {"fit": False, "kv_offload": False}),
        (["llama-server", "-m", "x.gguf", "--host", "0.0.0.0", "-c", "512", "--jinja"], {"context": 512}),
        (["LLAMA_ARG_CTX_SIZE=512", "./llama-server"], {"context": 512}),
        (["LLAMA_ARG_CTX_SIZE=512", "CUDA_VISIBLE_DEVICES=0", "llama-server", "-c", "1024"], {"context": 1024}),
    ],
)
def test_forms(words: list[str], expected: dict[str, Any]) -> None:
    assert read_given(words).values == expected


def test_files_are_known_and_not_shown() -> None:
    found = read_given(["-m", "/models/secret-name.gguf", "-md", "draft.gguf", "--override-kv", "llama.x=int:5,y=bool:true"])
    assert (found.model, found.draft) == ("/models/secret-name.gguf", "draft.gguf")
    assert found.overrides == {"llama.x": 5, "y": True}
    assert (found.values, found.sources) == ({}, {})


def test_the_environment_and_what_beats_it() -> None:
    environment = {
        "LLAMA_ARG_CTX_SIZE": "512",
        "LLAMA_ARG_UBATCH": "64",
        "LLAMA_ARG_SWA_FULL": "true",
        "LLAMA_ARG_KV_UNIFIED": "on",
        "LLAMA_ARG_NO_CONTEXT_SHIFT": "whatever",
        "LLAMA_ARG_MODEL": "m.gguf",
        "LLAMA_API_KEY": "sk-secret",
        "LLAMA_ARG_API_KEY_FILE": "/keys",
    }
    found = read_argv(["llama-server", "-c", "1024"], environment)
    assert found.model == "m.gguf"
    assert found.values == {"context": 1024, "ubatch": 64, "swa_full": True, "kv_unified": True, "context_shift": False}
    assert found.sources["context"] == "argv"
    assert found.sources["ubatch"] == "argv: LLAMA_ARG_UBATCH"
    assert found.sources["context_shift"] == "argv: LLAMA_ARG_NO_CONTEXT_SHIFT"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-c"], "-c lacks its value"),
        (["-c", "many"], "-c many: llama-server takes a whole number"),
        (["--ctx-size=512"], "as a word of its own: --ctx-size VALUE"),
        (["-ctk", "q3_K"], "llama-server takes f32, f16"),
        (["-fa", "perhaps"], "on, off or auto"),
        (["--spec-type", "magic"], "draft-mtp"),
        (["--override-kv", "a=int:x"], "a value of type int for a"),
        (["LLAMA_ARG_CTX_SIZE=x"], "LLAMA_ARG_CTX_SIZE=x: llama-server takes a whole number"),
        (["LLAMA_ARG_KV_UNIFIED=maybe"], "on or off"),
    ],
)
def test_what_llama_server_would_not_take(words: list[str], text: str) -> None:
    with pytest.raises(OptionsError, match=text):
        read_given(words)
    read_argv(words)  # of a process that runs: passed over


def test_options_that_were_meant() -> None:
    assert looks_like("--ctx-sise") == "--ctx-size"
    assert looks_like("--cache-type-kk") == "--cache-type-k"
    for word in ("--ctx-size", "--host", "--api-key", "--metrics", "--chat-template-file", "-c", "4096", "--threads-http"):
        assert looks_like(word) is None


SECRET = "sk-5f3a9c"


@given(
    st.lists(st.sampled_from([word for known in KNOWN for word in (*known.words, *known.off)] + ["--api-key"]), max_size=5)
)
def test_a_secret_is_never_kept(words: list[str]) -> None:
    """Wherever a key stands, also where the value of an option that is known belongs."""
    for argv in ([*words, SECRET], [SECRET, *words], [each for word in words for each in (word, SECRET)]):
        found = read_argv(["llama-server", *argv], {"LLAMA_API_KEY": SECRET})
        assert SECRET not in repr((found.values, found.sources))
