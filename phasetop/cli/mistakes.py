"""What click refuses, as one or two plain lines: what is wrong, and what to do.

It is loaded when there is something to say. Click's own words are taken apart where they are of a known form (8.1 to 8.5 say
them alike), and else stand as they are.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import click
from click.core import ParameterSource

from phasetop.cli.options import OPTIONAL_VALUES

_CUT: Final = 60
"""Characters of a word that are repeated."""
_NEAR: Final = 0.6
_NO_NUMBER: Final = re.compile(r"(?P<value>.*) is not a valid (?:integer|float)(?: range)?\.?", re.S)
_OUTSIDE: Final = re.compile(r"(?P<value>.*) is not in the range .*", re.S)
_NO_CHOICE: Final = re.compile(r"(?P<value>.*) is not one of .*", re.S)
_NO_BOOLEAN: Final = re.compile(r"(?P<value>.*?) is not a valid boolean.*", re.S)
_NO_COMMAND: Final = re.compile(r"No such command (?P<value>.*?)\.(?: .*)?", re.S)
_TOO_MANY: Final = re.compile(r"Got unexpected extra arguments? \((?P<value>.*)\)", re.S)


def lines_of(error: click.ClickException, arguments: Sequence[str]) -> list[str]:
    """What is wrong with ``arguments``, and where one finds what to type instead."""
    found = getattr(error, "ctx", None) or _context(arguments)
    if isinstance(error, click.NoSuchOption):
        return [_no_option(error.option_name, found), _help(found)]
    if isinstance(error, click.BadOptionUsage):
        return [_lacking(error.option_name, found) if "requires" in error.message else _plain(error), _help(found)]
    if isinstance(error, click.MissingParameter):
        return [_missing(error, found), _recording(error.param) or _help(found)]
    if isinstance(error, click.BadParameter):
        return [_bad_value(error, found, arguments)]
    if (match := _NO_COMMAND.fullmatch(error.message)) is not None:
        return [_no_command(_word(match["value"]), found), _help(found)]
    if (match := _TOO_MANY.fullmatch(error.message)) is not None:
        return [_too_many(match["value"], found, arguments), _help(found)]
    return [_plain(error), *([_help(found)] if isinstance(error, click.UsageError) else [])]


def near(word: str, names: Sequence[str]) -> str | None:
    """The name that a word was probably meant to be."""
    by_letters = {name.lstrip("-"): name for name in names}
    close = difflib.get_close_matches(word.lstrip("-"), by_letters, 1, _NEAR)
    return by_letters[close[0]] if close else None


def _context(arguments: Sequence[str]) -> click.Context:
    """The command that the words lead to; what an option takes may be mistaken for one, which does no harm."""
    from phasetop.cli import phasetop

    context = click.Context(phasetop, info_name="phasetop")
    for word in arguments:
        command = context.command
        if isinstance(command, click.Group) and not word.startswith("-"):
            inner = command.get_command(context, word)
            if inner is None:
                break
            context = click.Context(inner, info_name=word, parent=context)
    return context


def _help(context: click.Context) -> str:
    return f"`{context.command_path} --help` tells what there is"


def _plain(error: click.ClickException) -> str:
    text = error.message.rstrip(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def _word(text: str) -> str:
    """A word as click repeats it, without its quotes, and not longer than one reads."""
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    return text if len(text) <= _CUT else f"{text[:_CUT]}…"


def _options(context: click.Context) -> Iterator[tuple[str, click.Parameter]]:
    for param in context.command.get_params(context):
        for name in (*param.opts, *param.secondary_opts):
            if name.startswith("-"):
                yield name, param


def _no_option(name: str, context: click.Context) -> str:
    text = f"{context.command_path} has no option {_word(name)}"
    if context.parent is None and isinstance(context.command, click.Group):
        for word in context.command.list_commands(context):
            command = context.command.get_command(context, word)
            if command is not None and any(name in param.opts for param in command.params):
                return f"{text}: it stands behind a command (phasetop {word} {name} …)"
    root = context.find_root()
    if root is not context and any(name == each for each, _ in _options(root)):
        return f"{text}: it stands before the command (phasetop {name} {context.info_name} …)"
    close = near(name, [each for each, _ in _options(context)])
    return f"{text}: is {close} meant?" if close is not None else text


def _no_command(word: str, context: click.Context) -> str:
    names = context.command.list_commands(context) if isinstance(context.command, click.Group) else []
    close = near(word, names)
    return f"{context.command_path} has no command {word}{f': is {close} meant?' if close is not None else ''}"


def _lacking(name: str, context: click.Context) -> str:
    param = next((param for each, param in _options(context) if each == name), None)
    return f"{name} lacks its value{f': {name} {_takes(param)}' if param is not None else ''}"


def _takes(param: click.Parameter) -> str:
    """What stands behind an option."""
    if isinstance(param.type, click.Choice):
        return "|".join(map(str, param.type.choices))
    if param.metavar:
        return param.metavar
    return "N" if isinstance(param.type, click.types.IntParamType | click.types.FloatParamType) else "TEXT"


def _missing(error: click.MissingParameter, context: click.Context) -> str:
    param = error.param
    name = (param.metavar or (param.name or "").upper()) if param is not None else "a word"
    pieces = [piece for piece in context.command.collect_usage_pieces(context) if "OPTIONS" not in piece]
    return f"{name.rstrip('.…')} is missing: {' '.join([context.command_path, *pieces])}"


def _recording(param: click.Parameter | None) -> str | None:
    """What a recording is called, where one is missing."""
    example = getattr(param, "example", None)
    return example and f"a recording is a name that `phasetop sessions` lists, @last, @2 or a file: {example}"


def _bad_value(error: click.BadParameter, context: click.Context, arguments: Sequence[str]) -> str:
    param, message = error.param, error.message
    kind = param.type if param is not None else None
    for form, words in (
        (_NO_NUMBER, _number(kind)),
        (_OUTSIDE, _number(kind)),
        (_NO_BOOLEAN, "on or off"),
        (_NO_CHOICE, _one_of(kind)),
    ):
        if words and (match := form.fullmatch(message)) is not None:
            return f"{_named(param, context, arguments, _word(match['value']))}: {words}"
    return f"{_named(param, context, arguments, '')}: {message.rstrip('.')}"


def _number(kind: Any) -> str:
    """What a number has to be, in words."""
    if isinstance(kind, click.types.IntParamType):
        what = "a whole number"
    elif isinstance(kind, click.types.FloatParamType):
        what = "a number"
    else:
        return ""
    low, high = getattr(kind, "min", None), getattr(kind, "max", None)
    if low is not None and high is not None:
        return f"{what} from {low:g} to {high:g} is expected"
    return f"{what}{f', at least {low:g},' if low is not None else ''} is expected"


def _one_of(kind: Any) -> str:
    names = [str(name) for name in kind.choices] if isinstance(kind, click.Choice) else []
    return " or ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def _named(param: click.Parameter | None, context: click.Context, arguments: Sequence[str], value: str) -> str:
    """The option with its value, as whoever gave it wrote it: on the command line, in the environment, in the file."""
    if param is None or param.name is None:
        return value
    source = context.get_parameter_source(param.name)
    if source is ParameterSource.ENVIRONMENT and param.envvar:
        names = [param.envvar] if isinstance(param.envvar, str) else list(param.envvar)
        return f"{' or '.join(names)}={value}"
    longest = max(param.opts, key=len)
    if source is ParameterSource.DEFAULT_MAP:
        from phasetop.config import config_path

        return f"{config_path()}: {longest.lstrip('-')} = {value}"
    typed = next((name for name in param.opts if any(_is(name, argument) for argument in arguments)), longest)
    return f"{typed} {value}".rstrip()


def _is(name: str, argument: str) -> bool:
    return argument == name or argument.startswith(f"{name}=") or (len(name) == 2 and argument.startswith(name))


def _too_many(words: str, context: click.Context, arguments: Sequence[str]) -> str:
    for option, word in pairwise(arguments):
        name = option.removesuffix("=")
        if name in OPTIONAL_VALUES and not word.startswith("-") and any(name == each for each, _ in _options(context)):
            return f"{name} takes its value only after =: {name}={_word(word)}"
    return f"{context.command_path} cannot take so many words: {_word(words)}"
