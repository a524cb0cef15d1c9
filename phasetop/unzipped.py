"""A gzip file as it is unpacked: all that can be had of one that is cut or broken, and never much at once."""

from __future__ import annotations

import zlib
from typing import IO, Final

from phasetop.faults import FormatError

GZIP_MAGIC: Final = b"\x1f\x8b"
BROKEN: Final = (EOFError, zlib.error)
"""What is raised where a file is cut or broken: all before it was read."""
_PACKED_BYTES: Final = 1 << 14
"""So much is read at once: what is lost where a block is broken."""
_LINES_A_BYTE: Final = 12
_FEW_LINES: Final = 1_000_000
"""The same token again and again, at one stamp a read of 64 KiB (a gateway that held the reply back), packs to 6 lines a
byte: nothing that is recorded packs better. What unpacks to twice that, and to more than a few lines, was made to keep its
reader busy."""
_GZIP: Final = 31
"""zlib's window bits for gzip: with header and checksum."""


def is_zipped(file: IO[bytes]) -> bool:
    """Whether a file begins as gzip does; it stands at its beginning after that."""
    file.seek(0)
    begins = file.read(len(GZIP_MAGIC))
    file.seek(0)
    return begins == GZIP_MAGIC


class Unzipped:
    """Reads what a gzip file holds. `gzip.GzipFile` keeps back what it has unpacked when the file ends too early.

    What follows the packed data and is none is ignored, as gzip does.

    Attributes:
        packed_bytes: of the file that were read.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._packed = b""
        self.packed_bytes = 0
        self._lines = 0
        self._unzip = zlib.decompressobj(_GZIP)

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes, at least one; empty at the end.

        Raises:
            EOFError: the file is cut; all that it holds has been read.
            zlib.error: it is broken from here on.
            FormatError: it unpacks to more lines than its bytes can be of a recording.
        """
        while True:
            ended = False
            if not self._packed:
                self._packed = self._file.read(_PACKED_BYTES)
                self.packed_bytes += len(self._packed)
                ended = not self._packed
            if self._unzip.eof:  # another member may follow
                if len(self._packed) < len(GZIP_MAGIC):
                    self._packed += self._file.read(_PACKED_BYTES)
                if not self._packed.startswith(GZIP_MAGIC):
                    return b""
                self._unzip = zlib.decompressobj(_GZIP)
            data = self._unzip.decompress(self._packed, size)
            self._packed = self._unzip.unused_data if self._unzip.eof else self._unzip.unconsumed_tail
            if data:
                self._lines += data.count(b"\n")
                if self._lines > max(_FEW_LINES, _LINES_A_BYTE * self.packed_bytes):
                    what = f"{self.packed_bytes:,} packed bytes hold {self._lines:,} lines"
                    raise FormatError(f"this is no phasetop recording: {what}")
                return data
            if ended and not self._unzip.eof:
                raise EOFError("the compressed file is cut")
