"""What the shell completes where a recording's name is expected: names, ``@last``, the ids of running sessions, files."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem


def recordings(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """The names that begin so; the shell adds files."""
    from phasetop import places
    from phasetop.parts import split_stem, stem_of

    names = ["@last"]
    names += [split_stem(stem_of(files[0].name))[0] for files in places.kept_files()]
    names += [files[0].name[:8] for files in places.live_files() if places.is_live(files[-1])]
    found = [CompletionItem(name) for name in names if name.startswith(incomplete) and name.isprintable()]
    return found or [CompletionItem(incomplete, type="file")]
