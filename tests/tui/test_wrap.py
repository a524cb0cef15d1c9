"""Word wrap: rows fit, nothing is lost, and any prefix looks as it did live."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasetop.tui.wrap import Wrap, text_width

TOKEN = st.text(alphabet="ab  \n界é\u0301", max_size=6)
TOKENS = st.lists(TOKEN, max_size=25)
WIDTH = st.integers(2, 12)


def rows_of(wrap: Wrap, upto: int | None = None) -> list[str]:
    return ["".join(text for _, text in wrap.row(row, upto)) for row in range(wrap.rows(upto))]


def wrapped(tokens: list[str], width: int) -> Wrap:
    wrap = Wrap(width)
    wrap.extend(tokens)
    return wrap


@pytest.mark.parametrize(
    ("tokens", "width", "rows"),
    [
        ([], 10, [""]),
        (["a word"], 10, ["a word"]),
        (["one", " two", " three"], 8, ["one two ", "three"]),
        (["dele", "tions", " of"], 7, ["deletio", "ns of"]),  # a word alone too wide is broken
        (["in ", "dele", "tions"], 9, ["in ", "deletions"]),  # a word that grows past the edge moves down whole
        (["a\n", "\nb"], 10, ["a", "", "b"]),
        (["ab", "    ", "cd"], 4, ["ab  ", "cd"]),  # blanks at the edge hang
        (["日本語", "です"], 4, ["日本", "語で", "す"]),  # between wide characters there is always a break
        (["x日"], 2, ["x", "日"]),
        (["e\u0301e\u0301e\u0301"], 2, ["e\u0301e\u0301", "e\u0301"]),  # what combines takes no room
    ],
)
def test_rows(tokens: list[str], width: int, rows: list[str]) -> None:
    assert rows_of(wrapped(tokens, width)) == rows


@given(TOKENS, WIDTH)
@settings(max_examples=300)
def test_a_prefix_shows_what_a_wrap_of_only_it_shows(tokens: list[str], width: int) -> None:
    full = wrapped(tokens, width)
    for upto in range(len(tokens) + 1):
        alone = wrapped(tokens[:upto], width)
        assert full.rows(upto) == alone.rows()
        assert [full.row(y, upto) for y in range(full.rows(upto))] == [alone.row(y) for y in range(alone.rows())]
        assert full.end_column(upto) == alone.end_column()


@given(TOKENS, WIDTH)
@settings(max_examples=300)
def test_every_row_fits_and_only_blanks_are_lost(tokens: list[str], width: int) -> None:
    rows = rows_of(wrapped(tokens, width))
    assert all(text_width(row) <= width for row in rows)
    kept = str.maketrans("", "", " \n\u0301")  # what combines with a hanging blank goes with it
    assert "".join(rows).translate(kept) == "".join(tokens).translate(kept)


@given(TOKENS, WIDTH)
@settings(max_examples=100)
def test_tokens_at_once_and_one_by_one_are_the_same(tokens: list[str], width: int) -> None:
    slow = Wrap(width)
    for token in tokens:
        slow.extend([token])
    assert rows_of(slow) == rows_of(wrapped(tokens, width))


@given(TOKENS, WIDTH)
@settings(max_examples=100)
def test_a_token_is_found_in_the_row_where_it_begins(tokens: list[str], width: int) -> None:
    wrap = wrapped(tokens, width)
    for row in range(wrap.rows()):
        for token, _ in wrap.row(row):
            assert wrap.row_of(token) <= row
