#!/usr/bin/env python3
"""A fake LLM server that sends tokens on an exact beat and logs when it sent each one.

It speaks enough of two APIs to drive a streaming client:

* llama.cpp server:  GET /health /props /slots /v1/models   POST /completion /v1/chat/completions
* Ollama:            GET /api/version /api/tags /api/ps     POST /api/show /api/generate /api/chat

With ``--log FILE`` every token's send time is written as one JSON line
``{"i": index, "t": CLOCK_MONOTONIC in ns}``; a client on the same machine that stamps arrivals with
``time.monotonic_ns()`` can be compared with it token by token (lateness = arrival - send).

With ``--script FILE`` the reply body is exactly what the file says, one JSON object a line:
``{"ms": 20, "text": "..."}`` or ``{"ms": 0, "b64": "..."}`` waits, then writes those bytes in one
send; ``{"abort": true}`` resets the connection, ``{"close": true}`` ends it without the last chunk.  Use it for
split UTF-8, comments, cut streams, ….  A first line ``{"status": 503, "headers": {...}, "times": 2}`` gives the answer
that status and those headers (a status other than 200 with the lines joined as its body); with ``times`` only that many
requests are answered so, the later ones get the ordinary beat.  A wire capture's own first line ("request", "status",
"headers") is understood too.  ``--no-props`` plays a plain OpenAI-compatible server: only /v1 is there.

Standard library only. Listens on loopback only; ``--port 0`` takes a free one, told in the line "listening on".

  metronome.py --port 8123 --rate 200 --tokens 2000 --prefill-ms 400 --log sent.jsonl
"""

from __future__ import annotations

import argparse
import base64
import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORDS = "the model reads every weight again for each new token it writes so memory sets the pace".split()  # noqa: SIM905

MODEL_INFO = {  # the shape of a Llama 3.1 8B
    "general.architecture": "llama",
    "general.parameter_count": 8030261312,
    "general.file_type": 15,
    "llama.block_count": 32,
    "llama.context_length": 131072,
    "llama.embedding_length": 4096,
    "llama.feed_forward_length": 14336,
    "llama.attention.head_count": 32,
    "llama.attention.head_count_kv": 8,
    "llama.attention.key_length": 128,
    "llama.attention.value_length": 128,
    "llama.vocab_size": 128256,
}


def sleep_until(deadline_ns: int) -> None:
    """Sleep, then spin through the last 300 us, so that the beat holds to a few microseconds."""
    while True:
        left = deadline_ns - time.monotonic_ns()
        if left <= 0:
            return
        if left > 400_000:
            time.sleep((left - 300_000) / 1e9)


