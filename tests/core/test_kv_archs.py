"""The rules of architectures for which no case was measured, by numbers worked out by hand; and what must hold for all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop.kv import (
    KvError,
    Layout,
    Options,
    OptionsError,
    attended_bytes,
    bytes_per_token,
    largest_context,
    layout,
    next_token_bytes,
    occupied_bytes,
)
from phasetop.kv.archs import ARCHS, PLAIN
from phasetop.tensor_types import CACHE_TYPES

ONE = Options(context=4096, slots=1)
"""One sequence of 4,096 tokens, batches of 512."""
CELL = 256
"""Bytes of K and V of one token in one layer of `made`: 1 KV head of 64 numbers of two bytes, twice."""


def made(arch: str, layers: int = 8, /, **more: Any) -> Layout:
    """The layout of a model of ``layers`` layers of 4 heads and 1 KV head, each 64 wide. In names a dot is ``__``."""
    options = more.pop("options", ONE)
    values = {
        "block_count": layers,
        "context_length": 8192,
        "embedding_length": 256,
        "attention.head_count": 4,
        "attention.head_count_kv": 1,
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    return layout(arch, {f"{arch}.{name}": value for name, value in values.items()}, options)


def layers_of(found: Layout) -> dict[str, list[int]]:
    return {cache.name: [il for il, _, _ in cache.layers] for cache in found.caches}


@pytest.mark.parametrize(
    ("arch", "window", "dense"),
    [
        ("cohere2moe", 512, [0, 4]),
        ("laguna", 512, [0, 4]),
        ("exaone-moe", 512, [3, 7]),
        ("muse-glimmer", 512, [3, 7]),
        ("mellum", 512, [3, 7]),
        ("plamo3", 512, [7]),
        ("gpt-oss", 512, [1, 3, 5, 7]),
    ],
)
def test_which_layers_are_dense(arch: str, window: int, dense: list[int]) -> None:
    found = made(arch, attention__sliding_window=window)
    assert found.kind == "iswa"
    assert layers_of(found) == {"base": dense, "swa": [il for il in range(8) if il not in dense]}
    assert [cache.cells for cache in found.caches] == [4096, 1024]  # 512 + a batch of 512


@pytest.mark.parametrize("arch", ["mellum", "plamo3", "laguna", "afmoe", "olmo2", "gemma3", "lfm2", "smallthinker"])
@pytest.mark.parametrize("window", [None, 0])
def test_a_window_that_a_file_turns_off(arch: str, window: int | None) -> None:
    more = {} if window is None else {"attention__sliding_window": window}
    found = made(arch, shortconv__l_cache=3, **more)
    assert found.kind == ("hybrid" if arch == "lfm2" else "kv")


@pytest.mark.parametrize("arch", ["mimo2", "step35", "spark2_5", "maple", "granite_swa"])
def test_a_window_that_an_array_says(arch: str) -> None:
    pattern = [True, False, True, True, False, False, False, True]
    found = made(arch, attention__sliding_window=128, attention__sliding_window_pattern=pattern)
    assert layers_of(found) == {"base": [1, 4, 5, 6], "swa": [0, 2, 3, 7]}
    with pytest.raises(KvError, match=rf"{arch}\.attention\.sliding_window_pattern is not known"):
        made(arch, attention__sliding_window=128)


def test_a_scalar_replaces_the_pattern_only_where_llama_cpp_reads_it() -> None:
    more = {"attention__sliding_window": 512, "attention__sliding_window_pattern": 2}
    assert layers_of(made("gemma3", **more))["base"] == [1, 3, 5, 7]
    assert layers_of(made("plamo3", **more))["base"] == [1, 3, 5, 7]
    assert layers_of(made("llama", **more)) == {"kv": list(range(8))}


@pytest.mark.parametrize("arch", ["llama", "phi3", "qwen2", "mistral3", "starcoder2", "lfm2moe"])
def test_a_window_that_is_ignored(arch: str) -> None:
    found = made(arch, attention__sliding_window=256, shortconv__l_cache=3)
    assert found.kind in ("kv", "hybrid")
    assert [cache.cells for cache in found.caches] == [4096]


def test_windows_of_a_fixed_width() -> None:
    options = Options(context=32768, slots=1)
    assert [c.cells for c in made("smallthinker", attention__sliding_window=7, options=options).caches] == [32768, 4608]
    chunked = made("llama4", options=options)
    assert [c.cells for c in chunked.caches] == [32768, 8704]  # 8192 + 512
    # attended: 1 + (n - 1) % 8192 in the six chunked layers, everything in the two dense ones
    assert attended_bytes(chunked, 8193) == (8193 * 2 + 1 * 6) * CELL
    assert attended_bytes(chunked, 16384) == (16384 * 2 + 8192 * 6) * CELL


def test_heads_of_another_width_within_the_window() -> None:
    keys = {"attention__key_length": 128, "attention__value_length": 128}
    window = {"attention__key_length_swa": 64, "attention__value_length_swa": 32}
    more = {"attention__sliding_window": 512, "attention__sliding_window_pattern": [1, 0] * 4}
    found = made("gemma4", attention__shared_kv_layers=2, **keys, **window, **more)
    assert found.caches[0].layers == ((1, 128, 128), (3, 128, 128), (5, 128, 128))  # the last two layers have none
    assert found.caches[1].layers == ((0, 64, 32), (2, 64, 32), (4, 64, 32))
    with pytest.raises(KvError, match="key_length_swa"):
        made("gemma4", **keys, **more)


def test_the_window_of_a_hybrid() -> None:
    found = made("lfm2", attention__sliding_window=512, shortconv__l_cache=3, attention__head_count_kv=[0, 1, 0, 1] * 2)
    assert found.kind == "hybrid_iswa"
    assert layers_of(found) == {"base": [], "swa": [1, 3, 5, 7]}
    assert found.state_bytes == 4 * 256 * 2 * 4  # 4 layers × embedding × (l_cache − 1) × f32


def test_lfm2_of_a_report() -> None:
    """gpustack/gguf-parser-go#31: 16 layers of which 6 attend, with 8 heads of 64 at 32,768 tokens: 384 MiB."""
    heads = [0, 0, 8, 0, 0, 8, 0, 0, 8, 0, 8, 0, 8, 0, 8, 0]
    found = made("lfm2", 16, attention__head_count_kv=heads, shortconv__l_cache=3, options=Options(context=32768, slots=1))
    assert found.kv_bytes == 384 << 20


