"""`phasetop sessions`: its commands and their options. The work is `sessions_command`'s."""

from __future__ import annotations

from typing import Final

import click

from phasetop.cli.completing import Recording
from phasetop.cli.options import CONTEXT, json_option, option

EPILOG: Final = """\b
Examples:
  phasetop sessions                        # newest first; @1 is the newest
  phasetop sessions list --json
  phasetop sessions show @last
  phasetop sessions rename @last before
  phasetop sessions rm before @3
  phasetop sessions totals --by day
"""


@click.group(
    context_settings=CONTEXT,
    invoke_without_command=True,
    epilog=EPILOG,
    short_help="The recordings: list, show, rename, rm, totals.",
)
@json_option()
@click.pass_context
def sessions(context: click.Context, as_json: str | None) -> None:
    """The recordings, and the sessions that run or were cut off: list, show, rename, rm, totals.

    A recording is called by its name, @last, @2 (the second newest), a file, or the beginning of a session's id.
    """
    if context.invoked_subcommand is None:
        from phasetop import sessions_command

        context.exit(sessions_command.list_sessions(as_json))


@sessions.command("list", context_settings=CONTEXT)
@json_option()
@click.pass_context
def list_(context: click.Context, as_json: str | None) -> None:
    """All sessions, newest first (the same as without a word)."""
    from phasetop import sessions_command

    context.exit(sessions_command.list_sessions(as_json))


@sessions.command("show", context_settings=CONTEXT)
@click.argument("name", cls=Recording, example="phasetop sessions show @last")
@json_option("Print one JSON object, each request as run --json has it.")
@click.pass_context
def show(context: click.Context, name: str, as_json: str | None) -> None:
    """What one holds: where it ran, and each request with its figures."""
    from phasetop import sessions_command

    context.exit(sessions_command.show(name, as_json))


@sessions.command("rename", context_settings=CONTEXT)
@click.argument("old", cls=Recording, example="phasetop sessions rename @last before")
@click.argument("new")
@click.pass_context
def rename(context: click.Context, old: str, new: str) -> None:
    """Give one another name; a session that was cut off is kept by it."""
    from phasetop import sessions_command

    context.exit(sessions_command.rename(old, new))


@sessions.command("rm", context_settings=CONTEXT)
@click.argument("names", cls=Recording, metavar="NAME...", nargs=-1, required=True, example="phasetop sessions rm @last")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def remove(context: click.Context, names: tuple[str, ...], yes: bool) -> None:
    """Remove recordings for ever. A running one is never removed."""
    from phasetop import sessions_command

    context.exit(sessions_command.remove(names, yes=yes))


@sessions.command("totals", context_settings=CONTEXT)
@option("--by", type=click.Choice(["model", "day"]), default="model", show_default=True, help="What to sum by.")
@json_option()
@click.pass_context
def totals(context: click.Context, by: str, as_json: str | None) -> None:
    """Requests, tokens, energy and time, summed over all sessions."""
    from phasetop import sessions_command

    context.exit(sessions_command.totals(by, as_json))
