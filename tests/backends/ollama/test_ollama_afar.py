"""Another machine's Ollama: only /api/ps and the stream tell; what nobody tells is unknown, and nothing waits for it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from phasetop import events as ev
from phasetop.backends.endpoint import Endpoint
from phasetop.backends.ollama_known import Known
from phasetop.backends.ollama_model import OllamaModel
from phasetop.backends.ollama_watch import OllamaWatch

MODEL = OllamaModel("m", digest="d", context_trained=8192, described={"name": "m"})


class Far:
    """Answers /api/ps and remembers what was asked."""

    def __init__(self) -> None:
        self.models: list[dict[str, Any]] = []
        self.asked: list[str] = []
        far = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None:
                pass

            def do_GET(self) -> None:
                far.asked.append(self.path)
                body = json.dumps({"models": far.models} if self.path == "/api/ps" else {}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()
        self.known = Known(Endpoint(f"http://127.0.0.1:{self._server.server_address[1]}"))
        self.known.local = False

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.thread.join()


@pytest.fixture
def far() -> Iterator[Far]:
    one = Far()
    yield one
    one.close()


class Stage:
    """A scene that remembers."""

    def __init__(self) -> None:
        self.r = 3
        self.events: list[ev.Event] = []
        self.options: dict[str, Any] = {}

    def now(self) -> int:
        return time.monotonic_ns() >> 12

    def emit(self, *events: ev.Event) -> None:
        self.events += events

    def new_task(self) -> int:
        return 0

    def server(self, **keys: Any) -> None:
        self.options.update(keys.get("options") or {})

    def applied(self, settings: Any) -> None:
        raise AssertionError("nobody told")

    def prompt(self, pieces: Any) -> None:
        raise AssertionError("nobody told")

    def works(self, pid: int) -> None:
        raise AssertionError("that is no process of this machine")


def wait_for(what: Callable[[], Any]) -> None:
    end = time.monotonic() + 10
    while not what():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.005)


def watch(far: Far, text: str = "hi", **wanted: Any) -> tuple[OllamaWatch, Stage, threading.Thread]:
    stage = Stage()
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    one = OllamaWatch(far.known, MODEL, "/api/chat", body, wanted, stage)
    one.before()
    thread = threading.Thread(target=one.run, daemon=True)
    thread.start()
    return one, stage, thread


def finish(one: OllamaWatch, prompt: int = 20) -> list[ev.Event]:
    one.take([ev.Tok(t=1, r=3, x="a", n=None)])
    events = one.take([ev.Timings(t=2, r=3, total_n=prompt, gen_n=1)])
    return events + one.take([ev.End(t=2, r=3, finish="length")])


def why(stage: Stage) -> list[str | None]:
    return [event.why for event in stage.events if isinstance(event, ev.State) and event.s == "loading"]


def listed(context: int = 4096) -> dict[str, Any]:
    return {"name": "m:latest", "digest": "d", "context_length": context}


def test_nothing_is_asked_before_the_request(far: Far) -> None:
    stage = Stage()
    OllamaWatch(far.known, MODEL, "/api/chat", {}, {}, stage).before()
    assert far.asked == []


def test_cold_by_the_list_and_the_context_once_it_answers(far: Far) -> None:
    one, stage, thread = watch(far)
    wait_for(lambda: why(stage))
    assert why(stage) == ["it was not loaded"]
    far.models = [listed(8192)]
    timings, end = finish(one)
    wait_for(lambda: stage.options)
    assert stage.options["context"] == ev.Sourced(8192, "server: /api/ps")
    one.stop()
    thread.join(5)
    assert isinstance(timings, ev.Timings)
    assert (timings.cached_n, timings.prompt_n) == (None, None)  # its runner is out of reach
    assert isinstance(end, ev.End)


def test_another_context_is_a_load(far: Far) -> None:
    far.models = [listed()]
    one, stage, thread = watch(far, context=2048)
    wait_for(lambda: why(stage))
    assert why(stage) == ["num_ctx 4096 → 2048"]
    one.stop(cancelled=True)
    thread.join(5)
    assert not thread.is_alive()


def test_warm_has_no_load(far: Far) -> None:
    far.models = [listed()]
    one, stage, thread = watch(far)
    wait_for(lambda: stage.options)
    finish(one)
    one.stop()
    thread.join(5)
    assert why(stage) == []
    assert stage.options["context"].value == 4096
    assert all(path in ("/api/ps", "/api/show") for path in far.asked)


def test_a_cut_is_suspected_by_its_number_alone(far: Far) -> None:
    far.models = [listed()]
    one, stage, thread = watch(far, text="word " * 8000)
    wait_for(lambda: stage.options)
    finish(one, prompt=2050)
    one.stop()
    thread.join(5)
    (notice,) = (event for event in stage.events if isinstance(event, ev.Notice))
    assert notice.code == "prompt-cut"
    assert "seems" in notice.text
    assert notice.about == {"kept": 2050}
    assert not any(isinstance(event, ev.Prompt) for event in stage.events)  # how many were asked, nobody knows


def test_a_context_that_is_full_ends_the_reply(far: Far) -> None:
    far.models = [listed()]
    one, stage, thread = watch(far)
    wait_for(lambda: stage.options)
    end = finish(one, prompt=4095)[-1]
    one.stop()
    thread.join(5)
    assert isinstance(end, ev.End)
    assert end.detail == "context"


def test_a_server_that_does_not_answer_holds_nothing_up(far: Far) -> None:
    far.close()
    one, stage, thread = watch(far)
    finish(one)
    one.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert why(stage) == []
    far._server.server_close()
