"""Writes docs/commands.md from the commands themselves: what they are for, arguments, options, environment, examples.

python scripts/commands_page.py
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from phasetop.cli import phasetop

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "commands.md"
HEAD: Final = """\
# Commands

Made by `scripts/commands_page.py` from what `--help` says. What each prints, and exit statuses: [outputs.md](outputs.md).
Keys in the view: [keys.md](keys.md).

MODEL is read in this order: with `://` it is a server's URL; ending in `.gguf`, or an existing file, it is a file; anything
else is a name, of Ollama first, then of a llama-server. A recording is called by its name, `@last`, `@2` (the second
newest), or a file.

**Settings.** What is not given as an option is taken from the environment (the names in the tables), then from a TOML file:
a table a command, a key an option, in the platform's folder for settings (Linux: `~/.config/phasetop/config.toml`).

```toml
[run]
theme = "dark"
max-tokens = 512
```

**Completion** of commands, options and recordings in the shell: one line in its start-up file.

| shell | line | file |
|---|---|---|
| bash 4.4 and later | `eval "$(_PHASETOP_COMPLETE=bash_source phasetop)"` | `~/.bashrc` |
| zsh | `eval "$(_PHASETOP_COMPLETE=zsh_source phasetop)"` | `~/.zshrc` |
| fish | `_PHASETOP_COMPLETE=fish_source phasetop \\| source` | `~/.config/fish/completions/phasetop.fish` |
"""
DISPLAY: Final = ("--theme", "--colours", "--ascii", "--no-mouse", "--fps")
"""Told once, with the program itself: the same for every command that has a view."""


def walk(command: click.Command, words: tuple[str, ...] = ("phasetop",)) -> Iterator[tuple[str, click.Command]]:
    """The command and all below it, each with what one types."""
    yield " ".join(words), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield from walk(inner, (*words, name))


def examples(command: click.Command) -> list[str]:
    """The lines of its examples, as they stand in its help."""
    lines = (command.epilog or "").replace("\b", "").splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith("Examples")), None)
    if begin is None:
        return []
    found = []
    for line in lines[begin + 1 :]:
        if not line.startswith("  "):
            break
        found.append(line[2:])
    return found


def section(name: str, command: click.Command) -> str:
    """One command as Markdown."""
    text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    pieces = command.collect_usage_pieces(click.Context(command, info_name=name))
    if isinstance(command, click.Group):  # clicks differ in this one
        pieces = ["[OPTIONS]", "[COMMAND]", "[ARGS]..."]
    usage = " ".join([name, *pieces])
    parts = [f"## `{name}`", text, f"    {usage}"]
    if lines := examples(command):
        parts.append("```sh\n" + "\n".join(lines) + "\n```")
    rows = list(_rows(name, command))
    if rows:
        parts.append("| option | | environment |\n|---|---|---|\n" + "\n".join(rows))
    if name != "phasetop" and any(set(DISPLAY) & set(param.opts) for param in command.params):
        parts.append(f"And those of the view: {', '.join(f'`{each}`' for each in DISPLAY)}, as above.")
    return "\n\n".join(parts) + "\n"


def _rows(name: str, command: click.Command) -> Iterator[str]:
    for param in command.params:
        if not isinstance(param, click.Option) or param.hidden or (name != "phasetop" and set(DISPLAY) & set(param.opts)):
            continue
        value = "" if param.is_flag else f" `{_value(param)}`"
        names = ", ".join(f"`{each}`" for each in (*param.opts, *param.secondary_opts))
        env = param.envvar if isinstance(param.envvar, list) else [param.envvar] if param.envvar else []
        yield f"| {_cell(names + value)} | {_cell(param.help or '')} | {', '.join(f'`{each}`' for each in env)} |"


def _value(param: click.Option) -> str:
    context = click.Context(click.Command("phasetop"))
    try:
        return param.make_metavar(context)
    except TypeError:  # click before 8.2
        return param.make_metavar()  # type: ignore[call-arg]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def text() -> str:
    """The page as it should be."""
    return "\n".join([HEAD, *(section(name, command) for name, command in walk(phasetop))])


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
