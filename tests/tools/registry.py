#!/usr/bin/env python3
"""A model registry on loopback from which a real Ollama can pull, for tests of pull progress, cancel and resume.

  registry.py --port 5123 --store FOLDER [--rate 8000000] [--log requests.jsonl]      serve an Ollama models folder
  registry.py --port 5123 --make library/tiny:latest --size 20000000 [...]            serve one invented model

Then POST /api/pull {"model": "127.0.0.1:5123/library/tiny", "insecure": true} to Ollama (without `insecure` it tries https).
Of a blob Ollama checks only the SHA-256 while pulling, so an invented model can be pulled and listed, not run. With --store,
FOLDER is what OLLAMA_MODELS points to; its manifests are served as NAMESPACE/NAME:TAG, whatever host they were pulled from.
Standard library only. Listens on loopback only; ``--port 0`` takes a free one, told in the line "listening on".
"""

import argparse
import hashlib
import json
import random
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def make(name: str, size: int) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Manifest and blobs of an invented model: `size` bytes of (seeded) noise, a template and a config."""
    blobs: dict[str, Any] = {}

    def put(kind: str, raw: bytes) -> dict[str, Any]:
        digest = "sha256:" + hashlib.sha256(raw).hexdigest()
        blobs[digest] = raw
        return {"mediaType": kind, "digest": digest, "size": len(raw)}

    layers = [
        put("application/vnd.ollama.image.model", random.Random(size).randbytes(size)),
        put("application/vnd.ollama.image.template", b"{{ .Prompt }}"),
    ]
    config = {
        "model_format": "gguf",
        "model_family": "llama",
        "model_families": ["llama"],
        "model_type": "1M",
        "file_type": "F16",
        "architecture": "amd64",
        "os": "linux",
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "layers": layers,
        "config": put("application/vnd.docker.container.image.v1+json", json.dumps(config).encode()),
    }
    return {name: json.dumps(manifest).encode()}, blobs


def from_store(store: Path) -> tuple[dict[str, bytes], dict[str, Any]]:
    manifests = {}
    for path in (store / "manifests").rglob("*"):
        if path.is_file():
            _host, *space, model, tag = path.relative_to(store / "manifests").parts
            manifests[f"{'/'.join(space)}/{model}:{tag}"] = path.read_bytes()
    return manifests, {p.name.replace("-", ":", 1): p for p in (store / "blobs").glob("sha256-*") if "partial" not in p.name}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    opt: argparse.Namespace
    log_message = lambda self, *args: None  # noqa: E731

    def do_GET(self) -> None:
        opt, sent, gone = self.opt, 0, False
        first, body, status, kind = 0, None, 200, "application/octet-stream"
        if m := re.fullmatch(r"/v2/(.+)/manifests/([^/]+)", self.path):
            body, kind = opt.manifests.get(f"{m[1]}:{m[2]}"), MANIFEST
        elif m := re.fullmatch(r"/v2/(.+)/blobs/(sha256:[0-9a-f]{64})", self.path):
            body = opt.blobs.get(m[2])
            body = body.read_bytes() if isinstance(body, Path) else body
        if body is None:
            status, kind, body = 404, "application/json", b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"not here"}]}'
        total, want = len(body), re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if want and status == 200:
            first, last = int(want[1]), min(int(want[2] or total - 1), total - 1)
            body, status = body[first : last + 1], 206
        elif status == 200 and self.command == "GET" and "/blobs/" in self.path:
            body, status = b"", 307
        self.send_response(status)
        for k, v in (("Content-Type", kind), ("Content-Length", str(len(body)))):
            self.send_header(k, v)
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{first + len(body) - 1}/{total}")
        if status == 307:  # what holds the bytes must have another host name, or Ollama follows and finds no Location
            other = "127.0.0.1" if self.headers.get("Host", "").startswith("localhost") else "localhost"
            self.send_header("Location", f"http://{other}:{opt.port}{self.path}")
        self.end_headers()
        try:
            step = 65536 if not opt.rate else max(1024, opt.rate // 50)
            for i in range(0, len(body) if self.command == "GET" else 0, step):
                self.wfile.write(body[i : i + step])
                sent = min(i + step, len(body))
                if opt.fail_after and sent >= opt.fail_after and status == 206:
                    opt.fail_after, self.close_connection, gone = 0, True, True
                    break
                if opt.rate:
                    time.sleep(step / opt.rate)
        except ConnectionError:
            gone = self.close_connection = True
        if opt.log:
            with opt.lock, open(opt.log, "a") as f:
                f.write(
                    json.dumps(
                        {
                            "method": self.command,
                            "path": self.path,
                            "range": self.headers.get("Range"),
                            "status": status,
                            "length": len(body),
                            "sent": sent,
                            "cut": gone,
                        }
                    )
                    + "\n"
                )

    do_HEAD = do_GET


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--port", type=int, default=5123)
    p.add_argument("--store", type=Path), p.add_argument("--make", metavar="NS/NAME:TAG")
    p.add_argument("--size", type=int, default=20_000_000)
    p.add_argument("--rate", type=int, default=0, help="bytes a second for each GET (unlimited)")
    p.add_argument("--fail-after", type=int, default=0, help="cut the connection once, after so many bytes of a blob")
    p.add_argument("--log", help="one JSON line a request: method, path, range, status, bytes sent, cut or not")
    opt = p.parse_args()
    opt.manifests, opt.blobs = from_store(opt.store) if opt.store else make(opt.make or "library/tiny:latest", opt.size)
    opt.lock, Handler.opt = threading.Lock(), opt
    with ThreadingHTTPServer(("127.0.0.1", opt.port), Handler) as server:
        opt.port = server.server_address[1]
        print(f"listening on http://127.0.0.1:{opt.port}: {', '.join(sorted(opt.manifests))}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
