"""Does phasetop stand a long session on a machine that is busy? Memory flat, no descriptor leaked, no event lost.

The live view of the embedded model on a pty, asked again and again (every seventh reply is cancelled), beside two processes
that burn a core each. The viewer is stopped (SIGSTOP) and continued; watchers follow the session file from its first line,
come at any moment and stay, or are killed; every half minute a headless run records onto a tmpfs that is filled meanwhile.
Printed: the growth of each process's memory after the first quarter, descriptors, lines and texts. Exit status 1 when
something leaked or was lost. An hour: --seconds 3600.

    benchmarks/soak.py [--seconds 60] [--burners 2] [--tokens 48]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from terminal import Terminal, environ

from phasetop.backends.embedded import find_small_model
from phasetop.follow import Follower
from phasetop.recording import load
from phasetop.session import Session

PROMPT = "Tell me a long story about a river and a town."
BURN = "while True: pass"
WATCH = """
import sys, time
from pathlib import Path
from phasetop.follow import Follower
follower = Follower(Path(sys.argv[1]), None, time.monotonic_ns)
while not follower.ended:
    follower.poll()
    time.sleep(0.05)
"""
LEAK_KB = {"viewer": 6144, "collector": 2048, "engine": 320 * 1024}
"""What a process may grow in the measured time: the viewer beyond the recording that it holds, the engine by its cache of
2,048 tokens (45 MB, touched as they come) and by the states of earlier prompts, which it keeps up to 256 MiB.
"""
VIEWER_BYTES_A_LINE = 400
"""The recording in the viewer's memory: columns and texts."""
_TICK_S = 0.5


@dataclass
class Process:
    """One process over time: (seconds, KB of memory, descriptors)."""

    name: str
    handle: psutil.Process
    seen: list[tuple[float, float, int]] = field(default_factory=list)

    def look(self, t: float) -> None:
        """Take a reading. PSS where the system tells it: pages that are shared do not count twice."""
        try:
            used = self.handle.memory_full_info() if sys.platform == "linux" else self.handle.memory_info()
            self.seen.append((t, getattr(used, "uss", used.rss) / 1024, self.handle.num_fds()))
        except psutil.Error:
            pass

    def settled(self) -> list[tuple[float, float, int]]:
        """The readings after the first quarter."""
        return [each for each in self.seen if each[0] >= self.seen[-1][0] / 4] if self.seen else []

    def slope_kb_per_s(self) -> float:
        """Of memory over time, by least squares."""
        points = self.settled()
        if len(points) < 3:
            return 0.0
        mean_t, mean_kb = (sum(p[i] for p in points) / len(points) for i in (0, 1))
        spread = sum((t - mean_t) ** 2 for t, _, _ in points)
        return sum((t - mean_t) * (kb - mean_kb) for t, kb, _ in points) / spread if spread else 0.0

    def course(self) -> str:
        """MB at each tenth of the time: a leak goes on straight, a cache that fills comes to rest."""
        if not self.seen:
            return ""
        tenths = (self.seen[-1][0] * i / 10 for i in range(11))
        return " ".join(f"{min(self.seen, key=lambda p: abs(p[0] - t))[1] / 1024:.1f}" for t in tenths)

    def growth_kb(self) -> float:
        """By the slope, over the settled time."""
        points = self.settled()
        return self.slope_kb_per_s() * (points[-1][0] - points[0][0]) if points else 0.0


def texts(session: Session) -> dict[int, str]:
    """Request → all that was said."""
    return {r: "".join(str(part) for part in run.tokens.text) for r, run in session.runs.items()}


@contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """A tmpfs of 256 KB; None where only root may mount one."""
    disk = folder / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", disk], capture_output=True, check=False
    ).returncode
    try:
        yield None if mounted else disk
    finally:
        if not mounted:
            subprocess.run(["umount", "-l", disk], check=False)


