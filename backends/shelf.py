"""How much of a session is kept, and in which files: `--max-size`, and `--rotate`, by which it goes on in a further part.

Alone, ``--max-size`` ends the recording, with a notice as the file's last line; the run and its view go on. With
``--rotate`` the oldest parts go instead, so that the newest stretch of a long session is always there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from phasetop import codec
from phasetop import events as ev
from phasetop.backends.part_head import MOST_BYTES, PartHead
from phasetop.figures import size as size_text
from phasetop.journal import Journal
from phasetop.parts import part_beside

_OVERDUE: Final = 2
"""A part waits for a moment at which no request runs, until it is so many times as large, or old, as it should be."""
_LAST_WORDS: Final = 512
"""Room for the line that says why it ends."""


class Limits(Struct, frozen=True):
    """What was asked for; None: no limit.

    Attributes:
        max_bytes: of all files of the session together.
        part_bytes: a further part is begun after so many.
        part_ns: a further part is begun after so long.
        link: the name in the live folder, where the file itself lies elsewhere.

    """

    max_bytes: int | None = None
    part_bytes: int | None = None
    part_ns: int | None = None
    link: Path | None = None

    @property
    def rotates(self) -> bool:
        """Whether the session may go on in further parts."""
        return self.part_bytes is not None or self.part_ns is not None


class Shelf:
    """Writes through a journal, and changes the file when it is time. Called by one thread at a time.

    Attributes:
        kept: the session's second name, of its first part.

    """

    def __init__(self, journal: Journal, limits: Limits) -> None:
        self.kept: Path | None = None
        self._journal = journal
        self._limits = limits
        self._first = journal.path
        self._head = PartHead() if limits.rotates else None
        self._sizes: dict[int, int] = {}  # part → bytes, of those that are written whole and still there
        self._part = 1
        self._head_bytes = 0
        self._began_ns = 0
        self._refused_at = 0

    def write(self, written: Sequence[tuple[ev.Event, bytes]], now: Callable[[], int]) -> None:
        """Write some events' lines; then look whether a part ends here."""
        data = written[0][1] if len(written) == 1 else b"".join([line for _, line in written])
        journal, limits = self._journal, self._limits
        if limits.max_bytes is not None and journal.recording:
            self._make_room(limits.max_bytes - len(data))
        journal.write(data)
        if self._head is not None and journal.recording:
            for event, line in written:
                self._head.take(event, line)
            if self._is_due(t := now()):
                self._go_on(self._head, t)

    def _make_room(self, room: int) -> None:
        """Keep the session within ``room`` bytes: the oldest parts go, and when that is not enough, the recording ends."""
        while self._sizes and sum(self._sizes.values()) + self._journal.size > room - _LAST_WORDS:
            self._drop(min(self._sizes))
        if self._journal.size > room - _LAST_WORDS:
            limit = size_text(self._limits.max_bytes)
            self._journal.stop(f"recording stopped: --max-size {limit} is reached; the run goes on")

    def _drop(self, part: int) -> None:
        del self._sizes[part]
        for name in (self._first, self.kept, self._limits.link):
            if name is not None:
                with suppress(OSError):
                    part_beside(name, part).unlink()

    def _is_due(self, now: int) -> bool:
        assert self._head is not None
        limits, head = self._limits, self._head
        fresh, age = self._journal.size - self._head_bytes, now - self._began_ns
        late = max(fresh / limits.part_bytes if limits.part_bytes else 0.0, age / limits.part_ns if limits.part_ns else 0.0)
        if late < 1 or self._journal.size - self._refused_at < (self._refused_at and 1 << 20):
            return False
        if not head.busy:
            return True
        return late >= _OVERDUE and head.kept_bytes <= min(MOST_BYTES, 2 * _OVERDUE * (limits.part_bytes or MOST_BYTES))

    def _go_on(self, head: PartHead, now: int) -> None:
        assert self._first is not None
        part = self._part + 1
        path = part_beside(self._first, part)
        lines = b"".join(head.lines(part, now))
        link = None if self._limits.link is None else part_beside(self._limits.link, part)
        if link is not None:
            with suppress(OSError):
                link.symlink_to(path)
        size = self._journal.size
        last = codec.encode(ev.Part(t=now, part=part, file=path.name))
        if not self._journal.go_on(path, lines, last, also=None if self.kept is None else part_beside(self.kept, part)):
            self._refused_at = size
            if link is not None and link.is_symlink():
                link.unlink(missing_ok=True)
            return
        self._sizes[self._part] = size + len(last)
        self._part, self._head_bytes, self._began_ns, self._refused_at = part, len(lines), now, 0
