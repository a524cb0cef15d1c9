"""HTTP whose reads are stamped by the kernel: an httpcore network backend under httpx 0.28 (sync), TLS included.

A stamp says when the *newest* byte of a read reached this host's kernel, ± 0.1 ms on loopback; tokens that came in one read
share it, and only the last of them is exact. Where the platform has no receive stamps (anything but Linux), or the clock
was stepped, the stamp is the time after the read, and its source says "read". One fresh connection a generation:
llama.cpp's server closes after a stream although it says keep-alive, and reuse races that.
"""

from __future__ import annotations

import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any, Final, TypeVar

import httpcore
import httpx

SO_TIMESTAMPNS: Final = 35 if sys.platform == "linux" else None
"""Asked for by this option (asm-generic's number); the control message that brings the stamp has the same number."""
_ROOM: Final = socket.CMSG_SPACE(16) if SO_TIMESTAMPNS else 0
_TIMESPEC: Final = struct.Struct("@qq")
_BRACKET_NS: Final = 5_000
_CREDIBLE_AGE_NS: Final = 1_000_000_000
_LAST_WRITE_BYTES: Final = 1 << 16
_HEARD_BYTES: Final = 1 << 18
"""No head is so long (h11 takes 100 KiB)."""
CONNECT_TIMEOUT_S: Final = 5.0
KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_TRIES = 15, 5, 3

T = TypeVar("T")


@cache
def keep_stamping() -> socket.socket | None:
    """Have the kernel stamp from now on, for the life of this process; None where it cannot.

    It begins some milliseconds after the first socket asked for stamps, and ends with the last one: the first reads of a
    connection, which may bring the first tokens, would come without.
    """
    if not SO_TIMESTAMPNS:
        return None
    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asking.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    return asking


class Wire:
    """What is known of one connection's bytes: the last read's stamp, the last non-empty write, and the socket itself.

    Attributes:
        t_ns: when the newest byte of the last read arrived, CLOCK_MONOTONIC ns.
        source: "kernel" or "read", how ``t_ns`` is known.
        reads: socket reads so far that brought bytes; unstamped: those of them without a kernel stamp.
        written_ns: when the last non-empty write began, CLOCK_MONOTONIC ns; httpcore ends a request with an empty one.
    """

    def __init__(self) -> None:
        self.t_ns = 0
        self.source = "read"
        self.reads = self.unstamped = 0
        self.written_ns = 0
        self._socket: socket.socket | None = None
        self._cut = False
        self._until: float | None = None

    def last_call(self, limit_s: float) -> None:
        """Read no longer than this from now on, however much comes; once said it holds."""
        if self._until is None:
            self._until = time.monotonic() + limit_s

    def patience(self, timeout: float | None) -> float | None:
        """How long the next read may take. Raises `httpcore.ReadTimeout` where its time is over."""
        if self._until is None:
            return timeout
        left = self._until - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout("the connection stayed open after the reply's end")
        return left

    def opened(self, sock: socket.socket) -> None:
        """A connection stands; one that was cut before is cut at once."""
        self._socket = sock
        if self._cut:
            self.cut()

    def cut(self) -> None:
        """End the connection from any thread: a blocked read returns within about a millisecond."""
        self._cut = True
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # not connected any more

    def stamp(self, ancillary: Iterable[tuple[int, int, bytes]]) -> None:
        """Take the stamp of a read from its control messages."""
        for _ in range(4):  # a preemption between the two clocks would shift the stamp: read them in a bracket
            before, real, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
            if after - before < _BRACKET_NS:
                break
        self.t_ns, self.source = before, "read"
        self.reads += 1
        for level, kind, raw in ancillary:
            if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(raw) == 16:
                seconds, ns = _TIMESPEC.unpack(raw)
                age = real - seconds * 1_000_000_000 - ns
                if 0 <= age < _CREDIBLE_AGE_NS:  # else the clock was stepped
                    self.t_ns, self.source = (before + after) // 2 - age, "kernel"
        self.unstamped += self.source == "read"


