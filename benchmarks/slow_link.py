"""How old is what a slow link shows, and how soon is a key answered?

  slow_link.py [--rate 20000] [--rtt-ms 100] [--tok-s 100] [--seconds 12]
  slow_link.py --keys [--tok-s 2000]

The link carries RATE bytes a second into a window of 1 MiB and answers CSI 6n when the screen has shown it. A frame's age is
the time from its last byte's being written to its being shown; with --keys space is pressed twenty times on a fast terminal.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

from terminal import Terminal, environ
from terminal_bytes import Beat


def ages(terminal: Terminal, began: float, rtt_s: float) -> list[float]:
    """The age of each frame: how long after it was written its last byte was shown, half a round trip included, s."""
    marks = [m.end() for m in re.finditer(rb"\x1b\[6n", terminal.shown)]
    made = terminal.made_at
    found: list[float] = []
    for end in marks:
        shown = next((at for n, at in terminal.shown_at if n >= end), None)
        composed = next((at for n, at in made if n >= end), None)
        if shown is not None and composed is not None and shown - began > 3:
            found.append(shown - composed + rtt_s / 2)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=20_000)
    parser.add_argument("--rtt-ms", type=float, default=100)
    parser.add_argument("--tok-s", type=float)
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--keys", action="store_true")
    given = parser.parse_args()
    tok_s = given.tok_s or (2000 if given.keys else 100)
    server = Beat(tok_s, int(tok_s * (given.seconds + 20)))
    with tempfile.TemporaryDirectory() as folder:
        env = environ(XDG_STATE_HOME=folder, XDG_CONFIG_HOME=folder)
        command = [str(Path(sys.executable).with_name("phasetop")), "run", server.url, "-p", "why"]
        if given.keys:
            terminal = Terminal(command, env=env)
        else:
            env["SSH_CONNECTION"] = "10.0.0.1 1 10.0.0.2 22"
            terminal = Terminal(command, env=env, rate=given.rate, rtt_s=given.rtt_ms / 1e3)
        try:
            terminal.pump(30, until=server.going.is_set)
            terminal.pump(2)
            if given.keys:
                print(json.dumps({"what": f"a key at {tok_s:g} tok/s", **key_latency(terminal)}))
                return
            began = time.monotonic() - 3
            terminal.pump(given.seconds)
            found = sorted(ages(terminal, began, given.rtt_ms / 1e3))
        finally:
            terminal.close()
    print(
        json.dumps(
            {
                "what": f"{given.rate / 1e3:g} KB/s, RTT {given.rtt_ms:g} ms, {tok_s:g} tok/s",
                "frames_per_s": round(len(found) / given.seconds, 1),
                "age_ms_median": round(statistics.median(found) * 1e3),
                "age_ms_p90": round(found[int(len(found) * 0.9)] * 1e3),
                "age_ms_max": round(found[-1] * 1e3),
            }
        )
    )


def key_latency(terminal: Terminal) -> dict[str, float]:
    """Milliseconds from a key to the answer on the screen: space pauses, and says so."""
    took: list[float] = []
    for i in range(20):
        seen = len(terminal.shown)
        words = b"paused" if i % 2 == 0 else b"pause"
        pressed = time.monotonic()
        terminal.send(b" ")
        terminal.pump(3, until=lambda words=words, seen=seen: words in terminal.shown[seen:])
        took.append(time.monotonic() - pressed)
        terminal.pump(0.37)
    took.sort()
    return {"median_ms": round(statistics.median(took) * 1e3, 1), "worst_ms": round(took[-1] * 1e3, 1)}


if __name__ == "__main__":
    main()