@pytest.mark.parametrize(("arch", "kept"), [("kimi-linear", True), ("bailingmoe3", True), ("glm5-next", False)])
def test_delta_attention_beside_a_latent_cache(arch: str, kept: bool) -> None:
    more = {"attention__key_length": 576, "attention__value_length": 512, "ssm__conv_kernel": 4, "kda__head_dim": 32}
    latent = {"attention__key_length_mla": 192, "attention__value_length_mla": 128, "attention__indexer__key_length": 16}
    heads = [0, 1, 0, 1, 0, 1, 0, 1]
    found = made(arch, attention__head_count_kv=heads, nextn_predict_layers=1, **more, **latent)
    attending = [1, 3, 5, 7] if kept else [1, 3, 5]
    assert found.kind == "hybrid"
    assert found.caches[0].layers == tuple((il, 576, 0) for il in attending)
    if arch == "glm5-next":
        assert found.caches[1].name == "idx"
        assert found.caches[1].layers == tuple((il, 48, 0) for il in attending)  # key, gate and pooled key
    # of the 7 layers of the trunk 4 have a state: 3 convolutions of 3 × 4 heads × 32, and 32² × 4 heads
    assert found.state_bytes == 4 * (3 * 3 * 4 * 32 + 32 * 32 * 4) * 4


