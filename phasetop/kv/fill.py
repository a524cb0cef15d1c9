"""What a sequence occupies in a `Layout`, what its next token adds, and how much context fits into a memory.

Measured at llama.cpp (154 points of 13 models): in every cache a sequence of n tokens uses min(n, cells) cells; those of a
window fill up before they are used again, so what is occupied is not what is attended to.
"""

from __future__ import annotations

from collections.abc import Callable

from phasetop.kv.caches import Cache
from phasetop.kv.options import PAD
from phasetop.kv.rules import Layout


def used_cells(cache: Cache, n_past: int) -> int:
    """Cells of one stream that a sequence of ``n_past`` tokens uses."""
    return min(max(n_past, 0) // cache.ratio, cache.cells)


def attended_cells(cache: Cache, n_past: int) -> int:
    """Cells that the newest token of a sequence looks at: those in its window."""
    used = used_cells(cache, n_past)
    if cache.window is None or used == 0:
        return used
    if cache.chunked and cache.window:
        return min(used, 1 + (n_past - 1) % cache.window)
    return min(used, cache.window)


def occupied_bytes(layout: Layout, n_past: int) -> int:
    """Bytes that one sequence of ``n_past`` tokens occupies, its recurrent state included once it has begun."""
    used = sum(used_cells(cache, n_past) * cache.cell_bytes for cache in layout.caches)
    return used + (state_bytes_per_sequence(layout) if n_past > 0 else 0)


def attended_bytes(layout: Layout, n_past: int) -> int:
    """Bytes that the newest token of a sequence reads: the attended cells, and the recurrent state."""
    read = sum(attended_cells(cache, n_past) * cache.cell_bytes for cache in layout.caches)
    return read + (state_bytes_per_sequence(layout) if n_past > 0 else 0)


def state_bytes_per_sequence(layout: Layout) -> int:
    """The recurrent state of one sequence."""
    return layout.state_bytes // layout.options.n_seq_max


def bytes_per_token(layout: Layout) -> int:
    """Bytes that a token occupies while no cache is full; where several share a cell, their mean, rounded down."""
    whole = sum(cache.cell_bytes for cache in layout.caches if cache.ratio == 1)
    return whole + sum(cache.cell_bytes // cache.ratio for cache in layout.caches if cache.ratio > 1)


def next_token_bytes(layout: Layout, n_past: int) -> int:
    """Bytes that the token after ``n_past`` will occupy beyond them, without the recurrent state."""
    return sum((used_cells(cache, n_past + 1) - used_cells(cache, n_past)) * cache.cell_bytes for cache in layout.caches)


def largest_context(total_bytes: Callable[[int], int], memory_bytes: int, most: int) -> int | None:
    """The largest context (a multiple of 256, at most ``most`` made one) whose bytes fit; None where even 256 do not.

    Args:
        total_bytes: what is allocated for a context: it never falls as the context grows.
        memory_bytes: what there is.
        most: no more than this makes sense, e.g. what the model was trained for.
    """
    low, high = 0, max(1, most // PAD)
    while low < high:
        middle = (low + high + 1) // 2
        if total_bytes(middle * PAD) <= memory_bytes:
            low = middle
        else:
            high = middle - 1
    return low * PAD or None
