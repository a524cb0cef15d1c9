"""A recording's lines, read again by their places: what a token could have been stands in its line alone.

A place is (offset, length) in bytes; offsets count on over the session's parts, those of a packed one as it is unpacked.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Final

from phasetop import codec, places
from phasetop import events as ev
from phasetop.parts import beside, next_part, number_of
from phasetop.unzipped import BROKEN, Unzipped, is_zipped

_CHUNK_BYTES: Final = 1 << 20


class Reread:
    """Reads lines of a session again. A packed part is unpacked when it is needed, once, into a file without a name.

    Args:
        path: the session's first part that is there. It may have been packed meanwhile.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unpacked: dict[Path, IO[bytes]] = {}

    def line(self, where: tuple[int, int]) -> ev.AnyEvent | None:
        """The event of a line; None where no line of a session stands there.

        Raises:
            OSError: it cannot be read.
            FormatError: a part is no recording any more.
        """
        offset, size = where
        here: Path | None = self._path if self._path.exists() else beside(self._path, number_of(self._path))
        while here is not None:
            with self._opened(here) as file:
                length = os.fstat(file.fileno()).st_size
                if offset < length:
                    file.seek(offset)
                    try:
                        return codec.decode(file.read(size))
                    except codec.BadLine:
                        return None
            offset -= length
            here = next_part(here)
        return None

    def _opened(self, path: Path) -> IO[bytes]:
        """A part's lines as a file that can be read anywhere."""
        known = self._unpacked.get(path)
        if known is None:
            file = path.open("rb", buffering=0)
            if not is_zipped(file):
                return file
            with file, places.unnamed_file() as copy:
                _unpack(file, copy)
                known = self._unpacked[path] = os.fdopen(os.dup(copy.fileno()), "rb", buffering=0)
        return os.fdopen(os.dup(known.fileno()), "rb", buffering=0)


def _unpack(file: IO[bytes], copy: IO[bytes]) -> None:
    """All that a packed file holds, up to where it is cut or broken."""
    source = Unzipped(file)
    try:
        while chunk := source.read(_CHUNK_BYTES):
            copy.write(chunk)
    except BROKEN:
        pass
