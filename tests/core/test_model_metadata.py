"""What a model is: from its file, and from Ollama's description of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from phasetop import known_models
from phasetop.gguf import GgufError, read_header
from phasetop.kv import Options, attended_bytes, bytes_per_token, layout
from phasetop.model_metadata import from_file, from_header, from_show
from tests.core.gguf_writer import STRING, Gguf, small

KV = Path(__file__).parents[1] / "data" / "kv"
F16, Q8_0, F32 = 1, 8, 0


def test_a_real_model(small_model: Path) -> None:
    found = from_file(small_model)
    assert (found.arch, found.quant, found.layers, found.context_trained) == ("llama", "Q4_1", 30, 8192)
    assert found.params == 134_515_008
    assert found.tensor_bytes == 96_576_768
    assert found.eos == "<|im_end|>"
    # the head is the embedding: 576 × 49,152 numbers in Q8_0, and the norm before it
    assert found.head_tied
    assert found.weights is not None
    assert found.weights["head"] == 576 * 49152 // 32 * 34 + 576 * 4
    assert found.read_bytes_per_token == found.tensor_bytes
    assert sum(found.by_type.values()) == found.tensor_bytes
    event = found.event()
    assert event["hparams"]["llama.attention.head_count_kv"] == 3
    assert event["origin"]["weights"] == "file"
    assert not any(isinstance(value, str) for value in event["hparams"].values())


def moe(tmp_path: Path) -> Path:
    """One layer, 8 experts of which 2 are used, a head of its own, one layer of a draft head."""
    keys = [
        ("general.architecture", STRING, "x"),
        ("x.block_count", 4, 2),
        ("x.nextn_predict_layers", 4, 1),
        ("x.expert_count", 4, 8),
        ("x.expert_used_count", 4, 2),
    ]
    shapes: list[tuple[str, tuple[int, ...], int]] = [
        ("token_embd.weight", (64, 100), F16),
        ("output.weight", (64, 100), Q8_0),
        ("output_norm.weight", (64,), F32),
        ("blk.0.attn_q.weight", (64, 64), Q8_0),
        ("blk.0.ffn_gate_inp.weight", (64, 8), F32),
        ("blk.0.ffn_up_exps.weight", (64, 32, 8), Q8_0),
        ("blk.0.ffn_up_shexp.weight", (64, 32), Q8_0),
        ("blk.1.attn_q.weight", (64, 64), Q8_0),
    ]
    tensors = [(name, shape, kind, 1024 * n) for n, (name, shape, kind) in enumerate(shapes)]
    path = tmp_path / "moe.gguf"
    path.write_bytes(Gguf(keys=keys, tensors=tensors).written())
    return path


def test_what_a_token_reads_of_experts(tmp_path: Path) -> None:
    found = from_file(moe(tmp_path))
    q8 = 34 / 32
    assert found.weights == {
        "layers": 64 * 64 * q8 + 64 * 8 * 4 + 64 * 32 * q8,  # the router and the shared expert whole, no draft head
        "experts": 64 * 32 * 2 * q8,
        "head": 6400 * q8 + 64 * 4,  # not the embedding
    }
    assert found.active_params == 64 * 64 + 64 * 8 + 64 * 32 + 64 * 32 * 2 + 6400 + 64
    assert not found.head_tied


def test_a_type_that_is_not_known_makes_sizes_unknown(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(small(tensors=[("blk.0.attn_k.weight", (64, 32), 99, 0)]).written())
    found = from_file(path)
    assert (found.tensor_bytes, found.weights, found.read_bytes_per_token) == (None, None, None)
    assert found.hparams["llama.attention.head_count_kv"] == (2, 1)


def test_a_file_without_an_architecture(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(Gguf(keys=[("general.name", STRING, "x")]).written())
    with pytest.raises(GgufError, match="it says no architecture"):
        from_file(tmp_path / "m.gguf")


def test_a_draft_head_that_is_not_there(tmp_path: Path) -> None:
    keys = [
        ("general.architecture", STRING, "deepseek4"),
        ("deepseek4.block_count", 4, 4),
        ("deepseek4.nextn_predict_layers", 4, 1),
    ]
    for tensors, draft in (([], 0), ([("blk.3.nextn.eh_proj.weight", (32,), F32, 0)], 1)):
        path = tmp_path / f"{draft}.gguf"
        path.write_bytes(Gguf(keys=keys, tensors=tensors).written())
        assert from_file(path).hparams["deepseek4.nextn_predict_layers"] == draft


def shown(name: str) -> dict[str, Any]:
    """A model as Ollama's /api/show describes it without ``verbose``: arrays null, the tensors with their shapes."""
    header = read_header(KV / "headers" / name)
    info = {key: None if isinstance(value, tuple) else value for key, value in header.values.items()}
    info["general.parameter_count"] = sum(tensor.elements for tensor in header.tensors)
    tensors = [{"name": t.name, "type": t.type, "shape": list(t.shape)} for t in header.tensors]
    return {"model_info": info, "tensors": tensors, "details": {"quantization_level": "F16"}}


