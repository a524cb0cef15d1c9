"""What nvidia-smi says of a card."""

from __future__ import annotations

CARD = (
    "0, GPU-af7b61d8-1111-2222-3333-444455556666, 00000000:01:00.0, 550.54.14, 24564, 6144, 97, 41, 350.12, 2610, 10501, "
    "61, [N/A], 0x0000000000000004, NVIDIA GeForce RTX 4090"
)
"""A line of nvidia-smi as `far_script` asks for it."""
