"""How long `phasetop sessions` takes with many recordings, of which some are long: the first time, and with its index.

Makes the recordings in a temporary state folder. Prints, as wall ms of a fresh process (minimum of several), beside
`phasetop --version` for what any command costs.

    python benchmarks/sessions_list.py [--recordings 500] [--long 25] [--tokens 100000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from phasetop import codec
from phasetop import events as ev

WORDS = [" the", " model", " reads", " every", " weight", " once"]


def write_session(path: Path, tokens: int, began_ns: int) -> None:
    """One whole session of one request."""
    anchor = ev.Anchor(mono=1, wall=began_ns)
    lines = [
        codec.encode(ev.Hello(t=0, format=1, session=path.stem, anchor=anchor, by="phasetop 0")),
        codec.encode(ev.Server(t=1, v=0, backend="llamacpp")),
        codec.encode(ev.Model(t=2, m=0, v=0, name="llama3.1:8b")),
        codec.encode(ev.Request(t=1000, r=0, v=0, m=0, api="chat", messages=[{"role": "user", "content": "x"}])),
        codec.encode(ev.State(t=2000, r=0, s="sent", at=2000)),
        *(codec.encode(ev.Tok(t=300_000_000 + 8_000_000 * i, r=0, x=WORDS[i % 6], p=-0.12345)) for i in range(tokens)),
        codec.encode(ev.End(t=300_000_000 + 8_000_000 * tokens, r=0, finish="length")),
        codec.encode(ev.Bye(t=300_000_000 + 8_000_000 * tokens, reason="done", lines=tokens + 6)),
    ]
    path.write_bytes(b"".join(lines))


def took_ms(env: dict[str, str], *arguments: str) -> float:
    """Wall time of one call."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "phasetop", *arguments], env=env, stdout=subprocess.DEVNULL, check=True)
    return 1e3 * (time.perf_counter() - began)


def main() -> None:
    """Make the recordings, and time the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recordings", type=int, default=500)
    parser.add_argument("--long", type=int, default=25)
    parser.add_argument("--tokens", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "phasetop" / "recordings"
        kept.mkdir(parents=True)
        for i in range(options.recordings):
            tokens = options.tokens if i < options.long else 300
            write_session(kept / f"2026-11-30-llama3.1-8b-{i}.phasetop", tokens, 1_796_000_000_000_000_000 + i)
        env = {**os.environ, "XDG_STATE_HOME": folder}
        index = Path(folder) / "phasetop" / "sessions.index"
        rows: dict[str, list[float]] = {"any command": [], "the first time": [], "with its index": []}
        for _ in range(options.rounds):
            index.unlink(missing_ok=True)
            rows["any command"].append(took_ms(env, "--version"))
            rows["the first time"].append(took_ms(env, "sessions"))
            rows["with its index"].append(took_ms(env, "sessions"))
        size = sum(path.stat().st_size for path in kept.iterdir())
        print(f"{options.recordings} recordings, {options.long} of {options.tokens} tokens, {size / 1e6:.0f} MB")
        for name, values in rows.items():
            print(f"  {name:<16}{min(values):7.0f} ms")


if __name__ == "__main__":
    main()
