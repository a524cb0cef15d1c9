"""Where a pattern stands in a reply that still grows. Pure; the text searched is the text that is drawn."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence


def folded(text: str) -> str:
    """Lower case, character by character, so that every place in the text stays where it is."""
    if text.isascii():
        return text.lower()
    return "".join(low if len(low := char.lower()) == 1 else char for char in text)


class Search:
    """The places of one pattern. Without a capital letter in it, case does not matter.

    Args:
        pattern: what is looked for, as it stands; not empty.
        texts: the tokens' drawable texts, a list that may grow.

    Attributes:
        hits: where each begins, in characters from the reply's first; they do not overlap.

    """

    __slots__ = ("_carry", "_exact", "_texts", "hits", "length", "pattern", "starts")

    def __init__(self, pattern: str, texts: Sequence[str]) -> None:
        self._exact = pattern != folded(pattern)
        self.pattern = pattern if self._exact else folded(pattern)
        self.length = len(pattern)
        self.hits: array[int] = array("q")
        self.starts: array[int] = array("q", [0])  # where each token begins, and where the next will
        self._texts = texts
        self._carry = ""

    def grow(self) -> None:
        """Look through the tokens that came since."""
        new = self._texts[len(self.starts) - 1 :]
        if not new:
            return
        at = self.starts[-1]
        begin = at - len(self._carry)
        for text in new:
            at += len(text)
            self.starts.append(at)
        text = "".join(new)
        whole = self._carry + (text if self._exact else folded(text))
        end = 0
        while (found := whole.find(self.pattern, end)) >= 0:
            end = found + self.length
            self.hits.append(begin + found)
        kept = max(end, len(whole) - self.length + 1)
        self._carry = whole[kept:]

    def tokens(self, upto: int) -> list[int]:
        """The token that each hit begins in, of those that lie within the first ``upto`` tokens."""
        last = self.starts[min(upto, len(self.starts) - 1)]
        return [self.token_at(hit) for hit in self.hits if hit + self.length <= last]

    def count(self, upto: int) -> int:
        """How many hits lie within the first ``upto`` tokens."""
        return bisect_right(self.hits, self.starts[min(upto, len(self.starts) - 1)] - self.length)

    def token_at(self, place: int) -> int:
        """The token that holds a character."""
        return bisect_right(self.starts, place) - 1

    def within(self, token: int, offset: int, length: int, upto: int) -> list[tuple[int, int]]:
        """Which characters of a piece (``length`` from ``offset`` of a token on) belong to hits, as [from, to) in it."""
        begin = self.starts[token] + offset
        end = begin + length
        shown = self.count(upto)
        made: list[tuple[int, int]] = []
        for k in range(bisect_left(self.hits, begin - self.length + 1), shown):
            hit = self.hits[k]
            if hit >= end:
                break
            made.append((max(hit, begin) - begin, min(hit + self.length, end) - begin))
        return made


def first_tokens(pattern: str, texts: Sequence[str]) -> list[int]:
    """The token that each hit of ``pattern`` begins in."""
    search = Search(pattern, texts)
    search.grow()
    return search.tokens(len(texts))
