"""A session of a few lines, with characters of several bytes in them."""

from __future__ import annotations

from phasetop import codec
from phasetop import events as ev

HELLO = ev.Hello(t=0, format=1, session="0192f3c4-7a1e-7c33-9d55-2f6b1c0e8a77", anchor=ev.Anchor(mono=1, wall=7), by="p 0")
LINES = [
    HELLO,
    ev.Request(t=1, r=0, api="chat", messages=[{"role": "user", "content": "warum?"}]),
    ev.State(t=2, r=0, s="sent", at=2),
    *(
        ev.Tok(t=100_000_000 + 20_000_000 * i, r=0, x=x, top=[x, -0.5, "é", -1.5])
        for i, x in enumerate(["Ü", "ber", " 東京", "😀"])
    ),
]
FILE = codec.encode_all(LINES)
