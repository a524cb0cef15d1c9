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


def test_putting_right_keeps_the_beginning() -> None:
    prompts = Prompts(1)
    words = prompts.words(10)
    longer, shorter = prompts.put_right(words, 20, 23), prompts.put_right(words, 20, 13)
    assert longer[:10] == words
    assert len(longer) == 13  # three short ones
    assert all(len(word) <= 4 for word in longer[10:])
    assert shorter == words[:6]  # two tokens a word: four fewer, and what is then missing comes next
    assert prompts.put_right(words, 20, 120)[:10] == words
    assert len(prompts.put_right(words, 20, 120)) == 60
    assert prompts.put_right(words, 500, 4, keep=2) == words[:2]


def test_words_are_plain() -> None:
    assert all(word.isascii() and word.isalpha() and word.islower() for word in WORDS)
    assert len(WORDS) > 250
    assert text_of(["a", "b"]) == "a b"
