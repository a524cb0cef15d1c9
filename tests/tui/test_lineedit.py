"""The ask line's editing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from phasetop.tui.lineedit import LineEdit
from phasetop.tui.wrap import text_width

KEYS = st.sampled_from(
    ["left", "right", "home", "end", "backspace", "delete", "ctrl+w", "ctrl+u", "ctrl+k", "up", "down", "ctrl+left"]
)


def typed(*steps: str) -> LineEdit:
    line = LineEdit()
    for step in steps:
        if not line.key(step):
            line.insert(step)
    return line


def test_editing() -> None:
    assert typed("hello world", "ctrl+w").text == "hello "
    assert typed("hello", "home", "X").text == "Xhello"
    assert typed("abc", "left", "backspace").text == "ac"
    assert typed("abc", "left", "ctrl+k").text == "ab"
    assert typed("abc", "ctrl+u").text == ""
    assert typed("one two", "ctrl+left", "ctrl+left", "ctrl+right", "!").text == "one! two"


def test_what_was_sent_comes_back_and_the_draft_is_kept() -> None:
    line = typed("first")
    assert line.take() == "first"
    line.insert("second")
    line.take()
    line.insert("dra")
    for key, text in (
        ("up", "second"),
        ("up", "first"),
        ("up", "first"),
        ("down", "second"),
        ("down", "dra"),
        ("down", "dra"),
    ):
        line.key(key)
        assert line.text == text


def test_a_pasted_block_is_shown_by_its_lines_and_sent_whole() -> None:
    line = typed("a\r\nb\rc")
    assert line.shown(40) == ("3 lines", 7)
    assert line.take() == "a\nb\nc"


def test_pasted_control_characters_stay_outside() -> None:
    assert typed("a\x1b[2Jb\x00\x9b").text == "a[2Jb"


@given(st.lists(KEYS | st.text(alphabet="ab 日", min_size=1, max_size=5), max_size=20), st.integers(1, 12))
def test_the_caret_is_always_in_sight(steps: list[str], width: int) -> None:
    line = typed(*steps)
    text, caret = line.shown(width)
    assert 0 <= line.caret <= len(line.text)
    assert text_width(text) <= width
    assert 0 <= caret < max(1, width)
