"""How the types of ggml's tensors lie in memory: a row is whole blocks, and a block has so many elements in so many bytes.

Source: the block structs of ggml (ggml-common.h, build 11434); their sizes are held there by static assertions.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class TensorType(Struct, frozen=True):
    """A type by its name: ``block`` elements take ``block_bytes`` bytes."""

    name: str
    block: int
    block_bytes: int

    @property
    def quantised(self) -> bool:
        """Several elements share a block."""
        return self.block > 1

    def row_bytes(self, elements: int) -> int:
        """Bytes of a row. Raises `ValueError` where it is no whole number of blocks."""
        blocks, rest = divmod(elements, self.block)
        if rest:
            raise ValueError(f"a row of {elements} elements is no whole number of {self.name} blocks of {self.block}")
        return blocks * self.block_bytes


_ROWS: Final = (
    *(
        (0, "F32", 1, 4),
        (1, "F16", 1, 2),
        (2, "Q4_0", 32, 18),
        (3, "Q4_1", 32, 20),
        (6, "Q5_0", 32, 22),
        (7, "Q5_1", 32, 24),
    ),
    *((8, "Q8_0", 32, 34), (9, "Q8_1", 32, 36), (10, "Q2_K", 256, 84), (11, "Q3_K", 256, 110), (12, "Q4_K", 256, 144)),
    *((13, "Q5_K", 256, 176), (14, "Q6_K", 256, 210), (15, "Q8_K", 256, 292), (16, "IQ2_XXS", 256, 66)),
    *((17, "IQ2_XS", 256, 74), (18, "IQ3_XXS", 256, 98), (19, "IQ1_S", 256, 50), (20, "IQ4_NL", 32, 18)),
    *((21, "IQ3_S", 256, 110), (22, "IQ2_S", 256, 82), (23, "IQ4_XS", 256, 136), (24, "I8", 1, 1), (25, "I16", 1, 2)),
    *((26, "I32", 1, 4), (27, "I64", 1, 8), (28, "F64", 1, 8), (29, "IQ1_M", 256, 56), (30, "BF16", 1, 2)),
    *((34, "TQ1_0", 256, 54), (35, "TQ2_0", 256, 66), (39, "MXFP4", 32, 17), (40, "NVFP4", 64, 36)),
    *((41, "Q1_0", 128, 18), (42, "Q2_0", 64, 18)),
)

BY_NUMBER: Final = {number: TensorType(name, block, size) for number, name, block, size in _ROWS}
"""The number in a GGUF file → the type. Numbers that ggml withdrew (4, 5, 31 to 33, 36 to 38) are not here."""
BY_NAME: Final = {tensor_type.name: tensor_type for tensor_type in BY_NUMBER.values()}

CACHE_TYPES: Final = {
    name: BY_NAME[name.upper()] for name in ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
}
"""What llama.cpp keeps keys and values in, by the names of its options."""

_MIXES: Final = (
    "F32 F16 Q4_0 Q4_1 - - - Q8_0 Q5_0 Q5_1 Q2_K Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K IQ2_XXS IQ2_XS "
    "Q2_K_S IQ3_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ3_M IQ2_S IQ2_M IQ4_XS IQ1_M BF16 - - - TQ1_0 TQ2_0 MXFP4_MOE NVFP4 Q1_0 "
    "Q2_0"
)
FILE_TYPES: Final = {number: name for number, name in enumerate(_MIXES.split()) if name != "-"}
"""``general.file_type`` → the mix of types that the file was made with."""
