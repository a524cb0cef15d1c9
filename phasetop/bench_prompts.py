"""Prompts of a wished length for `phasetop bench`: plain words, each prompt another from its first word on.

Almost every vocabulary has each of these words, with the blank before it, as one token; so a prompt that is some tokens too
long or too short is put right by as many words. Pure: who counts the tokens is the caller's affair.
"""

from __future__ import annotations

import math
import random
from typing import Final

WORDS: Final = tuple(
    """time year people way day man thing woman life child world school state family student group country problem hand part
    place case week company system program question work government number night point home water room mother area money
    story fact month lot right study book eye job word business issue side kind head house service friend father power hour
    game line end member law car city community name president team minute idea kid body information back parent face
    others level office door health person art history party result change morning reason research girl guy moment air
    teacher force education foot boy age policy music market sense nation plan college interest experience effect use
    class control field development role effort rate heart show leader light voice wife mind price report
    decision son view relationship town road arm difference value building action season society tax director position
    player record paper space ground form event official matter center couple site project activity star table need court
    oil situation cost industry figure street image phone data picture practice piece land product doctor wall patient
    worker news test movie north love support technology step baby computer type attention film tree source organization
    hair window culture chance brother energy period course summer plant opportunity term letter condition choice rule
    south floor campaign material population call economy hospital church risk fire future bank west sport board subject
    officer rest behavior performance fight top goal second bed order author agency nature color store sound movement
    page race concern series language response animal factor article east artist scene stock career treatment approach size
    dog fund media sign thought list individual quality pressure answer resource meeting success cup amount ability
    staff character growth loss degree region television box training trade deal election feeling standard bill
    message analysis benefit lawyer section glass skill sister professor operation stage authority design sort
    knowledge station strategy truth song example environment leg dark while red green blue black white""".split()  # noqa: SIM905
)
"""What prompts are made of."""
SHORT: Final = tuple(word for word in WORDS if len(word) <= 4)
"""Words that are one token in any vocabulary, as near as can be: what makes a length exact."""
NEARLY: Final = 16
"""So few are put right word by word."""


class Prompts:
    """Makes prompts; none begins as another of the last few hundred did, so that no cache helps.

    Args:
        seed: the same seed makes the same prompts in the same order.

    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"prompts/{seed}")  # noqa: S311 - words, no secret
        self._first: list[str] = []
        self._made = 0

    def words(self, n: int) -> list[str]:
        """``n`` words (at least one), the first one new."""
        if not self._first:
            self._first = list(dict.fromkeys(WORDS))
            self._random.shuffle(self._first)
        self._made += 1
        first = self._first.pop()
        # Where the first words have all been used they come in another writing.
        turn = (self._made - 1) // len(set(WORDS))
        first = (first, first.capitalize(), first.upper())[turn % 3]
        return [first, *self.more(n - 1)]

    def more(self, n: int) -> list[str]:
        """``n`` further words."""
        return [self._random.choice(WORDS) for _ in range(max(n, 0))]

    def put_right(self, words: list[str], count: int, target: int, keep: int = 1) -> list[str]:
        """``words``, which are ``count`` tokens, made longer or shorter at the end so that they are nearer to ``target``.

        Where little is missing it is made up by short words, so that the next count is the right one. The first ``keep``
        words stay.
        """
        off = target - count
        a_word = max(count / len(words), 1.0)
        if off < 0:
            return words[: max(len(words) - math.ceil(-off / a_word), keep)]
        if off > NEARLY:
            return words + self.more(math.floor(off / a_word))
        return words + [self._random.choice(SHORT) for _ in range(off)]


def text_of(words: list[str]) -> str:
    """Words as a text."""
    return " ".join(words)