def test_a_latent_cache_needs_both_widths() -> None:
    more = {"attention__key_length": 576, "attention__value_length": 512}
    assert made("mistral4", attention__key_length_mla=192, attention__value_length_mla=128, **more).v_bytes == 0
    assert made("mistral4", attention__key_length_mla=192, **more).v_bytes == 8 * 4096 * 512 * 2
    with pytest.raises(OptionsError, match="types must be the same"):
        made(
            *("deepseek2",),
            attention__key_length_mla=192,
            attention__value_length_mla=128,
            options=Options(context=256, slots=1, type_k="q8_0"),
            **more,
        )


INDEX = {"attention__indexer__key_length": 128, "attention__indexer__top_k": 64, "attention__indexer__head_count": 4}
LATENT = {
    "attention__key_length": 576,
    "attention__value_length": 512,
    "attention__key_length_mla": 192,
    "attention__value_length_mla": 128,
}


@pytest.mark.parametrize(
    ("trained", "types", "marked"),
    [
        (131072, None, [0, 1, 2, 3, 4, 5, 6]),
        (1 << 20, None, [0, 1, 2, 6]),
        (1 << 20, [1, 0, 0, 0, 1, 0, 0], [0, 4]),
    ],
)
def test_indexers_of_glm(trained: int, types: list[int] | None, marked: list[int]) -> None:
    more = {} if types is None else {"attention__indexer__types": types}
    found = made("glm-dsa", nextn_predict_layers=1, context_length=trained, **INDEX, **LATENT, **more)
    assert found.kind == "dsa"
    assert layers_of(found) == {"mla": [0, 1, 2, 3, 4, 5, 6], "lid": marked}
    assert found.caches[1].layers[0] == (0, 128, 0)


def test_indexers_of_hunyuan() -> None:
    types = {"attention__indexer__types": [1, 0] * 4}
    assert layers_of(made("hy_v4", **INDEX, **LATENT, **types)) == {"mla": list(range(8)), "lid": [0, 2, 4, 6]}
    without = {name: value for name, value in INDEX.items() if "top_k" not in name}
    assert made("hy_v4", **without, **LATENT).kind == "kv"
    with pytest.raises(KvError, match=r"indexer\.types"):
        made("hy_v4", **INDEX, **LATENT)


def test_an_indexer_beside_windows() -> None:
    window = {"attention__sliding_window": 128, "attention__sliding_window_pattern": [0, 1, 1, 1] * 2}
    found = made("dots3note", attention__indexer__types=[1, 0, 0, 0] * 2, **window, **INDEX, **LATENT)
    assert layers_of(found) == {"mla": [0, 4], "lid": [0, 4], "swa": [1, 2, 3, 5, 6, 7]}
    assert [cache.cells for cache in found.caches] == [4096, 4096, 768]  # 128 + 512, to the next multiple of 256
    assert found.kind == "dsa"


def test_an_indexer_after_the_dense_layers() -> None:
    found = made("minimax-m3", leading_dense_block_count=3, **INDEX)
    assert found.kind == "msa"
    assert layers_of(found) == {"base": list(range(8)), "idx": [3, 4, 5, 6, 7]}
    assert found.caches[1].layers[0] == (3, 128, 64)


@pytest.mark.parametrize(("ratios", "width"), [({}, 128), ({"attention__compress_ratios": [4] * 8}, 256)])
def test_an_indexer_of_a_hybrid(ratios: dict[str, Any], width: int) -> None:
    ssm = {"ssm__conv_kernel": 4, "ssm__inner_size": 64, "ssm__state_size": 16, "ssm__group_count": 2}
    found = made("qwen4exp", **INDEX, **ssm, **ratios)
    assert layers_of(found) == {"attn": [3, 7], "idx": [3, 7]}
    assert found.caches[1].layers == ((3, width, 0), (7, width, 0))
    assert found.state_bytes == 6 * (3 * (64 + 2 * 2 * 16) + 16 * 64) * 4


