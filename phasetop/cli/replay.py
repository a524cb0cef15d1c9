"""`phasetop replay`: its options. The work is `replay_command`'s."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

from phasetop.cli.completing import Recording
from phasetop.cli.options import CONTEXT, Within, display_options, json_option, option

EPILOG: Final = """\b
Examples:
  phasetop replay @last
  phasetop replay before --at 1:02           # stand at that moment
  phasetop replay before --at 12.5s --screenshot then.svg
  phasetop replay before --plain            # text and summary, no view
  phasetop replay run.phasetop.gz --json=compact
"""


def _read(module: str, name: str) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """What reads an option's text: a function that raises ValueError, loaded when there is something to read."""

    def callback(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
        if value is None:
            return None
        from importlib import import_module

        try:
            return getattr(import_module(module), name)(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return callback


@click.command(context_settings=CONTEXT, epilog=EPILOG)
@click.argument("file", cls=Recording, example="phasetop replay @last")
@option(
    "--at",
    metavar="TIME",
    callback=_read("phasetop.moments", "moment_of"),
    help="Stand there: 12.5s, 1:02, #900 (a token), 50%.",
)
@option("--speed", type=Within(0.1, 100), default=1.0, metavar="N", help="Play N times as fast (0.1 to 100).")
@option(
    "--screenshot",
    metavar="OUT.svg",
    help="Write a picture as of --at, else of the end, and no view (.txt: its characters).",
)
@option(
    "--size", metavar="120x36", callback=_read("phasetop.replay_command", "size_of"), help="The picture's columns and rows."
)
@json_option("Print the requests as JSON.")
@option("--plain", is_flag=True, help="Print text and summary, no view.")
@display_options
@click.pass_context
def replay(
    context: click.Context,
    /,
    file: str,
    at: Any,
    speed: float,
    screenshot: str | None,
    size: tuple[int, int] | None,
    as_json: str | None,
    plain: bool,
    **given: Any,
) -> None:
    """Play a recording in the view: a file, @last, @2 or a name.

    It plays from its start; --at stands at a moment. Times are those since the first request was sent. ? lists the keys.
    """
    from phasetop import replay_command
    from phasetop.display import display_of

    display = display_of(given)
    if screenshot is not None:
        size = size or replay_command.SIZE
        context.exit(replay_command.screenshot(file, screenshot, display=display, at=at, size=size))
    context.exit(replay_command.replay(file, as_json=as_json, plain=plain, display=display, at=at, speed=speed))
