"""Servers that are installed here and may be started: whether they are, and starting them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from typing import Final

from phasetop.faults import UsageError

COMMANDS: Final[dict[str, tuple[str, ...]]] = {"ollama": ("ollama", "serve")}
"""What can be started without further words: anything else needs a model, which is the person's to choose."""


def is_installed(program: str) -> bool:
    """Whether the shell would find it."""
    return shutil.which(program) is not None


def launch(what: str) -> int:
    """Start a server in a session of its own, so that it outlives this process; returns its process id.

    Raises:
        UsageError: it cannot be started from here.
    """
    command: Sequence[str] | None = COMMANDS.get(what)
    if command is None:
        raise UsageError(f"{what} cannot be started from here")
    program = shutil.which(command[0])
    if program is None:
        raise UsageError(f"{command[0]} is not installed, or not in PATH")
    nowhere = subprocess.DEVNULL
    try:
        started = subprocess.Popen(
            [program, *command[1:]], stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True
        )
    except OSError as error:
        raise UsageError(f"{program}: {(error.strerror or str(error)).lower()}") from None
    return started.pid
