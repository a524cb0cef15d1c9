"""`phasetop models` and `phasetop models get`: their options. The work is `models_command`'s."""

from __future__ import annotations

from typing import Final

import click

from phasetop.cli.options import CONTEXT, json_option, option

EPILOG: Final = """\b
Examples:
  phasetop models                           # of every server that answers here
  phasetop models get                       # the small one, for the embedded engine
  phasetop models get qwen3:8b              # into Ollama
  phasetop models get hf:ggml-org/gemma-3-1b-it-GGUF/gemma-3-1b-it-Q4_K_M.gguf
"""


@click.group(context_settings=CONTEXT, invoke_without_command=True, epilog=EPILOG)
@json_option()
@click.pass_context
def models(context: click.Context, as_json: str | None) -> None:
    """What can be run from here; `get` fetches the small one."""
    if context.invoked_subcommand is None:
        from phasetop import models_command

        context.exit(models_command.list_models(as_json))


@models.command("get", context_settings=CONTEXT, epilog=EPILOG, short_help="Fetch a model, resumed and checked.")
@click.argument("spec", metavar="NAME|URL|hf:REPO/FILE", default="smollm2")
@option("--backend", envvar=None, help="ollama: pull it there, whatever the name is.")
@option("--insecure", is_flag=True, help="Take a server or a registry without trusted TLS.")
@click.pass_context
def get_model(context: click.Context, spec: str, backend: str | None, insecure: bool) -> None:
    """Fetch a model, resumed and checked: a GGUF file into the cache, any other name into Ollama."""
    from phasetop import models_command

    context.exit(models_command.get(spec, backend=backend, insecure=insecure))
