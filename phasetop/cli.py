"""The command line: reads what was typed, loads what the command needs, and ends with the right status.

Nothing heavy is imported up here: `phasetop --help` loads click alone, a headless run no Textual, the view no HTTP.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from phasetop import __version__
from phasetop.config import read_config
from phasetop.faults import EXIT_INTERRUPTED, EXIT_PIPE, PhasetopError
from phasetop.output import open_closed_streams, silence_stdout, tell
from phasetop.visible import harmless

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONAL_VALUES = ("--json", "--record", "--think")
"""Options that take their value only after ``=``."""

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
KV_EPILOG = "llama-server's options stand after --, as they are: phasetop kv m.gguf -- -c 32768 -np 4 -ctk q8_0 -ctv q8_0"


def option(*names: str, **kwargs: Any) -> Callable[[F], F]:
    """A click option that PHASETOP_<NAME> sets too."""
    longest = max((name for name in names if name.startswith("-")), key=len)
    kwargs.setdefault("envvar", "PHASETOP_" + longest.lstrip("-").upper().replace("-", "_"))
    return click.option(*names, **kwargs)


def _display_options(command: F) -> F:
    """How the live view looks; the same for every command that has one."""
    options = [
        option("--theme", type=click.Choice(["dark", "light"]), help="The view's ground (else: the terminal's)."),
        option("--colours", "--colors", type=click.Choice(["truecolor", "256", "16", "none"]), help="How many to use."),
        option("--ascii", "ascii_only", is_flag=True, help="Only ASCII characters in the view."),
        option("--no-mouse", is_flag=True, help="Leave the mouse to the terminal (as over SSH)."),
        option("--fps", type=click.FloatRange(0.5, 60), metavar="N", help="Frames a second (10; 5 over SSH)."),
    ]
    for each in reversed(options):
        command = each(command)
    return command


@click.group(context_settings=CONTEXT, invoke_without_command=True)
@click.version_option(__version__, prog_name="phasetop")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@_display_options
@click.pass_context
def phasetop(context: click.Context, /, debug: bool, **given: Any) -> None:
    """A live profiler for local LLM inference: where the time of a generation goes, and why.

    Alone, at a terminal, it shows what can be run or opened from here.
    """
    context.ensure_object(dict)["debug"] = debug
    if context.invoked_subcommand is None:
        from phasetop import run as running

        if not running.has_terminal():
            click.echo(context.get_help())
            return
        from phasetop.display import display_of

        context.exit(running.start(display_of(given)))


def _run_options(command: F) -> F:
    """The options of `run`, in the order in which help shows them."""
    options = [
        option("-p", "--prompt", help="The prompt."),
        option("-f", "--file", "prompt_file", metavar="FILE", help="Read the prompt from a file; - is stdin."),
        option("--messages", metavar="FILE.json", help="A chat, or a whole request body as an app logged it."),
        option("--system", help="The system message."),
        option("--backend", help="embedded, llamacpp, ollama, openai, or a plugin's."),
        option("--model", "served_model", metavar="NAME", help="Which model of a server that has several."),
        option("-m", "--model-file", metavar="FILE.gguf", help="The same as a file as MODEL."),
        option("--raw", is_flag=True, help="Send the prompt as it is, without the chat template."),
        option("-n", "--max-tokens", type=int, help="At most so many tokens."),
        option("--temperature", "--temp", type=float),
        option("--top-k", type=int),
        option("--top-p", type=float),
        option("--min-p", type=float),
        option("--repeat-penalty", type=float),
        option("-s", "--seed", type=int),
        option("--stop", multiple=True, help="End the reply at this text; may be repeated."),
        option("--logprobs", type=click.IntRange(0, 20), metavar="N", help="Ask for log-probabilities and N alternatives."),
        option("--think", metavar="[LEVEL]", help="Ask for thinking; a level only after =."),
        option("--no-think", is_flag=True, help="Ask for no thinking."),
        option("--format", "output_format", metavar="json|FILE", help="JSON, or JSON by a schema file."),
        option("--no-cache-prompt", is_flag=True, help="Do not reuse the server's cached prompt."),
        option("-o", "settings", multiple=True, metavar="NAME=VALUE", help="Any setting by its name; may be repeated."),
        option("-c", "--context", "--ctx", type=int, help="Embedded, Ollama: context in tokens."),
        option("-b", "--batch", type=int, help="Embedded, Ollama: tokens a batch."),
        option("-t", "--threads", type=int, help="Embedded, Ollama: threads."),
        option("-ngl", "--gpu-layers", help="Embedded, Ollama: layers on the GPU."),
        option("-ctk", "--cache-type-k", help="Embedded: type of the K cache."),
        option("-ctv", "--cache-type-v", help="Embedded: type of the V cache."),
        option("-fa", "--flash-attention", help="Embedded: on, off or auto."),
        option("--keep-alive", metavar="TIME", help="Ollama: stay loaded so long (5m, 1h; 0: not at all, -1: for ever)."),
        option("--pull", is_flag=True, help="Ollama: fetch the model first where it is not there."),
        option("--api-key", envvar=["PHASETOP_API_KEY", "LLAMA_API_KEY"], help="The server's key (also LLAMA_API_KEY)."),
        option("--cacert", metavar="FILE", help="Trust these authorities (also SSL_CERT_FILE)."),
        option("--insecure", is_flag=True, help="Do not check the server's certificate."),
        option("--proxy", metavar="URL", help="Go through this http proxy (none is used otherwise)."),
        option(
            "--peak-bandwidth", metavar="B", help="What the model's device can read: 936GB/s (else: driver, table, test)."
        ),
        option("--peak-flops", metavar="F", help="What it can compute: 312T."),
        option("--record", metavar="[NAME|PATH]", help="Keep the session; a name or a path only after =."),
        option("--redact", is_flag=True, help="Record lengths instead of texts."),
        option("--json", "as_json", metavar="[compact]", help="Print one JSON object instead of the summary."),
        option("--plain", is_flag=True, help="Stream the text, no live view."),
        option("--tui", is_flag=True, help="The live view, even where stdout is no terminal."),
        option("--show-thinking", is_flag=True, help="Thinking on stdout too."),
    ]
    for each in reversed(options):
        command = each(command)
    return command


@phasetop.command(context_settings=CONTEXT)
@click.argument("model", required=False)
@_run_options
@_display_options
@click.pass_context
def run(context: click.Context, /, model: str | None, **given: Any) -> None:
    """Run a prompt and watch it: live at a terminal, text and a summary otherwise.

    MODEL is a server's URL, a .gguf file, a model's name, or nothing: what is running here, else the embedded model.
    """
    from phasetop import run as running

    context.exit(running.run(running.plan(model, given)))


@phasetop.command(context_settings=CONTEXT)
@click.argument("file")
@option("--json", "as_json", metavar="[compact]", help="Print the requests as JSON.")
@option("--plain", is_flag=True, help="Print text and summary, no view.")
@_display_options
@click.pass_context
def replay(context: click.Context, /, file: str, as_json: str | None, plain: bool, **given: Any) -> None:
    """Open a recording: a file, @last, @2 or a name."""
    from phasetop import run as running
    from phasetop.display import display_of

    context.exit(running.replay(file, as_json=as_json, plain=plain, display=display_of(given)))


class _WithServerOptions(click.Command):
    """A command whose words after ``--`` are llama-server's, not its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what stands after ``--`` apart."""
        if "--" in args:
            at = args.index("--")
            ctx.ensure_object(dict)["server_options"] = args[at + 1 :]
            args = args[:at]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(f"{error.format_message()} llama-server's options stand after --.", ctx) from None


