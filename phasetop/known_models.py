"""Well-known models by name, for whoever asks about a cache without having the file.

The numbers are those of each model's config.json on Hugging Face (num_hidden_layers, hidden_size, num_attention_heads,
num_key_value_heads, head_dim, sliding_window, max_position_embeddings, intermediate_size, vocab_size, experts), as
llama.cpp's converter writes them into a file. Their parameters are counted from these.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from phasetop.model_metadata import Metadata


@dataclass(frozen=True, slots=True)
class KnownModel:
    """One model; ``head`` is the width of a head, ``tensor_bytes`` that of its usual quantisation, where it is known.

    ``ff`` is the width of the feed-forward layer (of one expert, where there are ``experts``: how many, how many are used),
    ``tied``: the embedding is the head as well.
    """

    name: str
    repo: str
    arch: str
    layers: int
    embedding: int
    heads: int
    kv_heads: int
    head: int
    context: int
    window: int | None = None
    value: int | None = None
    latent: tuple[int, int] | None = None
    quant: str | None = None
    tensor_bytes: int | None = None
    read_bytes: int | None = None
    ff: int | None = None
    vocab: int | None = None
    tied: bool = False
    experts: tuple[int, int] | None = None

    def parameters(self, *, active: bool = False) -> int | None:
        """Numbers in all tensors; ``active``: in those that a decode step uses. None where the table lacks a width."""
        if self.ff is None or self.vocab is None:
            return None
        d, table = self.embedding, self.vocab * self.embedding
        qkv = (self.heads + 2 * self.kv_heads) * self.head
        attention = d * qkv + self.heads * self.head * d
        count, used = self.experts or (1, 1)
        expert = 3 * d * self.ff
        match self.arch:
            case "qwen2":
                small = 2 * d + qkv
            case "qwen3" | "qwen3moe":
                small = 2 * d + 2 * self.head
            case "gemma3":
                small = 4 * d + 2 * self.head
            case "gpt-oss":
                small = 2 * d + qkv + d + self.heads + count
                expert += 2 * self.ff + d
            case _:
                small = 2 * d
        if self.experts is not None:
            small += d * count
        layer = attention + small + (used if active else count) * expert
        return self.layers * layer + d + table * (1 if self.tied or active else 2)

    def metadata(self) -> Metadata:
        """What is known of it."""
        a = self.arch
        hparams: dict[str, Any] = {
            f"{a}.block_count": self.layers,
            f"{a}.context_length": self.context,
            f"{a}.embedding_length": self.embedding,
            f"{a}.attention.head_count": self.heads,
            f"{a}.attention.head_count_kv": self.kv_heads,
            f"{a}.attention.key_length": self.head,
            f"{a}.attention.value_length": self.value or self.head,
        }
        if self.window is not None:
            hparams[f"{a}.attention.sliding_window"] = self.window
        if self.latent is not None:
            hparams[f"{a}.attention.key_length_mla"], hparams[f"{a}.attention.value_length_mla"] = self.latent
        if self.experts is not None and self.ff is not None:
            hparams[f"{a}.expert_count"], hparams[f"{a}.expert_used_count"] = self.experts
            hparams[f"{a}.expert_feed_forward_length"] = self.ff
        source = f"assumed: config.json of {self.repo}"
        return Metadata(
            arch=a,
            hparams=hparams,
            name=self.name,
            quant=self.quant,
            layers=self.layers,
            context_trained=self.context,
            params=self.parameters(),
            active_params=self.parameters(active=True),
            tensor_bytes=self.tensor_bytes,
            weights={"layers and head": self.read_bytes} if self.read_bytes is not None else None,
            origin=dict.fromkeys(
                ("arch", "hparams", "params", "active_params", "tensor_bytes", "context_trained", "weights", "quant"), source
            ),
        )


_ROWS: Final = (
    # The bytes of Llama 3.1 8B are those of llama.cpp's Q4_K_M mix of its 291 tensors.
    KnownModel(
        *("llama3.1-8b", "meta-llama/Llama-3.1-8B-Instruct", "llama", 32, 4096, 32, 8, 128, 131072),
        quant="Q4_K_M",
        tensor_bytes=4_912_898_304,
        read_bytes=4_617_396_480,
        ff=14336,
        vocab=128256,
    ),
    KnownModel(
        "llama3.1-70b", "meta-llama/Llama-3.1-70B-Instruct", "llama", 80, 8192, 64, 8, 128, 131072, ff=28672, vocab=128256
    ),
    KnownModel(
        "llama3.2-1b",
        "meta-llama/Llama-3.2-1B-Instruct",
        "llama",
        16,
        2048,
        32,
        8,
        64,
        131072,
        ff=8192,
        vocab=128256,
        tied=True,
    ),
    KnownModel(
        "llama3.2-3b",
        "meta-llama/Llama-3.2-3B-Instruct",
        "llama",
        28,
        3072,
        24,
        8,
        128,
        131072,
        ff=8192,
        vocab=128256,
        tied=True,
    ),
    KnownModel(
        "llama3.3-70b", "meta-llama/Llama-3.3-70B-Instruct", "llama", 80, 8192, 64, 8, 128, 131072, ff=28672, vocab=128256
    ),
    KnownModel(
        "gemma3-1b",
        "google/gemma-3-1b-it",
        "gemma3",
        26,
        1152,
        4,
        1,
        256,
        32768,
        window=512,
        ff=6912,
        vocab=262144,
        tied=True,
    ),
    KnownModel(
        "gemma3-4b",
        "google/gemma-3-4b-it",
        "gemma3",
        34,
        2560,
        8,
        4,
        256,
        131072,
        window=1024,
        ff=10240,
        vocab=262208,
        tied=True,
    ),
    KnownModel(
        "gemma3-12b",
        "google/gemma-3-12b-it",
        "gemma3",
        48,
        3840,
        16,
        8,
        256,
        131072,
        window=1024,
        ff=15360,
        vocab=262208,
        tied=True,
    ),
    KnownModel(
        "gemma3-27b",
        "google/gemma-3-27b-it",
        "gemma3",
        62,
        5376,
        32,
        16,
        128,
        131072,
        window=1024,
        ff=21504,
        vocab=262208,
        tied=True,
    ),
    KnownModel(
        "gpt-oss-20b",
        "openai/gpt-oss-20b",
        "gpt-oss",
        24,
        2880,
        64,
        8,
        64,
        131072,
        window=128,
        ff=2880,
        vocab=201088,
        experts=(32, 4),
    ),
    KnownModel(
        "gpt-oss-120b",
        "openai/gpt-oss-120b",
        "gpt-oss",
        36,
        2880,
        64,
        8,
        64,
        131072,
        window=128,
        ff=2880,
        vocab=201088,
        experts=(128, 4),
    ),
    KnownModel(
        "mistral-7b", "mistralai/Mistral-7B-Instruct-v0.3", "llama", 32, 4096, 32, 8, 128, 32768, ff=14336, vocab=32768
    ),
    KnownModel("qwen2.5-7b", "Qwen/Qwen2.5-7B-Instruct", "qwen2", 28, 3584, 28, 4, 128, 32768, ff=18944, vocab=152064),
    KnownModel("qwen3-8b", "Qwen/Qwen3-8B", "qwen3", 36, 4096, 32, 8, 128, 40960, ff=12288, vocab=151936),
    KnownModel(
        "qwen3-30b-a3b",
        "Qwen/Qwen3-30B-A3B",
        "qwen3moe",
        48,
        2048,
        32,
        4,
        128,
        40960,
        ff=768,
        vocab=151936,
        experts=(128, 8),
    ),
    KnownModel(
        *("deepseek-r1", "deepseek-ai/DeepSeek-R1", "deepseek2", 61, 7168, 128, 1, 576, 163840),
        value=512,
        latent=(192, 128),
    ),
)
KNOWN: Final = {row.name: row for row in _ROWS}


def find(name: str) -> KnownModel | None:
    """The model that a name means: ``llama3.1-8b``, ``llama3.1:8b``, ``Llama 3.1 8B``, ``Meta-Llama-3.1-8B-Instruct``."""
    return _BY_FORM.get(_form(name))


def _form(name: str) -> str:
    """A name without what people write differently: case, separators, the maker, ``instruct`` and the quantisation."""
    text = name.lower().rpartition("/")[2].removesuffix(".gguf").removesuffix(":latest")
    text = re.sub(r"[-_. :](i?q\d\w*|f16|bf16|mxfp4)$", "", text)
    text = re.sub(r"(^meta[-_ ]|[-_ ](instruct|it|chat)\b)", "", text)
    return re.sub(r"[^a-z0-9]", "", text)


_BY_FORM: Final = {_form(name): row for name, row in KNOWN.items()}
