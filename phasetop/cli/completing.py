"""What the shell completes: recordings (names, ``@last``, ids of running sessions), models, files, words."""

from __future__ import annotations

from collections.abc import Callable
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


def files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
    """What lies in the folder: a model's file, a prompt's."""
    return [CompletionItem(incomplete, type="file")]


def known_models(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Well-known models by name, and files. No server is asked: that takes longer than one waits for a key."""
    from phasetop.known_models import KNOWN

    names = [CompletionItem(name) for name in KNOWN if name.startswith(incomplete)]
    return [*files(ctx, param, incomplete), *names]  # bash forgets what comes before the files


Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def words(*known: str) -> Complete:
    """These words; a plugin's further ones have to be typed."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
        return [CompletionItem(word) for word in known if word.startswith(incomplete)]

    return complete
