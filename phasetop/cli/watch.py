"""`phasetop watch`: its options. The work is `watch_command`'s."""

from __future__ import annotations

from typing import Any, Final

import click

from phasetop.cli.completing import recordings
from phasetop.cli.options import CONTEXT, display_options, json_option, option

EPILOG: Final = """\b
Examples:
  phasetop watch                            # what runs on this machine
  phasetop watch you@gpubox                 # what runs there, through ssh
  phasetop watch you@gpubox:run.phasetop
  ssh gpubox cat run.phasetop | phasetop watch - --plain
"""


@click.command(context_settings=CONTEXT, epilog=EPILOG, short_help="Follow a session that runs: here, or by ssh.")
@click.argument("session", required=False, shell_complete=recordings)
@option("--wait", is_flag=True, help="Where nothing runs, wait for a run (at a terminal: always).")
@json_option("Print the requests as JSON when it has ended.")
@option("--plain", is_flag=True, help="Print the text as it comes, no view.")
@option("--show-thinking", is_flag=True, help="Thinking on stdout too.")
@display_options
@click.pass_context
def watch(
    context: click.Context,
    /,
    session: str | None,
    wait: bool,
    as_json: str | None,
    plain: bool,
    show_thinking: bool,
    **given: Any,
) -> None:
    """Follow a session that somebody else runs: the same view, read-only.

    SESSION is nothing (what runs on this machine), a file, a recording's name, @last or the id of a live session; - for
    one that comes on stdin; USER@HOST[:FILE] or ssh://USER@HOST[:PORT][/FILE] for one of another machine. That goes through
    this system's ssh; nothing has to be installed there.
    """
    from phasetop import watch_command
    from phasetop.display import display_of

    wanted = watch_command.Wanted(as_json, plain, show_thinking, wait, display_of(given))
    context.exit(watch_command.watch(session, wanted))