@phasetop.command(cls=_WithServerOptions, context_settings=CONTEXT, options_metavar="[OPTIONS]", epilog=KV_EPILOG)
@click.argument("model", required=False)
@option("--fill", type=click.IntRange(min=0), metavar="N", help="What one sequence of N tokens occupies.")
@option("--max-context", "largest", is_flag=True, help="How much context fits into --memory, beside the weights.")
@option("--memory", metavar="SIZE", help="24GiB, 24GB; left out: the GPU's, where nvidia-smi tells it.")
@option("--weights", metavar="SIZE", help="What the weights take, where no file tells it.")
@option("--api-key", envvar=["PHASETOP_API_KEY", "LLAMA_API_KEY"], help="The key of a server that is asked.")
@option("--no-plot", "with_plot", flag_value=False, default=True, help="The tables alone.")
@option("--json", "as_json", metavar="[compact]", help="Print one JSON object.")
@click.pass_context
def kv(context: click.Context, /, model: str | None, **given: Any) -> None:
    """The KV cache to the byte: what llama.cpp allocates for a model and a server's options.

    MODEL is a .gguf file, a well-known name (llama3.1-8b, gemma3-27b, gpt-oss-20b), or the URL of a server on this machine.
    """
    from phasetop import kv_command

    words = (context.obj or {}).get("server_options") or []
    context.exit(kv_command.kv(model, words, **given))


