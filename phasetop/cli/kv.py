"""`phasetop kv`: its options, and llama-server's after ``--``. The work is `kv_command`'s."""

from __future__ import annotations

from typing import Any, Final

import click

from phasetop.cli.completing import known_models
from phasetop.cli.options import CONTEXT, json_option, option

EPILOG: Final = """\b
Examples (llama-server's options stand after --, as they are):
  phasetop kv model.gguf -- -c 32768 -np 4 -ctk q8_0 -ctv q8_0
  phasetop kv llama3.1-8b --max-context --memory 24GiB
  phasetop kv gemma3-27b --fill 20000 -- -np 1
  phasetop kv http://127.0.0.1:8080 --json
"""


SHORT: Final = "The KV cache of a model, to the byte."


class WithServerOptions(click.Command):
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
            text = f"llama-server's options stand after --: phasetop kv MODEL -- {error.option_name} …"
            raise click.UsageError(f"phasetop kv has no option {error.option_name}; {text}", ctx) from None


@click.command(cls=WithServerOptions, context_settings=CONTEXT, options_metavar="[OPTIONS]", epilog=EPILOG, short_help=SHORT)
@click.argument("model", required=False, shell_complete=known_models)
@option("--fill", type=click.IntRange(min=0), metavar="N", help="What one sequence of N tokens occupies.")
@option("--max-context", "largest", is_flag=True, help="How much context fits into --memory, beside the weights.")
@option("--memory", metavar="SIZE", help="24GiB, 24GB; left out: the GPU's, where nvidia-smi tells it.")
@option("--weights", metavar="SIZE", help="What the weights take, where no file tells it.")
@option("--api-key", envvar=["PHASETOP_API_KEY", "LLAMA_API_KEY"], help="The key of a server that is asked.")
@option("--no-plot", "with_plot", flag_value=False, default=True, help="The tables alone.")
@json_option()
@click.pass_context
def kv(context: click.Context, /, model: str | None, **given: Any) -> None:
    """The KV cache to the byte: what llama.cpp allocates for a model and a server's options.

    MODEL is a .gguf file, a well-known name (llama3.1-8b, gemma3-27b, gpt-oss-20b), or the URL of a server on this machine.
    """
    from phasetop import kv_command

    words = (context.obj or {}).get("server_options") or []
    context.exit(kv_command.kv(model, words, **given))
