"""What the commands' options have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan
from typing import Any, Final, TypeVar

import click

from phasetop.faults import UsageError

F = TypeVar("F", bound=Callable[..., Any])

CONTEXT: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

OPTIONAL_VALUES: Final = ("--json", "--record", "--think")
"""Options that take their value only after ``=``."""


class Within(click.FloatRange):
    """A number in a range; NaN, which is neither too small nor too large, is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number. Fails as click's types do."""
        number = super().convert(value, param, ctx)
        if isnan(number):
            self.fail(f"{value} is no number.", param, ctx)
        return number


def option(*names: str, **kwargs: Any) -> Callable[[F], F]:
    """A click option that PHASETOP_<NAME> sets too; ``envvar=None``: nothing does, where it means another thing in `run`."""
    longest = max((name for name in names if name.startswith("-")), key=len)
    kwargs.setdefault("envvar", "PHASETOP_" + longest.lstrip("-").upper().replace("-", "_"))
    return click.option(*names, **kwargs)


def json_option(words: str = "Print one JSON object.") -> Callable[[F], F]:
    """``--json`` and ``--json=compact``, given to the command as ``as_json``: None, "" or "compact"."""
    return option("--json", "as_json", metavar="[compact]", callback=_json_value, help=words)


def _json_value(_context: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    if value not in (None, "", "compact"):
        raise UsageError(f"--json={value}: the only value is compact (--json=compact)")
    return value


def display_options(command: F) -> F:
    """How the live view looks; the same for every command that has one."""
    options = [
        option("--theme", type=click.Choice(["dark", "light"]), help="The view's ground (else: the terminal's)."),
        option("--colours", "--colors", type=click.Choice(["truecolor", "256", "16", "none"]), help="How many to use."),
        option("--ascii", "ascii_only", is_flag=True, help="Only ASCII characters in the view."),
        option("--no-mouse", is_flag=True, help="Leave the mouse to the terminal (as over SSH)."),
        option("--fps", type=Within(0.5, 60), metavar="N", help="Frames a second (10; 5 over SSH)."),
    ]
    return with_options(command, options)


def with_options(command: F, options: Sequence[Callable[[F], F]]) -> F:
    """A command with these options, in the order in which help shows them."""
    for each in reversed(options):
        command = each(command)
    return command
