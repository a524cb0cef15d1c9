"""Text to the clipboard and to a file."""

from __future__ import annotations

import base64
import stat
from pathlib import Path

import pytest

from phasetop import places
from phasetop.tui import copying


def test_what_is_pasted_presses_no_keys() -> None:
    hostile = "a\x1b[201~rm -rf\r\x07\x9b2J\tb\r\nc\x7f"
    assert copying.pasteable(hostile) == "a␛[201~rm -rf␍␇␛[2J\tb\nc␡"
    assert copying.pasteable("👩‍👩‍👧 naïve עברית") == "👩‍👩‍👧 naïve עברית"


def test_the_sequence_holds_the_text_and_nothing_else() -> None:
    sequence = copying.osc52("héllo")
    assert sequence is not None
    assert sequence.startswith("\x1b]52;c;")
    assert sequence.endswith("\x07")
    assert base64.b64decode(sequence[7:-1]).decode() == "héllo"


def test_a_text_too_long_for_a_clipboard_is_not_sent() -> None:
    assert copying.osc52("x" * copying.MOST_BYTES) is not None
    assert copying.osc52("x" * (copying.MOST_BYTES + 1)) is None


def test_the_file_is_its_owners_alone_and_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(places, "state_folder", lambda: tmp_path / "state")
    copying.save("first, and longer")
    path = copying.save("second")
    assert path.read_text() == "second"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [each.name for each in path.parent.iterdir()] == ["copied.txt"]
