"""What does watching cost? Decode rate of the embedded model with phasetop's view, beside a bare client's.

One engine serves both; they take turns, at least 20 pairs. The rate is the server's own ((n - 1) / predicted_ms). Printed:
the median of the pairs' ratios with a 95 % interval by bootstrap. Goal: 0.97.

    benchmarks/observer_effect.py [--pairs 20] [--tokens 96] [--threads N] [--plain]
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from pty_run import drive

from phasetop.backends.embedded import Engine, find_small_model
from phasetop.recording import load

PROMPT = "Explain in detail how a B-tree keeps its nodes balanced."


def bare_rate(url: str, tokens: int) -> float:
    """Decode rate with a client that only reads."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port)
    body = {
        "messages": [{"role": "user", "content": PROMPT}],
        "stream": True,
        "max_tokens": tokens,
        "temperature": 0,
        "return_progress": True,
        "timings_per_token": True,
        "stream_options": {"include_usage": True},
    }
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
    last: dict[str, float] = {}
    for line in connection.getresponse():
        if line.startswith(b"data: {") and b'"timings"' in line:
            last = json.loads(line[6:])["timings"]
    connection.close()
    return rate(last["predicted_n"], last["predicted_ms"])


def watched_rate(url: str, tokens: int, folder: Path, plain: bool) -> tuple[float, float]:
    """Decode rate with phasetop, and the viewer's CPU seconds a second (0 for --plain)."""
    record = folder / f"{random.random()}.phasetop"
    argv = [sys.executable, "-m", "phasetop", "run", url, "-p", PROMPT, "-n", str(tokens), "--temperature", "0"]
    argv.append(f"--record={record}")
    cpu = 0.0
    if plain:
        quiet = subprocess.DEVNULL
        subprocess.run([*argv, "--plain"], check=True, stdout=quiet, stderr=quiet, stdin=quiet)
    else:
        drawn = drive(argv, record)
        cpu = drawn.viewer_cpu_s / drawn.seconds
    timings = load(record).runs[0].timings.last()
    assert timings is not None
    return rate(timings.gen_n or 0, timings.gen_ms or 0), cpu


def rate(n: float, ms: float) -> float:
    """Tokens a second by llama.cpp's own definition."""
    return (n - 1) / ms * 1000


def interval(values: list[float]) -> tuple[float, float]:
    """95 % interval of the median, by bootstrap."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(4000))
    return medians[100], medians[3900]


def main() -> None:
    """Interleaved pairs; who goes first alternates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()
    model = find_small_model()
    if model is None:
        raise SystemExit("no small model here")
    settings = {"batch": 512, **({"threads": options.threads} if options.threads else {})}
    ratios: list[float] = []
    costs: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        engine = Engine.start(model, settings, Path(name) / "engine.log")
        try:
            engine.wait_ready()
            bare_rate(engine.url, 32)  # warm
            for pair in range(options.pairs):
                rates: dict[str, float] = {}
                for who in ("bare", "watched") if pair % 2 else ("watched", "bare"):
                    if who == "bare":
                        rates[who] = bare_rate(engine.url, options.tokens)
                    else:
                        rates[who], cost = watched_rate(engine.url, options.tokens, Path(name), options.plain)
                        costs.append(cost)
                ratios.append(rates["watched"] / rates["bare"])
                print(f"pair {pair + 1:2}  bare {rates['bare']:6.1f}  watched {rates['watched']:6.1f}  {ratios[-1]:.3f}")
        finally:
            engine.stop()
    low, high = interval(ratios)
    print(f"median ratio {statistics.median(ratios):.3f}  95 % interval {low:.3f} to {high:.3f}  ({len(ratios)} pairs)")
    print(f"viewer CPU, start to end: {100 * statistics.median(costs):.1f} % of a core")


if __name__ == "__main__":
    main()
