"""`phasetop doctor`: its options. The work is `doctor_command`'s."""

from __future__ import annotations

from typing import Final

import click

from phasetop.cli.options import CONTEXT, json_option, option

EPILOG: Final = """\b
Examples:
  phasetop doctor
  phasetop doctor --measure-bandwidth       # then the view has a ceiling for this CPU
  phasetop doctor --report                  # a file for an issue, without names and addresses
  phasetop doctor --json=compact
"""


@click.command(context_settings=CONTEXT, epilog=EPILOG, short_help="What is reached and measured from here.")
@option("--measure-bandwidth", "measure", is_flag=True, help="Measure what this CPU's memory can read (some seconds).")
@option(
    "--report",
    metavar="[FILE]",
    is_flag=False,
    flag_value="",
    help="Write a redacted file that one can attach to an issue (phasetop-doctor.md; - is stdout).",
)
@json_option()
@click.pass_context
def doctor(context: click.Context, measure: bool, report: str | None, as_json: str | None) -> None:
    """What can be reached and measured from here, by what, and what to do about the rest.

    Servers, GPUs and their counters, permissions, the machine, versions, the terminal; docs/doctor.md tells of each check.
    Exit status 1 when something is broken.
    """
    from phasetop import doctor_command

    context.exit(doctor_command.doctor(measure=measure, report=report, as_json=as_json))
