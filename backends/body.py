"""The body of a streamed answer, taken out of its reads here.

httpx, httpcore and h11 would bring it too, and do for everything else. But each of a stream's small reads goes through six
generators and two parsers there, which cost a third of all that a token costs the collector. So they speak with the server
and read the head of its answer, which says how the body is framed (RFC 9112, 6.3); what comes after the head is read from
the connection itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Protocol

import httpcore
import httpx

from phasetop.backends.stamped import Listening

_READ_BYTES: Final = 1 << 16
_LINE_BYTES: Final = 1 << 16
"""The longest chunk header, or trailer, that is waited for."""
_HEAD_END: Final = re.compile(rb"\n\r?\n")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,20})[ \t]*(?:;.*)?\r\n")
_INCOMPLETE: Final = "peer closed connection without sending complete message body"
_ERRORS: Final[dict[type[Exception], type[httpx.TransportError]]] = {
    httpcore.ReadTimeout: httpx.ReadTimeout,
    httpcore.WriteTimeout: httpx.WriteTimeout,
    httpcore.WriteError: httpx.WriteError,
    httpcore.ReadError: httpx.ReadError,
}


def body_of(response: httpx.Response) -> Iterator[bytes]:
    """The body as it comes, one part a read that brought something of it, decompressed where it is compressed.

    Raises:
        httpx.HTTPError: the connection broke, or ended before the body did; with the words that httpx has for it.
    """
    if response.headers.get("content-encoding", "identity") != "identity":  # some compress although it was not asked for
        yield from response.iter_bytes()
        return
    connection = response.extensions.get("network_stream")
    begun = after_head(connection.heard()) if isinstance(connection, Listening) else None
    if begun is None or not isinstance(connection, Listening):
        yield from response.iter_raw()
        return
    framing = framing_of(response.headers)
    data = begun
    while True:
        if data and (part := framing.feed(data)):
            yield part
        if framing.broken is not None:
            raise httpx.RemoteProtocolError(framing.broken)
        if framing.done:
            return
        try:
            data = connection.read(_READ_BYTES)
        except tuple(_ERRORS) as error:
            raise _ERRORS[type(error)](str(error)) from error
        if not data:
            if (missing := framing.missing()) is not None:
                raise httpx.RemoteProtocolError(missing)
            return


def after_head(heard: bytes | None) -> bytes | None:
    """What came after the head of the answer (interim ones before it do not count); None where no head is to be found."""
    at = 0
    while heard is not None and (end := _HEAD_END.search(heard, at)) is not None:
        words = heard[at : end.start()].split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/"):
            return None
        at = end.end()
        if not words[1].startswith(b"1"):
            return heard[at:]
    return None


class Framing(Protocol):
    """How a body says where it ends."""

    @property
    def done(self) -> bool:
        """Whether the body is whole."""
        ...

    @property
    def broken(self) -> str | None:
        """What is framed wrongly: nothing can be read from there on."""
        ...

    def feed(self, data: bytes) -> bytes:
        """The part of the body in a read, up to where it is framed wrongly."""
        ...

    def missing(self) -> str | None:
        """The connection ended: what is amiss, None where that ends the body."""
        ...


def framing_of(headers: httpx.Headers) -> Framing:
    """By the head of a success, which h11 has checked: "chunked" is the only transfer encoding that it lets pass."""
    if "transfer-encoding" in headers:
        return Chunked()
    length = headers.get("content-length")
    return ToTheClose() if length is None else Sized(int(length))


class ToTheClose:
    """A body that the end of the connection ends."""

    done = False
    broken = None

    def feed(self, data: bytes) -> bytes:
        """All of it."""
        return data

    def missing(self) -> str | None:
        """Nothing."""
        return None


class Sized:
    """A body of so many bytes."""

    broken = None

    def __init__(self, size: int) -> None:
        self._size = self._left = size

    @property
    def done(self) -> bool:
        """Whether all of them came."""
        return not self._left

    def feed(self, data: bytes) -> bytes:
        """Those that belong to it."""
        part = data[: self._left]
        self._left -= len(part)
        return part

    def missing(self) -> str | None:
        """How many did not come."""
        return f"{_INCOMPLETE} (received {self._size - self._left} bytes, expected {self._size})" if self._left else None


class Chunked:
    """A body in chunks (RFC 9112, 7.1), whose trailers say nothing that is wanted here.

    Attributes:
        done: the last chunk and the trailers came.
        broken: what is framed wrongly; what came before it is given out.

    """

    __slots__ = ("_begun", "_left", "_trailing", "broken", "done")

    def __init__(self) -> None:
        self.done = False
        self.broken: str | None = None
        self._begun = b""  # a header, an end or a trailer that is not whole
        self._left = 0  # bytes that the chunk has yet to bring, its CRLF among them; 0: a header is next
        self._trailing = False

    def feed(self, data: bytes) -> bytes:
        """The chunks' bytes in a read."""
        if self._begun:
            data, self._begun = self._begun + data, b""
        parts: list[bytes] = []
        at, size = 0, len(data)
        while at < size and not self.done and self.broken is None:
            if self._left > 2:
                part = data[at : at + self._left - 2]
                parts.append(part)
                at += len(part)
                self._left -= len(part)
            elif self._left:
                if size - at < 2:
                    self._wait(data[at:])
                    break
                if data[at : at + 2] != b"\r\n":
                    self.broken = f"malformed chunk footer: {data[at : at + 2]!r} (expected b'\\r\\n')"
                at, self._left = at + 2, 0
            else:
                end = data.find(b"\n", at) + 1
                if not end:
                    self._wait(data[at:])
                    break
                self._line(data[at:end])
                at = end
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _wait(self, rest: bytes) -> None:
        if len(rest) > _LINE_BYTES:
            self.broken = f"illegal chunk header: {rest[:40]!r}…"
        self._begun = rest

    def _line(self, line: bytes) -> None:
        """A chunk's header, or after the last one a trailer."""
        if self._trailing:
            self.done = line in (b"\r\n", b"\n")
            return
        if (found := _CHUNK.fullmatch(line)) is None:
            self.broken = f"illegal chunk header: {line[:40]!r}"
            return
        length = int(found[1], 16)
        self._left, self._trailing = (length + 2, False) if length else (0, True)

    def missing(self) -> str | None:
        """The last chunk."""
        return f"{_INCOMPLETE} (incomplete chunked read)"
