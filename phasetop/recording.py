"""Session files read back: whole ones at once, growing ones as they grow.

One path for both: `feed` decodes whole lines into a Session. A line that does not parse is counted and skipped; a torn last
line is dropped when nobody will finish it. Files are untrusted: everything is bounded, nothing is executed or drawn here.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

from phasetop import codec
from phasetop import events as ev
from phasetop.faults import FormatError
from phasetop.parts import beside
from phasetop.session import Session
from phasetop.unzipped import BROKEN, Unzipped, is_zipped

HELLO_PREFIX: Final = b'{"k":"hello"'
PART_PREFIX: Final = b'{"k":"part"'
"""How lines begin where a writer of ours wrote them."""
_CHUNK_BYTES: Final = 1 << 20
_BAD_LINES: Final = 10_000
_BAD_BYTES: Final = 1 << 27
"""What is damaged has fewer lines, or bytes, than these that cannot be read, or more that can: all else is no recording."""
BROKEN_PACKING: Final = "this is no phasetop recording: its compression is broken"
_NO_SESSION: Final = "this is no phasetop recording: its first line is no session's"


@contextmanager
def _no_collections() -> Iterator[None]:
    """No garbage collection while many small objects are made and none is let go (a third of the time of a load)."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class LineFeed:
    """Bytes in, events applied to a Session; keeps the unfinished tail and its place in the file.

    Args:
        session: what the events are applied to.
        placed: offsets mean places in a file that can be read again.
        after: bytes of the session's parts before this one. What the head of a further part says again is passed over.

    Attributes:
        offset: bytes of whole lines taken so far, those of the parts before included, which is where the next line begins.
        base: the offset at which the file begins.
    """

    def __init__(self, session: Session, *, placed: bool = True, after: int = 0) -> None:
        self.session = session
        self.offset = self.base = after
        self._in_head = after > 0
        self._tail = bytearray()
        self._placed = placed
        self._overlong = False
        going_on = session.goes_on if after else None
        self._part = 0 if going_on is None else going_on.part
        self._checked = False  # whether the first line of a further part was looked at
        self._over = False  # what follows is none of this session's
        self._bad_bytes = 0

    @property
    def part(self) -> int:
        """The part of the session that is read; 0 before the first line of the first."""
        return self._part

    @property
    def tail_bytes(self) -> int:
        """Bytes of the line that has no end yet."""
        return len(self._tail)

    def forget_tail(self) -> None:
        """Drop the unfinished line: it was cut off, or the file was cut back."""
        self._tail.clear()

    def feed(self, data: bytes) -> int:
        """Take bytes; returns how many whole lines there were.

        Raises:
            FormatError: the first line says a newer format, or is no session's; or most of it is no session's.
        """
        if self._over:
            self.offset += len(data)
            return 0
        end = data.rfind(b"\n") + 1
        whole = data[:end]
        if self._tail and end:
            whole = bytes(self._tail) + whole
            self._tail.clear()
        with _no_collections():
            lines = whole.splitlines(keepends=True) if b"\r" not in whole else list(_lines(whole))
            self._take_all(lines)
        if self._overlong:
            self._pass(len(data) - end)
        else:
            self._tail += data[end:]
        if self.session.hello is None and (begun := self._tail[:64].lstrip()) and not begun.startswith(b"{"):
            raise FormatError(_NO_SESSION)  # the rest of a line that begins so need not be waited for
        if len(self._tail) > codec.MAX_READ_BYTES:  # never let a hostile line fill the memory
            self._overlong = True
            self._pass(len(self._tail))
            self._tail.clear()
        return len(lines)

    def _pass(self, size: int) -> None:
        """Bytes of an overlong line."""
        self.offset += size
        self._bad(size, lines=0)

    def _bad(self, size: int, *, lines: int = 1) -> None:
        """Bytes that cannot be read: passed over where they are damage, but not if all is like that.

        Raises:
            FormatError: it is.
        """
        session = self.session
        session.bad_lines += lines
        self._bad_bytes += size
        many = session.bad_lines > max(_BAD_LINES, session.lines)
        if many or self._bad_bytes > max(_BAD_BYTES, (self.offset - self.base) // 2):
            raise FormatError("this is no phasetop recording: most of what follows its first line cannot be read")

    def _take_all(self, lines: list[bytes]) -> None:
        """Take whole lines in order; tokens of one request that follow each other go in together."""
        toks: list[ev.Tok] = []
        places: list[tuple[int, int] | None] = []
        decode, placed, prefix = codec.decode_token, self._placed, codec.TOKEN_PREFIX
        for line in lines:
            if self._in_head:
                self._pass_over(line)
                continue
            if self._over:
                self.offset += len(line)
                continue
            if self._overlong or not line.startswith(prefix) or (tok := decode(line)) is None:
                self._flush(toks, places)
                self._take(line)
                continue
            if toks and tok.r != toks[-1].r:
                self._flush(toks, places)
            size = len(line)
            places.append((self.offset, size) if placed and (tok.top or isinstance(tok.x, list)) else None)
            toks.append(tok)
            self.offset += size
        self._flush(toks, places)

    def _pass_over(self, line: bytes) -> None:
        """A line of a further part's head, which the parts before have, too.

        Raises:
            FormatError: it is no part of this session.
        """
        if not self._checked:
            self._check_part(line)
        self.offset += len(line)
        self._overlong = False
        if line.startswith(PART_PREFIX):
            self._in_head = False

    def _check_part(self, line: bytes) -> None:
        try:
            hello = codec.decode_lean(line)
        except codec.BadLine:
            hello = None
        known = self.session.hello
        if not isinstance(hello, ev.Hello) or known is None or hello.session != known.session:
            raise FormatError("the next part of this session is another session's file")
        if self._part and hello.part != self._part:
            raise FormatError(f"part {hello.part} stands in its place")
        self._checked = True

    def _flush(self, toks: list[ev.Tok], places: list[tuple[int, int] | None]) -> None:
        if toks:
            if self.session.hello is None:
                check_hello(toks[0])
            self.session.apply_tokens(toks[0].r, toks, places)
            toks.clear()
            places.clear()

    def _take(self, line: bytes) -> None:
        where, size = self.offset, len(line)
        self.offset += size
        session = self.session
        if self._overlong:  # the rest of it
            self._overlong = False
            self._bad(size)
            return
        try:
            event = codec.decode_lean(line)
        except codec.BadLine:
            if session.hello is None:
                raise FormatError(_NO_SESSION) from None
            self._bad(size)
            return
        if event is None:
            return
        if session.hello is None:
            self._part = max(1, check_hello(event).part)
        elif isinstance(event, ev.Hello):
            self._meet(event, session.hello)
            if self._in_head or self._over:
                return
        session.apply(event, (where, size) if self._placed else None)

    def _meet(self, hello: ev.Hello, known: ev.Hello) -> None:
        """A first line in the middle, where files were put together: only those of the next part are of this session."""
        match joint(known, self._part, hello):
            case "next":
                self._in_head = self._checked = True
                self._part = hello.part
            case "gap":
                missing = f"part {self._part + 1} of this session is not in the file: what follows it is left out"
                self._end_with("part-missing", missing)
            case "other":
                self._end_with("another-session", "another session begins in the same file: what follows is left out")

    def _end_with(self, code: str, why: str) -> None:
        self._over = True
        notice(self.session, code, why, level="warn")


Joint: TypeAlias = Literal["next", "again", "gap", "other"]


def joint(known: ev.Hello, part: int, hello: ev.Hello) -> Joint:
    """What begins with a first line in the middle of a file: files may have been put together in one.

    Args:
        known: the session's own first line.
        part: of the session, that comes before it.
        hello: the line.
    """
    if hello.session != known.session or hello.part < part:
        return "other"
    if hello.part == part:
        return "again" if hello.t > known.t else "other"  # said again, as it may be; else a copy of the same lines
    return "next" if hello.part == part + 1 else "gap"


def _lines(data: bytes) -> Iterator[bytes]:
    """Lines that end at LF only (bytes.splitlines would end them at CR, too)."""
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        yield data[start : end + 1]
        start = end + 1


def check_hello(event: ev.AnyEvent) -> ev.Hello:
    """Refuse what is no session of a format that this version reads; returns it.

    Raises:
        FormatError: it says which format, and who wrote it.
    """
    if not isinstance(event, ev.Hello):
        raise FormatError(_NO_SESSION)
    if event.format > ev.FORMAT:
        raise FormatError(f"written by {event.by[:60]}, format {event.format}; this one reads {ev.FORMAT}")
    return event


def load(path: Path) -> Session:
    """A recording, whole, with the parts that follow it; gzip is read too.

    What could not be read is told by a notice; a missing end is left (`settle`).

    Raises:
        FormatError: no recording, or one of a newer format.
        OSError: it cannot be read.
    """
    session = Session()
    feed = _load_file(path, LineFeed(session))
    if session.hello is None:
        raise FormatError("this is no phasetop recording: it has no whole line")
    here = path
    while (part := session.goes_on) is not None and part.part > feed.part and session.bye is None:
        following = beside(here, part.part)
        if following is None:
            notice(session, "part-missing", f"part {part.part} of this session is not beside it", level="warn")
            break
        try:
            feed = _load_file(following, LineFeed(session, after=feed.offset + feed.tail_bytes))
        except (FormatError, OSError) as error:
            notice(session, "part-missing", f"part {part.part} of this session: {error}", level="warn")
            break
        here = following
    if feed.tail_bytes:
        notice(session, "torn-tail", "the last line is torn: the writer was killed while it wrote", level="warn")
    if session.bad_lines:
        notice(session, "bad-lines", f"{session.bad_lines} lines could not be read and were skipped", level="warn")
    return session


def _load_file(path: Path, feed: LineFeed) -> LineFeed:
    with path.open("rb") as file:
        source = Unzipped(file) if is_zipped(file) else file
        try:
            while chunk := source.read(_CHUNK_BYTES):
                feed.feed(chunk)
        except BROKEN:
            if feed.session.hello is None:
                raise FormatError(BROKEN_PACKING) from None
    return feed


def why_it_ended(session: Session) -> str:
    """Why a session whose writer is gone has no last line, as `settle` takes it."""
    codes = {one.code for one in session.notices.items}
    if "part-missing" in codes:
        return "part-missing"
    return "recording-stopped" if "not-recorded" in codes else "collector-died"


def settle(session: Session, t: int, why: str) -> None:
    """End what nobody will end any more: every request that runs is cut at ``t`` with detail ``why``.

    For a session whose writer is gone without a `bye`. The events are made here and stand in no file.
    """
    for run in session.runs.values():
        if not run.ends.items:
            session.apply(ev.End(t=t, r=run.r, finish="cut", detail=why))
    if session.bye is None and why in _SETTLED:
        notice(session, why, _SETTLED[why], level="error", t=t)


_SETTLED: Final = {
    "collector-died": "the collector died: what it had recorded is all there is",
    "link-lost": "the link is lost: what had come is all there is",
    "stream-ended": "the stream ended before the session did: what had come is all there is",
}


def notice(session: Session, code: str, text: str, *, level: str = "info", t: int | None = None) -> None:
    """Tell something about the reading itself, as a `notice` of the session."""
    session.apply(ev.Notice(t=session.last_t if t is None else t, code=code, level=level, text=text))