@pytest.mark.parametrize("name", ["deci", "jamba", "lfm2", "granitehybrid", "llama-gqa", "nemotron_h"])
def test_kv_heads_by_the_shapes_of_tensors(name: str) -> None:
    """Where Ollama leaves an array out, the cache is that of the whole file all the same."""
    found, whole = from_show(shown(f"{name}.gguf")), from_header(read_header(KV / "headers" / f"{name}.gguf"))
    assert found is not None
    options = Options(context=4096, slots=2)
    assert layout(found.arch, found.hparams, options) == layout(whole.arch, whole.hparams, options)
    assert (found.tensor_bytes, found.weights) == (whole.tensor_bytes, whole.weights)


def test_an_answer_of_ollama() -> None:
    found = from_show(json.loads((KV / "show.json").read_text()))
    assert found is not None
    assert (found.arch, found.layers, found.context_trained, found.quant) == ("llama", 30, 8192, "Q4_1")
    assert bytes_per_token(layout(found.arch, found.hparams)) == 23_040
    # only some of its tensors are in the capture, which the parameter count tells
    assert (found.params, found.tensor_bytes, found.weights) == (134_515_008, None, None)


@pytest.mark.parametrize("show", [{}, {"model_info": None}, {"model_info": {"general.architecture": 5}}, {"error": "x"}])
def test_an_answer_that_is_none(show: dict[str, Any]) -> None:
    assert from_show(show) is None


@pytest.mark.parametrize(
    "tensor", [None, {}, {"name": 1}, {"name": "x", "shape": "y"}, {"name": "x", "shape": [-1], "type": 5}]
)
def test_tensors_that_are_none(tensor: Any) -> None:
    assert from_show({"model_info": {"general.architecture": "llama"}, "tensors": [tensor]}) is not None


def known(name: str, context: int, slots: int | None = 1, kind: str = "f16") -> Any:
    model = known_models.KNOWN[name].metadata()
    return layout(model.arch, model.hparams, Options(context=context, slots=slots, type_k=kind, type_v=kind))


def mib(found: Any) -> list[float]:
    return [cache.total_bytes / 2**20 for cache in found.caches]


def test_published_figures() -> None:
    llama = known("llama3.1-8b", 131072)
    assert (bytes_per_token(llama), llama.kv_bytes) == (131_072, 17_179_869_184)
    weights = known_models.KNOWN["llama3.1-8b"].metadata().tensor_bytes
    assert weights is not None
    assert round(llama.kv_bytes / weights, 1) == 3.5
    # llama.cpp's own logs: ik_llama.cpp#822 and others for gpt-oss-20b, ollama#17037 for gemma3:4b
    assert mib(known("gpt-oss-20b", 131072)) == [3072, 18]
    assert mib(known("gpt-oss-20b", 131072, slots=None)) == [3072, 24]
    assert mib(known("gemma3-4b", 8192)) == [160, 174]
    assert mib(known("gemma3-4b", 131072)) == [2560, 174]
    # ikawrakow/ik_llama.cpp#259: one latent vector a layer, in q8_0
    assert mib(known("deepseek-r1", 32768, kind="q8_0")) == [1166.625]
    # alvarobartt/hf-mem#60, unslothai/unsloth#4757: what is attended to
    big = known("gpt-oss-120b", 131072)
    assert attended_bytes(big, 1000) == 36_864 * 1000 + 18 * 2048 * 128
    assert attended_bytes(big, 100) == (36_864 + 18 * 2048) * 100
    assert round(attended_bytes(known("gemma3-27b", 131072), 131072) / 2**30, 3) == 10.406


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("llama3.1:8b", "llama3.1-8b"),
        ("Llama 3.1 8B", "llama3.1-8b"),
        ("Meta-Llama-3.1-8B-Instruct-Q4_K_M", "llama3.1-8b"),
        ("openai/gpt-oss-20b", "gpt-oss-20b"),
        ("gemma3:27b-it-q4_K_M", "gemma3-27b"),
        ("gemma-3-27b-it", "gemma3-27b"),
        ("deepseek-r1", "deepseek-r1"),
    ],
)
def test_names_as_people_write_them(typed: str, name: str) -> None:
    found = known_models.find(typed)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("typed", ["llama3.1", "gemma3", "nothing", "", "deepseek-r1:8b"])
def test_names_that_are_not_known(typed: str) -> None:
    assert known_models.find(typed) is None