@phasetop.command(context_settings=CONTEXT)
@click.argument("model", required=False)
@option("--params", metavar="N", help="Parameters, without a model: 8B, 81.22e9, 6607077376.")
@option("--active-params", metavar="N", help="Those that a token uses (a mixture of experts).")
@option("--dtype", metavar="TYPE[,…]", help="Of the weights: fp16, int8, int4, q4_k_m … (else the file's, or fp16).")
@option("--gpu", metavar="NAME", help="A chip of the table: 4090, H100, M2 Ultra; this: this CPU, measured.")
@option("--gpus", type=click.IntRange(1, 1024), default=1, metavar="N", help="So many of them, working as one.")
@option("--bandwidth", "--peak-bandwidth", "bandwidth", metavar="B", help="Bytes a second: 2.0e12, 936GB/s.")
@option("--flops", "--peak-flops", "flops", metavar="F", help="FLOP/s: 312e12, 312T.")
@option("-P", "--prompt-tokens", "prompt", default="512", metavar="N[,…]", help="Tokens of the prompt (512).")
@option("-G", "--output-tokens", "output", default="512", metavar="N[,…]", help="Tokens of the reply (512).")
@option("-c", "--context", "--ctx", metavar="N[,…]", help="Tokens in the cache when decode begins (else the prompt's).")
@option("-b", "--batch", default="1", metavar="N[,…]", help="Sequences at once (1).")
@option("--kv-bytes-per-token", type=click.IntRange(min=0), metavar="N", help="Of the cache, without a model.")
@option("-ctk", "--cache-type-k", help="Type of the K cache (f16).")
@option("-ctv", "--cache-type-v", help="Type of the V cache (f16).")
@option("--efficiency", "--eta", "efficiency", metavar="E", help="Share of the bandwidth that is reached: 0.7.")
@option("--efficiency-flops", metavar="E", help="Share of the FLOP/s that is reached.")
@option("--list-gpus", is_flag=True, help="The table of chips, with its sources.")
@option("--api-key", envvar=["PHASETOP_API_KEY", "LLAMA_API_KEY"], help="The key of a server that is asked.")
@option("--no-plot", "with_plot", flag_value=False, default=True, help="The tables alone.")
@option("--json", "as_json", metavar="[compact]", help="Print one JSON object.")
@click.pass_context
def predict(context: click.Context, /, model: str | None, **given: Any) -> None:
    """What a model should do on a machine: prefill, decode, first token, and what bounds each.

    MODEL is a .gguf file, a well-known name (llama3.1-8b, gpt-oss-20b), or the URL of a server on this machine.
    """
    from phasetop import predict_command

    context.exit(predict_command.predict(model, **given))


@phasetop.group(context_settings=CONTEXT, invoke_without_command=True)
@option("--json", "as_json", metavar="[compact]", help="Print one JSON object.")
@click.pass_context
def models(context: click.Context, as_json: str | None) -> None:
    """What can be run from here; `get` fetches the small one."""
    if context.invoked_subcommand is None:
        from phasetop import model_commands

        context.exit(model_commands.list_models(as_json))


@models.command("get", context_settings=CONTEXT)
@click.argument("spec", metavar="NAME|URL|hf:REPO/FILE", default="smollm2")
@option("--backend", help="ollama: pull it there, whatever the name is.")
@option("--insecure", is_flag=True, help="Take a server or a registry without trusted TLS.")
@click.pass_context
def get_model(context: click.Context, spec: str, backend: str | None, insecure: bool) -> None:
    """Fetch a model, resumed and checked: a GGUF file into the cache, any other name into Ollama."""
    from phasetop import model_commands

    context.exit(model_commands.get(spec, backend=backend, insecure=insecure))


@phasetop.command(context_settings=CONTEXT)
@option("--measure-bandwidth", "measure", is_flag=True, help="Measure what this CPU's memory can read (some seconds).")
@option("--json", "as_json", metavar="[compact]", help="Print one JSON object.")
@click.pass_context
def doctor(context: click.Context, measure: bool, as_json: str | None) -> None:
    """What can be reached from here, and what the machine's peaks are held to be."""
    from phasetop import doctor_command

    context.exit(doctor_command.doctor(measure=measure, as_json=as_json))


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit status (and exits with it when called by the script).

    Errors that a person can cause end in one or two plain lines on stderr; a traceback is shown with --debug only.
    """
    gc.set_threshold(50_000, 20, 20)  # starting makes many objects and lets none go: an eighth of it was collections
    open_closed_streams()
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
        error.show()
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
        _complain(f"an error of phasetop's own: {type(error).__name__}: {error}", "run it again with `phasetop --debug …`")
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
        given.append(f"{argument}=" if argument in _OPTIONAL_VALUES else argument)
    return given


def _complain(*lines: str) -> None:
    for i, line in enumerate(lines):
        text = harmless(line, newlines=False)
        tell(f"phasetop: {text}" if i == 0 else f"          {text}")


if __name__ == "__main__":
    main()
