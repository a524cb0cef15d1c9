"""A text handed to the person's own editor and taken back."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from phasetop.faults import PhasetopError


def command_of(environ: Mapping[str, str]) -> list[str]:
    """The editor's command: VISUAL, EDITOR, else the first usual one that is there.

    Raises:
        PhasetopError: there is none.
    """
    for name in ("VISUAL", "EDITOR"):
        if words := shlex.split(environ.get(name, "")):
            return words
    for usual in ("nano", "vim", "vi"):
        if shutil.which(usual):
            return [usual]
    raise PhasetopError("no editor: set EDITOR")


def edit(text: str, command: Sequence[str]) -> str:
    """``text`` as it is when the editor ends, without the newline that editors add at the end.

    Raises:
        PhasetopError: the editor cannot be started, or says that it failed.
    """
    fd, name = tempfile.mkstemp(prefix="phasetop-", suffix=".txt")
    path = Path(name)
    try:
        with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        try:
            status = subprocess.run([*command, name], check=False).returncode
        except OSError as error:
            raise PhasetopError(f"{command[0]}: {(error.strerror or str(error)).lower()}") from None
        if status != 0:
            raise PhasetopError(f"{command[0]} ended with status {status}: the prompt is as it was")
        return path.read_text(encoding="utf-8", errors="replace").removesuffix("\n")
    finally:
        path.unlink(missing_ok=True)
