"""A recording opened by the name that a person typed; what cannot be opened is said in a line."""

from __future__ import annotations

from pathlib import Path

from phasetop import places
from phasetop.faults import FormatError, PhasetopError, UsageError
from phasetop.parts import last_part
from phasetop.recording import load, settle, why_it_ended
from phasetop.session import Session


def open_recording(name: str) -> tuple[Session, Path]:
    """The session of a file, ``@last``, ``@2`` or a recording's name, and its file.

    What a killed writer left is ended (`settle`); what is still written is as far as it was then.

    Raises:
        UsageError: there is none of that name.
        PhasetopError: it is no session, or cannot be read.
    """
    try:
        path = places.find_recording(name)
    except FileNotFoundError as error:
        raise UsageError(str(error)) from None
    return open_file(path, name), path


def open_file(path: Path, name: str) -> Session:
    """The session of a file, as `open_recording` has it; ``name``: what errors call it.

    Raises:
        PhasetopError: it is no session, or cannot be read.
    """
    try:
        session = load(path)
    except FormatError as error:
        raise PhasetopError(f"{name}: {error}") from None
    except OSError as error:
        raise PhasetopError(f"{name}: {(error.strerror or str(error)).lower()}") from None
    if session.bye is None and not places.is_live(last_part(path)):
        settle(session, session.last_t, why_it_ended(session))
    return session