def test_a_compressed_past() -> None:
    ratios = [0, 4, 128, 4, 128, 4, 0, 4]
    more = {"attention__compress_ratios": ratios, "attention__sliding_window": 128, "attention__key_length": 512}
    options = Options(context=8192, slots=2, unified=True)
    found = made("deepseek4", attention__value_length=512, options=options, **more, **INDEX)
    caches = {cache.name: cache for cache in found.caches}
    assert {name: (cache.cells, cache.streams) for name, cache in caches.items()} == {
        "base": (8192, 2),
        "swa": (768, 2),
        "csa": (2048, 2),
        "hca": (256, 2),
        "lid": (2048, 2),
    }  # a stream a sequence although they share a pool
    assert layers_of(found) == {"base": [], "swa": list(range(8)), "csa": [1, 3, 5, 7], "hca": [2, 4], "lid": [1, 3, 5, 7]}
    assert found.v_bytes == 0
    per_sequence = 4 * 2 * 8 * 2 * 512 + 2 * 2 * 128 * 512 + 4 * 2 * 8 * 2 * 128
    assert found.state_bytes == per_sequence * 4 * 2
    # 1,000 tokens: 768 of the window, 250 and 7 whole blocks
    assert occupied_bytes(found, 1000) == (768 * 8 + 250 * 4 + 7 * 2) * 1024 + 250 * 4 * 256 + per_sequence * 4


def test_recurrent_models() -> None:
    found = made("rwkv7", wkv__head_size=64)
    assert (found.kind, found.caches) == ("recurrent", ())
    assert found.state_bytes == 8 * (2 * 256 + 256 * 64) * 4
    assert made("arwkv7", wkv__head_size=64, token_shift_count=1).state_bytes == 8 * (256 + 256 * 64) * 4
    three = made("mamba", ssm__conv_kernel=4, ssm__inner_size=512, ssm__state_size=16, options=Options(slots=3))
    assert three.state_bytes == 3 * 8 * (3 * 512 + 16 * 512) * 4  # group_count is not read
    assert occupied_bytes(three, 7) == three.state_bytes // 3
    assert (bytes_per_token(three), next_token_bytes(three, 7), occupied_bytes(three, 0)) == (0, 0, 0)


SSM = {"ssm__conv_kernel": 4, "ssm__inner_size": 64, "ssm__state_size": 16, "ssm__group_count": 1}


def test_hybrids() -> None:
    both = made("falcon-h1", **SSM)
    assert layers_of(both) == {"attn": list(range(8))}
    assert both.state_bytes == 8 * (3 * (64 + 32) + 16 * 64) * 4
    kinds = made(
        *("nemotron_h_moe",),
        attention__head_count_kv=[0, 0, 1, 0, 0, 1, 1, 0],
        feed_forward_length=[0, 512, 0, 0, 512, 0, 512, 0],
        **SSM,
    )
    assert layers_of(kinds) == {"attn": [2, 5]}  # layers with a feed-forward part have neither cells nor state
    assert kinds.state_bytes == 3 * (3 * (64 + 32) + 16 * 64) * 4
    listed = made("qwen35moe", attention__recurrent_layers=[1, 1, 0, 1, 1, 1, 1, 0], **SSM)
    assert layers_of(listed) == {"attn": [2, 7]}
    assert layers_of(made("minimax-01", 16, full_attention_interval=8)) == {"attn": [7, 15]}
    drafting = Options(context=4096, slots=2, drafts=("draft-mtp",), draft_max=5)
    assert made("qwen35moe", options=drafting, **SSM).state_bytes == 6 * (3 * 96 + 1024) * 4 * 2 * 6
    assert made("qwen3next", options=drafting, **SSM).options.n_rs_seq == 0  # it cannot go back


