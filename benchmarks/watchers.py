"""What do ten watchers cost a run? Decode rate of the embedded model with watchers of its session, beside without any.

They take turns, pair by pair; every third watcher is stopped by SIGSTOP. The rate is that of the last half of the reply, by
when all watchers follow; what their starting costs is not in it. Printed: the median of the pairs' ratios with a 95 %
interval by bootstrap, and the watchers' CPU. Kinds: `here`, `phasetop watch FILE` on this machine; `far`, the shell and
`tail` that a far watcher runs here (without ssh's part).

    watchers.py [--pairs 10] [--watchers 10] [--tokens 400] [--threads N] [--kind here|far]
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from observer_effect import PROMPT, interval
from terminal import cpu_s

from phasetop import far
from phasetop.backends.embedded import Engine, find_small_model
from phasetop.recording import load

PHASETOP = str(Path(sys.executable).with_name("phasetop"))
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def start_watcher(record: Path, kind: str) -> subprocess.Popen[bytes]:
    """One watcher of a session file."""
    if kind == "here":
        return subprocess.Popen([PHASETOP, "watch", "--plain", str(record)], **QUIET)  # type: ignore[call-overload, no-any-return]
    nonce = far.new_nonce()
    argv = ["sh", "-c", far.LOADER, "phasetop", nonce]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert process.stdin is not None
    process.stdin.write(far.script_line() + far.follow_line(0, bytes(record)))
    process.stdin.flush()
    return process


def family(pid: int) -> list[int]:
    """A process and its children."""
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def follows(pid: int, record: Path) -> bool:
    """Whether a process or a child of its has the file open."""
    for each in family(pid):
        for fd in Path(f"/proc/{each}/fd").glob("*"):
            if fd.exists() and fd.resolve() == record:
                return True
    return False


def last_half(record: Path) -> tuple[float, float]:
    """Tokens a second in the last half of the reply, and when that began (CLOCK_MONOTONIC, s)."""
    session = load(record)
    assert session.hello is not None
    times = session.runs[0].tokens.t
    half = len(times) // 2
    return (len(times) - 1 - half) / (times[-1] - times[half]) * 1e9, (session.hello.anchor.mono + times[half]) / 1e9


def run(url: str, record: Path, given: argparse.Namespace, watchers: int) -> tuple[float, float]:
    """Decode rate of one run's last half, and the CPU seconds a second of all its watchers meanwhile."""
    argv = [PHASETOP, "run", url, "-p", PROMPT, "-n", str(given.tokens), "--temperature", "0", "--plain"]
    main = subprocess.Popen([*argv, f"--record={record}"], **QUIET)  # type: ignore[call-overload]
    while not record.exists() or not record.stat().st_size:
        time.sleep(0.005)
    fleet = [start_watcher(record, given.kind) for _ in range(watchers)]
    try:
        while not all(follows(each.pid, record) for each in fleet):
            time.sleep(0.05)
        settled = time.monotonic()
        for each in fleet[::3]:
            os.kill(each.pid, signal.SIGSTOP)
        pids = [pid for each in fleet for pid in family(each.pid)]
        before = sum(map(cpu_s, pids))
        while main.poll() is None:
            took, used = time.monotonic() - settled, sum(cpu_s(pid) for pid in pids if Path(f"/proc/{pid}/task").exists())
            time.sleep(0.1)
    finally:
        for each in fleet:
            os.kill(each.pid, signal.SIGCONT)
            if each.stdin is not None:
                each.stdin.close()
            else:
                each.terminate()
            each.wait()
    rate, began = last_half(record)
    if fleet and began < settled:
        print(f"the watchers were not all there in time: {settled - began:.1f} s late; more --tokens")
    return rate, (used - before) / took if fleet else 0.0


def main() -> None:
    """Interleaved pairs; which goes first alternates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--watchers", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--kind", choices=["here", "far"], default="here")
    given = parser.parse_args()
    model = find_small_model()
    if model is None:
        raise SystemExit("no small model here")
    ratios: list[float] = []
    costs: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_STATE_HOME"] = name
        engine = Engine.start(
            model, {"batch": 512, **({"threads": given.threads} if given.threads else {})}, Path(name) / "log"
        )
        try:
            engine.wait_ready()
            run(engine.url, Path(name) / "warm.phasetop", given, 0)
            for pair in range(given.pairs):
                rates: dict[int, float] = {}
                for n in (0, given.watchers) if pair % 2 else (given.watchers, 0):
                    rates[n], cost = run(engine.url, Path(name) / f"{pair}-{n}.phasetop", given, n)
                    if n:
                        costs.append(cost)
                ratios.append(rates[given.watchers] / rates[0])
                alone, watched = rates[0], rates[given.watchers]
                print(f"pair {pair + 1:2}  alone {alone:6.1f}  {given.watchers} watchers {watched:6.1f}  {ratios[-1]:.3f}")
        finally:
            engine.stop()
    low, high = interval(ratios)
    print(f"median ratio {statistics.median(ratios):.3f}  95 % interval {low:.3f} to {high:.3f}  ({len(ratios)} pairs)")
    print(f"CPU of all watchers: {100 * statistics.median(costs):.1f} % of a core")


if __name__ == "__main__":
    main()
