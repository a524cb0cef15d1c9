"""`phasetop doctor`: its options. The work is `doctor_command`'s."""

from __future__ import annotations

from typing import Any, Final

import click

from phasetop.cli.completing import files
from phasetop.cli.options import CONTEXT, json_option, option

EPILOG: Final = """\b
Examples:
  phasetop doctor
  phasetop doctor http://box:8080           # a server elsewhere: what is measured of it
  phasetop doctor --measure-bandwidth       # then the view has a ceiling for this CPU
  phasetop doctor --report                  # a file for an issue, without names and addresses
  phasetop doctor --json=compact
"""


@click.command(context_settings=CONTEXT, epilog=EPILOG, short_help="What is reached and measured from here.")
@click.argument("url", required=False)
@option("--measure-bandwidth", "measure", is_flag=True, help="Measure what this CPU's memory can read (some seconds).")
@option(
    "--report",
    metavar="[FILE]",
    is_flag=False,
    flag_value="",
    help="Write a redacted file that one can attach to an issue (phasetop-doctor.md; - is stdout).",
)
@option("--model", "served_model", metavar="NAME", help="Of URL: which model of a server that has several.")
@option("--api-key", envvar=["PHASETOP_API_KEY", "LLAMA_API_KEY"], help="Of URL: the server's key (also LLAMA_API_KEY).")
@option("--cacert", metavar="FILE", shell_complete=files, help="Of URL: trust these authorities (also SSL_CERT_FILE).")
@option("--insecure", is_flag=True, help="Of URL: do not check the server's certificate.")
@option("--proxy", metavar="PROXY", help="Of URL: go through this http proxy (none is used otherwise).")
@json_option()
@click.pass_context
def doctor(
    context: click.Context, /, url: str | None, measure: bool, report: str | None, as_json: str | None, **given: Any
) -> None:
    """What can be reached and measured from here, by what, and what to do about the rest.

    URL is a server to look at beside those at their usual addresses: http://HOST:PORT, or ssh://HOST/ for one on a machine
    that ssh reaches; what of it can be measured from here is told, too.

    Servers, GPUs and their counters, permissions, the machine, versions, the terminal; docs/doctor.md tells of each check.
    Exit status 1 when something is broken.
    """
    from phasetop import doctor_command

    context.exit(doctor_command.doctor(url, measure=measure, report=report, as_json=as_json, given=given))
