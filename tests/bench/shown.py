"""Points as a bench would have found them, with figures that are easily worked out."""

from __future__ import annotations

from typing import Any

from phasetop.bench_plan import Cell
from phasetop.bench_points import Point
from phasetop.bench_stats import Figure

TOLD: dict[str, Any] = {
    "phasetop": "0.9.0",
    "model": {
        "name": "tiny|1B",
        "quantisation": "Q4_K_M",
        "tensor_bytes": 670_000_000,
        "file_bytes": 680_000_000,
        "parameters": 1_100_048_384,
        "gpu_layers": None,
    },
    "server": {"kind": "llamacpp", "version": "b11434"},
    "host": {"cpu": "EPYC 9354"},
    "gpus": [],
    "settings": {"threads": 4, "batch": 2048},
    "unknown": {},
}


def spread(middle: float, by: float = 0.01) -> Figure:
    """Three values round a mean."""
    return Figure((middle * (1 - by), middle, middle * (1 + by)))


def point(cell: Cell, prefill: float, decode: float, ttft: float, by: float = 0.01, **more: Any) -> Point:
    """Three repeats of a cell, the outer two ``by`` that share off."""
    prompt = cell.tokens if cell.tokens is not None else cell.words
    known: dict[str, Any] = {
        "swept": {},
        "prompt": prompt,
        "cached": cell.depth,
        "output": cell.output,
        "runs": 3,
        "failed": 0,
        "unfinished": 0,
        "prefill": spread(prefill, by),
        "decode": spread(decode, by),
        "ttft": spread(ttft, by),
        "prefill_s": spread((prompt or 0) / prefill),
        "mbu": Figure(),
        "mfu": Figure(),
        "all_decode": spread(decode * cell.parallel),
        "all_prefill": spread(prefill, by),
        "predicted_decode_per_s": None,
        "predicted_prefill_s": None,
        "complete": True,
    }
    return Point(cell=cell, **{**known, **more})
