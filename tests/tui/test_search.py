"""Searching a reply that grows."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop.tui.search import Search, first_tokens

TEXTS = st.lists(st.text(alphabet="abA é界\n", max_size=5), max_size=30)


@given(st.text(alphabet="abA", min_size=1, max_size=3), TEXTS, st.integers(1, 7))
def test_hits_are_those_of_the_whole_text_however_it_came(pattern: str, texts: list[str], chunk: int) -> None:
    grown: list[str] = []
    search = Search(pattern, grown)
    for i in range(0, len(texts), chunk):
        grown += texts[i : i + chunk]
        search.grow()
    flags = 0 if "A" in pattern else re.IGNORECASE
    assert list(search.hits) == [hit.start() for hit in re.finditer(re.escape(pattern), "".join(texts), flags)]


@given(st.text(alphabet="ab", min_size=1, max_size=3), TEXTS)
def test_pieces_know_which_of_their_characters_are_hit(pattern: str, texts: list[str]) -> None:
    search = Search(pattern, texts)
    search.grow()
    whole = "".join(texts)
    hit = [any(h <= i < h + len(pattern) for h in search.hits) for i in range(len(whole))]
    at = 0
    for token, text in enumerate(texts):
        marked = [False] * len(text)
        for begin, end in search.within(token, 0, len(text), len(texts)):
            marked[begin:end] = [True] * (end - begin)
        assert marked == hit[at : at + len(text)]
        at += len(text)


@pytest.mark.parametrize(("pattern", "found"), [("straße", [0]), ("Ab", []), ("ab", [2]), ("e ab", [1]), ("i̇", [])])
def test_case_and_characters_that_grow_in_lower_case(pattern: str, found: list[int]) -> None:
    assert first_tokens(pattern, ["Straß", "E", " aB", "İ"]) == found


def test_only_hits_that_are_whole_by_then_count() -> None:
    search = Search("hash table", ["a ", "hash", " tab", "le", " hash table"])
    search.grow()
    assert search.tokens(3) == []
    assert search.tokens(4) == [1]
    assert search.tokens(5) == [1, 4]
    assert (search.count(3), search.count(5)) == (0, 2)


def test_a_hundred_thousand_tokens_are_searched_as_they_come() -> None:
    texts = [" needle" if i % 1000 == 999 else " straw" for i in range(100_000)]
    search = Search("needle", texts)
    search.grow()
    assert len(search.hits) == 100
    assert search.tokens(len(texts))[-1] == 99_999
