"""What a run costs: bytes a second to the terminal, CPU of the viewer and of the collector with its sampling.

  terminal_bytes.py [--seconds 10] [--rate 100] [--ssh] [--size 120x36]

A server of its own sends tokens on a beat; the view draws them at 120×36 with everything on. Then the same with nothing
happening. With --ssh the defaults of a link: 256 colours, 5 frames a second.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from terminal import Terminal, cpu_s, environ

WORDS = "the lookup reads one bucket and is done, however large the table has grown; then it doubles and every key moves on."


class Beat(ThreadingHTTPServer):
    """An OpenAI-compatible server that sends tokens on a beat."""

    daemon_threads = True

    def __init__(self, rate: float, tokens: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.rate, self.tokens = rate, tokens
        self.going = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Beat

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        known = {"/v1/models": {"data": [{"id": "beat"}]}}.get(self.path)
        body = json.dumps(known or {}).encode()
        self.send_response(200 if known else 404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        words = WORDS.split(" ")
        began = time.monotonic()
        self.server.going.set()
        try:
            for i in range(self.server.tokens):
                chunk = {"choices": [{"index": 0, "delta": {"content": " " + words[i % len(words)]}, "finish_reason": None}]}
                self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
                self.wfile.flush()
                left = began + (i + 1) / self.server.rate - time.monotonic()
                if left > 0:
                    time.sleep(left)
            done = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
            self.wfile.write(b"data: " + json.dumps(done).encode() + b"\n\ndata: [DONE]\n\n")
        except OSError:
            pass
        self.close_connection = True


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=100.0)
    parser.add_argument("--size", default="120x36")
    parser.add_argument("--ssh", action="store_true")
    given = parser.parse_args()
    columns, rows = map(int, given.size.split("x"))
    server = Beat(given.rate, int(given.rate * (given.seconds + 4)))
    with tempfile.TemporaryDirectory() as folder:
        env = environ(XDG_STATE_HOME=folder, XDG_CONFIG_HOME=folder)
        if given.ssh:
            env["SSH_CONNECTION"] = "10.0.0.1 1 10.0.0.2 22"
        phasetop = str(Path(sys.executable).with_name("phasetop"))
        terminal = Terminal([phasetop, "run", server.url, "-p", "why"], size=(columns, rows), env=env)
        try:
            terminal.pump(30, until=server.going.is_set)
            terminal.pump(2)
            busy = measured(terminal, given.seconds)
            terminal.pump(30, until=lambda: b"DONE" in terminal.shown)
            terminal.pump(12)
            idle = measured(terminal, 5.0)
        finally:
            terminal.close()
    print(json.dumps({"what": f"{given.rate:g} tok/s, {given.size}{', over ssh' * given.ssh}", **busy}))
    print(json.dumps({"what": "nothing happens", **idle}))


def measured(terminal: Terminal, seconds: float) -> dict[str, float]:
    """Bytes a second and CPU over so many seconds."""
    others = terminal.children()
    bytes_before, viewer, rest = terminal.produced, terminal.cpu_s(), sum(map(cpu_s, others))
    began = time.monotonic()
    terminal.pump(seconds)
    took = time.monotonic() - began
    return {
        "bytes_per_s": round((terminal.produced - bytes_before) / took),
        "viewer_cpu_percent": round(100 * (terminal.cpu_s() - viewer) / took, 1),
        "collector_cpu_percent": round(100 * (sum(map(cpu_s, others)) - rest) / took, 1),
    }


if __name__ == "__main__":
    main()