class Handler(BaseHTTPRequestHandler):
    """One connection; ``opt`` are the command line and what is shared between requests."""

    protocol_version = "HTTP/1.1"
    opt: argparse.Namespace

    def log_message(self, *args: object) -> None:
        pass

    # -- plain replies -------------------------------------------------------------------------
    def reply(self, body: object, status: int = 200) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        name = self.opt.model
        if self.opt.no_props and not path.startswith("/v1/"):
            return self.reply({"error": {"message": "Not Found", "type": "not_found", "code": 404}}, 404)
        if path == "/health":
            return self.reply({"status": "ok"})
        if path == "/props":
            return self.reply(
                {
                    "default_generation_settings": {"n_ctx": self.opt.ctx, "params": {}},
                    "total_slots": 1,
                    "model_path": f"/models/{name}.gguf",
                    "model_alias": name,
                    "build_info": "metronome",
                    "endpoint_slots": True,
                    "endpoint_metrics": False,
                }
            )
        if path == "/slots":
            return self.reply([{"id": 0, "n_ctx": self.opt.ctx, "is_processing": False}])
        if path == "/v1/models":
            return self.reply(
                {
                    "object": "list",
                    "data": [
                        {
                            "id": name,
                            "object": "model",
                            "meta": {
                                "n_params": 8030261312,
                                "size": 4912898304,
                                "n_ctx_train": 131072,
                                "n_embd": 4096,
                                "n_vocab": 128256,
                            },
                        }
                    ],
                }
            )
        if path == "/api/version":
            return self.reply({"version": "0.0.0-metronome"})
        details = {"format": "gguf", "family": "llama", "parameter_size": "8.0B", "quantization_level": "Q4_K_M"}
        if path == "/api/tags":
            return self.reply(
                {"models": [{"name": name, "model": name, "size": 4920753328, "digest": "0" * 64, "details": details}]}
            )
        if path == "/api/ps":
            return self.reply(
                {
                    "models": [
                        {
                            "name": name,
                            "model": name,
                            "size": 6000000000,
                            "size_vram": 6000000000,
                            "digest": "0" * 64,
                            "details": details,
                            "context_length": self.opt.ctx,
                            "expires_at": "2099-01-01T00:00:00Z",
                        }
                    ]
                }
            )
        return self.reply({"error": f"no such path {path}"}, 404)

    # -- streams -------------------------------------------------------------------------------
    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        path = self.path.split("?")[0]
        if path == "/api/show":
            return self.reply(
                {
                    "details": {
                        "format": "gguf",
                        "family": "llama",
                        "parameter_size": "8.0B",
                        "quantization_level": "Q4_K_M",
                    },
                    "model_info": MODEL_INFO,
                    "capabilities": ["completion"],
                    "tensors": [],
                }
            )
        kinds = {
            "/completion": self.llama_native,
            "/v1/chat/completions": self.llama_chat,
            "/api/generate": self.ollama,
            "/api/chat": self.ollama,
        }
        if path not in kinds or (self.opt.no_props and not path.startswith("/v1/")):
            return self.reply({"error": f"no such path {path}"}, 404)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head, steps = self.opt.head, self.opt.steps
        headers = {
            "Content-Type": "application/x-ndjson" if path.startswith("/api/") else "text/event-stream",
            **{
                k.title(): v
                for k, v in (head.get("headers") or {}).items()
                if k.lower() not in ("transfer-encoding", "content-length", "date", "server", "connection")
            },
        }
        if head.get("status", 200) != 200 and self.opt.answered < head.get("times", 1 << 30):
            self.opt.answered += 1
            raw = b"".join(self.chunk(step) for step in steps)
            self.send_response(head["status"])
            for k, v in headers.items():
                self.send_header(k, v)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)
            return None
        time.sleep((head.get("headers_ms") or 0) / 1000)
        self.send_response(200)
        for k, v in headers.items():
            self.send_header(k, v)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            if steps and not head.get("times"):
                self.play_script()
            else:
                kinds[path](body, path)
            self.wfile.write(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def send(self, raw: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))

    @staticmethod
    def chunk(step: dict[str, Any]) -> bytes:
        return base64.b64decode(step["b64"]) if "b64" in step else step.get("text", "").encode()

    def play_script(self) -> None:
        for step in self.opt.steps:
            time.sleep(step.get("ms", 0) / 1000)
            if step.get("abort"):
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
                raise ConnectionResetError
            if step.get("close"):
                self.connection.shutdown(socket.SHUT_RDWR)
                raise ConnectionResetError
            self.send(self.chunk(step))

    def beat(self) -> Iterator[tuple[int, str]]:
        """Yield (index, word), each on its beat; what the caller sends next is logged as sent then."""
        opt = self.opt
        period = int(1e9 / opt.rate)
        start = time.monotonic_ns() + 1_000_000
        for i in range(opt.tokens):
            sleep_until(start + (i // opt.burst) * period * opt.burst)
            opt.sent.append(time.monotonic_ns())
            yield i, " " + WORDS[i % len(WORDS)]
        if opt.log:
            with open(opt.log, "w") as f:
                for i, t in enumerate(opt.sent):
                    f.write(json.dumps({"i": i, "t": t}) + "\n")
            opt.sent.clear()

    def prefill(self, emit: Callable[[int, int], None]) -> None:
        opt = self.opt
        for k in range(opt.progress + 1):
            emit(k, opt.progress)
            if k < opt.progress:
                time.sleep(opt.prefill_ms / 1000 / opt.progress)

    def timings(self, n: int, seconds: float) -> dict[str, Any]:
        opt = self.opt
        return {
            "cache_n": 0,
            "prompt_n": opt.prompt,
            "prompt_ms": opt.prefill_ms,
            "prompt_per_second": opt.prompt / max(opt.prefill_ms, 1e-3) * 1e3,
            "predicted_n": n,
            "predicted_ms": seconds * 1e3,
            "predicted_per_second": (n - 1) / seconds if n > 1 and seconds > 0 else 0.0,
        }

    def llama_native(self, body: dict[str, Any], path: str) -> None:
        opt = self.opt

        def sse(d: dict[str, Any]) -> None:
            self.send(b"data: " + json.dumps(d).encode() + b"\n\n")

        if body.get("return_progress"):
            self.prefill(
                lambda k, n: sse(
                    {
                        "index": 0,
                        "content": "",
                        "tokens": [0],
                        "stop": False,
                        "prompt_progress": {
                            "total": opt.prompt,
                            "cache": 0,
                            "processed": opt.prompt * k // n,
                            "time_ms": int(opt.prefill_ms * k / n),
                        },
                    }
                )
            )
        else:
            time.sleep(opt.prefill_ms / 1000)
        t0 = time.monotonic()
        for i, word in self.beat():
            sse(
                {
                    "index": 0,
                    "content": word,
                    "tokens": [i],
                    "stop": False,
                    "id_slot": -1,
                    "tokens_predicted": i + 1,
                    "tokens_evaluated": opt.prompt,
                }
            )
        sse(
            {
                "index": 0,
                "content": "",
                "tokens": [],
                "stop": True,
                "stop_type": "eos",
                "tokens_predicted": opt.tokens,
                "tokens_evaluated": opt.prompt,
                "timings": self.timings(opt.tokens, time.monotonic() - t0),
            }
        )

    def llama_chat(self, body: dict[str, Any], path: str) -> None:
        opt = self.opt
        head = {"id": "chatcmpl-0", "object": "chat.completion.chunk", "created": int(time.time()), "model": opt.model}

        def sse(delta: dict[str, Any], logprobs: dict[str, Any] | None = None, **more: object) -> None:
            choice = {"index": 0, "delta": delta, "finish_reason": None, **({"logprobs": logprobs} if logprobs else {})}
            self.send(b"data: " + json.dumps({**head, "choices": [choice], **more}).encode() + b"\n\n")

        per_token = bool(body.get("timings_per_token"))
        if body.get("return_progress"):
            self.prefill(
                lambda k, n: sse(
                    {"role": "assistant", "content": None},
                    prompt_progress={
                        "total": opt.prompt,
                        "cache": 0,
                        "processed": opt.prompt * k // n,
                        "time_ms": int(opt.prefill_ms * k / n),
                    },
                )
            )
        else:
            time.sleep(opt.prefill_ms / 1000)
        t0 = time.monotonic()
        for i, word in self.beat():
            if i == 0:
                sse({"role": "assistant", "content": None})
            sse(
                {"content": word},
                logprobs=self.logprobs(word, i, body),
                **({"timings": self.timings(i + 1, time.monotonic() - t0)} if per_token else {}),
            )
        timings = self.timings(opt.tokens, time.monotonic() - t0)
        end = {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        if (body.get("stream_options") or {}).get("include_usage"):
            usage = {
                **head,
                "choices": [],
                "timings": timings,
                "usage": {
                    "completion_tokens": opt.tokens,
                    "prompt_tokens": opt.prompt,
                    "total_tokens": opt.prompt + opt.tokens,
                    "prompt_tokens_details": {"cached_tokens": 0},
                },
            }
            tail = [end, usage]
        else:
            tail = [{**end, "timings": timings}]
        self.send(b"".join(b"data: " + json.dumps(x).encode() + b"\n\n" for x in tail))
        self.send(b"data: [DONE]\n\n")

    @staticmethod
    def logprobs(word: str, i: int, body: dict[str, Any]) -> dict[str, Any] | None:
        n = body.get("top_logprobs", 20) if body.get("logprobs") else 0
        if not n:
            return None
        top = [
            {"id": k, "token": WORDS[(i + k) % len(WORDS)], "bytes": None, "logprob": round(-0.1 - 0.7 * k, 5)}
            for k in range(n)
        ]
        return {"content": [{"id": i, "token": word, "bytes": list(word.encode()), "logprob": -0.1, "top_logprobs": top}]}

    def ollama(self, body: dict[str, Any], path: str) -> None:
        opt = self.opt
        time.sleep(opt.prefill_ms / 1000)

        def line(text: str, **more: object) -> None:
            part = {"message": {"role": "assistant", "content": text}} if path == "/api/chat" else {"response": text}
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{time.time_ns() % 10**9:09d}Z"
            self.send(json.dumps({"model": opt.model, "created_at": stamp, **part, "done": False, **more}).encode() + b"\n")

        t0 = time.monotonic()
        for _, word in self.beat():
            line(word)
        took = int((time.monotonic() - t0) * 1e9)
        line(
            "",
            done=True,
            done_reason="stop",
            total_duration=took + int(opt.prefill_ms * 1e6),
            load_duration=1_000_000,
            prompt_eval_count=opt.prompt,
            prompt_eval_duration=int(opt.prefill_ms * 1e6),
            eval_count=opt.tokens,
            eval_duration=took,
        )


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--port", type=int, default=8123)
    p.add_argument("--rate", type=float, default=100.0, help="tokens per second (100)")
    p.add_argument("--tokens", type=int, default=500)
    p.add_argument("--burst", type=int, default=1, help="tokens sent together at each beat (1)")
    p.add_argument("--prompt", type=int, default=512, help="prompt tokens it claims (512)")
    p.add_argument("--prefill-ms", type=float, default=200.0)
    p.add_argument("--progress", type=int, default=4, help="prompt_progress steps, where asked for (4)")
    p.add_argument("--ctx", type=int, default=8192)
    p.add_argument("--model", default="llama3.1:8b")
    p.add_argument("--log", help="write each token's send time here at the end of a reply")
    p.add_argument("--script", help="play these bytes instead")
    p.add_argument("--no-props", action="store_true", help="only /v1 is there")
    opt = p.parse_args()
    opt.sent, opt.answered, opt.head, opt.steps = [], 0, {}, []
    if opt.script:
        with open(opt.script, encoding="utf-8") as f:
            opt.steps = [json.loads(line) for line in f if line.strip()]
        if opt.steps and ("status" in opt.steps[0] or "request" in opt.steps[0]):
            opt.head = opt.steps.pop(0)
            if opt.head.get("status", 200) is None:
                p.error("a raw-socket capture: the answer's own bytes, to be fed to a parser, not played")
            if opt.steps:  # a capture's first "ms" counts from the request, as headers_ms does
                opt.steps[0]["ms"] = max(0.0, opt.steps[0].get("ms", 0) - (opt.head.get("headers_ms") or 0))
            if opt.head.get("end", "complete") not in ("complete", "client closed"):
                opt.steps.append({"close": True})
    Handler.opt = opt
    server = ThreadingHTTPServer(("127.0.0.1", opt.port), Handler)
    server.daemon_threads = True
    print(f"listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        threading.Thread(target=server.shutdown, daemon=True).start()
    return 0


if __name__ == "__main__":
    sys.exit(main())
