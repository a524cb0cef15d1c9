"""The command line: reads what was typed, loads what the command needs, and ends with the right status.

To add a command: a module of this package that declares it under its own name, and its row in `COMMANDS`. A module is
loaded when its command is called or listed, so nothing heavy is imported at the top of one: `phasetop --help` loads click
alone, a headless run no Textual, the view no HTTP.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import click

from phasetop import __version__
from phasetop.cli.options import CONTEXT, OPTIONAL_VALUES, display_options
from phasetop.config import read_config
from phasetop.faults import EXIT_INTERRUPTED, EXIT_PIPE, PhasetopError
from phasetop.output import open_closed_streams, print_anything, silence_stdout, tell
from phasetop.visible import harmless

_SESSIONS: Final = ("run", "watch", "replay", "sessions", "compare", "export", "bench")
COMMANDS: Final = (*_SESSIONS, "models", "kv", "predict", "doctor")
"""The commands in the order in which help lists them; each is a module here."""

_FULL: Final = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG}

EPILOG: Final = """\b
Examples:
  phasetop run -p "Name three rivers."
  phasetop run http://127.0.0.1:8080 -p "Explain B-trees."
  phasetop predict llama3.1-8b --gpu "RTX 4090"

\b
Completion of commands, options, recordings, models and files in bash:
  eval "$(_PHASETOP_COMPLETE=bash_source phasetop)"   # zsh_source (after compinit), fish_source
"""


class Commands(click.Group):
    """The commands, each loaded when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The names, in the order of help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of a name; None where there is none."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"phasetop.cli.{cmd_name}"), cmd_name)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word means; what looks like a model is told how one is run."""
        word = args[0]
        is_none = word not in COMMANDS and not word.startswith("-") and not ctx.resilient_parsing
        if is_none and (":" in word or word.lower().endswith(".gguf")):
            from phasetop.checks import printable_url

            # What was typed may hold a password, and what stands in a terminal goes into bug reports.
            shown = printable_url(word) if "://" in word else word.rpartition("@")[2]
            raise click.UsageError(f"there is no command {shown}; to run a model: phasetop run {shown}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings=CONTEXT, invoke_without_command=True, epilog=EPILOG)
@click.version_option(__version__, prog_name="phasetop")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@display_options
@click.pass_context
def phasetop(context: click.Context, /, debug: bool, **given: Any) -> None:
    """A live profiler for local LLM inference: where the time of a generation goes, and why.

    Alone, at a terminal, it shows what can be run or opened from here.
    """
    context.ensure_object(dict)["debug"] = debug
    if context.invoked_subcommand is None:
        from phasetop.display import has_terminal

        if not has_terminal():
            click.echo(context.get_help())
            return
        from phasetop import run_command

        context.exit(run_command.start(given, _settings_of_run(context)))


def _settings_of_run(context: click.Context) -> dict[str, Any]:
    """The options that a bare `phasetop run` has: by the configuration, the environment, and defaults."""
    command = phasetop.get_command(context, "run")
    assert command is not None
    defaults = (context.default_map or {}).get("run")
    with command.make_context("run", [], parent=context, default_map=defaults) as made:
        return dict(made.params)


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit status (and exits with it when called by the script).

    Errors that a person can cause end in one or two plain lines on stderr; a traceback is shown with --debug only.
    """
    # Starting makes many objects and lets none go: an eighth of it was collections, and a single one of them just before the
    # first picture 6 % of it. A view has fewer from then on (`live`).
    gc.set_threshold(100_000, 20, 20)
    open_closed_streams()
    print_anything()
    arguments = _with_optional_values(list(sys.argv[1:] if argv is None else argv))
    debug = "--debug" in arguments or bool(os.environ.get("PHASETOP_DEBUG"))
    try:
        defaults = read_config(phasetop)
        status = phasetop.main(arguments, prog_name="phasetop", standalone_mode=False, default_map=defaults)
    except SystemExit as leave:  # click leaves so when a reader went away, with a status that says nothing
        gone = type(sys.stdout).__name__.endswith("PacifyFlushWrapper")
        status = EXIT_PIPE if gone else leave.code
    except click.exceptions.Exit as leave:
        status = leave.exit_code
    except click.ClickException as error:
        from phasetop.cli.mistakes import lines_of

        _complain(*lines_of(error, arguments))
        status = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        status = EXIT_INTERRUPTED
    except BrokenPipeError:
        silence_stdout()
        status = EXIT_PIPE
    except PhasetopError as error:
        if debug:
            raise
        _complain(str(error))
        status = error.exit_status
    except Exception as error:
        if debug:
            raise
        if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
            silence_stdout()
            _complain(f"cannot write the output: {(error.strerror or str(error)).lower()}")
        else:
            _complain(
                f"an error of phasetop's own: {type(error).__name__}: {error}", "run it again with `phasetop --debug …`"
            )
        status = 1
    status = status if isinstance(status, int) else 0
    if argv is None:
        sys.exit(status)
    return status


def _with_optional_values(arguments: list[str]) -> list[str]:
    """``--json`` made ``--json=``: click would take the next word for its value."""
    given: list[str] = []
    for i, argument in enumerate(arguments):
        if argument == "--":
            return given + arguments[i:]
        given.append(f"{argument}=" if argument in OPTIONAL_VALUES else argument)
    return given


def _complain(*lines: str) -> None:
    for i, line in enumerate(lines):
        text = harmless(line, newlines=False)
        tell(f"phasetop: {text}" if i == 0 else f"          {text}")
