"""How long a session of 100,000 tokens takes to load, and what memory it needs: decode and apply, line by line.

Prints one row a shape of token line: bytes a token, load time (minimum of several, ms), and the peak RSS of a process that
loads it once (MiB; the interpreter and msgspec are in it). Figures to hold: 300 ms and 60 MB.

    python benchmarks/session_load.py [--tokens 100000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from phasetop import codec
from phasetop import events as ev
from phasetop.recording import load

SHAPES = {"plain": (False, 0), "logprob": (True, 0), "top 5": (True, 5), "top 20": (True, 20)}


def write_session(path: Path, tokens: int, *, logprob: bool, top: int, seed: int = 1) -> None:
    """One request with ``tokens`` token lines about 8 ms apart, as the collector writes them."""
    rng = random.Random(seed)
    words = [" " + "".join(rng.choices("abcdefghijklmnop", k=rng.randint(1, 8))) for _ in range(5000)]
    anchor = ev.Anchor(mono=1, wall=1_796_000_000_000_000_000)
    with path.open("wb") as file:
        file.write(codec.encode(ev.Hello(t=0, format=1, session="0", anchor=anchor, by="phasetop 0")))
        file.write(codec.encode(ev.Request(t=1000, r=0, v=0, m=0, api="chat", messages=[{"role": "user", "content": "x"}])))
        file.write(codec.encode(ev.State(t=2000, r=0, s="sent", at=2000)))
        t = 300_000_000
        for _ in range(tokens):
            t += int(rng.lognormvariate(15.9, 0.2))
            tok = ev.Tok(t=t, r=0, x=rng.choice(words))
            if logprob:
                tok.p, tok.i = round(-rng.expovariate(2), 5), rng.randrange(128_000)
            if top:
                tok.top = [part for _ in range(top) for part in (rng.choice(words), round(-rng.expovariate(0.3), 5))]
            file.write(codec.encode(tok))
        file.write(codec.encode(ev.End(t=t + 1000, r=0, finish="length")))


def peak_mib() -> float:
    """Peak RSS of the process that asks."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def main() -> None:
    """Write each shape, time its load here, and have a fresh process say its memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only-load", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only_load:
        session = load(options.only_load)
        print(f"{len(session.runs[0].tokens)} {peak_mib():.1f}")
        return
    print(f"{'shape':<10}{'B/token':>8}{'load ms':>9}{'peak MiB':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (logprob, top) in SHAPES.items():
            path = Path(folder) / f"{name}.phasetop"
            write_session(path, options.tokens, logprob=logprob, top=top)
            took = []
            for _ in range(options.rounds):
                begun = time.perf_counter()
                load(path)
                took.append(time.perf_counter() - begun)
            command = [sys.executable, __file__, "--only-load", str(path)]
            told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            if int(told[0]) != options.tokens:
                raise SystemExit(f"{told[0]} tokens loaded, {options.tokens} written")
            size = path.stat().st_size / options.tokens
            print(f"{name:<10}{size:>8.0f}{min(took) * 1000:>9.0f}{float(told[1]):>10.1f}")


if __name__ == "__main__":
    main()
