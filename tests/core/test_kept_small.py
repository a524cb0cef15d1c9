"""The small files beside the recordings: prompts, what the view remembers, and the editor."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from phasetop import editor, places, prompts
from phasetop.faults import PhasetopError
from phasetop.remembered import Remembered


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    monkeypatch.setattr(places, "state_folder", lambda: folder)
    monkeypatch.delenv("PHASETOP_NO_HISTORY", raising=False)
    return folder


def test_prompts_come_back_in_their_order_with_their_lines_and_are_ones_own(state: Path) -> None:
    for text in ("one", "two\nlines\x1b[2J", "two\nlines\x1b[2J", "  "):
        prompts.add(text)
    assert prompts.load() == ["one", "two\nlines\x1b[2J"]
    assert stat.S_IMODE((state / prompts.NAME).stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700


def test_no_history_neither_writes_nor_reads(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts.add("before")
    monkeypatch.setenv("PHASETOP_NO_HISTORY", "1")
    prompts.add("secret")
    assert prompts.load() == []
    assert "secret" not in (state / prompts.NAME).read_text()


def test_the_file_of_prompts_does_not_grow_without_end(state: Path) -> None:
    (state).mkdir()
    (state / prompts.NAME).write_text("".join(f'"prompt {i}"\n' for i in range(prompts.KEPT)) + "no json\n")
    prompts.add("newest")
    kept = prompts.load()
    assert len(kept) == prompts.KEPT * 4 // 5 + 1
    assert kept[-2:] == [f"prompt {prompts.KEPT - 1}", "newest"]
    assert [path.name for path in state.iterdir()] == [prompts.NAME]


def test_what_is_remembered_is_there_next_time_and_can_be_forgotten(state: Path) -> None:
    Remembered().put("colour", "plain")
    other = Remembered()
    other.put("theme", "light")
    assert (Remembered().get("colour"), Remembered().get("theme")) == ("plain", "light")
    other.put("colour", None)
    assert Remembered().get("colour") is None
    assert stat.S_IMODE((state / "view.json").stat().st_mode) == 0o600


def test_a_broken_file_is_as_none(state: Path) -> None:
    state.mkdir()
    for text in ("", "[1]", "{", "\x00\xff"):
        (state / "view.json").write_text(text, encoding="latin-1")
        assert Remembered().get("colour") is None


def test_where_nothing_can_be_written_nothing_fails(state: Path) -> None:
    state.write_text("a file where the folder should be")
    prompts.add("one")
    Remembered().put("colour", "plain")
    assert prompts.load() == []


def test_the_editor_changes_the_text_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code = "import sys, pathlib; p = pathlib.Path(sys.argv[1]); p.write_text(p.read_text().upper() + '\\nmore\\n')"
    assert editor.edit("why", [sys.executable, "-c", code]) == "WHY\nmore"
    assert not list(tmp_path.glob("phasetop-*"))
    with pytest.raises(PhasetopError, match="ended with status 3"):
        editor.edit("why", [sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(PhasetopError, match="no such file"):
        editor.edit("why", [str(tmp_path / "nowhere")])
    assert not list(tmp_path.glob("phasetop-*"))


def test_which_editor() -> None:
    assert editor.command_of({"VISUAL": "code --wait", "EDITOR": "vi"}) == ["code", "--wait"]
    assert editor.command_of({"EDITOR": "emacs -nw"}) == ["emacs", "-nw"]
