"""Sentences for the room there is: what is left of them is a sentence, and no verdict ends in the middle of one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop.tui.wording import first_fitting, in_two, on_rows, shorten, unsaid, versions
from phasetop.tui.wrap import text_width
from phasetop.verdict import judge
from phasetop.verdict_evidence import Evidence
from tests.core.test_verdict import SPEAKS

ROOMS = (52, 92, 172)
"""The columns of the headline's sentence at 80, 120 and 200 columns."""


def test_a_sentence_loses_whole_clauses_first() -> None:
    sentence = "1.9 of 2 cores busy; the server holds 214 MiB; 902 tokens in its cache."
    assert shorten(sentence, 80) == sentence
    assert shorten(sentence, 60) == "1.9 of 2 cores busy; the server holds 214 MiB."
    assert shorten(sentence, 30) == "1.9 of 2 cores busy."
    assert shorten(sentence, 10) == "1.9 of 2 …"


def test_what_goes_goes_in_this_order() -> None:
    text = "Decode reads 5.00 GB/s, 40 % of peak: one core sorts (top_k 0), so the rest waits. Try --top-k 40."
    assert list(versions(text)) == [
        text,
        "Decode reads 5.00 GB/s, 40 % of peak: one core sorts (top_k 0), so the rest waits.",
        "Decode reads 5.00 GB/s, 40 % of peak: one core sorts, so the rest waits.",
        "One core sorts, so the rest waits.",
        "One core sorts.",
    ]


def test_what_turns_a_sentence_round_is_not_cut_off() -> None:
    """What stands before a `but` alone would say the contrary."""
    assert list(versions("It is said to be there, but it is not."))[-1] == "It is said to be there, but it is not."


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize(("code", "evidence"), [(code, evidence) for code, evidence, _ in SPEAKS])
def test_every_verdict_fits_at_every_width(code: str, evidence: dict[str, object], room: int) -> None:
    """On two rows as much of it as there is room for, on one what goes on from the limit: always whole sentences."""
    verdict = judge(Evidence(**{"judged": "decode", **evidence}))  # type: ignore[arg-type]
    assert verdict.code == code
    said = unsaid(verdict.limit, verdict.text)
    for text, rows in ((said, 2), (verdict.text, 2), (said, 1)):
        first, second = on_rows(text, room, rows, verdict.short)
        assert "…" not in first + second
        assert (second or first).endswith((".", "?"))
        assert max(text_width(first), text_width(second)) <= room
    if text_width(said) > ROOMS[0]:
        assert on_rows(said, ROOMS[0], 1, verdict.short)[0] == (verdict.short or shorten(said, ROOMS[0]))
    assert text_width(verdict.limit) <= 60
    assert len(verdict.short) <= ROOMS[0]


def test_a_brief_sentence_stands_only_where_the_whole_one_does_not_fit() -> None:
    assert on_rows("It is whole.", 20, 1, "It is brief.") == ("It is whole.", "")
    assert on_rows("It is whole, and long.", 20, 1, "It is brief.") == ("It is brief.", "")
    assert on_rows("It is whole, and long.", 20, 2, "It is brief.") == ("It is whole, and", "long.")
    assert on_rows("It is whole, and long.", 13, 1, "It is brief, yet too long.") == ("It is whole.", "")


def test_no_row_ends_between_a_number_and_its_unit() -> None:
    assert in_two("it was stopped for 68 % of decode", 22) == ("it was stopped for", "68 % of decode")
    assert in_two("it was stopped for 68 % of decode", 23) == ("it was stopped for 68 %", "of decode")
    assert in_two("the first token came after 12 s of waiting", 30)[0] == "the first token came after"


def test_a_second_row_of_one_word_takes_a_clause_with_it() -> None:
    text = "What takes the rest, no counter here tells (GPU busy 96 % of the time)."
    assert in_two(text, 68) == ("What takes the rest, no counter here tells", "(GPU busy 96 % of the time).")


def test_figures_that_stand_in_the_limit_are_not_said_again() -> None:
    text = "Decode reads 611 GB/s, 61 % of peak: bound by memory bandwidth."
    assert unsaid("memory bandwidth: 611 GB/s, 61 % of peak", text) == "Bound by memory bandwidth."
    assert unsaid("memory bandwidth: 600 GB/s, 60 % of peak", text) == text
    assert unsaid("the CPU's heat", "Heat held the CPU back: its clocks fall.") == "Heat held the CPU back: its clocks fall."


def test_a_row_that_is_nearly_full_ends_with_its_clause() -> None:
    text = "1.99 of 2 cores busy, 1.4 by other programs; the server holds 240 MiB."
    assert in_two(text, 52) == ("1.99 of 2 cores busy, 1.4 by other programs;", "the server holds 240 MiB.")
    assert in_two("a clause; and then a long one without any end", 30)[0] == "a clause; and then a long one"


@given(st.text(alphabet="ab .,;:()%…", max_size=80), st.integers(1, 60))
def test_nothing_is_ever_wider_than_its_room(text: str, width: int) -> None:
    assert text_width(shorten(text, width)) <= width
    first, second = on_rows(text, width, 2)
    assert max(text_width(first), text_width(second)) <= width
    assert text_width(first_fitting((), width)) == 0
