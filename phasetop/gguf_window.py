"""A file read forwards in pieces of 256 KiB: numbers, texts, and arrays of strings that are passed over quickly.

Each read is checked against the file's size first, so that nothing is allocated that the file cannot hold.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import repeat
from struct import Struct
from typing import BinaryIO, Final

from phasetop.faults import PhasetopError

_CHUNK: Final = 1 << 18
NUMBERS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Code of a number's type in the file → its code for struct."""
SIZES: Final = {kind: Struct(f"<{code}").size for kind, code in NUMBERS.items()}
_BLOCK: Final = 256


def _short(length: int) -> bytes:
    """The pattern of a string of so many bytes as it lies in a file: its length in eight bytes, then its text."""
    return rb"\x%02x\0\0\0\0\0\0\0" % length + (b"." * length if length < 12 else rb".{%d}" % length)


_SHORT: Final = re.compile(
    # One match passes over a block of a vocabulary's strings, at 40 ns a string; to read each length takes 70. What is not
    # in it (longer strings, other byte orders, the end of what is in memory) goes the slow way. The usual lengths are first.
    rb"(?s:%s){%d}+" % (b"|".join(map(_short, (5, 6, 4, 7, 8, 3, 9, 2, 10, 11, 12, 1, *range(13, 64), 0))), _BLOCK)
)


class GgufError(PhasetopError):
    """A file is no GGUF file, or its header is torn or cannot be true; the text names it and says where."""


@dataclass(slots=True)
class Window:
    """A part of the file in memory, with what is to be read next.

    Attributes:
        place: what is being read, for errors.
        length_bytes: of a length in this version of the format.

    """

    _file: BinaryIO
    _name: str
    size: int
    version: int
    big: bool = field(kw_only=True)
    place: str = "its first bytes"
    length_bytes: int = 8
    _bytes: bytes = b""
    _base: int = 0
    _pos: int = 0
    _u32: Struct = field(init=False)
    _u64: Struct = field(init=False)
    _length: Struct = field(init=False)

    def __post_init__(self) -> None:
        order = ">" if self.big else "<"
        self._u32, self._u64 = Struct(f"{order}I"), Struct(f"{order}Q")
        self._length = self._u32 if self.version == 1 else self._u64
        self.length_bytes = self._length.size

    @property
    def at(self) -> int:
        """The place in the file of what comes next."""
        return self._base + self._pos

    def lie(self, text: str) -> GgufError:
        """The error for what cannot be."""
        return GgufError(f"{self._name}: a header that cannot be true, {self.place}: {text}")

    def need(self, count: int) -> None:
        """Have ``count`` bytes in memory."""
        if self._pos + count <= len(self._bytes):
            return
        start = self.at
        if start + count > self.size:
            raise GgufError(f"{self._name}: the header is torn: the file ends at byte {self.size:,}, in {self.place}")
        self._file.seek(start)
        self._bytes = self._file.read(max(count, _CHUNK))
        self._base, self._pos = start, 0
        if len(self._bytes) < count:
            raise GgufError(f"{self._name}: the header is torn: the file ends in {self.place}")

    def skip(self, count: int) -> None:
        """Pass over bytes without reading them."""
        if self._pos + count <= len(self._bytes):
            self._pos += count
            return
        if self.at + count > self.size:
            raise GgufError(f"{self._name}: the header is torn: the file ends at byte {self.size:,}, in {self.place}")
        self._base, self._bytes, self._pos = self.at + count, b"", 0

    def u32(self) -> int:
        """A number of four bytes."""
        return self._number(self._u32)

    def u64(self) -> int:
        """A number of eight bytes."""
        return self._number(self._u64)

    def length(self) -> int:
        """A length, a count or an extent: of four bytes in version 1, of eight since."""
        return self._number(self._length)

    def _number(self, form: Struct) -> int:
        self.need(form.size)
        (value,) = form.unpack_from(self._bytes, self._pos)
        self._pos += form.size
        return int(value)

    def numbers(self, kind: int, count: int) -> tuple[int, ...] | tuple[float, ...] | tuple[bool, ...]:
        """Numbers of one type."""
        form = Struct(f"{'>' if self.big else '<'}{count}{NUMBERS[kind]}")
        self.need(form.size)
        values = form.unpack_from(self._bytes, self._pos)
        self._pos += form.size
        return values

    def text(self, length: int) -> str:
        """A text of so many bytes."""
        self.need(length)
        raw = self._bytes[self._pos : self._pos + length]
        self._pos += length
        return raw.decode("utf-8", "replace")

    def name(self, most: int) -> str:
        """A text that names something: not empty, of at most so many bytes."""
        length = self.length()
        if not 0 < length <= most:
            raise self.lie(f"a name of {length:,} bytes")
        return self.text(length)

    def skip_strings(self, count: int) -> None:
        """Pass over strings."""
        quick = self._length.format == "<Q"
        while count:
            if quick and count >= _BLOCK and (block := _SHORT.match(self._bytes, self._pos)):
                self._pos = block.end()
                count -= _BLOCK
                continue
            some = min(count, _BLOCK)
            self._walk(some)
            count -= some

    def _walk(self, count: int) -> None:
        """Pass over strings one by one."""
        unpack, ahead = self._length.unpack_from, self.length_bytes
        some, pos, end = self._bytes, self._pos, len(self._bytes) - ahead
        for _ in repeat(None, count):
            if pos > end:
                self._pos = min(pos, len(some))
                self.skip(pos - self._pos)
                self.need(ahead)
                some, pos, end = self._bytes, self._pos, len(self._bytes) - ahead
            pos += unpack(some, pos)[0] + ahead
        self._pos = min(pos, len(some))
        self.skip(pos - self._pos)
