"""`phasetop export`: a recording in another format, on stdout or into a file."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from phasetop import places
from phasetop.export import Exported, What, writer_of
from phasetop.faults import EXIT_OK, PhasetopError, UsageError
from phasetop.opening import open_recording
from phasetop.output import for_stdout, say
from phasetop.parts import is_of


def export(name: str, *, to: str | None, output: str | None, what: What = "tokens") -> int:
    """Write the recording ``name`` in the format ``to`` (else what the file's ending says) into ``output``, or on stdout.

    Raises:
        UsageError: there is no such recording or format, or a terminal would get what only programs read.
        PhasetopError: it cannot be read or written.
    """
    form = to or _by_ending(output)
    try:
        write = writer_of(form)
    except UsageError as error:
        raise UsageError(str(error) if to else f"{output}: no format ends so; {error}") from None
    if output is None and form in _FOR_PROGRAMS and sys.stdout.isatty():
        ending = _FOR_PROGRAMS[form]
        raise UsageError(f"{form} is for a program, not for a terminal: give it a file, such as -o {_stem(name)}.{ending}")
    session, path = open_recording(name)
    exported = Exported(session, path, places.kept_name(path), what)
    pieces = write(exported)
    if output is None or output == "-":
        for piece in pieces:
            sys.stdout.buffer.write(for_stdout(piece))
        sys.stdout.flush()
        return EXIT_OK
    target = Path(output).expanduser()
    try:
        if is_of(target, path):
            raise PhasetopError(f"{output} is the recording itself: it is not written over")
        target = target.resolve()  # a link stays one
        if target.exists() and not target.is_file():  # a FIFO or a device takes it; a folder says why not
            with target.open("w", encoding="utf-8", errors="replace", newline="") as file:
                file.writelines(pieces)
            return EXIT_OK
    except OSError as error:
        raise PhasetopError(f"{output}: {(error.strerror or str(error)).lower()}") from None
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        # What was asked and answered is in it: for its owner alone, as the recording is, unless it was given otherwise.
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o600
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
        with os.fdopen(fd, "w", encoding="utf-8", errors="replace", newline="") as file:
            file.writelines(pieces)
        partial.chmod(mode)
        partial.replace(target)
    except OSError as error:
        raise PhasetopError(f"{output}: {(error.strerror or str(error)).lower()}") from None
    finally:
        with suppress(OSError):
            partial.unlink()
    say(f"wrote {output}")
    return EXIT_OK


_FOR_PROGRAMS: Final = {"html": "html", "perfetto": "json"}
"""Formats that nobody reads as they stand, and how their files end."""


def _stem(name: str) -> str:
    """A file's name that fits what was named: a name, a file or a place such as ``@last``."""
    return "".join(char for char in Path(name).name.split(".phasetop")[0] if char.isalnum() or char in "-_.") or "session"


def _by_ending(output: str | None) -> str:
    if output is None:
        raise UsageError("which format? --to json, csv, md, html or perfetto")
    ending = Path(output).suffix.removeprefix(".").lower()
    return {"htm": "html", "markdown": "md", "pftrace": "perfetto"}.get(ending, ending or "json")
