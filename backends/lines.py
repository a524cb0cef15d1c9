"""Lines out of a stream of bytes: the first step of every text protocol that servers stream, SSE and NDJSON alike.

A line ends at LF, CRLF or CR and nowhere else: U+2028, U+2029 and U+0085 are ordinary text inside JSON strings, which
`str.splitlines` and httpx's `iter_lines` would cut. Everything stays bytes until a whole line is there, so a character that
two reads share is never torn.
"""

from __future__ import annotations

import re
from typing import Final

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
"""The longest line that is taken; a server that never ends one must not fill the memory."""

_LINE_END: Final = re.compile(rb"\r\n|\r|\n")


class LineSplitter:
    """Splits the bytes of successive reads into whole lines, without their ends.

    A CR ends its line at once, and a LF that begins the next read is then its other half. After a line longer than
    ``max_bytes`` nothing more is taken: `overlong` is then True, whatever the reads were.
    """

    __slots__ = ("_after_cr", "_max_bytes", "_size", "_tail", "overlong")

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._tail: list[bytes] = []  # the begun line, in pieces: joined once, not at each read
        self._size = 0
        self._after_cr = False
        self.overlong = False

    @property
    def rests(self) -> bool:
        """Whether the next byte begins a line, whatever it is."""
        return not self._tail and not self._after_cr

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that end in ``data``."""
        if not data or self.overlong:
            return []
        if self._after_cr:
            self._after_cr = False
            if data[0] == 0x0A:
                data = data[1:]
        if b"\r" in data:
            self._after_cr = data[-1] == 0x0D
            lines = _LINE_END.split(data)
        else:
            lines = data.split(b"\n")
        tail = lines.pop()
        if lines and self._tail:
            self._tail.append(lines[0])
            lines[0] = b"".join(self._tail)
            self._tail, self._size = [], 0
        if tail:
            self._tail.append(tail)
            self._size += len(tail)
        if self._size > self._max_bytes or any(len(line) > self._max_bytes for line in lines):
            self.overlong = True
            self._tail, self._size = [], 0
            lines = lines[: next((i for i, line in enumerate(lines) if len(line) > self._max_bytes), len(lines))]
        return lines

    def close(self) -> bytes:
        """What stands after the last line end, and forget it."""
        rest = b"".join(self._tail)
        self._tail, self._size = [], 0
        return rest
