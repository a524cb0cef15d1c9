"""How many bits a weight takes, by the names that people use for it: a float, an integer, a type of ggml, a mix of them."""

from __future__ import annotations

from typing import Final

from phasetop.faults import UsageError
from phasetop.tensor_types import BY_NAME

_PLAIN: Final = {
    "fp32": 32.0,
    "float32": 32.0,
    "fp16": 16.0,
    "float16": 16.0,
    "half": 16.0,
    "bfloat16": 16.0,
    "fp8": 8.0,
    "int8": 8.0,
    "int4": 4.0,
    "fp4": 4.0,
    "int3": 3.0,
    "int2": 2.0,
}
_MIXES: Final = {
    # Bits a weight of Llama 3.1 8B in each mix, as llama.cpp's quantize README measures them.
    "q2_k": 3.1593,
    "q3_k_s": 3.6429,
    "q3_k_m": 3.9960,
    "q3_k_l": 4.2979,
    "q4_k_s": 4.6672,
    "q4_k_m": 4.8944,
    "q5_k_s": 5.5704,
    "q5_k_m": 5.7036,
    "iq4_xs": 4.4597,
}
TABLE: Final = ("fp16", "q8_0", "q4_k_m", "int4")
"""Those that a table sets side by side."""


def bits_per_weight(name: str) -> float:
    """Bits that a weight takes, its block's scales included.

    Raises:
        UsageError: nobody here knows the name.
    """
    word = name.strip().lower().replace("-", "_")
    if word in _PLAIN:
        return _PLAIN[word]
    if word in _MIXES:
        return _MIXES[word]
    kind = BY_NAME.get(word.upper())
    if kind is None or word.upper() in ("I8", "I16", "I32", "I64", "Q8_1", "Q8_K"):
        raise UsageError(f"--dtype {name[:40]}: fp32, fp16, bf16, fp8, int8, int4, or a type of ggml such as q4_k_m or q8_0")
    return kind.block_bytes * 8 / kind.block


def is_mix(name: str) -> bool:
    """Whether it is a mix of types, whose bits differ from model to model."""
    return name.strip().lower().replace("-", "_") in _MIXES
