"""Writes the headers of GGUF files, true ones and lying ones, by the format's own description."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

STRING, ARRAY = 8, 9
CODES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


@dataclass
class Gguf:
    """A header to be written; ``keys`` holds (key, type, value) and, for arrays, (key, (item type,), values)."""

    version: int = 3
    big: bool = False
    keys: list[tuple[str, Any, Any]] = field(default_factory=list)
    tensors: Sequence[tuple[str, Sequence[int], int, int]] = ()
    n_keys: int | None = None
    n_tensors: int | None = None

    def number(self, code: str, value: Any) -> bytes:
        return struct.pack((">" if self.big else "<") + code, value)

    def length(self, n: int) -> bytes:
        return self.number("I" if self.version == 1 else "Q", n)

    def text(self, value: str | bytes) -> bytes:
        raw = value.encode() if isinstance(value, str) else value
        return self.length(len(raw)) + raw

    def value(self, kind: Any, value: Any) -> bytes:
        if kind == STRING:
            return self.number("I", STRING) + self.text(value)
        if isinstance(kind, tuple):
            (item,) = kind
            written = b"".join(self.text(each) if item == STRING else self.number(CODES[item], each) for each in value)
            return self.number("I", ARRAY) + self.number("I", item) + self.length(len(value)) + written
        return self.number("I", kind) + self.number(CODES[kind], value)

    def written(self) -> bytes:
        """The header, without the tensors' data."""
        out = b"GGUF" + self.number("I", self.version)
        out += self.length(len(self.tensors) if self.n_tensors is None else self.n_tensors)
        out += self.length(len(self.keys) if self.n_keys is None else self.n_keys)
        for key, kind, value in self.keys:
            out += self.text(key) + self.value(kind, value)
        for name, shape, kind, offset in self.tensors:
            out += self.text(name) + self.number("I", len(shape)) + b"".join(self.length(extent) for extent in shape)
            out += self.number("I", kind) + self.number("Q", offset)
        return out


def small(**changes: Any) -> Gguf:
    """A small llama with a vocabulary of three tokens."""
    keys: list[tuple[str, Any, Any]] = [
        ("general.architecture", STRING, "llama"),
        ("general.name", STRING, "Tiny"),
        ("general.file_type", 4, 15),
        ("llama.block_count", 4, 2),
        ("llama.context_length", 4, 4096),
        ("llama.embedding_length", 4, 64),
        ("llama.attention.head_count", 4, 4),
        ("llama.attention.head_count_kv", (5,), [2, 1]),
        ("llama.rope.freq_base", 6, 10000.0),
        ("llama.flag", 7, True),
        ("llama.large", 10, 2**40),
        ("tokenizer.ggml.tokens", (STRING,), ["<s>", "</s>", "é"]),
        ("tokenizer.ggml.scores", (6,), [0.0, -1.0, -2.0]),
        ("tokenizer.ggml.eos_token_id", 4, 1),
    ]
    tensors = [
        ("token_embd.weight", (64, 3), 1, 0),
        ("blk.0.attn_k.weight", (64, 32), 8, 384),
        ("output_norm.weight", (64,), 0, 2560 + 32),
    ]
    return Gguf(**{"keys": keys, "tensors": tensors, **changes})
