"""A server that speaks no protocol that phasetop knows, for the example plug-in in phasetop-acme."""

from __future__ import annotations

import json
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

WORDS = ("café", "for", "two", "and", "a", "view", "of", "rivers")


class Handler(BaseHTTPRequestHandler):
    """GET /acme, POST /acme/say."""

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        known = self.path == "/acme"
        self.send_response(200 if known else 404)
        self.end_headers()
        if known:
            self.wfile.write(json.dumps({"acme": "3000", "model": "tiny-1", "params": 1000}).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        words = WORDS[: body["words"]]
        self.send_response(200)
        self.end_headers()
        for word in words:
            line = f"word {word}\n".encode()
            self.wfile.write(line[:8])  # in the middle of the é
            self.wfile.flush()
            time.sleep(0.02)
            self.wfile.write(line[8:])
            self.wfile.flush()
        self.wfile.write(f"done {len(words)}\n".encode())


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(f"listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
