"""The transport that stamps arrivals: kernel stamps in plain and TLS, merged reads, cutting."""

from __future__ import annotations

import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator

import httpcore
import httpx
import pytest
import trustme

from phasetop.backends.endpoint import Endpoint, base_url
from phasetop.backends.stamped import Wire, _Network, plain_client, stamped_client, tls_context
from phasetop.checks import printable_url
from phasetop.faults import UsageError

linux = pytest.mark.skipif(sys.platform != "linux", reason="kernel receive stamps: Linux has them")
HEAD = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n"

Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A server of one connection: gives it to the handler after the request's head was read."""
    threads: list[threading.Thread] = []
    listeners: list[socket.socket] = []

    def start(handler: Callable[[socket.socket], None], context: ssl.SSLContext | None = None) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listener.settimeout(20)
        listeners.append(listener)

        def run() -> None:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with peer if context is None else context.wrap_socket(peer, server_side=True) as connection:
                while b"\r\n\r\n" not in connection.recv(65536):
                    pass
                handler(connection)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        threads.append(thread)
        scheme = "http" if context is None else "https"
        return f"{scheme}://localhost:{listener.getsockname()[1]}"

    yield start
    for listener in listeners:
        listener.close()
    for thread in threads:
        thread.join(5)


def test_the_one_private_attribute_is_where_it_was() -> None:
    """`_Transport` replaces httpx's pool: this fails when httpx or httpcore moved it."""
    transport = httpx.HTTPTransport()
    assert isinstance(transport._pool, httpcore.ConnectionPool)
    wire = Wire()
    with stamped_client(wire, None) as client:
        inner = client._transport
        assert isinstance(inner, httpx.HTTPTransport)
        pool = inner._pool
        assert isinstance(pool, httpcore.ConnectionPool)
        assert isinstance(pool._network_backend, _Network)


@linux
@pytest.mark.parametrize("secure", [False, True])
def test_stamps_lie_between_send_and_read(serve: Serve, secure: bool) -> None:
    sent: list[int] = []

    def handler(connection: socket.socket) -> None:
        connection.sendall(HEAD)
        for i in range(20):
            time.sleep(0.002)
            sent.append(time.monotonic_ns())
            connection.sendall(b"%02d" % i)

    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server)
    context = None
    if secure:
        context = ssl.create_default_context()
        authority.configure_trust(context)
    url = serve(handler, server if secure else None)
    wire = Wire()
    got: dict[bytes, tuple[int, str, int]] = {}
    with stamped_client(wire, context) as client, client.stream("GET", url) as response:
        for part in response.iter_raw():
            for i in range(0, len(part), 2):
                got[part[i : i + 2]] = (wire.t_ns, wire.source, time.monotonic_ns())
    assert list(got) == [b"%02d" % i for i in range(20)]
    for i, (stamp, source, after) in enumerate(got.values()):
        assert source == "kernel"
        assert sent[i] - 200_000 <= stamp <= after


@linux
def test_a_late_reader_gets_the_arrival_not_the_read(serve: Serve) -> None:
    """The reader sleeps 200 ms after the bytes came; the stamp says when they came."""
    sent = threading.Event()

    def handler(connection: socket.socket) -> None:
        connection.sendall(HEAD + b"a")
        time.sleep(0.05)
        connection.sendall(b"b")
        sent.set()

    wire = Wire()
    with stamped_client(wire, None) as client, client.stream("GET", serve(handler)) as response:
        parts = response.iter_raw()
        assert next(parts) == b"a"
        assert sent.wait(10)
        time.sleep(0.2)
        assert next(parts) == b"b"
        assert time.monotonic_ns() - wire.t_ns > 190_000_000


@linux
def test_the_first_read_of_every_connection_has_its_stamp(serve: Serve) -> None:
    """Also where no other socket of this machine asks for stamps just then."""

    def handler(connection: socket.socket) -> None:
        connection.sendall(HEAD + b"a")

    wires = [Wire() for _ in range(25)]
    for wire in wires:
        with stamped_client(wire, None) as client:
            assert client.get(serve(handler)).content == b"a"
    assert [wire.unstamped for wire in wires[1:]] == [0] * 24  # it may begin with the first


