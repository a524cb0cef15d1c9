"""Everything as one JSON object: the session, each request as `run --json` prints it, and the recorded events."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from phasetop import codec
from phasetop import events as ev
from phasetop.catalogue_index import Index
from phasetop.export import Exported
from phasetop.output import to_json
from phasetop.parts import beside
from phasetop.recording import HELLO_PREFIX, PART_PREFIX, joint
from phasetop.report import request_object
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
            codec.decode_lean(line)
        except codec.BadLine:  # what is no event is none here either
            continue
        yield between + line.decode("utf-8", "replace")
        between = ",\n"
    yield "\n]}\n"


def _session(exported: Exported) -> dict[str, Any]:
    """The session as `sessions show --json` has it, and who recorded it."""
    hello = exported.session.hello
    return {**listed(exported.path, Index()).json(), "by": hello.by if hello is not None else None}


def _lines(exported: Exported) -> Iterator[bytes]:
    """The lines that are the session's, without their ends: of further parts those behind their heads.

    What `phasetop.recording` takes for none of it is left out here, too.
    """
    known, newest = exported.session.hello, exported.session.goes_on
    if known is None:
        return
    part, in_head, met = max(1, known.part), False, "first"
    here: Path | None = exported.path
    while here is not None:
        for line in _lines_of(here):
            if met == "further" or (met != "first" and line.startswith(HELLO_PREFIX)):
                hello = _hello(line)
                joined = joint(known, part, hello) if hello is not None else "other"
                if joined != "next" and not (joined == "again" and met == "within"):
                    return
                if joined == "next":
                    part, in_head = part + 1, True
            met = "within"
            if not in_head:
                yield line
            elif line.startswith(PART_PREFIX):
                in_head = False
        met = "further"
        here = beside(here, part + 1) if newest is not None and newest.part > part else None


def _hello(line: bytes) -> ev.Hello | None:
    try:
        event = codec.decode_lean(line)
    except codec.BadLine:
        return None
    return event if isinstance(event, ev.Hello) else None


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
