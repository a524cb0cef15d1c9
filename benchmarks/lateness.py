"""How late are the arrival stamps, with the live view drawing on a pty, beside a bare socket reader?

A metronome sends 2,000 tokens on an exact beat of 200 a second and logs when it sent each. Two readers take turns, three
pairs: (a) the floor: a bare socket with kernel stamps in a process of its own; (b) phasetop with its view at 120x36 on a
pty. Lateness = stamp - sending, over tokens whose reads were merged in neither; the share of merged ones is printed.

    benchmarks/lateness.py [--rate 200] [--tokens 2000] [--pairs 3] [--plain]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pty_run import drive

from phasetop.recording import load

HERE = Path(__file__).resolve().parent
METRONOME = HERE.parent / "tests" / "tools" / "metronome.py"

BARE = """
import json, re, socket, struct, sys, time
host, port, out = "127.0.0.1", int(sys.argv[1]), sys.argv[2]
body = json.dumps({"messages": [], "stream": True, "return_progress": True}).encode()
s = socket.create_connection((host, port))
s.setsockopt(socket.SOL_SOCKET, 35, 1)
s.sendall(b"POST /v1/chat/completions HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
room, stamps, tail = socket.CMSG_SPACE(16), [], b""
while True:
    data, ancillary, _, _ = s.recvmsg(65536, room)
    if not data:
        break
    for _ in range(4):
        a, real, b = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        if b - a < 5000:
            break
    t = a
    for level, kind, raw in ancillary:
        if kind == 35:
            seconds, ns = struct.unpack("@qq", raw)
            t = (a + b) // 2 - (real - seconds * 10**9 - ns)
    tail += data
    *lines, tail = tail.split(b"\\n")
    stamps += [t] * sum(1 for line in lines if b'"content": " ' in line)
    if any(line.startswith(b"data: [DONE]") for line in lines):
        break
json.dump(stamps, open(out, "w"))
"""


def start_metronome(options: argparse.Namespace, log: Path) -> tuple[subprocess.Popen[str], str]:
    """A metronome on a free port."""
    argv = [sys.executable, str(METRONOME), "--port", "0", "--log", str(log), "--prefill-ms", "100"]
    argv += ["--rate", str(options.rate), "--tokens", str(options.tokens)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().split()[-1]


def sent_times(log: Path) -> list[int]:
    """When each token was sent, once the log is there."""
    for _ in range(500):
        if log.exists() and (text := log.read_text()).endswith("\n"):
            return [json.loads(line)["t"] for line in text.splitlines()]
        time.sleep(0.01)
    raise SystemExit("the metronome wrote no log")


def bare(url: str, folder: Path) -> list[int]:
    """Arrivals by a bare socket reader."""
    out = folder / "bare.json"
    subprocess.run([sys.executable, "-c", BARE, url.rpartition(":")[2], str(out)], check=True)
    return [int(t) for t in json.loads(out.read_text())]


def with_view(url: str, folder: Path, plain: bool) -> list[int]:
    """Arrivals by phasetop, its view drawing on a pty that answers as a terminal does."""
    record = folder / f"view-{time.monotonic_ns()}.phasetop"
    argv = [sys.executable, "-m", "phasetop", "run", url, "-p", "go", f"--record={record}"]
    if plain:
        subprocess.run([*argv, "--plain"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    else:
        drive(argv, record)
    session = load(record)
    assert session.hello is not None
    anchor = session.hello.anchor.mono
    tokens = session.runs[0].tokens
    return [t + anchor for t, n, text in zip(tokens.t, tokens.n, tokens.text, strict=True) if n and text]


def quantile(values: list[float], q: float) -> float:
    """A quantile by nearest rank."""
    return sorted(values)[min(len(values) - 1, int(q * len(values)))]


def unmerged(stamps: list[int]) -> set[int]:
    """The tokens whose read brought one token."""
    counts: dict[int, int] = {}
    for t in stamps:
        counts[t] = counts.get(t, 0) + 1
    return {i for i, t in enumerate(stamps) if counts[t] == 1}


def main() -> None:
    """Three interleaved pairs; the best ratio of each percentile."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--plain", action="store_true", help="headless instead of the view")
    options = parser.parse_args()
    ratios: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for pair in range(options.pairs):
            rows: dict[str, Any] = {}
            for reader in ("bare", "phasetop"):
                log = folder / f"{reader}-{pair}.jsonl"
                process, url = start_metronome(options, log)
                try:
                    stamps = bare(url, folder) if reader == "bare" else with_view(url, folder, options.plain)
                    rows[reader] = (stamps, sent_times(log))
                finally:
                    process.terminate()
                    process.wait()
            single = unmerged(rows["bare"][0]) & unmerged(rows["phasetop"][0])
            figures: dict[str, tuple[float, float]] = {}
            for reader, (stamps, sent) in rows.items():
                late = [(stamps[i] - sent[i]) / 1e6 for i in sorted(single)]
                figures[reader] = quantile(late, 0.5), quantile(late, 0.99)
                merged = 100 * (1 - len(unmerged(stamps)) / len(stamps))
                print(
                    f"pair {pair + 1}  {reader:9} late p50 {figures[reader][0]:.3f}  p99 {figures[reader][1]:.3f} ms"
                    f"   {len(stamps)} tokens, merged {merged:.1f} %"
                )
            ratios.append(tuple(figures["phasetop"][k] / figures["bare"][k] for k in (0, 1)))  # type: ignore[arg-type]
            print(f"pair {pair + 1}  ratio     p50 {ratios[-1][0]:.2f}  p99 {ratios[-1][1]:.2f}")
    print(f"best of {len(ratios)}: p50 x{min(r[0] for r in ratios):.2f}  p99 x{min(r[1] for r in ratios):.2f}  (goal: 1.5)")


if __name__ == "__main__":
    main()