class Listening(httpcore.NetworkStream):
    """A connection that knows what it read since it last wrote: the head of an answer, and what came with it."""

    def __init__(self) -> None:
        self._heard: bytearray | None = bytearray()

    def heard(self) -> bytes | None:
        """What was read since the last write, and listen no more; None where that was much, or was asked for before."""
        heard, self._heard = self._heard, None
        return None if heard is None else bytes(heard)

    def _hear(self, data: bytes) -> None:
        assert self._heard is not None
        self._heard += data
        if len(self._heard) > _HEARD_BYTES:
            self._heard = None


class _Stream(Listening):
    """A TCP connection that stamps its reads."""

    def __init__(self, inner: httpcore.NetworkStream, wire: Wire) -> None:
        super().__init__()
        self._inner, self._wire = inner, wire
        self._socket: socket.socket = inner.get_extra_info("socket")
        wire.opened(self._socket)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        wait = self._wire.patience(timeout)
        if self._socket.gettimeout() != wait:  # to set it is a system call
            self._socket.settimeout(wait)
        try:
            if _ROOM:
                data, ancillary, _, _ = self._socket.recvmsg(max_bytes, _ROOM)
            else:
                data, ancillary = self._socket.recv(max_bytes), []
        except TimeoutError as error:
            raise httpcore.ReadTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error
        if data:
            self._wire.stamp(ancillary)
            if self._heard is not None:
                self._hear(data)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        view = memoryview(buffer)
        if view and self._heard:
            self._heard = bytearray()
        while len(view) > _LAST_WRITE_BYTES:
            self._inner.write(bytes(view[:_LAST_WRITE_BYTES]), timeout)
            view = view[_LAST_WRITE_BYTES:]
        if view:
            # Before the call, not after it: a process that is descheduled on its way back would call the sending later than
            # the answer. The last write is short, so that a long body's way counts as sending, not as waiting.
            self._wire.written_ns = time.monotonic_ns()
            self._inner.write(bytes(view), timeout)

    def close(self) -> None:
        self._inner.close()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Tls(self, ssl_context, server_hostname, timeout)


class _Tls(Listening):
    """TLS over memory BIOs, so that the ciphertext still comes through `_Stream.read` and keeps its stamp."""

    def __init__(
        self, raw: httpcore.NetworkStream, context: ssl.SSLContext, host: str | None, timeout: float | None
    ) -> None:
        super().__init__()
        if isinstance(raw, Listening):
            raw.heard()  # what it reads from here on is ciphertext
        self._raw, self._in, self._out = raw, ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=host)
        try:
            self._pump(self._tls.do_handshake, timeout)
        except (ssl.SSLError, ssl.CertificateError) as error:
            raise httpcore.ConnectError(str(error)) from error

    def _pump(self, call: Callable[[], T], timeout: float | None) -> T:
        while True:
            done, result = True, None
            try:
                result = call()
            except ssl.SSLWantReadError:
                done = False
            if pending := self._out.read():
                self._raw.write(pending, timeout)
            if done:
                return result  # type: ignore[return-value]
            if data := self._raw.read(65536, timeout):
                self._in.write(data)
            else:
                self._in.write_eof()

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            data = self._pump(lambda: self._tls.read(max_bytes), timeout)
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""
        except ssl.SSLError as error:
            raise httpcore.ReadError(str(error)) from error
        if self._heard is not None:
            self._hear(data)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if buffer and self._heard:
            self._heard = bytearray()
        try:
            while buffer:
                buffer = buffer[self._pump(partial(self._tls.write, buffer), timeout) :]
        except ssl.SSLError as error:
            raise httpcore.WriteError(str(error)) from error

    def close(self) -> None:
        self._raw.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Tls(self, ssl_context, server_hostname, timeout)

    def get_extra_info(self, info: str) -> Any:
        return self._tls if info == "ssl_object" else self._raw.get_extra_info(info)


