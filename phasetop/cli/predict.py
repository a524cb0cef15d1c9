"""`phasetop predict`: its options. The work is `predict_command`'s."""

from __future__ import annotations

from typing import Any, Final

import click

from phasetop.cli.completing import known_models
from phasetop.cli.options import CONTEXT, json_option, option

EPILOG: Final = """\b
Examples:
  phasetop predict llama3.1-8b --gpu "RTX 4090" -P 512 -G 512
  phasetop predict model.gguf --bandwidth 936GB/s --flops 142T -c 4096,32768
  phasetop predict --params 70B --dtype int4,int8 --gpu H100 --gpus 2 --efficiency 0.7
  phasetop predict --list-gpus
"""


@click.command(context_settings=CONTEXT, epilog=EPILOG, short_help="What a model should do on a machine.")
@click.argument("model", required=False, shell_complete=known_models)
@option("--params", metavar="N", help="Parameters, without a model: 8B, 81.22e9, 6607077376.")
@option("--active-params", metavar="N", help="Those that a token uses (a mixture of experts).")
@option("--dtype", metavar="TYPE[,…]", help="Of the weights: fp16, int8, int4, q4_k_m … (else the file's, or fp16).")
@option("--gpu", metavar="NAME", help="A chip of the table: 4090, H100, M2 Ultra; this: this CPU, measured.")
@option("--gpus", type=click.IntRange(1, 1024), default=1, metavar="N", help="So many of them, working as one.")
@option("--bandwidth", "--peak-bandwidth", "bandwidth", metavar="B", help="Bytes a second: 2.0e12, 936GB/s.")
@option("--flops", "--peak-flops", "flops", metavar="F", help="FLOP/s: 312e12, 312T.")
@option("-P", "--prompt-tokens", "prompt", default="512", metavar="N[,…]", help="Tokens of the prompt (512).")
@option("-G", "--output-tokens", "output", default="512", metavar="N[,…]", help="Tokens of the reply (512).")
@option(
    "-c",
    "--context",
    "--ctx",
    envvar=None,
    metavar="N[,…]",
    help="Tokens in the cache when decode begins (else the prompt's).",
)
@option("-b", "--batch", envvar=None, default="1", metavar="N[,…]", help="Sequences at once (1).")
@option("--kv-bytes-per-token", type=click.IntRange(min=0), metavar="N", help="Of the cache, without a model.")
@option("-ctk", "--cache-type-k", help="Type of the K cache (f16).")
@option("-ctv", "--cache-type-v", help="Type of the V cache (f16).")
@option("--efficiency", "--eta", "efficiency", metavar="E", help="Share of the bandwidth that is reached: 0.7.")
@option("--efficiency-flops", metavar="E", help="Share of the FLOP/s that is reached.")
@option("--list-gpus", is_flag=True, help="The table of chips, with its sources.")
@option("--api-key", envvar=["PHASETOP_API_KEY", "LLAMA_API_KEY"], help="The key of a server that is asked.")
@option("--no-plot", "with_plot", flag_value=False, default=True, help="The tables alone.")
@json_option()
@click.pass_context
def predict(context: click.Context, /, model: str | None, **given: Any) -> None:
    """What a model should do on a machine: prefill, decode, first token, and what bounds each.

    MODEL is a .gguf file, a well-known name (llama3.1-8b, gpt-oss-20b), or the URL of a server on this machine.
    """
    from phasetop import predict_command

    context.exit(predict_command.predict(model, **given))
