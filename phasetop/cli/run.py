"""`phasetop run`: its options. The work is `run_command`'s."""

from __future__ import annotations

from typing import Any, Final

import click

from phasetop.cli.completing import files, words
from phasetop.cli.options import CONTEXT, F, display_options, json_option, option, with_options


def run_options(command: F) -> F:
    """The options of `run`, in the order in which help shows them."""
    options = [
        option("-p", "--prompt", help="The prompt."),
        option(
            "-f",
            "--file",
            "prompt_file",
            metavar="FILE",
            shell_complete=files,
            help="Read the prompt from a file; - is stdin.",
        ),
        option(
            "--messages",
            metavar="FILE.json",
            shell_complete=files,
            help="A chat, or a whole request body as an app logged it.",
        ),
        option("--system", help="The system message."),
        option(
            "--backend",
            shell_complete=words("embedded", "llamacpp", "ollama", "openai"),
            help="embedded, llamacpp, ollama, openai, or a plugin's.",
        ),
        option("--model", "served_model", metavar="NAME", help="Which model of a server that has several."),
        option("-m", "--model-file", metavar="FILE.gguf", shell_complete=files, help="The same as a file as MODEL."),
        option("--raw", is_flag=True, help="Send the prompt as it is, without the chat template."),
        option("-n", "--max-tokens", type=int, help="At most so many tokens."),
        option("--temperature", "--temp", type=float, help="Of the sampling; 0 takes the likeliest token."),
        option("--top-k", type=int, help="Sample from the so many likeliest."),
        option("--top-p", type=float, help="Sample from the likeliest that reach this probability."),
        option("--min-p", type=float, help="Sample from those with this share of the likeliest one's."),
        option("--repeat-penalty", type=float, help="Above 1: what was said becomes less likely."),
        option("-s", "--seed", type=int, help="The same seed, the same choices."),
        option("--stop", multiple=True, help="End the reply at this text; may be repeated."),
        option("--logprobs", type=click.IntRange(0, 20), metavar="N", help="Ask for log-probabilities and N alternatives."),
        option("--think", metavar="[LEVEL]", help="Ask for thinking; a level only after =."),
        option("--no-think", is_flag=True, help="Ask for no thinking."),
        option(
            "--format", "output_format", metavar="json|FILE", shell_complete=files, help="JSON, or JSON by a schema file."
        ),
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
        option("--cacert", metavar="FILE", shell_complete=files, help="Trust these authorities (also SSL_CERT_FILE)."),
        option("--insecure", is_flag=True, help="Do not check the server's certificate."),
        option("--proxy", metavar="URL", help="Go through this http proxy (none is used otherwise)."),
        option(
            "--peak-bandwidth", metavar="B", help="What the model's device can read: 936GB/s (else: driver, table, test)."
        ),
        option("--peak-flops", metavar="F", help="What it can compute: 312T."),
        option(
            "--record", metavar="[NAME|PATH]", help="Keep the session; a name or a path only after = (NAME.gz: compressed)."
        ),
        option("--max-size", metavar="SIZE", help="Record at most so much (500MB); with --rotate the oldest parts go."),
        option("--rotate", metavar="SIZE|TIME", help="Go on in a further file after so much (100MB, 1h)."),
        option("--redact", is_flag=True, help="Record lengths instead of texts."),
        json_option("Print one JSON object instead of the summary."),
        option("--plain", is_flag=True, help="Stream the text, no live view."),
        option("--tui", is_flag=True, help="The live view, even where stdout is no terminal."),
        option("--show-thinking", is_flag=True, help="Thinking on stdout too."),
    ]
    return with_options(command, options)


EPILOG: Final = """\b
Examples:
  phasetop run -p "Name three rivers."                      # what runs here, else a small model
  phasetop run http://127.0.0.1:8080 -p "Explain B-trees."  # a llama-server, or one like it
  phasetop run llama3.1:8b -f question.txt -n 256           # a name, of Ollama or a llama-server
  phasetop run model.gguf -c 8192 -ctk q8_0 -ctv q8_0 -p "Hi."
  git diff | phasetop run qwen3:8b --system "Review this." --think=low
  phasetop run model.gguf -p "Hi." --json=compact --record=before > before.json
"""


@click.command(context_settings=CONTEXT, epilog=EPILOG, short_help="Run a prompt and watch it.")
@click.argument("model", required=False, shell_complete=files)
@run_options
@display_options
@click.pass_context
def run(context: click.Context, /, model: str | None, **given: Any) -> None:
    """Run a prompt and watch it: live at a terminal, text and a summary otherwise.

    MODEL is a server's URL, a .gguf file, a model's name, or nothing: what is running here, else the embedded model.

    ssh://[USER@]HOST[:PORT]/MODEL asks a server on another machine through this system's ssh: MODEL is then what it would be
    there, a name, http://127.0.0.1:9000 (or :9000), or nothing. Nothing has to be installed there.
    """
    from phasetop import run_command
    from phasetop.plan import plan

    context.exit(run_command.run(plan(model, given)))
