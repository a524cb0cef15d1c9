"""The body of a streamed answer as it is read here, held against httpx, httpcore and h11, which read the same bytes."""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator

import h11
import httpx
import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from phasetop.backends.body import Chunked, Framing, Sized, ToTheClose, after_head, body_of
from phasetop.backends.stamped import Wire, stamped_client

OK = b"HTTP/1.1 200 OK\r\n"
IN_CHUNKS = OK + b"transfer-encoding: chunked\r\n\r\n"
SIZED = OK + b"content-length: 11\r\n\r\n"
CLOSING = OK + b"connection: close\r\n\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
INCOMPLETE = "peer closed connection without sending complete message body (incomplete chunked read)"
CHUNKS = b'5\r\nhello\r\n1;name="x"\r\n \r\n005 \r\nworld\r\n0\r\n'

READ = threading.Semaphore(0)

Serve = Callable[..., str]


def by_h11(head: bytes, body: bytes) -> tuple[bytes, str | None]:
    """(what of the body came, what was wrong) where the connection ends after it; None where nothing was."""
    peer = h11.Connection(our_role=h11.CLIENT)
    peer.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    peer.send(h11.EndOfMessage())
    peer.receive_data(head + body)
    came, ended = b"", False
    try:
        while True:
            event = peer.next_event()
            if isinstance(event, h11.Data):
                came += bytes(event.data)
            elif event is h11.NEED_DATA and not ended:
                ended = True
                peer.receive_data(b"")
            elif isinstance(event, h11.EndOfMessage):
                return came, None
            elif event in (h11.NEED_DATA, h11.PAUSED):
                return came, "stuck"
    except h11.RemoteProtocolError as error:
        return came, str(error).replace("peer unexpectedly closed connection", INCOMPLETE)  # its word for one within a line


def fed(framing: Framing, reads: list[bytes]) -> tuple[bytes, str | None]:
    came = b""
    for read in reads:
        came += framing.feed(read)
        if framing.done or framing.broken is not None:
            return came, framing.broken
    return came, framing.missing()


BODIES = {
    "chunks": (IN_CHUNKS, CHUNKS + b"\r\n"),
    "chunks and more": (IN_CHUNKS, CHUNKS + b"\r\nHTTP/1.1 200 OK"),
    "trailers": (IN_CHUNKS, CHUNKS + b"x-took: 3\r\ny: 4\r\n\r\n"),
    "trailers of bare line feeds": (IN_CHUNKS, CHUNKS + b"x-took: 3\n\n"),
    "an end of a bare line feed": (IN_CHUNKS, CHUNKS + b"\n"),
    "no chunk at all": (IN_CHUNKS, b"0\r\n\r\n"),
    "bytes that look like a frame": (IN_CHUNKS, b"a\r\n\r\n0\r\n\r\n\r\n\r\r\n0\r\n\r\n"),
    "cut in a chunk": (IN_CHUNKS, b"5\r\nhel"),
    "cut after a chunk": (IN_CHUNKS, b"5\r\nhello\r\n"),
    "cut in a header": (IN_CHUNKS, b"5\r\nhello\r\n1"),
    "cut before the trailers end": (IN_CHUNKS, CHUNKS + b"x: 1\r\n"),
    "sized": (SIZED, b"hello world"),
    "sized, and more": (SIZED, b"hello world!!"),
    "sized, cut": (SIZED, b"hello"),
    "of no size": (OK + b"content-length: 0\r\n\r\n", b""),
    "to the close": (CLOSING, b"hello world"),
    "of HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\n", b"hello"),
    "nothing": (CLOSING, b""),
}


def framing(head: bytes) -> Framing:
    if b"chunked" in head:
        return Chunked()
    return Sized(int(head.split(b"content-length: ")[1].split(b"\r")[0])) if b"content-length" in head else ToTheClose()


@pytest.mark.parametrize("name", BODIES)
def test_a_body_is_what_h11_makes_of_it_however_it_is_cut(name: str) -> None:
    head, body = BODIES[name]
    right = by_h11(head, body)
    for size in range(1, len(body) + 2):
        reads = [body[i : i + size] for i in range(0, len(body), size)]
        assert fed(framing(head), reads) == right


@pytest.mark.parametrize(
    "body", [b"hello\r\n", b"\r\n", b"0x5\r\nhello\r\n", b"-1\r\n", b"5\r\nhello!\r\n", b"5,\r\n", b"\n"]
)
def test_wrong_chunks_are_refused_where_h11_refuses_them(body: bytes) -> None:
    came, wrong = by_h11(IN_CHUNKS, body + b"\r\n")
    found = fed(Chunked(), [body + b"\r\n"])
    assert wrong is not None
    assert found[1] is not None
    assert (found[0][: len(came)], found[1][:18]) == (came, wrong[:18])


@pytest.mark.parametrize("end", [b"zz\r\n", b"5\r\nworld!!"])
def test_what_came_before_a_wrong_chunk_in_the_same_read_is_given_out(serve: Serve, end: bytes) -> None:
    came, how = got(serve([IN_CHUNKS, b"5\r\nhello\r\n1\r\n \r\n" + end]), body_of)
    assert came.startswith(b"hello ")
    assert how.startswith("RemoteProtocolError")


def test_a_chunk_header_without_an_end_is_not_collected() -> None:
    came, wrong = fed(Chunked(), [b"1;", *[b"x" * 10_000] * 10])
    assert came == b""
    assert wrong is not None
    assert wrong.startswith("illegal chunk header")


