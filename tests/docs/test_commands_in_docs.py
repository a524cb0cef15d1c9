"""The commands in README, docs and help are commands that phasetop takes, and those that can run here do run.

A block ```` ```sh ```` is run line by line, ```` ```console ```` by its lines that begin with ``$``. ``needs=WORD`` behind
it says what it needs that is not here: it is skipped by that name, but for ``llama-server``, which is. ``lines=WORD,WORD,…``
says it of each line; ``here`` is one that needs nothing. Python blocks are run on a recording. Links lead somewhere.
"""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import pytest

from phasetop.cli import _with_optional_values, phasetop

if TYPE_CHECKING:
    from tests.conftest import LlamaServer
    from tests.docs.conftest import Real

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
FROM_HELP = "commands.md"
"""Its examples are those of --help: they name servers, and are looked at without being run."""
HAS = (None, "llama-server")
"""What a block may need here."""
HERE = "http://127.0.0.1:8080"
MADE: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "commands_page.py"))


class Block(NamedTuple):
    """A fenced block: its language, what it needs, and its text."""

    language: str
    needs: str | None
    text: str

    @property
    def lines(self) -> list[str]:
        """The lines that a person types."""
        lines = self.text.splitlines()
        if self.language == "console":
            return [line[2:] for line in lines if line.startswith("$ ")]
        return [line for line in lines if line.strip()]


def blocks(page: Path) -> list[Block]:
    """The blocks of a page; one whose lines have different needs is one for each line."""
    fenced = r"^```(\w+)(?: (needs|lines)=(\S+))?\n(.*?)^```$"
    found: list[Block] = []
    for language, how, needs, text in re.findall(fenced, page.read_text(encoding="utf-8"), re.M | re.S):
        block = Block(language, needs or None, text)
        if how == "lines":
            words = needs.split(",")
            assert len(words) == len(block.lines), f"{page.name}: lines= has {len(words)} words for {len(block.lines)} lines"
            for word, line in zip(words, block.lines, strict=True):
                found.append(Block("sh", None if word == "here" else word, line))
        else:
            found.append(block)
    return found


def typed(page: Path) -> list[Block]:
    return [block for block in blocks(page) if block.language in ("sh", "console")]


def calls(line: str) -> list[list[str]]:
    """The arguments of each phasetop in a line of a shell."""
    found: list[list[str]] = []
    taking = False
    for word in shlex.split(line, comments=True):
        if word == "phasetop":
            found.append([])
            taking = True
        elif word in ("|", ">", ">>", "2>", "&&", ";"):
            taking = False
        elif taking:
            found[-1].append(word)
    return found


def every_line() -> list[str]:
    lines = [line for page in PAGES for block in typed(page) for line in block.lines]
    lines += [line for _, command in MADE["walk"](phasetop) for line in MADE["examples"](command)]
    return sorted({line for line in lines if calls(line)})


@pytest.mark.parametrize("line", every_line())
def test_it_is_a_command_that_phasetop_takes(line: str) -> None:
    for call in calls(line):
        context = click.Context(phasetop, info_name="phasetop", obj={})
        rest = _with_optional_values(call)
        command: click.Command | None = phasetop
        while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
            name = rest.pop(0)
            command = command.get_command(context, name)
            assert command is not None, f"there is no {name}"
        assert command is not None
        command.make_context("phasetop", rest, parent=context)


RUN = [page for page in PAGES if page.name != FROM_HELP and any(block.needs in HAS for block in typed(page))]
MISSING = sorted({f"{page.name}-{block.needs}" for page in PAGES for block in typed(page) if block.needs not in HAS})


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.name))
def test_its_commands_run(page: Path, real: Real, request: pytest.FixtureRequest) -> None:
    """In their order: a later block uses what an earlier one kept."""
    url = None
    for block in typed(page):
        if block.needs not in HAS:
            continue
        if block.needs == "llama-server" and url is None:
            server: LlamaServer = request.getfixturevalue("llama_server")
            url = server.url
        for line in block.lines:
            command = line.replace(HERE, url) if block.needs and url else line
            assert HERE not in command, "it names a server: mark its block needs=llama-server"
            env = {**real.env, "PHASETOP_MAX_TOKENS": "4", "PHASETOP_THREADS": "1", "PHASETOP_CONTEXT": "512"}
            done = subprocess.run(
                ["bash", "-c", command], env=env, cwd=real.folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=90,
                check=False,
            )  # fmt: skip
            assert done.returncode == 0, f"{command}\n{done.stderr.decode()}"


@pytest.mark.parametrize("what", MISSING)
def test_what_it_needs_is_not_here(what: str) -> None:
    pytest.skip(f"needs {what.rpartition('.md-')[2]}")


def test_python_in_docs_runs(real: Real) -> None:
    recording = real.folder / "state" / "phasetop" / "recordings" / "first.phasetop"
    sources = [block.text for page in PAGES for block in blocks(page) if block.language == "python"]
    assert sources
    for source in sources:
        done = subprocess.run(
            [sys.executable, "-c", source, str(recording)], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("12 lines of tokens: ")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        file, _, place = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        assert there.exists(), target
        assert not place or place in headings(there), target


def headings(page: Path) -> set[str]:
    """The places of a page that a link can name."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in re.findall(r"^#+ (.*)$", text, re.M)}


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in index, f"{page.name} is not in docs/README.md"
