"""`phasetop export`: its arguments and options. The work is `export_command`'s."""

from __future__ import annotations

from typing import Any

import click

from phasetop.cli.completing import Recording, files, words
from phasetop.cli.options import CONTEXT, option

EPILOG = """\b
Examples:
  phasetop export @last --to md
  phasetop export before -o before.html
  phasetop export @2 --to csv --what requests > runs.csv
  phasetop export @last --to perfetto -o trace.json     # for ui.perfetto.dev
"""


@click.command(context_settings=CONTEXT, epilog=EPILOG, short_help="Write a recording for other tools.")
@click.argument("file", cls=Recording, example="phasetop export @last --to md")
@option(
    "--to",
    metavar="FORMAT",
    shell_complete=words("json", "csv", "md", "html", "perfetto"),
    help="json, csv, md, html, perfetto, or a plugin's (else by the ending of -o).",
)
@option("-o", "--output", metavar="FILE", shell_complete=files, help="Where to (else stdout).")
@option("--what", type=click.Choice(["tokens", "requests", "samples"]), default="tokens", help="The rows of csv (tokens).")
@click.pass_context
def export(context: click.Context, /, file: str, **given: Any) -> None:
    """Write a recording for other tools: a spreadsheet, an issue, a web page, a trace viewer.

    FILE is a file, @last, @2 or a recording's name.
    """
    from phasetop import export_command

    context.exit(export_command.export(file, **given))