class FullDisk:
    """Headless runs whose recording has no room, one after the other; their texts have to come whole all the same."""

    def __init__(self, disk: Path, url: str) -> None:
        self._disk, self._url = disk, url
        self._running: subprocess.Popen[bytes] | None = None
        self.runs = self.short = 0

    def turn(self) -> None:
        """Collect the one that ended, and start the next."""
        if self._running is not None:
            if self._running.poll() is None:
                return
            self._collect()
        for file in self._disk.iterdir():
            shutil.rmtree(file) if file.is_dir() else file.unlink()
        (self._disk / "fill").write_bytes(bytes(self._disk.stat().st_blksize * random.randint(40, 60)))
        argv = [sys.executable, "-m", "phasetop", "run", self._url, "-p", PROMPT, "-n", "200", "--logprobs", "20", "--json"]
        self._running = subprocess.Popen(
            argv,
            env={**os.environ, "XDG_STATE_HOME": str(self._disk)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def _collect(self) -> None:
        assert self._running is not None
        out, _ = self._running.communicate(timeout=120)
        told = json.loads(out)
        self.runs += 1
        full = any(notice["code"] == "not-recorded" for notice in told["notices"])
        if self._running.returncode or not full or told["tokens"]["output"] != 200:
            self.short += 1
        self._running = None

    def end(self) -> None:
        """The last one may finish."""
        if self._running is not None:
            self._collect()


class Soak:
    """The session and what is done to it."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.record = folder / "soak.phasetop"
        model = find_small_model()
        if model is None:
            raise SystemExit("no small model here")
        argv = [sys.executable, "-m", "phasetop", "run", str(model), "-p", PROMPT, "-n", str(options.tokens)]
        argv += ["-t", "2", "-c", "2048", f"--record={self.record}"]
        self.terminal = Terminal(argv, env=environ(XDG_STATE_HOME=str(folder / "state")))
        self.follower = Follower(self.record, None, time.monotonic_ns)
        self.late: list[Follower] = []
        self.processes: list[Process] = []
        self.stopped_until = 0.0
        self.stops = self.progress_while_stopped = self.cancels = self.watchers = 0
        self._lines_at_stop = 0
        self._asked = 1
        self._cancelled: set[int] = set()
        self._watching: list[subprocess.Popen[bytes]] = []

    def url(self) -> str | None:
        """Where the engine listens, once it is ready."""
        states = self.follower.session.server_states.items
        if not any(state.s == "ready" for state in states):
            return None
        server = next(iter(self.follower.session.servers.values())).at()
        return server.url if server is not None else None

    def find_processes(self) -> None:
        """Viewer, collector and engine, as the session names them."""
        session = self.follower.session
        server = next(iter(session.servers.values())).at()
        pids = {
            "viewer": self.terminal.pid,
            "collector": session.hello.pid if session.hello is not None else None,
            "engine": server.pid if server is not None else None,
        }
        self.processes = [Process(name, psutil.Process(pid)) for name, pid in pids.items()]

    def ask_and_cancel(self) -> None:
        """Every reply that ended is asked for again; every seventh is cancelled on its way."""
        runs = self.follower.session.runs
        if len(runs) < self._asked:
            return
        newest = runs[max(runs)]
        if newest.ends.items:
            self.terminal.send(b"R")
            self._asked = len(runs) + 1
        elif newest.r % 7 == 6 and len(newest.tokens) > 10 and newest.r not in self._cancelled:
            self._cancelled.add(newest.r)
            self.cancels += 1
            self.terminal.send(b"\x1b")

    def stop_and_continue(self, now: float) -> None:
        """The viewer stands still for three seconds of every ten; the session goes on."""
        if self.stopped_until and now >= self.stopped_until:
            os.kill(self.terminal.pid, signal.SIGCONT)
            self.progress_while_stopped += self.follower.session.lines > self._lines_at_stop
            self.stopped_until = 0.0
        elif not self.stopped_until and random.random() < _TICK_S / 7:
            os.kill(self.terminal.pid, signal.SIGSTOP)
            self.stops += 1
            self._lines_at_stop = self.follower.session.lines
            self.stopped_until = now + 3

    def come_and_go(self) -> None:
        """A watcher comes, another is killed; now and then one here comes late and stays to the end."""
        if random.random() < _TICK_S / 3:
            if len(self._watching) >= 3:
                gone = self._watching.pop(random.randrange(3))
                gone.kill()
                gone.wait()
            self._watching.append(subprocess.Popen([sys.executable, "-c", WATCH, str(self.record)]))
            self.watchers += 1
        if len(self.late) < 8 and random.random() < _TICK_S / 10:
            self.late.append(Follower(self.record, None, time.monotonic_ns))

    def poll(self) -> None:
        """Follow, as every watcher here does."""
        for follower in (self.follower, *self.late):
            follower.poll()
        del self.terminal.shown[:], self.terminal.shown_at[:], self.terminal.made_at[:]

    def leave(self) -> int | None:
        """Quit as a person does; the exit status."""
        os.kill(self.terminal.pid, signal.SIGCONT)
        for watcher in self._watching:
            watcher.kill()
            watcher.wait()
        self.terminal.send(b"q")
        if self.terminal.pump(60):
            print(f"it did not leave; the last it drew: {bytes(self.terminal.shown[-3000:])!r}")
        self.poll()
        self.terminal.close()
        status: int | None = self.terminal.status
        return status


def verdict(soak: Soak, disk: FullDisk | None, status: int | None) -> list[str]:
    """What went wrong."""
    wrong = [] if status == 0 else [f"the viewer left with {status}"]
    lines = soak.record.read_bytes().splitlines()
    last = json.loads(lines[-1])
    whole = load(soak.record)
    tokens = sum(len(run.tokens) for run in whole.runs.values())
    print(f"requests {len(whole.runs)} ({soak.cancels} cancelled), tokens {tokens}, lines {len(lines)}")
    print(f"viewer stopped {soak.stops} times ({soak.progress_while_stopped} with new lines), watchers {soak.watchers}")
    if last.get("k") != "bye" or last["lines"] != len(lines) - 1:
        wrong.append(f"{len(lines) - 1} lines, and the last one says {last}")
    for name, follower in (("the first watcher", soak.follower), *((f"watcher {i}", f) for i, f in enumerate(soak.late))):
        if follower.session.lines != len(lines) or texts(follower.session) != texts(whole):
            wrong.append(f"{name} saw {follower.session.lines} of {len(lines)} lines, or other texts")
    if disk is not None:
        print(f"runs onto a full disk {disk.runs}, not whole {disk.short}")
        if disk.short:
            wrong.append("a run onto a full disk lost something")
    print("           first     last   growth a minute   descriptors")
    for process in soak.processes:
        points = process.settled()
        allowed = LEAK_KB[process.name]
        if process.name == "viewer":
            allowed += len(lines) * VIEWER_BYTES_A_LINE // 1024
        first, final = points[0], points[-1]
        print(
            f"{process.name:9} {first[1] / 1024:6.1f} {final[1] / 1024:8.1f} MB {process.slope_kb_per_s() * 60:+9.0f} KB"
            f"        {first[2]} to {final[2]} (most {max(p[2] for p in points)})"
        )
        print(f"{'':9} {process.course()}")
        if process.growth_kb() > allowed:
            wrong.append(f"{process.name} grew by {process.growth_kb():.0f} KB, allowed are {allowed}")
        if final[2] > first[2] + 3:
            wrong.append(f"{process.name} has {final[2] - first[2]} descriptors more")
    return wrong


def main() -> int:
    """Run it; 1 when something leaked or was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--burners", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=48)
    options = parser.parse_args()
    burners = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(options.burners)]
    with tempfile.TemporaryDirectory() as name, small_disk(Path(name)) as disk_folder:
        soak = Soak(Path(name), options)
        disk: FullDisk | None = None
        began, next_run = 0.0, 0.0
        try:
            while not began or time.monotonic() < began + options.seconds:
                if not soak.terminal.pump(_TICK_S):
                    print(bytes(soak.terminal.shown[-2000:]).decode("utf-8", "replace"))
                    break
                soak.poll()
                url, now = soak.url(), time.monotonic()
                if url is None:
                    continue
                if not began:
                    began = now
                    soak.find_processes()
                    if disk_folder is not None:
                        disk = FullDisk(disk_folder, url)
                for process in soak.processes:
                    process.look(now - began)
                soak.ask_and_cancel()
                soak.stop_and_continue(now)
                soak.come_and_go()
                if disk is not None and now >= next_run:
                    next_run = now + 30
                    disk.turn()
            if disk is not None:
                disk.end()
        finally:
            status = soak.leave()
            for burner in burners:
                burner.kill()
                burner.wait()
        wrong = verdict(soak, disk, status)
    print("\n".join(wrong) or "nothing lost, nothing leaked")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
