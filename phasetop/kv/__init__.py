"""What llama.cpp keeps for the tokens that it has seen: how many cells of which width, how many bytes, by its own rules.

- `archs`: the rules that differ, a row of data an architecture; the next one is a row more.
- `hparams`: the metadata of a model (a GGUF file's keys), checked.
- `options`: the server's options, and how it resolves those that were left out.
- `rules`: (architecture, metadata, options) → `Layout`: caches with cells, streams and layers, recurrent state, totals;
  `caches` makes one cache, `state` knows recurrent state.
- `fill`: what a sequence of so many tokens occupies in a `Layout`, what the next one adds, how much context fits.

Everything here is pure. Source: llama.cpp, build 11434; the tests hold it against what its server allocated.
"""

from phasetop.kv.caches import Cache
from phasetop.kv.fill import (
    attended_bytes,
    bytes_per_token,
    largest_context,
    next_token_bytes,
    occupied_bytes,
    used_cells,
)
from phasetop.kv.hparams import KvError
from phasetop.kv.options import Options, OptionsError, Resolved
from phasetop.kv.rules import Layout, layout

__all__ = [
    "Cache",
    "KvError",
    "Layout",
    "Options",
    "OptionsError",
    "Resolved",
    "attended_bytes",
    "bytes_per_token",
    "largest_context",
    "layout",
    "next_token_bytes",
    "occupied_bytes",
    "used_cells",
]