def test_nemotron_of_a_report() -> None:
    """Osmantic/ODS#5508: 88 layers with 16 KV heads of 128 in all, 32,768 tokens: 0.25 GiB."""
    heads = [2 if il % 11 == 0 else 0 for il in range(88)]
    found = made(
        *("nemotron_h", 88),
        attention__head_count_kv=heads,
        attention__key_length=128,
        attention__value_length=128,
        options=Options(context=32768, slots=1),
        **SSM,
    )
    assert found.kv_bytes == 1 << 28


def test_the_rest_of_what_is_particular() -> None:
    assert layers_of(made("nanbeige", num_loops=3))["kv"] == list(range(24))
    router = made("graniteswitch", attention__head_count_kv=2)
    assert router.caches[0].layers[-1] == (8, 64, 64)
    assert len(router.caches[0].layers) == 9
    assert len(made("gemma3n", 35, attention__sliding_window=512).caches[0].layers) == 4  # of the first 20 layers
    grok = made("grok")
    assert grok.options.flash_attn == "off"
    with pytest.raises(OptionsError, match="flash attention"):
        made("grok", options=Options(context=256, slots=1, type_v="q8_0"))
    assert made("exaone4", 64, attention__sliding_window=256).kind == "iswa"
    assert made("exaone4", 32, attention__sliding_window=256).kind == "kv"


def test_heads_by_layer() -> None:
    found = made("openelm", attention__head_count=[4, 8, 8, 4] * 2, attention__head_count_kv=[1, 2, 2, 1] * 2)
    assert [k for _, k, _ in found.caches[0].layers] == [64, 128, 128, 64] * 2
    without = made("openelm", attention__head_count_kv=[1, 2, 2, 1] * 2, options=Options(context=4096, slots=1, flash="off"))
    assert [v for _, _, v in without.caches[0].layers] == [128] * 8  # transposed: as wide as the widest
    with pytest.raises(KvError, match="has 3 numbers, and the model 8 layers"):
        made("llama", attention__head_count_kv=[1, 2, 3])


def test_a_toolchest_of_a_report() -> None:
    """tmac1973/llama-toolchest#58: 40 windowed layers of 8 heads of 256, 8 dense ones of 1 head of 512: not 58 GB."""
    pattern = [1, 1, 1, 1, 1, 0] * 8
    heads = [8 if windowed else 1 for windowed in pattern]
    widths = {
        "attention__key_length": 512,
        "attention__value_length": 512,
        "attention__key_length_swa": 256,
        "attention__value_length_swa": 256,
    }
    found = made(
        *("gemma4", 48),
        attention__head_count_kv=heads,
        attention__sliding_window=1024,
        attention__sliding_window_pattern=pattern,
        options=Options(context=131072, slots=1),
        **widths,
    )
    assert [c.total_bytes for c in found.caches] == [8 * 131072 * 512 * 4, 40 * 1536 * 8 * 256 * 4]


def test_an_unknown_architecture_is_a_plain_cache_and_said_to_be_unknown() -> None:
    found = made("brand-new-9", attention__sliding_window=128, ssm__conv_kernel=4)
    assert (found.known, found.kind, found.kv_bytes) == (False, "kv", 8 * 4096 * CELL)
    assert made("llama").known


def test_no_cache_at_all() -> None:
    for arch in ("bert", "modern-bert", "gemma-embedding", "dream", "llada-moe", "rnd1", "clef"):
        found = made(arch)
        assert (found.kind, found.caches, found.total_bytes) == ("none", (), 0)