@given(parts=st.lists(st.binary(min_size=1, max_size=40), max_size=12), cuts=st.lists(st.integers(0, 600), max_size=12))
def test_chunks_come_whole_at_any_cuts(parts: list[bytes], cuts: list[int]) -> None:
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    at = [0, *sorted(cut % len(body) for cut in cuts), len(body)]
    assert fed(Chunked(), [body[i:j] for i, j in itertools.pairwise(at)]) == (b"".join(parts), None)


def test_a_read_with_several_chunks_is_one_part() -> None:
    """A parser is fed once a read, and what it makes of that is one write."""
    assert Chunked().feed(b"1\r\na\r\n2\r\nbc\r\n1\r\n") == b"abc"


@pytest.mark.parametrize("interim", [b"", INTERIM, INTERIM * 2])
def test_what_comes_after_the_head(interim: bytes) -> None:
    assert after_head(interim + SIZED + b"body\r\n\r\nHTTP/1.1 200 OK\r\n\r\n") == b"body\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"
    assert after_head(interim + b"HTTP/1.1 200\nserver: x\n\nbody") == b"body"


@pytest.mark.parametrize("heard", [None, b"", OK, SIZED[:-2], INTERIM, b"hello\r\n\r\nbody"])
def test_no_head_no_body(heard: bytes | None) -> None:
    assert after_head(heard) is None


# -- over a connection ----------------------------------------------------------------------------------------------------


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A server that answers so many requests with the same pieces, one a write, and closes."""
    while READ.acquire(blocking=False):
        pass
    with contextlib.ExitStack() as stack:

        def start(pieces: list[bytes], context: ssl.SSLContext | None = None, *, times: int = 1) -> str:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            listener.settimeout(20)

            def answer(connection: socket.socket) -> None:
                while b"\r\n\r\n" not in connection.recv(65536):
                    pass
                for piece in pieces:
                    connection.sendall(piece)
                    READ.acquire(timeout=10)  # the next is sent when this one was read: reads are what writes are

            def run() -> None:
                for _ in range(times):
                    peer, _ = listener.accept()
                    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    with peer if context is None else context.wrap_socket(peer, server_side=True) as connection:
                        answer(connection)

            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            stack.callback(thread.join, 10)
            return f"{'http' if context is None else 'https'}://localhost:{listener.getsockname()[1]}"

        yield start


class Telling(Wire):
    """Tells of each read."""

    def stamp(self, ancillary: Iterable[tuple[int, int, bytes]]) -> None:
        super().stamp(ancillary)
        READ.release()


def got(
    url: str, read: Callable[[httpx.Response], Iterator[bytes]], context: ssl.SSLContext | None = None
) -> tuple[bytes, str]:
    came = b""
    with stamped_client(Telling(), context) as client, client.stream("GET", url) as response:
        try:
            for part in read(response):
                came += part
        except httpx.HTTPError as error:
            return came, f"{type(error).__name__}: {error}".replace("bytearray(b'zz\\r\\n')", "b'zz\\r\\n'")
    return came, "whole"


ANSWERS = {
    "chunks": [IN_CHUNKS, b"5\r\nhello\r\n", b"1\r", b"\n \r\n5\r\nwo", b"rld\r\n0\r\n\r", b"\n"],
    "all at once": [IN_CHUNKS + CHUNKS + b"\r\n"],
    "after an interim answer": [INTERIM + IN_CHUNKS[:20], IN_CHUNKS[20:] + b"5\r\nhel", b"lo\r\n0\r\n\r\n"],
    "a head in pieces": [SIZED[:9], SIZED[9:-1], SIZED[-1:], b"hello", b" world"],
    "to the close": [CLOSING + b"hello", b" world"],
    "cut": [IN_CHUNKS, b"5\r\nhello\r\n", b"5\r\nwo"],
    "cut, sized": [SIZED, b"hello"],
    "wrong": [IN_CHUNKS, b"5\r\nhello\r\n", b"zz\r\n"],
}


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("name", ANSWERS)
def test_over_a_connection_it_is_what_httpx_has(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, name: str, secure: bool
) -> None:
    """The same bytes; of a broken one the same error, since its words say what to do."""
    server = client = None
    if secure:
        authority = trustme.CA()
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(server)
        client = ssl.create_default_context()
        authority.configure_trust(client)
    url = serve(ANSWERS[name], server, times=2)
    right = got(url, httpx.Response.iter_raw, client)
    with monkeypatch.context() as patch:  # it is really read here
        patch.setattr(httpx.Response, "iter_raw", lambda self: pytest.fail("httpx read it"))
        found = got(url, body_of, client)
    assert found == right
    assert (right[1] == "whole") == (name not in ("cut", "cut, sized", "wrong"))


def test_a_reset_is_told_as_httpx_tells_it(serve: Serve) -> None:
    def reset(response: httpx.Response) -> Iterator[bytes]:
        yield from ()
        connection = response.extensions["network_stream"].get_extra_info("socket")
        connection.shutdown(socket.SHUT_RDWR)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, b"\0" * 16)
        connection.close()
        yield from body_of(response)

    came, how = got(serve([IN_CHUNKS]), reset)
    assert (came, how.partition(":")[0]) == (b"", "ReadError")


def test_what_is_compressed_is_httpx_s_to_read(serve: Serve) -> None:
    packed = zlib.compress(b"hello world")
    head = OK + b"content-encoding: deflate\r\ncontent-length: %d\r\n\r\n" % len(packed)
    assert got(serve([head + packed[:5], packed[5:]]), body_of) == (b"hello world", "whole")


def test_another_transport_is_read_by_httpx() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=iter([b"a", b"b"])))
    with httpx.Client(transport=transport) as client, client.stream("GET", "http://x") as response:
        assert list(body_of(response)) == [b"a", b"b"]
