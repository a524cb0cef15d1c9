"""What is particular to an architecture's cache, a row each; whoever has no row keeps a plain cache in every layer.

An architecture is known by the name in ``general.architecture``. One that stands in neither `ARCHS` nor `PLAIN` is computed
as a plain one and said to be unknown.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

Memory = Literal["attention", "recurrent", "hybrid", "none"]
State = Literal["rwkv", "ssm", "grouped-ssm", "shortconv", "kda", "lightning"]


class Window(Struct, frozen=True):
    """Sliding-window attention: which layers attend to a window only, and how wide it is.

    Attributes:
        every: of so many layers one is dense, the last (`dense_first`: the first); 0: none is. A number in the file's
            ``sliding_window_pattern`` replaces it, an array there says it for each layer. None: the array has to be there.
        absent: the width where the file has no ``sliding_window``; "off": then there is no window; "refused": then llama.cpp
            does not load the file.
        zero_off: a width of 0 in the file means that there is no window.
        forced: the width, whatever the file says.
        only_with_layers: there is a window only in models of so many layers.
        all_attention: every layer that attends has the window.
        chunked: the window does not slide, it starts afresh at each multiple of its width.
        own_widths: the file has to say how wide heads are in layers with a window.

    """

    every: int | None
    absent: int | Literal["off", "refused"]
    dense_first: bool = False
    zero_off: bool = False
    forced: int | None = None
    only_with_layers: int | None = None
    all_attention: bool = False
    chunked: bool = False
    own_widths: bool = False


class Recurrent(Struct, frozen=True):
    """Layers that keep a state of fixed size instead of cells.

    Attributes:
        layers: which: all; those without KV heads (`bare`: and without a feed-forward part, the others attend only where
            they have none either); all but each `interval`-th (``full_attention_interval``, or the array
            ``attention.recurrent_layers``); every layer has both a state and cells.
        state: how large it is.

    """

    layers: Literal["all", "no-kv-heads", "interval", "both"]
    state: State
    bare: bool = False
    interval: int = 4
    per_layer_embedding: bool = False


class Index(Struct, frozen=True):
    """A second cache of an indexer's keys, one head wide, beside the one called `main`.

    Attributes:
        layers: trunk; those that ``attention.indexer.types`` marks; those after the leading dense ones.
        unmarked: what it means that there are no ``types``: every layer; GLM's own (where the trained context is as long as
            5.2's, the first two and then one in four, else every layer); llama.cpp does not load the file.
        needs: the number in the metadata without which there is no indexer.
        rows: so many keys a cell; `pooled_rows` where ``attention.compress_ratios`` has one that is not 0.

    """

    name: str
    main: str
    kind: str
    layers: Literal["trunk", "marked", "after-dense"]
    needs: str | None = None
    rows: int = 1
    pooled_rows: int | None = None
    with_values: bool = False
    unmarked: Literal["all", "glm", "refused"] = "all"


class Compressed(Struct, frozen=True):
    """A cache that keeps one cell for `ratio` tokens, and the state in which it gathers them (f32, twice).

    Attributes:
        key: what a cell holds: a head's key, or an indexer's.
        state_rows: rows of the state, each `state_keys` keys wide.

    """

    name: str
    ratio: int
    key: Literal["head", "indexer"]
    state_rows: int
    state_keys: int


class Arch(Struct, frozen=True):
    """The rules of one architecture.

    Attributes:
        mla: it keeps K only where the file has both ``key_length_mla`` and ``value_length_mla``.
        first_layers: only so many layers have cells.
        shares_last: the last ``attention.shared_kv_layers`` layers have none of their own.
        loops: its layers are run ``num_loops`` times, with cells for each.
        router_layer: one layer more, with one KV head.
        keeps_nextn: the layers of its draft head (``nextn_predict_layers``), which have a cache of their own when a server
            drafts with them, have cells in the main cache, too.
        own_widths: ``key_length`` and ``value_length`` count although its first layer has no heads.
        flash: it can use flash attention; without it V lies transposed, as wide in each layer as in the widest.
        rollback: its recurrent state can be kept in several versions, for drafts.
        compressed: caches of several tokens a cell, always one stream a sequence.

    """

    memory: Memory = "attention"
    window: Window | None = None
    recurrent: Recurrent | None = None
    index: Index | None = None
    compressed: tuple[Compressed, ...] = ()
    mla: bool = False
    first_layers: int | None = None
    shares_last: bool = False
    loops: bool = False
    router_layer: bool = False
    keeps_nextn: bool = False
    own_widths: bool = False
    flash: bool = True
    rollback: bool = False


def _every(n: int, *, dense_first: bool = False) -> Window:
    """A window that a file turns on by its ``sliding_window``."""
    return Window(n, "off", zero_off=True, dense_first=dense_first)


def _always(n: int, *, dense_first: bool = False) -> Window:
    """A window that a file has to have."""
    return Window(n, "refused", dense_first=dense_first)


_LISTED: Final = Window(None, "refused")
_LISTED_WIDTHS: Final = Window(None, "refused", own_widths=True)
_INTERVAL: Final = Recurrent("interval", "grouped-ssm")
_NONE: Final = Arch("none")
_RWKV: Final = Arch("recurrent", recurrent=Recurrent("all", "rwkv"))
_KDA: Final = Recurrent("no-kv-heads", "kda")
_SHORTCONV: Final = Recurrent("no-kv-heads", "shortconv")
_NEMOTRON: Final = Arch(
    "hybrid", recurrent=Recurrent("no-kv-heads", "grouped-ssm", bare=True), keeps_nextn=True, rollback=True
)

ARCHS: Final[dict[str, Arch]] = {
    # sliding windows
    "gemma2": Arch(window=Window(2, 4096)),
    "gemma3": Arch(window=_every(6)),
    "gemma3n": Arch(window=_always(5), first_layers=20),
    "gemma4": Arch(window=_LISTED_WIDTHS, shares_last=True),
    "gemma4-assistant": Arch(window=_LISTED_WIDTHS),
    "gpt-oss": Arch(window=_always(2)),
    "cohere2": Arch(window=_always(4)),
    "cohere2moe": Arch(window=_always(4, dense_first=True)),
    "llama4": Arch(window=Window(4, 8192, zero_off=True, forced=8192, chunked=True)),
    "exaone4": Arch(window=Window(4, 4096, only_with_layers=64)),
    "exaone-moe": Arch(window=_always(4)),
    "olmo2": Arch(window=_every(4)),
    "smallthinker": Arch(window=Window(4, "off", zero_off=True, forced=4096, dense_first=True)),
    "plamo3": Arch(window=_every(8)),
    "afmoe": Arch(window=_every(4)),
    "mellum": Arch(window=_every(4)),
    "laguna": Arch(window=_every(4, dense_first=True)),
    "muse-glimmer": Arch(window=_always(4)),
    "mimo2": Arch(window=_LISTED),
    "step35": Arch(window=_LISTED),
    "spark2_5": Arch(window=_LISTED),
    "maple": Arch(window=_LISTED),
    "granite_swa": Arch(window=_LISTED),
    "dflash": Arch(window=Window(None, "off", zero_off=True)),
    # one latent vector instead of K and V, and indexers
    "deepseek2": Arch(mla=True),
    "mistral4": Arch(mla=True),
    "deepseek32": Arch(mla=True, index=Index("lid", "mla", "dsa", "trunk")),
    "glm-dsa": Arch(mla=True, index=Index("lid", "mla", "dsa", "marked", unmarked="glm")),
    "hy_v4": Arch(
        mla=True,
        index=Index("lid", "mla", "dsa", "marked", needs="attention.indexer.top_k", unmarked="refused"),
        keeps_nextn=True,
    ),
    "dots3note": Arch(mla=True, window=_LISTED, index=Index("lid", "mla", "dsa", "marked", unmarked="refused")),
    "minimax-m3": Arch(index=Index("idx", "base", "msa", "after-dense", with_values=True), keeps_nextn=True),
    "deepseek4": Arch(
        window=Window(0, "refused"),
        compressed=(
            Compressed("csa", 4, "head", 8, 2),
            Compressed("hca", 128, "head", 128, 1),
            Compressed("lid", 4, "indexer", 8, 2),
        ),
        keeps_nextn=True,
        rollback=True,
    ),
    # a state instead of cells
    "mamba": Arch("recurrent", recurrent=Recurrent("all", "ssm")),
    "mamba2": Arch("recurrent", recurrent=Recurrent("all", "grouped-ssm")),
    "rwkv6": _RWKV,
    "rwkv6qwen2": _RWKV,
    "rwkv7": _RWKV,
    "arwkv7": _RWKV,
    # both
    "jamba": Arch("hybrid", recurrent=Recurrent("no-kv-heads", "ssm"), keeps_nextn=True),
    "granitehybrid": Arch("hybrid", recurrent=Recurrent("no-kv-heads", "grouped-ssm"), keeps_nextn=True),
    "plamo2": Arch("hybrid", recurrent=Recurrent("no-kv-heads", "grouped-ssm"), keeps_nextn=True, own_widths=True),
    "falcon-h1": Arch("hybrid", recurrent=Recurrent("both", "grouped-ssm"), keeps_nextn=True),
    "lfm2": Arch(
        "hybrid", Window(None, "off", zero_off=True, all_attention=True), _SHORTCONV, keeps_nextn=True, rollback=True
    ),
    "lfm2moe": Arch("hybrid", recurrent=_SHORTCONV, keeps_nextn=True, rollback=True),
    "nemotron_h": _NEMOTRON,
    "nemotron_h_moe": _NEMOTRON,
    "qwen3next": Arch("hybrid", recurrent=_INTERVAL),
    "qwen35": Arch("hybrid", recurrent=_INTERVAL, rollback=True),
    "qwen35moe": Arch("hybrid", recurrent=_INTERVAL, rollback=True),
    "qwen4exp": Arch(
        "hybrid",
        recurrent=Recurrent("interval", "grouped-ssm", per_layer_embedding=True),
        index=Index("idx", "attn", "hybrid", "trunk", needs="attention.indexer.key_length", pooled_rows=2),
        rollback=True,
    ),
    "minimax-01": Arch("hybrid", recurrent=Recurrent("interval", "lightning", interval=8)),
    "kimi-linear": Arch("hybrid", recurrent=_KDA, mla=True, keeps_nextn=True),
    "kimi-k3": Arch("hybrid", recurrent=_KDA, mla=True, keeps_nextn=True, rollback=True),
    "bailingmoe3": Arch("hybrid", recurrent=_KDA, mla=True, keeps_nextn=True, rollback=True),
    "glm5-next": Arch(
        "hybrid", recurrent=_KDA, mla=True, index=Index("idx", "attn", "hybrid", "marked", rows=3), rollback=True
    ),
    # the rest of what is particular
    "nanbeige": Arch(loops=True),
    "graniteswitch": Arch(router_layer=True),
    "grok": Arch(flash=False),
    # no cache: they look at a whole text at once
    **dict.fromkeys(
        (
            *("bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "jina-bert-v2", "jina-bert-v3", "eurobert"),
            *("gemma-embedding", "wavtokenizer-dec", "dream", "llada", "llada-moe", "rnd1", "clef"),
        ),
        _NONE,
    ),
}

PLAIN: Final = frozenset(
    (
        *("apertus", "arcee", "arctic", "baichuan", "bailingmoe", "bailingmoe2", "bitnet", "bloom", "chameleon", "chatglm"),
        *("codeshell", "cogvlm", "command-r", "dbrx", "deci", "deepseek", "deepseek2-ocr", "dots1", "eagle3", "ernie4_5"),
        *("ernie4_5-moe", "exaone", "falcon", "gemma", "glm4", "glm4moe", "gpt2", "gptj", "gptneox", "granite"),
        *("granitemoe", "grovemoe", "hrm_text", "hunyuan-dense", "hunyuan-moe", "hunyuan_vl", "hy_v3", "internlm2", "jais"),
        *("jais2", "llama", "llama-embed", "maincoder", "minicpm", "minicpm3", "minimax-m2", "mistral3", "mpt", "nemotron"),
        *("olmo", "olmoe", "openelm", "orion", "paddleocr", "pangu-embedded", "phi2", "phi3", "phimoe", "plamo", "plm"),
        *("pockettts", "qwen", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "qwen3tts", "qwen3vl", "qwen3vlmoe"),
        *("refact", "seed_oss", "smollm3", "stablelm", "starcoder", "starcoder2", "t5", "t5encoder", "talkie", "xverse"),
    )
)
"""Architectures that keep a plain cache in every layer, whatever windows their files speak of."""


def rules_of(arch: str) -> tuple[Arch, bool]:
    """The rules of an architecture, and whether it is known."""
    row = ARCHS.get(arch)
    return (Arch(), arch in PLAIN) if row is None else (row, True)
