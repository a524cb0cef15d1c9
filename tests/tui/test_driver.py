"""What the terminal says of itself never becomes keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop.tui.driver import Sieve

ANSWERS = (
    b"\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\",
    b"\x1b]11;rgb:1e1e/1e1e/1e1e\x07",
    b"\x1b[?62;22c",
    b"\x1b[>41;354;0c",
    b"\x1bP>|XTerm(354)\x1b\\",
    b"\x1b_Gi=31;OK\x1b\\",
    b"\x1b[M \x82\x95",  # the mouse beyond column 95, as X10 reports it: no UTF-8
    b"\x1b[M#\xff!",
)
KEYS = (b"q", b"\x1b", b"\x1b[A", b"\x1bOP", b"\x1be", b"\x1b]", b"\x1bP", b"\x1b[13;1R", b"\x1b[<0;3;4M", b"\x1b[?2026;2$y",
        b"\x1b[200~a\nb\x1b[201~", "é日".encode(), b"\x1b[I", b"\x1b[113;5u")  # fmt: skip


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_is_dropped_wherever_it_is_cut(answer: bytes) -> None:
    assert Sieve().feed(b"a" + answer + b"b") == b"ab"
    for at in range(2, len(answer)):  # a lone escape is the key
        if answer[1:2] in b"]P_" and at == 2:
            continue  # with alt: the same two bytes
        sieve = Sieve()
        assert sieve.feed(b"a" + answer[:at]) + sieve.feed(answer[at:] + b"b") == b"ab", at


@pytest.mark.parametrize("key", KEYS)
def test_a_key_comes_through_at_once(key: bytes) -> None:
    assert Sieve().feed(key) == key
    sieve = Sieve()
    assert sieve.feed(ANSWERS[0] + key + ANSWERS[2]) == key


@given(st.lists(st.binary(max_size=20), max_size=8))
def test_nothing_breaks_it_and_nothing_grows(reads: list[bytes]) -> None:
    sieve = Sieve()
    out = sum(len(sieve.feed(read)) for read in reads)
    assert out <= sum(map(len, reads))


def test_a_sequence_that_never_ends_is_let_go() -> None:
    sieve = Sieve()
    assert sum(len(sieve.feed(b"\x1b]52;" + b"x" * 5000)) for _ in range(2)) > 0
