"""One generation without a collector around it: what a retry, a cancel and a proxy's tunnel do to its events."""

from __future__ import annotations

import os
import re
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trustme

from phasetop import codec
from phasetop import events as ev
from phasetop.backends import generation
from phasetop.backends.endpoint import Endpoint
from phasetop.backends.generation import Generation
from phasetop.backends.openai_stream import ChatStream
from phasetop.backends.protocol import Ask, HttpRequest, Pieces, Scene
from phasetop.backends.recorder import Recorder
from phasetop.backends.stamped import Wire

LOADING = b'{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}'
REPLY = (
    b'data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


class Plain:
    """A backend that asks for a chat and looks at nothing."""

    name = "openai"
    defaults: Mapping[str, Any] = {}

    def request(self, ask: Ask) -> HttpRequest:
        return HttpRequest("/v1/chat/completions", {}, ChatStream(ask.r), headers_mean_slot=False)

    def unused(self, settings: Mapping[str, Any]) -> Mapping[str, str]:
        return {}

    def pieces(self, ask: Ask) -> Pieces | None:
        return None

    def watch(self, ask: Ask, scene: Scene) -> None:
        return


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    reader, writer = os.pipe()
    yield Recorder(tmp_path / "s.phasetop", writer)
    os.close(reader)
    os.close(writer)


def written(recorder: Recorder, tmp_path: Path) -> list[ev.AnyEvent]:
    recorder.close("done")
    events = [codec.decode(line) for line in (tmp_path / "s.phasetop").read_bytes().splitlines()]
    return [event for event in events if event is not None]


def answer(status: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 " + status + b"\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body


def read_request(connection: socket.socket) -> bytes:
    """A request with its body: what is left unread resets the connection when it is closed."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _some(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    while length is not None and len(body) < int(length[1]):
        body += _some(connection)
    return data


def _some(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise ConnectionError("the client went away")
    return data


Serve = Callable[[Callable[[socket.socket], None]], int]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A server that gives each connection to a handler; returns its port."""
    listeners: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def start(handler: Callable[[socket.socket], None]) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    try:
                        handler(connection)
                    except OSError:
                        continue

        threads.append(threading.Thread(target=run, daemon=True))
        threads[-1].start()
        return int(listener.getsockname()[1])

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
    for thread in threads:
        thread.join(5)


def test_a_cancel_between_two_attempts_ends_it(
    recorder: Recorder, tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server got ready meanwhile: a cancel that meets neither connection must not let the whole reply come."""
    answers = iter([answer(b"503 Service Unavailable", LOADING), answer(b"200 OK", REPLY)])

    def handler(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(next(answers))

    wires: list[Wire] = []

    def cancelled_meanwhile() -> Wire:
        wires.append(Wire())
        if len(wires) == 2:
            one.cancel()
        return wires[-1]

    monkeypatch.setattr(generation, "Wire", cancelled_meanwhile)
    endpoint = Endpoint(f"http://127.0.0.1:{serve(handler)}")
    one = Generation(recorder, Ask(0, "chat"), endpoint, Plain(), lambda: None, lambda: None)
    one.run()
    assert len(wires) == 2
    events = written(recorder, tmp_path)
    assert [event.finish for event in events if isinstance(event, ev.End)] == ["cancelled"]
    assert not [event for event in events if isinstance(event, ev.Tok)]


@pytest.mark.skipif(sys.platform != "linux", reason="kernel receive stamps: Linux has them")
def test_reads_without_a_stamp_are_told(
    recorder: Recorder, tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def handler(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        for part in REPLY.splitlines(keepends=True):  # in reads of their own, most of them
            connection.sendall(part)
            time.sleep(0.005)

    endpoint = Endpoint(f"http://127.0.0.1:{serve(handler)}")
    Generation(recorder, Ask(0, "chat"), endpoint, Plain(), lambda: None, lambda: None).run()
    monkeypatch.setattr("phasetop.backends.stamped._ROOM", 0)
    Generation(recorder, Ask(1, "chat"), endpoint, Plain(), lambda: None, lambda: None).run()
    told = [event for event in written(recorder, tmp_path) if isinstance(event, ev.Notice)]
    assert [(notice.code, notice.r) for notice in told] == [("stamps-read", 1)]
    assert " reads came without a receive stamp" in told[0].text


@pytest.mark.parametrize("then", ["silence", "a flood"])
def test_a_connection_that_stays_open_after_the_end_is_not_waited_for(
    recorder: Recorder, tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    monkeypatch.setattr(generation, "_LAST_BYTES_S", 0.05)

    def handler(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + REPLY)
        if then == "a flood":
            while True:
                connection.sendall(b": ping\n\n" * 1000)
        connection.recv(1)  # until the other side is gone

    endpoint = Endpoint(f"http://127.0.0.1:{serve(handler)}")
    Generation(recorder, Ask(0, "chat"), endpoint, Plain(), lambda: None, lambda: None).run()
    events = written(recorder, tmp_path)
    assert [(event.finish, event.error) for event in events if isinstance(event, ev.End)] == [("stop", None)]
    assert [event.x for event in events if isinstance(event, ev.Tok)] == ["hi"]


def test_through_a_tunnel_the_request_is_sent_once(recorder: Recorder, tmp_path: Path, serve: Serve) -> None:
    """The proxy's CONNECT is no request: it is neither `sent` nor the moment to ask for the prompt's tokens."""
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    asked: list[bytes] = []
    connected: list[int] = []

    def handler(connection: socket.socket) -> None:
        asked.append(read_request(connection).partition(b"\r\n")[0])
        connected.append(recorder.now())
        connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with server.wrap_socket(connection, server_side=True) as inside:
            asked.append(read_request(inside).partition(b"\r\n")[0])
            inside.sendall(answer(b"200 OK", REPLY))

    endpoint = Endpoint("https://localhost:1", context=client, proxy=f"http://127.0.0.1:{serve(handler)}")
    sent: list[None] = []
    Generation(recorder, Ask(0, "chat"), endpoint, Plain(), lambda: sent.append(None), lambda: None).run()
    assert [line.partition(b" ")[0] for line in asked] == [b"CONNECT", b"POST"]
    events = written(recorder, tmp_path)
    states = [event for event in events if isinstance(event, ev.State)]
    assert [state.s for state in states] == ["sent"]
    assert states[0].at is not None
    assert states[0].at > connected[0]
    assert len(sent) == 1
    assert [event.finish for event in events if isinstance(event, ev.End)] == ["stop"]
