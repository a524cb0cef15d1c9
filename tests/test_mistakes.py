"""What people type wrong: each ends with the right status and one or two plain lines that say what to do."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from phasetop.cli import main, phasetop
from phasetop.cli.options import OPTIONAL_VALUES

if TYPE_CHECKING:
    from tests.conftest import Home

ROOT = Path(__file__).parents[1]
TREE: dict[str, click.Command] = dict(runpy.run_path(str(ROOT / "scripts" / "commands_page.py"))["walk"](phasetop))
OPTIONS = [(name, param) for name, command in TREE.items() for param in command.params if isinstance(param, click.Option)]
TAKING = [
    (name, spelling)
    for name, param in OPTIONS
    for spelling in param.opts
    if not (param.is_flag or param.count or spelling in (*OPTIONAL_VALUES, "--report"))
]


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 2) -> str:
    """What the command says of wrong usage: nothing on stdout, one or two lines on stderr."""
    assert main([*arguments]) == status
    told = capsys.readouterr()
    assert told.out == ""
    lines = told.err.splitlines()
    assert 1 <= len(lines) <= 2, told.err
    assert lines[0].startswith("phasetop: ")
    assert not {"Usage:", "Error:", "Traceback"} & set(told.err.split())
    return told.err.removeprefix("phasetop: ")


def words(name: str) -> list[str]:
    """The words that call a command, with something for each word that it needs."""
    needed = [param for param in TREE[name].params if isinstance(param, click.Argument) and param.required]
    return [*name.split()[1:], *(["x"] * len(needed))]


@pytest.mark.parametrize("name", TREE)
def test_an_option_that_is_not_there(name: str, state_home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, *words(name), "--nonsense")
    assert text.startswith(f"{name} has no option --nonsense")
    assert f"{name} --help" in text


@pytest.mark.parametrize(
    ("typed", "missing", "example"),
    [
        ("replay", "FILE", "phasetop replay @last"),
        ("export", "FILE", "phasetop export @last --to md"),
        ("sessions show", "NAME", "phasetop sessions show @last"),
        ("sessions rename", "OLD", "phasetop sessions rename @last before"),
        ("sessions rm", "NAME", "phasetop sessions rm @last"),
    ],
)
def test_no_recording_is_named(
    typed: str, missing: str, example: str, state_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = said(capsys, *typed.split()).splitlines()
    assert first.startswith(f"{missing} is missing: phasetop {typed} ")
    assert second.strip() == f"a recording is a name that `phasetop sessions` lists, @last, @2 or a file: {example}"


@pytest.mark.parametrize(("name", "option"), TAKING)
def test_an_option_without_its_value(name: str, option: str, state_home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, *words(name), option).startswith(f"{option} lacks its value: {option} ")


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("rnu", "phasetop has no command rnu: is run meant?"),
        ("sessions shw x", "phasetop sessions has no command shw: is show meant?"),
        ("models gte", "is get meant?"),
        ("llama3.1:8b", "to run a model: phasetop run llama3.1:8b"),
        ("--json run", "it stands behind a command (phasetop run --json …)"),
        ("run --debug -p hi", "it stands before the command (phasetop --debug run …)"),
        ("run --colour=256", "is --colours meant?"),
        ("run --fps fast", "--fps fast: a number from 0.5 to 60 is expected"),
        ("run -n many", "-n many: a whole number is expected"),
        ("run --max-tokens=many", "--max-tokens many: a whole number is expected"),
        ("run --logprobs 50", "--logprobs 50: a whole number from 0 to 20 is expected"),
        ("kv x --fill -1", "--fill -1: a whole number, at least 0, is expected"),
        ("run --theme blue", "--theme blue: dark or light"),
        ("export x --what lines", "--what lines: tokens, requests or samples"),
        ("replay", "FILE is missing: phasetop replay FILE"),
        ("sessions rename x", "NEW is missing: phasetop sessions rename OLD NEW"),
        ("replay x y", "phasetop replay cannot take so many words: y"),
        ("run --record rivers model.gguf", "--record takes its value only after =: --record=rivers"),
        ("run --think high m", "--think takes its value only after =: --think=high"),
        ("replay x --at soon", "'soon' is no moment"),
        ("replay x --speed nan", "nan is no number"),
        ("kv x -c 4096", "llama-server's options stand after --: phasetop kv MODEL -- -c …"),
        ("run --rotate= -p hi m", "--rotate lacks its value: such as 100MB"),
        ("run --max-size= -p hi m", "--max-size lacks its value: such as 24GiB"),
        ("run --rotate=abc -p hi m", "--rotate abc: such as 100MB"),
        ("run -o temperature -p hi m", "-o temperature: NAME=VALUE is expected"),
        ("run ./nothere.gguf -p hi", "./nothere.gguf: no such file"),
        ("run -m nothere.gguf -p hi", "-m nothere.gguf: no such file"),
        ("run -m folder -p hi", "-m folder: a folder, a model is a .gguf file"),
        ("run ./folder -p hi", "./folder is a folder: a model is a .gguf file"),
        ("run 127.0.0.1:8080 -p hi", "a server's address begins with http://, so http://127.0.0.1:8080"),
        ("run localhost:8080/v1 -p hi", "so http://localhost:8080/v1"),
        ("bench localhost", "so http://localhost"),
        ("kv 10.0.0.7:8080", "so http://10.0.0.7:8080"),
        ("run http:/127.0.0.1:9 -p hi", "http:/127.0.0.1:9 is no address: http://HOST:PORT is expected"),
        ("run htp://127.0.0.1:9 -p hi", "htp://127.0.0.1:9 is no server's address"),
        ("run http://127.0.0.1:99999 -p hi", "port out of range"),
        ("run -f nothere.txt m", "-f nothere.txt: no such file"),
        ("run -f folder m", "-f folder: is a directory"),
        ("run --messages nothere.json m", "--messages nothere.json: no such file"),
        ("run --messages text.txt m", "--messages text.txt: it holds no JSON"),
        ("run --format jsn -p hi m", "--format jsn: json, or a file with a schema; no such file"),
        ("run --cacert nothere.pem -p hi http://127.0.0.1:9", "--cacert nothere.pem: no such file"),
        ("replay nothere", "neither a file nor a name in the recordings folder"),
        ("replay @lst", "is @last meant?"),
        ("replay folder", "folder is a folder: a recording is a file"),
        ("export x.phasetop --to docx", "there is no such format"),
        ("export x.phasetop -o x.docx", "x.docx: no format ends so"),
        ("predict llama3.1-8b --gpu 4090x", "meant?"),
        ("compare a", "phasetop compare A B"),
    ],
)
def test_what_is_said(
    typed: str,
    says: str,
    state_home: Home,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.txt").write_text("hello\n")
    monkeypatch.chdir(tmp_path)
    assert says in said(capsys, *typed.split())


def test_a_wrong_value_is_told_where_it_stands(
    state_home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PHASETOP_FPS", "fast")
    assert said(capsys, "run", "m").startswith("PHASETOP_FPS=fast: a number")
    monkeypatch.delenv("PHASETOP_FPS")
    file = state_home.config / "phasetop" / "config.toml"
    file.parent.mkdir()
    file.write_text('[run]\nfps = "fast"\n')
    assert said(capsys, "run", "m").startswith(f"{file}: fps = fast: a number")


def test_a_password_is_not_repeated(state_home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    for typed in ("http://user:hunter2@box:8080/", "user:hunter2@box"):
        assert "hunter2" not in said(capsys, typed)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("folder", "folder is a folder here, a model is a .gguf file"),
        ("modle.gguff", "is model.gguf meant?"),
        ("box:8080", "if a server is meant: http://box:8080"),
        ("nothing", ""),
    ],
)
def test_what_a_name_may_have_meant(name: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from phasetop.model_names import meant_otherwise

    (tmp_path / "folder").mkdir()
    (tmp_path / "model.gguf").touch()
    monkeypatch.chdir(tmp_path)
    assert meant_otherwise(name).removeprefix("; ") == says


def test_settings_that_an_engine_cannot_take_are_wrong_usage(
    small_model: Path, state_home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("xllamacpp", reason="the embedded engine is not installed; make setup gets it")
    text = said(capsys, "run", str(small_model), "-p", "hi", "-ngl", "lots")
    assert "gpu_layers must be a whole number, all or auto" in text
