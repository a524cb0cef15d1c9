"""Completion as --help documents it, in real shells on a pty: what is typed before a tab, and what stands there after it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
import pytest

from phasetop.cli import phasetop
from tests.tui.ptyterm import Terminal

if TYPE_CHECKING:
    from tests.docs.conftest import Real

SHELLS = {
    "bash": (["--norc", "--noprofile", "-i"], []),
    "zsh": (["-f", "-i"], ["PS1='$ '", "autoload -Uz compinit && compinit -u -D"]),
    "fish": (["--no-config", "-i"], ["function fish_prompt; echo -n '$ '; end", "function fish_right_prompt; end"]),
}
"""How each is started without anybody's configuration, and what stands in most people's."""
WAIT_S = 30.0

ONE = [
    ("phasetop pre", "phasetop predict"),
    ("phasetop run --red", "phasetop run --redact"),
    ("phasetop sessions sh", "phasetop sessions show"),
    ("phasetop sessions show fir", "phasetop sessions show first"),
    ("phasetop replay @", "phasetop replay @last"),
    ("phasetop bench --from fi", "phasetop bench --from first"),
    ("phasetop run mod", "phasetop run model.gguf"),
    ("phasetop run -f que", "phasetop run -f question.txt"),
    ("phasetop run --backend em", "phasetop run --backend embedded"),
    ("phasetop kv llama3.3", "phasetop kv llama3.3-70b"),
    ("phasetop export first --to pe", "phasetop export first --to perfetto"),
]
SEVERAL = [
    ("phasetop run --backend o", {"ollama", "openai"}),
    ("phasetop kv gemma3-", {"gemma3-1b", "gemma3-4b", "gemma3-12b", "gemma3-27b"}),
    ("phasetop run --no-", {"--no-think", "--no-cache-prompt", "--no-mouse"}),
]


def documented(shell: str) -> str:
    """The line of --help, for a shell."""
    text = phasetop.get_help(click.Context(phasetop, info_name="phasetop", terminal_width=100))
    (line,) = re.findall(r'^ *(eval "\$\(_PHASETOP_COMPLETE=bash_source phasetop\)") +#.*$', text, re.M)
    assert f"{shell}_source" in text
    return str(line).replace("bash_source", f"{shell}_source")


@pytest.fixture(scope="module", params=SHELLS)
def shell(request: pytest.FixtureRequest, real: Real) -> Iterator[Terminal]:
    """A shell in the folder of the real run, in which completion is set up."""
    name = request.param
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name}: not there")
    options, begin = SHELLS[name]
    (real.folder / "question.txt").write_text("Why?\n")
    env = {**real.env, "HOME": str(real.folder), "PS1": "$ ", "TERM": "xterm-256color", "HISTFILE": ""}
    with Terminal([program, *options], size=(110, 40), env=env) as terminal:
        for line in [*begin, f"cd {real.folder}", documented(name)]:
            terminal.send(f"{line}\r")
        terminal.send("echo set''-up\r")
        terminal.until(lambda: "\nset-up" in terminal.text, WAIT_S)
        yield terminal


def typed(terminal: Terminal) -> str:
    """What stands behind the newest prompt."""
    return str((re.findall(r"^\$(?: (.*))?$", terminal.text, re.M) or [""])[-1]).strip()


def begin(terminal: Terminal, words: str) -> None:
    """An empty line on an empty screen, then the words and a tab."""
    terminal.send("\x15")
    terminal.until(lambda: not typed(terminal), WAIT_S)
    mark = f"after {len(terminal.raw)}"
    terminal.send(f"clear; echo af''{mark[2:]}\r")
    terminal.until(lambda: terminal.text.strip() == f"{mark}\n$", WAIT_S)
    terminal.send(words)
    terminal.until(lambda: typed(terminal).startswith(words.rstrip()), WAIT_S)
    terminal.send("\t")


@pytest.mark.parametrize(("words", "expected"), ONE)
def test_the_only_one_is_put_in(shell: Terminal, words: str, expected: str) -> None:
    begin(shell, words)
    shell.until(lambda: typed(shell) == expected, WAIT_S)


@pytest.mark.parametrize(("words", "expected"), SEVERAL)
def test_several_are_listed(shell: Terminal, words: str, expected: set[str], request: pytest.FixtureRequest) -> None:
    begin(shell, words)
    if request.node.callspec.params["shell"] == "bash":
        shell.send("\t")  # which lists at the second one
    shell.until(lambda: expected <= set(re.findall(r"[\w.-]+", shell.text)), WAIT_S)
