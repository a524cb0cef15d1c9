"""`phasetop replay`."""

from __future__ import annotations

from typing import Any, Final

import click

from phasetop.cli.options import CONTEXT, display_options, option

EPILOG: Final = """\b
Examples:
  phasetop replay @last
  phasetop replay before --plain            # text and summary, no view
  phasetop replay run.phasetop.gz --json=compact
"""


@click.command(context_settings=CONTEXT, epilog=EPILOG)
@click.argument("file")
@option("--json", "as_json", metavar="[compact]", help="Print the requests as JSON.")
@option("--plain", is_flag=True, help="Print text and summary, no view.")
@display_options
@click.pass_context
def replay(context: click.Context, /, file: str, as_json: str | None, plain: bool, **given: Any) -> None:
    """Open a recording: a file, @last, @2 or a name."""
    from phasetop import run as running
    from phasetop.display import display_of

    context.exit(running.replay(file, as_json=as_json, plain=plain, display=display_of(given)))
