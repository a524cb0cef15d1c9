"""What does looking at Ollama's runner cost? Prefill and decode rates of a real Ollama with phasetop beside a bare client's.

Both ask the same Ollama by turns, with prompts of one length that share nothing; phasetop's collector polls the runner's
/slots meanwhile and asks for the prompt's tokens. The rates are the server's own (eval_count - 1 over eval_duration;
computed tokens over prompt_eval_duration). Printed: the medians of the pairs' ratios with 95 % intervals by bootstrap, and
how much single runs of the bare client spread.

    benchmarks/ollama_polling.py URL [--model smollm2] [--pairs 12] [--words 300] [--tokens 100]
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import statistics
import time
from urllib.parse import urlsplit

import psutil

from phasetop.lifeline import Lifeline, Start, Target

WORDS = (
    "memory",
    "bridge",
    "music",
    "planet",
    "winter",
    "market",
    "silent",
    "orange",
    "doctor",
    "kitchen",
    "paper",
    "garden",
    "yellow",
    "engine",
    "forest",
)
STEADY = {"repeat_penalty": 1.3}
"""Keeps a small model from repeating one token, for which Ollama would give the reply up."""


def prompt(words: int, seed: int) -> str:
    """A prompt that shares no beginning with any other."""
    chance = random.Random(seed)
    return f"{seed} " + " ".join(chance.choice(WORDS) for _ in range(words))


def bare(url: str, model: str, text: str, tokens: int) -> tuple[float, float]:
    """(prefill, decode) tokens a second with a client that only reads."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port)
    body = {
        "model": model,
        "messages": [{"role": "user", "content": text}],
        "options": {"num_predict": tokens, "temperature": 0, **STEADY},
    }
    connection.request("POST", "/api/chat", json.dumps(body))
    last = json.loads(list(connection.getresponse())[-1])
    connection.close()
    prefill = last["prompt_eval_count"] / last["prompt_eval_duration"] * 1e9
    return prefill, (last["eval_count"] - 1) / last["eval_duration"] * 1e9


class Watched:
    """A collector that asks, one for all pairs; the viewer's side only waits."""

    def __init__(self, url: str, model: str) -> None:
        self.lifeline = Lifeline(Start(target=Target("ollama", url, model)))
        self.process = psutil.Process(self.lifeline.pid)

    def ask(self, text: str, tokens: int) -> tuple[float, float, float]:
        """(prefill, decode) by the server's own figures, and the collector's share of a core meanwhile."""
        before, begun = sum(self.process.cpu_times()[:2]), time.monotonic()
        settings = {"temperature": 0, "max_tokens": tokens, **STEADY}
        command = self.lifeline.ask(messages=[{"role": "user", "content": text}], settings=settings)
        session = self.lifeline.follower.session
        run = None
        while run is None or not run.ends.items:
            time.sleep(0.1)
            self.lifeline.follower.poll()
            r = next((control.r for control in session.controls.items if control.id == command), None)
            run = session.runs.get(r) if r is not None else None
        share = (sum(self.process.cpu_times()[:2]) - before) / (time.monotonic() - begun)
        timings = run.timings.last()
        assert timings is not None
        assert timings.prompt_n is not None, "its runner was not seen"
        prefill = timings.prompt_n / (timings.prompt_ms or 1) * 1e3
        return prefill, ((timings.gen_n or 0) - 1) / (timings.gen_ms or 1) * 1e3, share


def interval(values: list[float]) -> str:
    """The median and its 95 % interval by bootstrap."""
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(4000))
    return f"{statistics.median(values):.3f}  95 % interval {medians[100]:.3f} to {medians[3900]:.3f}"


def main() -> None:
    """Interleaved pairs; who goes first alternates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--words", type=int, default=300)
    parser.add_argument("--tokens", type=int, default=100)
    options = parser.parse_args()
    ratios: dict[str, list[float]] = {"prefill": [], "decode": []}
    shares: list[float] = []
    alone: dict[str, list[float]] = {"prefill": [], "decode": []}
    bare(options.url, options.model, "warm up", 8)
    looker = Watched(options.url, options.model)
    looker.ask("warm up", 8)
    try:
        for pair in range(options.pairs):
            found: dict[str, tuple[float, float]] = {}
            for who in ("bare", "watched") if pair % 2 else ("watched", "bare"):
                text = prompt(options.words, random.randrange(1 << 30))
                if who == "bare":
                    found[who] = bare(options.url, options.model, text, options.tokens)
                else:
                    *rates, share = looker.ask(text, options.tokens)
                    found[who] = rates[0], rates[1]
                    shares.append(share)
            for i, phase in enumerate(ratios):
                ratios[phase].append(found["watched"][i] / found["bare"][i])
                alone[phase].append(found["bare"][i])
            print(
                f"pair {pair + 1:2}  prefill {found['bare'][0]:6.1f} / {found['watched'][0]:6.1f}"
                f"  decode {found['bare'][1]:6.1f} / {found['watched'][1]:6.1f}  collector {100 * shares[-1]:.1f} %"
            )
    finally:
        looker.lifeline.close()
    for phase, values in ratios.items():
        spread = statistics.stdev(alone[phase]) / statistics.mean(alone[phase])
        print(f"{phase:8} watched / bare: {interval(values)}  (bare runs spread by {100 * spread:.1f} %)")


if __name__ == "__main__":
    main()
