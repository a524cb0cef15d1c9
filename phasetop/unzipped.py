"""A gzip file as it is unpacked: all that can be had of one that is cut or broken, and never much at once."""

from __future__ import annotations

import zlib
from typing import IO, Final

GZIP_MAGIC: Final = b"\x1f\x8b"
_PACKED_BYTES: Final = 1 << 14
"""So much is read at once: what is lost where a block is broken."""
_GZIP: Final = 31
"""zlib's window bits for gzip: with header and checksum."""


class Unzipped:
    """Reads what a gzip file holds. `gzip.GzipFile` keeps back what it has unpacked when the file ends too early.

    What follows the packed data and is none is ignored, as gzip does.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._packed = b""
        self._unzip = zlib.decompressobj(_GZIP)

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes, at least one; empty at the end.

        Raises:
            EOFError: the file is cut; all that it holds has been read.
            zlib.error: it is broken from here on.
        """
        while True:
            ended = False
            if not self._packed:
                self._packed = self._file.read(_PACKED_BYTES)
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
                return data
            if ended and not self._unzip.eof:
                raise EOFError("the compressed file is cut")