@pytest.mark.parametrize(
    ("options", "resolved"),
    [
        (Options(), (8192, 8192, 4, True)),  # four slots share a pool of what the model was trained for
        (Options(slots=-1, unified=False), (8192, 8192, 4, True)),
        (Options(slots=2), (16384, 8192, 2, False)),
        (Options(slots=2, fit=False), (8192, 4096, 2, False)),
        (Options(slots=2, context=0), (16384, 8192, 2, False)),
        (Options(slots=2, context=8192), (8192, 4096, 2, False)),  # janhq/jan#8534: 8192 became 4096 a chat
        (Options(context=1024), (1024, 1024, 4, True)),  # ggml-org/llama.cpp#23652: the pool is 1024, not four times
        (Options(slots=3, context=700), (768, 256, 3, False)),
        (Options(slots=3, unified=True, context_per_slot=1000), (3072, 3072, 3, True)),
        (Options(slots=3, unified=True, context_per_slot=1000, context=0), (8192, 8192, 3, True)),
    ],
)
def test_options_that_were_left_out(options: Options, resolved: tuple[int, int, int, bool]) -> None:
    o = made("llama", options=options).options
    assert (o.n_ctx, o.n_ctx_seq, o.n_seq_max, o.kv_unified) == resolved


def test_batches() -> None:
    assert made("llama", options=Options(context=100, slots=1)).options.n_ubatch == 100
    o = made("llama", options=Options(context=4096, slots=1, ubatch=1024, embeddings=True)).options
    assert (o.n_batch, o.n_ubatch) == (1024, 1024)


@pytest.mark.parametrize(
    "options",
    [
        Options(slots=0),
        Options(slots=257),
        Options(context=-5),
        Options(context=256, slots=1, batch=0),
        Options(context=256, slots=1, type_k="q2_K"),
        Options(context=256, slots=1, type_v="q8_0", flash="off"),
    ],
)
def test_options_that_llama_cpp_refuses(options: Options) -> None:
    with pytest.raises(OptionsError):
        made("llama", options=options)


def test_a_head_must_be_whole_blocks() -> None:
    with pytest.raises(OptionsError, match="no whole number of q8_0 blocks"):
        made("llama", attention__key_length=80, options=Options(context=256, slots=1, type_k="q8_0"))


@pytest.mark.parametrize("name", ["block_count", "context_length", "embedding_length"])
@pytest.mark.parametrize("value", [None, -1, 2**40, "many", 1.5])
def test_metadata_that_cannot_be(name: str, value: Any) -> None:
    with pytest.raises(KvError):
        made("llama", **{name: value})


def test_a_cache_that_no_machine_has() -> None:
    with pytest.raises(KvError, match="would take"):
        made("llama", attention__key_length=2**31, attention__head_count_kv=2**20)


def test_rows_and_plain_ones_are_different_names() -> None:
    assert not PLAIN & ARCHS.keys()
    assert len(PLAIN) + len(ARCHS) >= 140


@given(
    context=st.integers(1, 300_000),
    slots=st.integers(1, 9),
    unified=st.booleans(),
    ubatch=st.integers(1, 2048),
    kind=st.sampled_from(sorted(CACHE_TYPES)),
    n=st.integers(0, 400_000),
)
def test_what_always_holds(context: int, slots: int, unified: bool, ubatch: int, kind: str, n: int) -> None:
    options = Options(context=context, slots=slots, unified=unified, ubatch=ubatch, type_k=kind, type_v=kind)
    found = made("gemma3", attention__sliding_window=512, options=options)
    o = found.options
    assert o.n_ctx >= context
    assert o.n_ctx_seq % 256 == 0
    assert found.kv_bytes == sum(c.cells * c.streams * c.cell_bytes for c in found.caches)
    assert 0 <= attended_bytes(found, n) <= occupied_bytes(found, n) <= found.total_bytes
    assert occupied_bytes(found, n + 1) - occupied_bytes(found, n) == next_token_bytes(found, n) <= bytes_per_token(found)


@given(memory=st.integers(0, 2**34))
def test_the_largest_context_is_the_largest(memory: int) -> None:
    def total(context: int) -> int:
        return made("gemma3", attention__sliding_window=512, options=Options(context=context, slots=1)).total_bytes

    found = largest_context(total, memory, 8192)
    if found is None:
        assert total(256) > memory
    else:
        assert total(found) <= memory
        assert found == 8192 or total(found + 256) > memory
