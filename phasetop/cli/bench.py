"""`phasetop bench`: its options. The work is `bench_command`'s."""

from __future__ import annotations

from typing import Any, Final

import click
from click.core import ParameterSource

from phasetop.cli.completing import files, recordings, words
from phasetop.cli.options import CONTEXT, F, display_options, json_option, option, with_options
from phasetop.faults import UsageError


def bench_options(command: F) -> F:
    """The options of `bench`, in the order in which help shows them."""
    options = [
        option("--prompt-words", metavar="N,…", help="Lengths of the prompts in words (20,400,1600: the lab's)."),
        option("-P", "--prompt-tokens", metavar="N,…", help="Lengths in tokens, exact where the server counts them."),
        option("-G", "-n", "--output-tokens", type=int, metavar="N", help="Tokens of each reply (64)."),
        option("-d", "--depth", metavar="N,…", help="So many tokens in the cache before the prompt (0)."),
        option("--parallel", metavar="N,…", help="So many requests at once (1)."),
        option("--cached", is_flag=True, help="Each length also with all but its last words in the server's cache."),
        option("-r", "--repeats", type=int, metavar="N", help="Of each, at least (5)."),
        option("--precision", metavar="P", help="Then go on until each 95 % interval is ±P of its mean (5%; none)."),
        option("--time", metavar="T", help="Stop after so long: 90s, 2m (else: repeats for precision end after 2 m)."),
        option("--sweep", metavar="NAME=V,…", help="Embedded: an engine for each value: threads=1,2,4 or ubatch=64,512."),
        option("-s", "--seed", type=int, metavar="N", help="Of prompts and order (1)."),
        option("--chat", is_flag=True, help="Prompts through the chat template, also where bare ones could be sent."),
        option(
            "--from",
            "recordings",
            envvar=None,
            multiple=True,
            metavar="RECORDING",
            shell_complete=recordings,
            help="Measure nothing: print a kept bench again (of a sweep: once for each engine).",
        ),
        option(
            "--backend",
            shell_complete=words("embedded", "llamacpp", "ollama", "openai"),
            help="embedded, llamacpp, ollama, openai, or a plugin's.",
        ),
        option("--model", "served_model", metavar="NAME", help="Which model of a server that has several."),
        option("-m", "--model-file", metavar="FILE.gguf", shell_complete=files, help="The same as a file as MODEL."),
        option("-o", "settings", multiple=True, metavar="NAME=VALUE", help="Any setting by its name; may be repeated."),
        option("-c", "--context", "--ctx", type=int, help="Embedded, Ollama: context in tokens."),
        option("-b", "--batch", type=int, help="Embedded, Ollama: tokens a batch."),
        option("-t", "--threads", type=int, help="Embedded, Ollama: threads."),
        option("-ngl", "--gpu-layers", help="Embedded, Ollama: layers on the GPU."),
        option("-ctk", "--cache-type-k", help="Embedded: type of the K cache."),
        option("-ctv", "--cache-type-v", help="Embedded: type of the V cache."),
        option("-fa", "--flash-attention", help="Embedded: on, off or auto."),
        option("--api-key", envvar=["PHASETOP_API_KEY", "LLAMA_API_KEY"], help="The server's key (also LLAMA_API_KEY)."),
        option("--cacert", metavar="FILE", shell_complete=files, help="Trust these authorities (also SSL_CERT_FILE)."),
        option("--insecure", is_flag=True, help="Do not check the server's certificate."),
        option("--proxy", metavar="URL", help="Go through this http proxy (none is used otherwise)."),
        option("--peak-bandwidth", metavar="B", help="What the model's device can read: 936GB/s (else as in `run`)."),
        option("--peak-flops", metavar="F", help="What it can compute: 312T."),
        option("--record", metavar="[NAME|PATH]", help="What the kept session is called; only after =."),
        option("--no-record", is_flag=True, help="Keep no session."),
        option("--redact", is_flag=True, help="Record lengths instead of texts."),
        json_option(),
        option("--csv", "as_csv", is_flag=True, help="Print a table for spreadsheets."),
        option("--md", "as_md", is_flag=True, help="Print a Markdown table with llama-bench's columns."),
        option("--benchstat", "as_benchstat", is_flag=True, help="Print Go's benchmark lines, one a repeat."),
        option("--no-plot", "with_plot", flag_value=False, default=True, help="The tables alone."),
        option("--tui", is_flag=True, help="The live view while it runs; the results after it."),
    ]
    return with_options(command, options)


EPILOG: Final = """\b
Examples:
  phasetop bench                                      # the lab's three prompts
  phasetop bench -P 128,512,2048 -G 128               # in tokens, as llama-bench has them
  phasetop bench -P 64 -d 0,2048,8192                 # decode at a filled context
  phasetop bench http://box:8080 --parallel 1,2,4,8   # what a server does for several at once
  phasetop bench model.gguf --sweep threads=1,2,4,8   # where more threads stop to help
  phasetop bench --from @last --md                    # print a kept bench again
"""


@click.command(context_settings=CONTEXT, epilog=EPILOG, short_help="Measure the two phases over lengths of prompts.")
@click.argument("model", required=False, shell_complete=files)
@bench_options
@display_options
@click.pass_context
def bench(context: click.Context, /, model: str | None, **given: Any) -> None:
    """Measure the two phases: prefill, decode and first token over lengths of prompts, each with its spread.

    MODEL is a server's URL, a .gguf file, a model's name, or nothing: what is running here, else the embedded model.
    """
    if given["recordings"]:
        _check_alone(context)
        from phasetop import bench_print

        context.exit(bench_print.print_recorded(given["recordings"], given))
    from phasetop import bench_command

    context.exit(bench_command.bench(model, given))


_OF_PRINTING: Final = ("recordings", "as_json", "as_csv", "as_md", "as_benchstat", "with_plot")


def _check_alone(context: click.Context) -> None:
    """Refuse what was typed beside --from and has no part in it."""
    for param in context.command.params:
        name = str(param.name)
        if name not in _OF_PRINTING and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            what = max(param.opts, key=len) if isinstance(param, click.Option) else "a MODEL"
            raise UsageError(f"--from measures nothing: {what} has no part in it")
