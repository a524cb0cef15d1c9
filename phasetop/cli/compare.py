"""`phasetop compare`: its sides and options. The work is `compare_command`'s."""

from __future__ import annotations

import click

from phasetop.cli.completing import recordings
from phasetop.cli.options import CONTEXT, OPTIONAL_VALUES, json_option, option

EPILOG = """\b
Examples:
  phasetop compare before after
  phasetop compare @2 @last --json
  phasetop compare q8-1 q8-2 q8-3 -- q4-1 q4-2 q4-3
  phasetop compare base new --fail-if-worse 5%      # for a pipeline
"""


SHORT = "Two recordings, or several a side: what changed."
BETWEEN = "\0"


class _Sides(click.Command):
    """A command whose words before and after ``--`` are two sides; its options may stand on either."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the place of ``--``, which click would take for the end of the options."""
        words = [f"{word}=" if word in OPTIONAL_VALUES else BETWEEN if word == "--" else word for word in args]
        return super().parse_args(ctx, words)


@click.command(cls=_Sides, context_settings=CONTEXT, options_metavar="[OPTIONS]", epilog=EPILOG, short_help=SHORT)
@click.argument("files", nargs=-1, metavar="A B | A… -- B…", shell_complete=recordings)
@option("--fail-if-worse", metavar="SHARE", help="Exit 1 where B is worse by more (5%), beyond the noise; 3: undecided.")
@json_option()
@click.pass_context
def compare(context: click.Context, /, files: tuple[str, ...], fail_if_worse: str | None, as_json: str | None) -> None:
    """Two recordings, or several a side: what changed, by how much, and whether beyond the noise.

    Each is a file, @last, @2 or a recording's name. The unit of noise is the request: three or more alike a side give an
    interval.
    """
    from phasetop import compare_command

    at = files.index(BETWEEN) if BETWEEN in files else 1 if len(files) == 2 else len(files)
    second = [name for name in files[at:] if name != BETWEEN]
    context.exit(compare_command.run(files[:at], second, as_json=as_json, fail_if_worse=fail_if_worse))
