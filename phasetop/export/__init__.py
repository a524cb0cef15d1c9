"""A recording written for other tools: JSON, CSV, Markdown, a web page, Perfetto's trace viewer.

To add a format: a module ``as_NAME`` here with a function ``write(exported)`` that yields text, and NAME in `FORMATS` and in
the help of ``--to``; from outside the tree, an entry point of the group ``phasetop.exporters`` whose name is the format's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Final, Literal, cast

from msgspec import Struct

from phasetop.faults import UsageError
from phasetop.session import Run, Session

What = Literal["tokens", "requests", "samples"]
"""What the rows of a table are."""
FORMATS: Final = ("json", "csv", "md", "html", "perfetto")
"""Each is the module ``as_NAME`` here."""
GROUP: Final = "phasetop.exporters"


class Exported(Struct, frozen=True):
    """What is exported.

    Attributes:
        session: the recording, whole.
        path: its file.
        kept: its name, or path where it lies elsewhere.
        what: what the rows of a table are, for formats that are one.

    """

    session: Session
    path: Path
    kept: str
    what: What = "tokens"

    @property
    def runs(self) -> list[Run]:
        """The requests that were asked."""
        return [run for run in self.session.runs.values() if run.info.at() is not None]


Writer = Callable[[Exported], Iterator[str]]
"""Yields the text of an export, piece by piece."""


def writer_of(name: str) -> Writer:
    """The writer of a format.

    Raises:
        UsageError: there is none of that name.
    """
    if name in FORMATS:
        return cast("Writer", import_module(f"phasetop.export.as_{name}").write)
    from importlib.metadata import entry_points

    found = entry_points(group=GROUP)
    for point in found.select(name=name):
        return cast("Writer", point.load())
    known = ", ".join([*FORMATS, *sorted(found.names - set(FORMATS))])
    raise UsageError(f"--to {name[:40]}: there is no such format; these are: {known}")
