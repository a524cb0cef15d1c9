"""Server-sent events out of bytes, as LLM servers and the proxies before them really send them.

Besides the standard's fields there are: ``data:`` without its space, comments as pings, ``error:`` as a field (old builds of
llama.cpp), and bytes that are no SSE at all: a proxy's message put after the events, an HTML page, a whole JSON reply. The
standard ignores those; here they are kept (`SseReader.stray`), because they say why a reply is not whole.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from phasetop.backends.lines import MAX_LINE_BYTES, LineSplitter

_FIELDS: Final = (b"data", b"error", b"event", b"id", b"retry")
_BOM: Final = b"\xef\xbb\xbf"


class SseEvent(NamedTuple):
    """One event: its data (lines joined with LF), and whether it came as an error (``error:`` field or event name)."""

    data: bytes
    is_error: bool
    whole: bool  # False: the stream ended before the empty line that ends an event


class SseReader:
    """Turns reads into events.

    Attributes:
        pings: comment lines so far: signs of life, no tokens.
        stray: the lines that are no SSE, each with a LF; at most `MAX_LINE_BYTES`.
        overlong: a line, an event or the stray bytes grew over `MAX_LINE_BYTES`; nothing after that is read.

    """

    __slots__ = ("_begun", "_data", "_is_error", "_lines", "_max_bytes", "overlong", "pings", "stray")

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lines = LineSplitter(max_bytes)
        self._data: bytes | bytearray | None = None  # the begun event; a bytearray from its second line on
        self._is_error = False
        self._begun = False  # a first line was seen: no byte order mark any more
        self.pings = 0
        self.stray = bytearray()
        self.overlong = False

    def feed(self, data: bytes) -> list[SseEvent]:
        """The events that end in this read."""
        if self.overlong:
            return []
        if self._is_one(data):
            return [SseEvent(data[6:-2], is_error=False, whole=True)]
        events: list[SseEvent] = []
        for line in self._lines.feed(data):
            if not self._begun:
                self._begun = True
                line = line.removeprefix(_BOM)
            if not line:
                if self._data is not None:
                    events.append(self._dispatch(self._data, whole=True))
                self._is_error = False
            elif line.startswith(b"data:"):
                self._add(line[6:] if line[5:6] == b" " else line[5:])
            else:
                self._other(line)
            if self.overlong:
                return events
        self.overlong = self._lines.overlong
        return events

    def _is_one(self, data: bytes) -> bool:
        """Whether a read is one event of one line, and nothing stands before it, as of nearly all: no need to split them."""
        return (
            data.startswith(b"data: ")
            and data.endswith(b"\n\n")
            and data.count(b"\n") == 2
            and b"\r" not in data
            and self._begun
            and self._data is None
            and not self._is_error
            and self._lines.rests
            and len(data) <= self._max_bytes
        )

    def close(self) -> list[SseEvent]:
        """What the end of the stream leaves: an event without its empty line. A torn field name is dropped."""
        rest = self._lines.close()
        if self.overlong:
            return []
        if not self._begun:
            rest = rest.removeprefix(_BOM)
        if rest.startswith(b"data:"):
            self._add(rest[6:] if rest[5:6] == b" " else rest[5:])
        elif rest and not any(field.startswith(rest) for field in _FIELDS):
            self._other(rest)
        return [] if self._data is None or self.overlong else [self._dispatch(self._data, whole=False)]

    def _dispatch(self, data: bytes | bytearray, *, whole: bool) -> SseEvent:
        self._data = None
        return SseEvent(bytes(data), self._is_error, whole)

    def _add(self, value: bytes) -> None:
        if self._data is None:
            self._data = value
            return
        if isinstance(self._data, bytes):
            self._data = bytearray(self._data)
        self._data += b"\n"
        self._data += value
        if len(self._data) > self._max_bytes:
            self.overlong = True
            self._data = None

    def _other(self, line: bytes) -> None:
        name, colon, value = line.partition(b":")
        if not name and colon:
            self.pings += 1
        elif name == b"data":
            self._add(b"")
        elif name == b"error" and colon:
            self._is_error = True
            self._add(value.removeprefix(b" "))
        elif name == b"event":
            self._is_error = value.strip() == b"error"
        elif name not in (b"id", b"retry"):
            self.stray += line
            self.stray += b"\n"
            if len(self.stray) > self._max_bytes:
                self.overlong = True
