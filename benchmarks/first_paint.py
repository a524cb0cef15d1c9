"""Time from the start to the first picture, beside a minimal Textual app on the same pty; alternating, medians.

  first_paint.py [--runs 15] [--busy] [--tokens 100000]

--busy keeps every core busy meanwhile. A recording of 100,000 tokens is opened beside a small one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from terminal import Terminal, environ

from phasetop import codec
from phasetop import events as ev

BURNER = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"
"""Keeps a core busy as long as this script lives."""
MINIMAL = """
from textual.app import App
from textual.widgets import Static
class Minimal(App):
    def compose(self):
        yield Static("first picture")
Minimal().run()
"""


def recording(path: Path, tokens: int) -> Path:
    """A session with one reply of so many tokens."""
    host = ev.Host(name="box", os="Linux", cpu="EPYC", cores=2, ram_bytes=1 << 34)
    made: list[ev.Event] = [
        ev.Hello(t=0, format=1, session="s", anchor=ev.Anchor(mono=1, wall=1), by="phasetop", host=host),
        ev.Server(t=1, v=0, backend="llamacpp", url="http://127.0.0.1:8080", local=True),
        ev.Model(t=1, m=0, v=0, name="first-picture"),
        ev.Request(t=2, r=0, v=0, m=0, api="chat", messages=[{"role": "user", "content": "why"}]),
        ev.State(t=3, r=0, s="sent", at=3),
    ]
    for i in range(tokens):
        t = 100_000_000 + i * 10_000_000
        made.append(ev.Tok(t=t, r=0, x=" word" if i % 20 else ".\n"))
        if i % 20 == 0:
            made.append(ev.Tok(t=t + 1, r=0, x="", n=0))
    made.append(ev.End(t=100_000_000 + tokens * 10_000_000, r=0, finish="stop"))
    made.append(ev.Bye(t=100_000_001 + tokens * 10_000_000, reason="done", lines=len(made)))
    path.write_bytes(codec.encode_all(made))
    return path


def once(command: list[str], words: bytes, env: dict[str, str]) -> tuple[float, float]:
    """Seconds from the start until the words are on the screen, and of CPU until then."""
    terminal = Terminal(command, env=env)
    try:
        terminal.pump(20, until=lambda: words in terminal.shown)
        cpu_s = terminal.cpu_s()
        at = next(at for n, at in terminal.shown_at if n > terminal.shown.index(words))
        return at - terminal.began, cpu_s
    finally:
        terminal.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--tokens", type=int, default=100_000)
    parser.add_argument("--busy", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        env = environ(XDG_STATE_HOME=folder, XDG_CONFIG_HOME=folder)
        small = recording(Path(folder) / "small.phasetop", 200)
        large = recording(Path(folder) / "large.phasetop", given.tokens)
        phasetop = str(Path(sys.executable).with_name("phasetop"))
        cases = {
            "minimal": ([sys.executable, "-c", MINIMAL], b"first picture"),
            "phasetop": ([phasetop], b"looked at"),
            "replay": ([phasetop, "replay", str(small)], b"first-picture"),
            f"replay of {given.tokens:,}": ([phasetop, "replay", str(large)], b"first-picture"),
        }
        cores = (os.cpu_count() or 1) if given.busy else 0
        burners = [subprocess.Popen([sys.executable, "-c", BURNER]) for _ in range(cores)]
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
        try:
            for i in range(given.runs + 1):
                for name, (command, words) in cases.items():
                    took = once(command, words, env)
                    if i:  # the first warms the caches
                        taken[name].append(took)
                    time.sleep(0.05)
        finally:
            for burner in burners:
                burner.kill()
                burner.wait()
    figures = {name: [statistics.median(column) for column in zip(*values, strict=True)] for name, values in taken.items()}
    base = figures["minimal"]
    for name, (wall_s, cpu_s) in figures.items():
        ratios = {"ratio": round(wall_s / base[0], 2), "cpu_ratio": round(cpu_s / base[1], 2)}
        print(json.dumps({"what": name, "ms": round(wall_s * 1e3), "cpu_ms": round(cpu_s * 1e3), **ratios}))


if __name__ == "__main__":
    main()
