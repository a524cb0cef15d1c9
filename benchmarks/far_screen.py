"""How long from a token to a far screen, and how many bytes on the link?

A session grows by a token at a time, as a collector writes it, on a machine behind a real sshd on loopback; `phasetop watch`
draws it on a pty. The time from the write of a token's line to the token's standing in what the terminal was sent; beside it
the link's own, from the same write to the same line's coming out of `ssh far tail -f`. Goal, over that of the link: p50 half
a frame and 10 ms, p99 a frame and 20 ms. The link's bytes are what ssh read, of which the file's own are the floor.

    far_screen.py [--tok-s 23] [--seconds 20] [--hz 10] [--compress]
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from loopback import far_machine
from terminal import Terminal, environ

from phasetop import codec
from phasetop import events as ev

TOKEN = re.compile(rb"t\d{6}")


class Writer(threading.Thread):
    """Appends tokens to a session file on a beat, and knows when."""

    def __init__(self, path: Path, tok_s: float) -> None:
        super().__init__(daemon=True)
        self.path = path
        self.at: dict[bytes, float] = {}
        self.bytes = 0
        self.over = threading.Event()
        self._gap_s = 1 / tok_s
        self._began = time.monotonic_ns()
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        host = ev.Host(name="far", os="Linux", cores=2)
        anchor = ev.Anchor(mono=self._began, wall=time.time_ns())
        hello = ev.Hello(t=0, format=1, session="0192f3c4-7a1e-7c33-9d55-2f6b1c0e8a77", anchor=anchor, by="b", host=host)
        self._write(hello, ev.Server(t=1, v=0, backend="llamacpp"), ev.Model(t=1, m=0, v=0, name="beat"))
        self._write(ev.Request(t=2, r=0, v=0, m=0, api="chat", messages=[]), ev.State(t=3, r=0, s="sent", at=3))

    def _write(self, *events: ev.Event) -> None:
        data = codec.encode_all(list(events))
        self.bytes += os.write(self._fd, data)

    def run(self) -> None:
        """Keep the beat."""
        due, i = time.monotonic(), 0
        while not self.over.is_set():
            due += self._gap_s
            time.sleep(max(0.0, due - time.monotonic()))
            word = f"t{i:06}"
            self.at[word.encode()] = time.monotonic()
            self._write(ev.Tok(t=time.monotonic_ns() - self._began, r=0, x=f" {word}"))
            i += 1


class Bare(threading.Thread):
    """The link alone: when each token came out of `ssh far tail -f`."""

    def __init__(self, path: Path, env: dict[str, str]) -> None:
        super().__init__(daemon=True)
        self.at: dict[bytes, float] = {}
        self._ssh = subprocess.Popen(
            ["ssh", "-n", "far", f"tail -c +1 -f {path}"], stdout=subprocess.PIPE, env=env, bufsize=0
        )

    def run(self) -> None:
        """Read until the link ends."""
        assert self._ssh.stdout is not None
        while data := self._ssh.stdout.read(65536):
            now = time.monotonic()
            for word in TOKEN.findall(data):
                self.at.setdefault(word, now)

    def close(self) -> None:
        """End it."""
        self._ssh.terminate()
        self._ssh.wait()


def ssh_read(pid: int) -> int:
    """The bytes that a process has read."""
    with open(f"/proc/{pid}/io", encoding="ascii") as file:
        return int(file.readline().split()[1])


def late_ms(written: dict[bytes, float], seen: dict[bytes, float], after: float) -> list[float]:
    """Sorted ms from write to sight, of what was written after a moment."""
    return sorted((seen[word] - at) * 1e3 for word, at in written.items() if word in seen and at > after)


def quantile(values: list[float], share: float) -> float:
    """A percentile of sorted values."""
    return round(values[min(len(values) - 1, int(share * len(values)))], 1)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tok-s", type=float, default=23)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--hz", type=float, default=10)
    parser.add_argument("--compress", action="store_true", help="ssh's own compression")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, far_machine(Path(name)) as path:
        if given.compress:
            with (Path(name) / "ssh_config").open("a") as file:
                file.write(" Compression yes\n")
        env = environ(XDG_STATE_HOME=name, XDG_CONFIG_HOME=name, **path)
        live = Path(name) / "state" / "phasetop" / "live"
        live.mkdir(parents=True)
        writer = Writer(live / "0192f3c4-7a1e-7c33-9d55-2f6b1c0e8a77.phasetop", given.tok_s)
        writer.start()
        bare = Bare(writer.path, env)
        bare.start()
        command = [str(Path(sys.executable).with_name("phasetop")), "watch", "far:", f"--fps={given.hz}", "--no-mouse"]
        terminal = Terminal(command, env=env)
        try:
            terminal.pump(40, until=lambda: b"t0000" in terminal.shown)
            terminal.pump(2)
            began, on_link, written = time.monotonic(), ssh_read(links(terminal)), writer.bytes
            terminal.pump(given.seconds)
            took = time.monotonic() - began
            on_link, written = ssh_read(links(terminal)) - on_link, writer.bytes - written
        finally:
            writer.over.set()
            terminal.close()
            bare.close()
        seen: dict[bytes, float] = {}
        made = iter(terminal.made_at)
        end, at = next(made)
        for match in TOKEN.finditer(terminal.shown):
            while end < match.end():
                end, at = next(made)
            seen.setdefault(match[0], at)
    screen, link = late_ms(writer.at, seen, began), late_ms(writer.at, bare.at, began)
    goals = 500 / given.hz + 10, 1000 / given.hz + 20
    print(
        json.dumps(
            {
                "what": f"{given.tok_s:g} tok/s, {given.hz:g} frames/s, loopback ssh{', compressed' * given.compress}",
                "tokens": len(screen),
                "screen_ms_p50": quantile(screen, 0.5),
                "screen_ms_p99": quantile(screen, 0.99),
                "link_ms_p50": quantile(link, 0.5),
                "link_ms_p99": quantile(link, 0.99),
                "goal_ms_p50": round(goals[0] + quantile(link, 0.5), 1),
                "goal_ms_p99": round(goals[1] + quantile(link, 0.99), 1),
                "link_bytes_per_s": round(on_link / took),
                "file_bytes_per_s": round(written / took),
                "link_to_file": round(on_link / written, 2),
            }
        )
    )


def links(terminal: Terminal) -> int:
    """The ssh of the viewer."""
    for pid in map(int, terminal.children()):
        if b"BatchMode=yes" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    raise SystemExit(f"the viewer has no ssh; it shows: {bytes(terminal.shown[-400:])!r}")


if __name__ == "__main__":
    main()
