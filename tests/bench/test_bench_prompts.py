"""Prompts: as many words as asked for, each new from its first word on."""

from __future__ import annotations

from phasetop.bench_prompts import WORDS, Prompts, text_of


def test_no_prompt_begins_as_one_of_the_last_did() -> None:
    prompts = Prompts(1)
    made = [prompts.words(5) for _ in range(2 * len(set(WORDS)))]
    assert len({words[0] for words in made}) == len(made)
    assert all(len(words) == 5 for words in made)


def test_a_seed_is_the_same_prompts() -> None:
    one, other, third = Prompts(1), Prompts(1), Prompts(2)
    made = [one.words(30) for _ in range(5)]
    assert made == [other.words(30) for _ in range(5)]
    assert made != [third.words(30) for _ in range(5)]


def test_changing_keeps_the_beginning() -> None:
    prompts = Prompts(1)
    words = prompts.words(10)
    longer, shorter = prompts.changed(words, 3), prompts.changed(words, -4)
    assert longer[:10] == words
    assert len(longer) == 13
    assert shorter == words[:6]
    assert prompts.changed(words, -50, keep=2) == words[:2]


def test_words_are_plain() -> None:
    assert all(word.isascii() and word.isalpha() and word.islower() for word in WORDS)
    assert len(WORDS) > 250
    assert text_of(["a", "b"]) == "a b"
