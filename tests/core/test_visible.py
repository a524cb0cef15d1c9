"""Text made harmless: nothing that drives a terminal is left, however it was split."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop.visible import harmless

# Characters that do something, often: a strategy over all of Unicode would hardly meet them.
TROUBLE = (
    "\x00\x07\x08\t\n\r\x1b\x7f\x80\x85\x9b\x9d\x9f\u061c\u200b\u200d\u200e\u202e\u2028\u2066\u2069\ufe0f\ufeff\ud83d\ude00"
)
TEXTS = st.text(st.one_of(st.characters(), st.sampled_from(TROUBLE + "\U000e0041[]0;m?")))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, déjà vu, 日本語 😀", "plain text, déjà vu, 日本語 😀"),
        ("\x1b]52;c;aGk=\x07", "␛]52;c;aGk=␇"),
        ("\x1b[2J\x1b[6n", "␛[2J␛[6n"),
        ("\x9b2J", "␛[2J"),
        ("\x9d0;t\x9c", "␛]0;t␛\\"),
        ("a\x00b\x7f", "a␀b␡"),
        ("one\r\ntwo", "one␍\ntwo"),
        ("to\u202egpj.exe", "togpj.exe"),
        ("👩\u200d👧\ufe0f", "👩👧"),
        ("\ud83d", "\N{REPLACEMENT CHARACTER}"),
        ("a\u2028b", "a␤b"),
        ("[/INST] [b + [#888888]", "[/INST] [b + [#888888]"),
    ],
)
def test_what_drives_a_terminal_is_shown(text: str, shown: str) -> None:
    assert harmless(text) == shown


def test_newline_and_tab_stay_only_where_they_may() -> None:
    assert harmless("a\n\tb") == "a\n\tb"
    assert harmless("a\n\tb", newlines=False) == "a␊␉b"


@given(TEXTS, TEXTS, st.booleans())
def test_splitting_changes_nothing(a: str, b: str, newlines: bool) -> None:
    assert harmless(a, newlines=newlines) + harmless(b, newlines=newlines) == harmless(a + b, newlines=newlines)


@given(TEXTS, st.booleans())
def test_nothing_harmful_comes_out(text: str, newlines: bool) -> None:
    shown = harmless(text, newlines=newlines)
    allowed = "\n\t" if newlines else ""
    for character in shown:
        category = unicodedata.category(character)
        assert character in allowed or category not in ("Cc", "Cs", "Zl", "Zp"), hex(ord(character))
        assert character not in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200d\ufe0f"
    shown.encode()


@given(TEXTS)
def test_harmless_text_stays_as_it_is(text: str) -> None:
    shown = harmless(text)
    assert harmless(shown) == shown