class _Network(httpcore.SyncBackend):
    """Opens the stamped connections. `connect_tcp` tries every address of a name, so localhost finds both families."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        keep_stamping()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        options: list[Any] = [*(socket_options or ()), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
        for name, value in (
            ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
            ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
            ("TCP_KEEPCNT", KEEPALIVE_TRIES),
        ):
            if hasattr(socket, name):
                options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
        if SO_TIMESTAMPNS:
            options.append((socket.SOL_SOCKET, SO_TIMESTAMPNS, 1))
        return _Stream(super().connect_tcp(host, port, timeout, local_address, options), self._wire)

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(super().connect_unix_socket(path, timeout, socket_options), self._wire)


class _Transport(httpx.HTTPTransport):
    """httpx has no parameter for a network backend: replace the pool, and keep httpx's mapping of errors."""

    def __init__(self, wire: Wire, context: ssl.SSLContext | None, proxy: str | None, uds: str | None) -> None:
        verify: ssl.SSLContext | bool = context if context is not None else False
        super().__init__(verify=verify)
        network = _Network(wire)
        if proxy is None:
            self._pool = httpcore.ConnectionPool(
                ssl_context=context, network_backend=network, max_keepalive_connections=0, uds=uds
            )
            return
        via = _proxy(proxy, context)
        self._pool = httpcore.HTTPProxy(
            proxy_url=httpcore.URL(scheme=via.url.raw_scheme, host=via.url.raw_host, port=via.url.port, target=b"/"),
            proxy_auth=via.raw_auth,
            proxy_ssl_context=via.ssl_context,
            ssl_context=context,
            network_backend=network,
            max_keepalive_connections=0,
        )


def _proxy(url: str, context: ssl.SSLContext | None) -> httpx.Proxy:
    """A proxy; one that speaks TLS itself is trusted as the server is."""
    return httpx.Proxy(url, ssl_context=context if url.lower().startswith("https:") else None)


def stamped_client(
    wire: Wire,
    context: ssl.SSLContext | None,
    headers: dict[str, str] | None = None,
    proxy: str | None = None,
    uds: str | None = None,
) -> httpx.Client:
    """A client for one generation: a fresh connection, stamped reads, no read timeout, no compression.

    Args:
        wire: receives the stamps.
        context: for https; None where the URL is plain http (loading the certificates costs 20 ms).
        headers: sent with the request (the key among them).
        proxy: an http proxy's URL; None: none, whatever the environment says.
        uds: a unix socket to dial instead of the URL's host (an ssh tunnel's mouth); its reads have no kernel stamps.
    """
    return httpx.Client(
        transport=_Transport(wire, context, proxy, uds),
        trust_env=False,
        follow_redirects=False,
        timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
        headers={"accept-encoding": "identity", **(headers or {})},
    )


def plain_client(
    context: ssl.SSLContext | None,
    headers: dict[str, str] | None = None,
    timeout_s: float = 5.0,
    proxy: str | None = None,
    uds: str | None = None,
) -> httpx.Client:
    """A client for questions beside a generation (props, tokenize, health): its own connections, a timeout."""
    return httpx.Client(
        trust_env=False,
        follow_redirects=False,
        timeout=httpx.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S),
        headers={"accept-encoding": "identity", **(headers or {})},
        transport=httpx.HTTPTransport(
            verify=context if context is not None else False,
            proxy=None if proxy is None else _proxy(proxy, context),
            uds=uds if proxy is None else None,
        ),
    )


def tls_context(url: str, cacert: str | None, insecure: bool) -> ssl.SSLContext | None:
    """The TLS context for a URL; None for plain http. ``cacert`` (or SSL_CERT_FILE) replaces the system's authorities.

    Raises:
        OSError: ``cacert`` cannot be read.
        ssl.SSLError: it holds no certificates.
    """
    if not url.lower().startswith("https:"):
        return None
    context = ssl.create_default_context(cafile=cacert) if cacert else httpx.create_ssl_context(verify=True, trust_env=True)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
