"""What looks around for the start screen: a download that is begun, ended, and gone on with, by a real collector."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from phasetop.model_store import KNOWN, SMALL
from phasetop.starter import Starter

if TYPE_CHECKING:
    from tests.conftest import Home

PART = 1 << 20


class Hub(ThreadingHTTPServer):
    """Sends a part of the model, then waits."""

    daemon_threads = True

    def __init__(self) -> None:
        self.enough = threading.Event()
        self.ranges: list[str | None] = []
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        hub = self.server
        assert isinstance(hub, Hub)
        asked = self.headers.get("Range")
        hub.ranges.append(asked)
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        size = KNOWN[SMALL].file_bytes
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        self.send_header("Content-Length", str(size - start))
        self.send_header("ETag", '"one"')
        self.end_headers()
        try:
            self.wfile.write(b"GGUF" + bytes(PART - 4))
            hub.enough.wait(60)
        except OSError:
            pass  # whoever asked went away


@pytest.fixture
def hub(state_home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    server = Hub()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
    yield server
    server.enough.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def starter(hub: Hub) -> Iterator[Starter]:
    made = Starter(lambda *_: pytest.fail("nothing is begun here"))
    yield made
    made.close()


def until(starter: Starter, holds: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, [(task.state, task.done) for task in starter.session.tasks.items]
        starter.poll()
        time.sleep(0.01)


def states(starter: Starter) -> list[str]:
    return [task.state for task in starter.session.tasks.items]


def test_a_download_is_ended_and_gone_on_with(starter: Starter, hub: Hub) -> None:
    assert not starter.fetching
    starter.end_fetch()  # nothing is fetched: nothing happens
    starter.fetch()
    assert starter.fetching
    until(starter, lambda: any(task.done for task in starter.session.tasks.items))
    starter.end_fetch()
    until(starter, lambda: not starter.fetching)
    assert states(starter)[-1] == "cancelled"
    starter.fetch()
    until(starter, lambda: len(hub.ranges) == 2)
    first, again = hub.ranges
    assert first is None
    assert again is not None
    assert 0 < int(again.removeprefix("bytes=").removesuffix("-")) <= PART  # it goes on where it was ended
    starter.end_fetch()
    until(starter, lambda: not starter.fetching)


def test_it_is_ended_even_before_it_has_begun(starter: Starter) -> None:
    starter.fetch()
    starter.end_fetch()
    until(starter, lambda: not starter.fetching)
    assert states(starter)[-1] == "cancelled"
