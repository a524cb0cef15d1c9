"""How the way stands that a watched session comes by."""

from __future__ import annotations

from msgspec import Struct


class Standing(Struct, frozen=True):
    """What the view says of it.

    Attributes:
        short: for the header.
        text: for the notice row, with the reason.

    """

    short: str
    text: str