def test_a_cut_from_another_thread_ends_a_blocked_read(serve: Serve) -> None:
    released = threading.Event()

    def handler(connection: socket.socket) -> None:
        connection.sendall(HEAD + b"a")
        released.wait(20)

    wire = Wire()
    with stamped_client(wire, None) as client, client.stream("GET", serve(handler)) as response:
        parts = response.iter_raw()
        assert next(parts) == b"a"
        threading.Timer(0.05, wire.cut).start()
        rest: list[bytes] = []
        try:
            rest.extend(parts)
        except httpx.HTTPError:
            pass
        assert rest == []
    released.set()


def test_a_connection_opened_after_the_cut_is_cut_at_once() -> None:
    wire = Wire()
    wire.cut()
    a, b = socket.socketpair()
    wire.opened(a)
    assert b.recv(1) == b""
    a.close()
    b.close()


def test_an_untrusted_certificate_is_refused_and_insecure_takes_it(serve: Serve) -> None:
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server)

    def handler(connection: socket.socket) -> None:
        connection.sendall(HEAD + b"fine")

    insecure = tls_context("https://localhost", None, insecure=True)
    url = serve(handler, server)
    with stamped_client(Wire(), insecure) as client:
        assert client.get(url).content == b"fine"


@pytest.mark.parametrize(
    ("typed", "base"),
    [
        ("http://host:8080", "http://host:8080"),
        ("http://host:8080/", "http://host:8080"),
        ("http://host:8080/v1", "http://host:8080"),
        ("http://host:8080/v1/chat/completions", "http://host:8080"),
        ("HTTPS://Example.com/llm/v1/", "https://example.com/llm"),
        ("http://user:pw@host/prefix?key=1#x", "http://host/prefix"),
        ("http://0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("http://[::]:8080", "http://[::1]:8080"),
        ("http://[::1]:8080/a", "http://[::1]:8080/a"),
    ],
)
def test_addresses_as_people_type_them(typed: str, base: str) -> None:
    assert base_url(typed) == base


@pytest.mark.parametrize("typed", ["ftp://host", "http://", "http://host:99999", "://x", "http://user:secret@:80"])
def test_what_is_no_address_is_refused_without_its_secrets(typed: str) -> None:
    with pytest.raises(UsageError) as caught:
        base_url(typed)
    assert "secret" not in str(caught.value)


def test_a_password_in_the_url_is_the_key_and_is_shown_nowhere() -> None:
    endpoint = Endpoint.open("http://me:hush@host:1/x?token=hush", None)
    assert endpoint.headers() == {"authorization": "Bearer hush"}
    assert "hush" not in endpoint.url("/props")
    assert "hush" not in printable_url("http://me:hush@host:1/x?token=hush")


def test_authorities_of_the_environment_that_cannot_be_read_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/authorities.pem")
    with pytest.raises(UsageError, match=r"^SSL_CERT_FILE"):
        Endpoint.open("https://h", None)


def test_a_proxy_is_used_when_it_is_named(serve: Serve) -> None:
    """A name that nobody can resolve is reached through it, with stamps."""

    def handler(connection: socket.socket) -> None:
        connection.sendall(HEAD + b"by proxy")

    proxy = serve(handler).replace("localhost", "127.0.0.1")
    wire = Wire()
    with stamped_client(wire, None, proxy=proxy) as client:
        assert client.get("http://elsewhere.invalid:81/x").content == b"by proxy"
    assert wire.reads > 0
    with pytest.raises(UsageError, match="--proxy"):
        Endpoint.open("http://h:1", None, proxy="socks5://u:hush@h")


def test_a_proxy_that_speaks_tls_itself_carries_tls(serve: Serve) -> None:
    """TLS in TLS, both trusted by the same authority; the outermost reads have the stamps."""
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)

    def handler(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        inside = server.wrap_bio(incoming, outgoing, server_side=True)

        def pump(call: Callable[[], object]) -> None:
            while True:
                try:
                    call()
                except ssl.SSLWantReadError:
                    connection.sendall(outgoing.read())
                    incoming.write(connection.recv(65536))
                else:
                    connection.sendall(outgoing.read())
                    return

        pump(inside.do_handshake)
        pump(lambda: inside.read(65536))
        pump(lambda: inside.write(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nwithin"))

    wire = Wire()
    with stamped_client(wire, client, proxy=serve(handler, server)) as http:
        assert http.get("https://localhost:1/x").content == b"within"
    assert wire.source == ("kernel" if sys.platform == "linux" else "read")
    with plain_client(client, proxy=serve(handler, server)) as http:
        assert http.get("https://localhost:1/x").content == b"within"
