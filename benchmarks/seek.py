"""How long a seek in a replay of 100,000 tokens takes: the Frame at a cursor, and the canvas that is painted from it.

Random cursors (their own seed), half of them forward and half backward, after what the view looks at when it has opened;
prints p50, p99 and the longest, ms, then the same for going back by tokens, and for playing on by one frame.
Figure to hold: less than one frame of the ten a second.

    python benchmarks/seek.py [--tokens 100000] [--seeks 200] [--size 120x36]
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from phasetop import codec
from phasetop import events as ev
from phasetop.recording import load
from phasetop.tui.cells import Canvas
from phasetop.tui.course import Course
from phasetop.tui.frame import FrameMaker
from phasetop.tui.layout import layout
from phasetop.tui.painter import paint
from phasetop.tui.theme import Look
from phasetop.tui.view import View

MS = 1_000_000


def write_session(path: Path, tokens: int, *, seed: int = 1) -> None:
    """One request with ``tokens`` token lines about 10 ms apart, the server's times with them, and four sampled series."""
    rng = random.Random(seed)
    words = [" " + "".join(rng.choices("abcdefghijklmnop", k=rng.randint(1, 8))) for _ in range(5000)]
    options = {"threads": ev.Sourced(2, "default"), "context": ev.Sourced(1 << 17, "argv")}
    hparams = {"llama.block_count": 30, "llama.attention.head_count_kv": 3, "llama.attention.key_length": 64}
    host = ev.Host(name="box", os="Linux", cpu="EPYC", cores=2, ram_bytes=16 << 30)
    anchor = ev.Anchor(mono=1, wall=1_796_000_000_000_000_000)
    lines: list[ev.Event] = [
        ev.Hello(t=0, format=1, session="0", anchor=anchor, by="phasetop 0", host=host),
        ev.Server(t=MS, v=0, backend="llamacpp", url="http://127.0.0.1:1", local=True, options=options),
        ev.Model(t=MS, m=0, v=0, name="m", arch="llama", params=134_515_008, hparams=hparams, weights={"all": 98_000_000}),
        ev.Series(t=MS, s=0, name="cpu_cores_used", unit="cores", source="psutil"),
        ev.Series(t=MS, s=1, name="memory_used_bytes", unit="B", source="psutil"),
        ev.Series(t=MS, s=2, name="server_cpu_cores", unit="cores", source="psutil", v=0),
        ev.Series(t=MS, s=3, name="server_rss_bytes", unit="B", source="psutil", v=0),
        ev.State(t=MS, v=0, s="ready"),
        ev.Request(t=2 * MS, r=0, v=0, m=0, api="chat", messages=[{"role": "user", "content": "x"}], asked={}),
        ev.State(t=3 * MS, r=0, s="sent", at=3 * MS),
    ]
    lines += [ev.Prog(t=(10 + i * 30) * MS, r=0, total=2048, cached=0, done=i * 256) for i in range(9)]
    t, told = 300 * MS, 0
    for i in range(tokens):
        gap = rng.lognormvariate(16.1, 0.2) * (rng.choice((8, 12)) if rng.random() < 0.0005 else 1)
        t += int(gap)
        lines.append(ev.Tok(t=t, r=0, x=rng.choice(words), p=round(-rng.expovariate(2), 5)))
        if t - told > 100 * MS:
            told = t
            lines.append(ev.Timings(t=t, r=0, prompt_n=2048, cached_n=0, prompt_ms=250.0, gen_n=i + 1, gen_ms=t / MS - 300))
    lines.append(ev.End(t=t + 1000, r=0, finish="length"))
    for at in range(0, t, 170 * MS):
        values: dict[str, float | None] = {"0": 1.9, "1": 2e9 + at % 7, "2": 1.8, "3": 2e8}
        lines.append(ev.Smp(t=at + 170 * MS, t0=at, v=values))
    path.write_bytes(b"".join(codec.encode(line) for line in sorted(lines, key=lambda line: line.t)))


def shown(took: list[float]) -> str:
    """p50, p99 and the longest of times in seconds, in ms."""
    ordered = sorted(took)
    p50, p99 = (ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.5, 0.99))
    return f"{p50 * 1e3:8.1f}{p99 * 1e3:8.1f}{ordered[-1] * 1e3:8.1f}"


def main() -> None:
    """Write, load, seek."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=100_000)
    parser.add_argument("--seeks", type=int, default=200)
    parser.add_argument("--size", default="120x36")
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    plan = layout(width, height)
    assert plan is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.phasetop"
        write_session(path, options.tokens)
        session = load(path)
    maker, look, view = FrameMaker(session), Look(), View()

    def draw(cursor: int) -> float:
        begun = time.perf_counter()
        frame = maker.frame(cursor, plan, view)
        failed = paint(Canvas(width, height, look), frame, plan)
        took = time.perf_counter() - begun
        assert not failed, failed
        return took

    rng = random.Random(2)
    end = session.last_t
    print(f"{len(session.runs[0].tokens):,} tokens at {options.size}, ms: {'p50':>14}{'p99':>8}{'max':>8}")
    print(f"{'first picture':<34}{draw(0) * 1e3:8.1f}")
    print(f"{'what is looked at ahead, together':<34}{sum(map(draw, Course(session).ahead())) * 1e3:8.1f}")
    took: dict[str, list[float]] = {"seek forward": [], "seek backward": [], "a token back": [], "playing on, a frame": []}
    at = end
    for _ in range(options.seeks):
        to = rng.randrange(end)
        took["seek forward" if to > at else "seek backward"].append(draw(to))
        at = to
    tokens = session.runs[0].tokens
    i = tokens.index(at)
    for k in range(min(100, i - 1)):
        took["a token back"].append(draw(tokens.t[i - 1 - k]))
    at = end // 2
    for _ in range(100):
        at += 100 * MS
        took["playing on, a frame"].append(draw(at))
    for name, times in took.items():
        print(f"{name:<34}{shown(times)}")


if __name__ == "__main__":
    main()
