"""`phasetop doctor`."""

from __future__ import annotations

import click

from phasetop.cli.options import CONTEXT, option


@click.command(context_settings=CONTEXT)
@option("--measure-bandwidth", "measure", is_flag=True, help="Measure what this CPU's memory can read (some seconds).")
@option("--json", "as_json", metavar="[compact]", help="Print one JSON object.")
@click.pass_context
def doctor(context: click.Context, measure: bool, as_json: str | None) -> None:
    """What can be reached from here, and what the machine's peaks are held to be."""
    from phasetop import doctor_command

    context.exit(doctor_command.doctor(measure=measure, as_json=as_json))
