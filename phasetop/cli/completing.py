"""Where a recording's name is expected: what the shell completes (names, ``@last``, ids of running sessions, files)."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem


class Recording(click.Argument):
    """An argument that names a recording; ``example``: the command with one, for who gave none."""

    def __init__(self, *args: Any, example: str, **kwargs: Any) -> None:
        self.example = example
        super().__init__(*args, shell_complete=recordings, **kwargs)


def recordings(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """The names that begin so; the shell adds files."""
    from phasetop import places
    from phasetop.parts import split_stem, stem_of

    names = ["@last"]
    names += [split_stem(stem_of(files[0].name))[0] for files in places.kept_files()]
    names += [files[0].name[:8] for files in places.live_files() if places.is_live(files[-1])]
    found = [CompletionItem(name) for name in names if name.startswith(incomplete) and name.isprintable()]
    return found or [CompletionItem(incomplete, type="file")]
