"""`--help` of every command: examples that hold, lines that fit, pages made from it; and completion in a real bash."""

from __future__ import annotations

import runpy
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from phasetop.cli import COMMANDS, phasetop
from phasetop.faults import UsageError

if TYPE_CHECKING:
    from tests.docs.conftest import Real

ROOT = Path(__file__).parents[2]
MADE: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "commands_page.py"))
TREE: dict[str, click.Command] = dict(MADE["walk"](phasetop))
WIDTH = 100


@pytest.mark.parametrize("page", ["commands", "keys"])
def test_the_page_is_what_the_program_says(page: str) -> None:
    made = runpy.run_path(str(ROOT / "scripts" / f"{page}_page.py"))
    assert (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8") == made["text"](), (
        f"run: python scripts/{page}_page.py"
    )


def own_examples(name: str) -> list[str]:
    """The examples of a command that call it: its own, or those of the group that it is in."""
    lines = [line for at in (name, name.rpartition(" ")[0]) if at in TREE for line in MADE["examples"](TREE[at])]
    return [line for line in lines if f"{name} " in f"{line} "]


@pytest.mark.parametrize("name", TREE)
def test_a_command_has_examples_that_call_it(name: str) -> None:
    assert own_examples(name), f"{name} --help has no block of Examples"


@pytest.mark.parametrize("name", TREE)
def test_help_fits_and_is_not_cut(name: str) -> None:
    for width in (80, 100, 200):
        command = TREE[name]
        context = click.Context(command, info_name=name, terminal_width=min(width, WIDTH), max_content_width=WIDTH)
        text = command.get_help(context)
        assert "Examples" in text or " " in name
        for line in text.splitlines():
            assert len(line) <= WIDTH, line
            assert line.startswith("Usage:") or not line.endswith("..."), (
                f"its first sentence is too long for a list: give it a short_help: {line}"
            )


def test_a_variable_means_the_same_to_every_command() -> None:
    """PHASETOP_BATCH is tokens a batch for `run`; for `predict` --batch is sequences at once, and no variable sets it."""
    asked = {"PHASETOP_BATCH": "512", "PHASETOP_CONTEXT": "8192", "PHASETOP_BACKEND": "ollama"}
    for name in ("phasetop predict", "phasetop models get"):
        with TREE[name].make_context(name, ["x"], default_map={}) as context:
            plain = dict(context.params)
        with pytest.MonkeyPatch.context() as patch:
            for variable, value in asked.items():
                patch.setenv(variable, value)
            with TREE[name].make_context(name, ["x"], default_map={}) as context:
                assert context.params == plain


@pytest.mark.parametrize("name", [name for name in TREE if any(each.name == "as_json" for each in TREE[name].params)])
def test_json_takes_no_other_word_than_compact(name: str) -> None:
    command = TREE[name]
    (json_option,) = (each for each in command.params if each.name == "as_json")
    context = click.Context(command, info_name=name)
    for how in ("", "compact"):
        assert json_option.process_value(context, how) == how
    with pytest.raises(UsageError, match="--json=pretty: the only value is compact"):
        json_option.process_value(context, "pretty")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("phasetop pre", {"predict"}),
        ("phasetop run --red", {"--redact"}),
        ("phasetop sessions show fir", {"first"}),
    ],
)
def test_bash_completes(typed: str, expected: set[str], real: Real) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash: not there")
    words = typed.split(" ")
    script = f"""
        eval "$(_PHASETOP_COMPLETE=bash_source phasetop)"
        COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}
        _phasetop_completion phasetop 2> /dev/null
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run([bash, "-c", script], env=real.env, capture_output=True, text=True, timeout=30, check=False)
    assert set(done.stdout.split()) == expected, done.stderr


def test_help_names_every_command_and_completion() -> None:
    text = phasetop.get_help(click.Context(phasetop, info_name="phasetop", terminal_width=80))
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert "_PHASETOP_COMPLETE=bash_source" in text
