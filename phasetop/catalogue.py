"""What a list tells of a session, from the bytes of its files: pure, and without decoding every token.

The lines that a list needs (requests, models) are found by how our writer begins them; all others are passed over. A file
that another writer made, with its keys in another order, is decoded line by line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

import msgspec
from msgspec import Struct

from phasetop import codec
from phasetop import events as ev
from phasetop.faults import FormatError
from phasetop.recording import HELLO_PREFIX, PART_PREFIX, Joint, check_hello, joint

TAIL_BYTES: Final = 1 << 16
"""The newest stamp stands within so much of the end."""
_SOUGHT: Final = ("request", "model", "part")
_COMPLETE: Final = ("done", "stopped")


class Entry(Struct, frozen=True, omit_defaults=True):
    """One file of a session.

    Attributes:
        session: its id.
        part: which part of the session the file is, from 1.
        began_ns: wall clock of its anchor (Unix).
        last_ns: the newest stamp, ns since the anchor.
        requests: how many have their beginning in it, those carried over from the part before left out.
        models: names of the models that its requests ran on, in order of use.
        redacted: whether texts were left out.
        kind: run, bench or observe.
        by: the program that wrote it.
        bye: why it ended; None where it has no last line.
        goes_on: whether a further part follows.
    """

    session: str
    began_ns: int
    last_ns: int
    part: int = 1
    requests: int = 0
    models: tuple[str, ...] = ()
    redacted: bool = False
    kind: str = "run"
    by: str = ""
    bye: str | None = None
    goes_on: bool = False


class Row(Struct, frozen=True):
    """One session of the list: its parts together."""

    began_ns: int
    duration_s: float
    requests: int
    models: tuple[str, ...]
    complete: bool
    redacted: bool
    session: str
    kind: str
    parts: int


def read_entry(blocks: Iterable[bytes]) -> Entry:
    """What a file of a session tells.

    Args:
        blocks: its bytes in order, each block whole lines; a torn last line is left out.

    Raises:
        FormatError: it is no session's, or of a newer format.
    """
    rest = iter(blocks)
    begin = next(rest, b"")
    first = begin[: begin.find(b"\n") + 1]
    hello = _hello(first)
    seek = _lines if first.startswith(HELLO_PREFIX) else _decoded
    requests: dict[int, int | None] = {}
    names: dict[int, str] = {}
    carried: set[int] = set()
    goes_on = False
    tail = b""
    for block in _of_session(chain((begin,), rest), hello):
        tail = block if len(block) >= TAIL_BYTES else tail[-TAIL_BYTES:] + block
        for line in seek(block):
            try:
                event = codec.decode_lean(line)
            except codec.BadLine:
                continue
            match event:
                case ev.Request(r=r, m=m):
                    requests[r] = requests.get(r) if m is None else m
                case ev.Model(m=m, name=name) if name:
                    names[m] = name
                case ev.Part(file=file, carried=over):
                    goes_on = goes_on or file is not None
                    carried.update(over)
    last_ns, bye = _end_of(tail)
    used = (names.get(m) for m in requests.values() if m is not None)
    models = tuple(dict.fromkeys(name for name in used if name))
    return Entry(
        session=hello.session,
        began_ns=hello.anchor.wall,
        last_ns=last_ns,
        part=max(1, hello.part),
        requests=len(requests.keys() - carried),
        models=models or tuple(dict.fromkeys(names.values()))[:1],
        redacted=hello.redacted,
        kind=hello.kind,
        by=hello.by,
        bye=bye,
        goes_on=goes_on,
    )


def _hello(line: bytes) -> ev.Hello:
    if not line:
        raise FormatError("this is no phasetop recording: it has no whole line")
    try:
        hello = codec.decode(line)
    except codec.BadLine:
        hello = None
    if hello is None:
        raise FormatError("this is no phasetop recording: its first line is no session's")
    return check_hello(hello)


def _of_session(blocks: Iterable[bytes], known: ev.Hello) -> Iterator[bytes]:
    """The blocks without what `phasetop.recording` leaves out: heads of further parts in the same file, other sessions."""
    part, in_head, begun = max(1, known.part), False, False
    for block in blocks:
        at = 0
        while at < len(block):
            if in_head:
                end = _line_with(PART_PREFIX, block, at)
                in_head = end < 0
                at = len(block) if in_head else block.find(b"\n", end) + 1
                continue
            met = _line_with(HELLO_PREFIX, block, at if begun else 1)
            begun = True
            joined: Joint = "again"
            while met >= 0 and joined == "again":
                end = block.find(b"\n", met) + 1
                try:
                    hello = codec.decode_lean(block[met:end])
                    joined = joint(known, part, hello) if isinstance(hello, ev.Hello) else "again"
                except codec.BadLine:
                    pass
                met = met if joined != "again" else _line_with(HELLO_PREFIX, block, end)
            yield block[at : met if met >= 0 else len(block)]
            if met < 0:
                break
            if joined != "next":
                return
            part, in_head, at = part + 1, True, met


def _line_with(prefix: bytes, block: bytes, start: int) -> int:
    """Where the next line that begins so stands; -1 where there is none."""
    if block.startswith(prefix, start) and (not start or block[start - 1] == 0x0A):
        return start
    found = block.find(b"\n" + prefix, max(0, start - 1))
    return found + 1 if found >= 0 else -1


def _lines(block: bytes) -> Iterator[bytes]:
    """The lines that count, as our writer begins them."""
    for kind in _SOUGHT:
        prefix = f'{{"k":"{kind}",'.encode()
        at = block.find(prefix)
        while at >= 0:
            end = block.find(b"\n", at)
            if at == 0 or block[at - 1] == 0x0A:
                yield block[at:end]
            at = block.find(prefix, end)


class _Kind(Struct):
    k: str = ""


_kind_decoder: Final = msgspec.json.Decoder(_Kind)


def _decoded(block: bytes) -> Iterator[bytes]:
    """The lines that count, wherever their keys stand."""
    for line in block.split(b"\n"):
        try:
            kind = _kind_decoder.decode(line).k
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if kind in _SOUGHT:
            yield line


def _end_of(tail: bytes) -> tuple[int, str | None]:
    """(newest stamp, reason of the last line) of a file's last lines; the first of them may be the rest of one."""
    last, bye = 0, None
    for line in tail[-TAIL_BYTES:].split(b"\n"):
        try:
            event = codec.decode_lean(line)
        except codec.BadLine:
            continue
        if event is not None:
            last = max(last, event.t)
            bye = event.reason if isinstance(event, ev.Bye) else bye
    return last, bye


def row_of(parts: Sequence[Entry]) -> Row:
    """The session of these parts, in their order; what one part alone says holds for it."""
    first, last = parts[0], parts[-1]
    return Row(
        began_ns=first.began_ns,
        duration_s=round(max(each.last_ns for each in parts) / 1e9, 6),
        requests=sum(each.requests for each in parts),
        models=tuple(dict.fromkeys(name for each in parts for name in each.models)),
        complete=last.bye in _COMPLETE,
        redacted=any(each.redacted for each in parts),
        session=first.session,
        kind=first.kind,
        parts=len(parts),
    )
