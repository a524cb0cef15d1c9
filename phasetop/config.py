"""Defaults from the TOML file in the platform's config folder: a table a command, options as they are spelled there."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from phasetop.faults import UsageError


def config_path() -> Path | None:
    """The file, whether it is there or not; None where no folder can be told (no HOME)."""
    base = os.environ.get("XDG_CONFIG_HOME")
    if base is not None:
        return Path(base) / "phasetop" / "config.toml"
    try:
        if sys.platform not in ("darwin", "win32"):
            return Path.home() / ".config" / "phasetop" / "config.toml"
    except RuntimeError:
        return None
    from platformdirs import user_config_path

    return user_config_path("phasetop", appauthor=False) / "config.toml"


def read_config(group: click.Group) -> dict[str, Any]:
    """The defaults for click's ``default_map``, option spellings turned into parameter names.

    Raises:
        UsageError: it is there and is no TOML, or names a command or an option that there is not.
    """
    path = config_path()
    try:
        if path is None or not path.is_file():
            return {}
        import tomllib

        read = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:  # tomllib's and Unicode's errors are ValueErrors
        raise UsageError(f"{path}: {error}") from None
    return _table(read, group, str(path))


def _table(read: dict[str, Any], group: click.Group, where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in read.items():
        context = click.Context(group)
        command = group.get_command(context, name)
        if command is None:
            tables = ", ".join(sorted(group.list_commands(context)))
            raise UsageError(f"{where}: there is no command {name} (tables are: {tables})")
        if not isinstance(value, dict):
            raise UsageError(f"{where}: {name} is a table of options: [{name}]")
        found[name] = _options(value, command, f"{where} [{name}]")
    return found


def _options(table: dict[str, Any], command: click.Command, where: str) -> dict[str, Any]:
    names = {
        spelling.lstrip("-").replace("-", "_"): str(param.name)
        for param in command.params
        for spelling in (*param.opts, *param.secondary_opts, str(param.name))
    }
    found: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(command, click.Group) and name in command.commands and isinstance(value, dict):
            found[name] = _options(value, command.commands[name], f"{where}.{name}")
            continue
        known = names.get(name.replace("-", "_"))
        if known is None:
            raise UsageError(f"{where}: there is no option {name}")
        found[known] = value
    return found
