"""How long the parsers take for one chunk of a stream, in µs: the plain one, and with five log-probabilities.

    python benchmarks/parse_speed.py [--chunks 20000] [--repeat 5]

Each chunk is fed as one socket read, as it comes from a server; the least of the repeats is printed. ``+ encode`` also
writes the events as lines.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

from phasetop import codec
from phasetop.backends.llamacpp_stream import CompletionStream
from phasetop.backends.openai_stream import ChatStream
from phasetop.backends.protocol import StreamParser


def entry(n: int, top: int) -> dict[str, Any]:
    """A log-probability entry as llama.cpp lists it."""
    others = [{"id": 279 + at, "token": f" word{at}", "bytes": list(b" word1"), "logprob": -0.5 - at} for at in range(top)]
    return {"id": 279 + n % 1000, "token": " word0", "bytes": list(b" word0"), "logprob": -0.51234, "top_logprobs": others}


def timings(n: int) -> dict[str, Any]:
    """Per-token timings as llama.cpp sends them."""
    return {
        "cache_n": 24,
        "prompt_n": 12,
        "prompt_ms": 65.896,
        "prompt_per_token_ms": 5.491333333333333,
        "prompt_per_second": 182.10513536481727,
        "predicted_n": n,
        "predicted_ms": 20.5 * n,
        "predicted_per_token_ms": 17.690148936170214,
        "predicted_per_second": 56.52863656536815,
    }


def chat(n: int, *, counted: bool, top: int) -> bytes:
    """One chunk of /v1/chat/completions."""
    choice: dict[str, Any] = {"finish_reason": None, "index": 0, "delta": {"content": " word0"}}
    if top:
        choice["logprobs"] = {"content": [entry(n, top)]}
    chunk: dict[str, Any] = {
        "choices": [choice],
        "created": 1796001733,
        "id": "chatcmpl-QFEdnUDxcAiti2A6dOg7xu93xxL22Wx8",
        "model": "/models/SmolLM2-135M-Instruct.Q4_1.gguf",
        "system_fingerprint": "b11434-unknown",
        "object": "chat.completion.chunk",
    }
    if counted:
        chunk["timings"] = timings(n)
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"


def completion(n: int, *, top: int) -> bytes:
    """One chunk of /completion."""
    chunk: dict[str, Any] = {"index": 0, "content": " word0", "tokens": [279], "stop": False, "id_slot": -1}
    chunk |= {"tokens_predicted": n, "tokens_evaluated": 36, "timings": timings(n)}
    if top:
        chunk["completion_probabilities"] = [entry(n, top)]
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"


def measure(make: Callable[[int], StreamParser], reads: list[bytes], repeat: int, *, encode: bool) -> float:
    """Least µs a chunk."""
    best = float("inf")
    for _ in range(repeat):
        parser = make(0)
        began = time.perf_counter_ns()
        for at, data in enumerate(reads):
            events = parser.feed(data, at * 5_000_000)
            if encode:
                codec.encode_all(events)
        best = min(best, (time.perf_counter_ns() - began) / len(reads) / 1000)
    return best


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--chunks", type=int, default=20_000)
    options.add_argument("--repeat", type=int, default=5)
    asked = options.parse_args()
    numbers = range(1, asked.chunks + 1)
    cases: list[tuple[str, Callable[[int], StreamParser], list[bytes]]] = [
        ("chat, no count", ChatStream, [chat(n, counted=False, top=0) for n in numbers]),
        ("chat, timings", ChatStream, [chat(n, counted=True, top=0) for n in numbers]),
        ("chat, timings, logprobs 5", ChatStream, [chat(n, counted=True, top=5) for n in numbers]),
        ("chat, timings, logprobs 20", ChatStream, [chat(n, counted=True, top=20) for n in numbers]),
        ("/completion, timings", CompletionStream, [completion(n, top=0) for n in numbers]),
        ("/completion, timings, n_probs 5", CompletionStream, [completion(n, top=5) for n in numbers]),
    ]
    print(f"{'µs a chunk':34} {'bytes':>6} {'parse':>7} {'+ encode':>9}")
    for name, make, reads in cases:
        parse = measure(make, reads, asked.repeat, encode=False)
        both = measure(make, reads, asked.repeat, encode=True)
        print(f"{name:34} {len(reads[0]):6d} {parse:7.2f} {both:9.2f}")


if __name__ == "__main__":
    main()
