"""Errors that a person can cause or mend: each ends in one or two plain lines and an exit status."""

from __future__ import annotations

from typing import Final

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
EXIT_PIPE: Final = 141
EXIT_TERMINATED: Final = 143
EXIT_HUNG_UP: Final = 129


class PhasetopError(Exception):
    """Something went wrong that a person can understand: what happened, and what to do.

    Attributes:
        exit_status: what the process ends with.

    """

    exit_status = EXIT_FAILED


class UsageError(PhasetopError):
    """The command line asks for something that is not there or makes no sense."""

    exit_status = EXIT_USAGE


class FormatError(PhasetopError):
    """A file is no recording, or one of a newer format."""
