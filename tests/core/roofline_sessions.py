"""A request whose roofline is known: sessions for the tests of the figures that rest on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phasetop.session import Session

MS = 1_000_000
LLAMA_8B = {
    "llama.block_count": 32,
    "llama.context_length": 131072,
    "llama.embedding_length": 4096,
    "llama.attention.head_count": 32,
    "llama.attention.head_count_kv": 8,
}
READ = 4_617_396_480
CARD = {"k": "device", "t": 1, "d": 1, "vendor": "nvidia", "name": "NVIDIA GeForce RTX 4090", "used_by": [0]}
HOST = {"k": "device", "t": 1, "d": 0, "vendor": "host", "name": "EPYC"}


def session(session_of: Callable[..., Session], *devices: dict[str, Any], **more: Any) -> Session:
    """499 tokens of prompt in 280 ms, 64 tokens of reply at 11.82 ms each."""
    options = {
        "context": {"value": 8192, "from": "argv"},
        "parallel": {"value": 1, "from": "argv"},
        **more.get("options", {}),
    }
    model = {
        "arch": "llama",
        "params": 8_030_261_312,
        "hparams": LLAMA_8B,
        "weights": {"layers": READ - 430_960_640, "head": 430_960_640},
        **more.get("model", {}),
    }
    last = 380_000_000 + 63 * 11_820_000
    return session_of(
        *more.get("first", ()),
        {"k": "server", "t": 1, "v": 0, "backend": "llamacpp", "local": more.get("local", True), "options": options},
        {"k": "model", "t": 1, "m": 0, "v": 0, "name": "m", **model},
        *devices,
        *more.get("before", ()),
        {"k": "request", "t": 2, "r": 0, "v": 0, "m": 0, "api": "raw", "prompt": "x", "asked": more.get("asked")},
        {"k": "state", "t": 100 * MS, "r": 0, "s": "sent", "at": 100 * MS},
        {"k": "state", "t": 100 * MS, "r": 0, "s": "headers"},
        {"k": "prog", "t": 150 * MS, "r": 0, "total": 499, "cached": more.get("cached", 0), "done": 256},
        *({"k": "tok", "t": 380_000_000 + n * 11_820_000, "r": 0, "x": "a"} for n in range(64)),
        *more.get("events", ()),
        {
            "k": "timings",
            "t": last,
            "r": 0,
            "prompt_n": 499 - more.get("cached", 0),
            "cached_n": more.get("cached", 0),
            "prompt_ms": 280.0,
            "gen_n": 64,
            "gen_ms": 745.0,
            **more.get("timings", {}),
        },
        {"k": "end", "t": last + 4 * MS, "r": 0, "finish": "stop"},
    )
