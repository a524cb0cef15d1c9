"""Everything as one JSON object: the session, each request as `run --json` prints it, and the recorded events."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import dropwhile, islice
from pathlib import Path
from typing import Any, Final

import msgspec

from phasetop import codec
from phasetop import events as ev
from phasetop.catalogue_index import Index
from phasetop.export import Exported
from phasetop.output import to_json
from phasetop.parts import next_part
from phasetop.recording import PART_PREFIX
from phasetop.report import request_object
from phasetop.session import Session
from phasetop.sessions_list import listed
from phasetop.unzipped import BROKEN, Unzipped, is_zipped

_CHUNK_BYTES: Final = 1 << 20


def write(exported: Exported) -> Iterator[str]:
    """``{"session": {…}, "requests": [ … ], "events": [ … ]}``, one event a line."""
    session = exported.session
    requests = [request_object(session, run, kept_as=exported.kept) for run in exported.runs]
    yield f'{{"session": {to_json(_session(exported), compact=True)},\n"requests": {to_json(requests, compact=True)},\n'
    yield '"events": ['
    between = "\n"
    for line in _lines(exported):
        try:
            msgspec.json.decode(line)  # what is written must be read again: a damaged line is left out
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        yield between + line.decode("utf-8", "replace")
        between = ",\n"
    yield "\n]}\n"


def _session(exported: Exported) -> dict[str, Any]:
    """The session as `sessions show --json` has it, and who recorded it."""
    hello = exported.session.hello
    return {**listed(exported.path, Index()).json(), "by": hello.by if hello is not None else None}


def _lines(exported: Exported) -> Iterator[bytes]:
    """The recording's whole lines, without their ends; of further parts those behind their heads.

    A file that only has the name of a further part, of another session, is none: `phasetop.recording.load` left it out.
    """
    here = exported.path
    yield from _lines_of(here)
    while (following := next_part(here)) is not None and _is_part(following, exported.session):
        here = following
        yield from islice(dropwhile(lambda line: not line.startswith(PART_PREFIX), _lines_of(here)), 1, None)


def _is_part(path: Path, session: Session) -> bool:
    """Whether a file's first line is of this session, and of a part that the lines before lead to."""
    try:
        hello = codec.decode_lean(next(_lines_of(path), b""))
    except (codec.BadLine, OSError):
        return False
    known, newest = session.hello, session.goes_on
    if not isinstance(hello, ev.Hello) or known is None or newest is None:
        return False
    return hello.session == known.session and hello.part <= newest.part


def _lines_of(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        source = Unzipped(file) if is_zipped(file) else file
        tail = b""
        try:
            while chunk := source.read(_CHUNK_BYTES):
                *whole, tail = (tail + chunk).split(b"\n")
                yield from (line for line in whole if line.strip())
        except (OSError, *BROKEN):
            return  # a torn end: what was whole has been written
