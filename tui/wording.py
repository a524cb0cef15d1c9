"""Sentences for the room there is: whole, on two rows, or so shortened that what is left is still a sentence. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from phasetop.tui.cells import fit
from phasetop.tui.wrap import text_width

_ASIDE: Final = re.compile(r" \([^()]*\)")
_CLAUSE: Final = re.compile(r", (?!but |yet |which cannot )|: ")
"""What stands before such a mark can stand alone."""
_SPEAKER: Final = re.compile(r"(?:Decode reads|Prefill computes) (.*?): (.)(.*)", re.DOTALL)
"""A sentence that gives its figures first, then the reason."""
_BREAK: Final = re.compile(r" (?!(?:%|s|ms|min|[GM]i?B(?:/s)?|tok/s|[GT]FLOP/s)\b|% )")
"""A blank where a row may end: not between a number and its unit."""


def versions(text: str) -> Iterator[str]:
    """A text, and what can be made of it, ever shorter: without its last sentences, its asides, its last clauses.

    Of figures and the reason for them the reason stays longer.
    """
    yield text
    while ". " in text:
        text = text.rpartition(". ")[0] + "."
        yield text
    while ";" in text and not _within_aside(text, text.rindex(";")):
        text = text.rpartition(";")[0].rstrip() + "."
        yield text
    while asides := list(_ASIDE.finditer(text)):
        text = text[: asides[-1].start()] + text[asides[-1].end() :]
        yield text
    if (said := _SPEAKER.fullmatch(text)) is not None:
        text = said[2].upper() + said[3]
        yield text
    while clauses := list(_CLAUSE.finditer(text)):
        text = text[: clauses[-1].start()] + "."
        yield text


def _within_aside(text: str, at: int) -> bool:
    return any(aside.start() < at < aside.end() for aside in _ASIDE.finditer(text))


def shorten(text: str, width: int) -> str:
    """What fits of a text on one row; where none of its versions does, the shortest, cut."""
    return first_fitting(versions(text), width)


def first_fitting(texts: Iterable[str], width: int) -> str:
    """The first of several wordings, from long to short, that fits; the last one cut, where none does."""
    last = ""
    for last in texts:
        if text_width(last) <= width:
            return last
    return fit(last, width)


def in_two(text: str, width: int) -> tuple[str, str]:
    """A text on two rows, broken at a blank; the second is cut where it is too long.

    The first ends with a clause where one ends near its end, or where next to nothing would stand on the second.
    """
    if text_width(text) <= width:
        return text, ""
    ends = [blank.start() for blank in _BREAK.finditer(text) if text_width(text[: blank.start()]) <= width]
    at = ends[-1] if ends and ends[-1] > width // 2 else width
    near = width // 2 if text_width(text[at:]) < width // 4 else width - width // 4
    clauses = [end for end in ends if end > near and _ends_clause(text, end)]
    at = max((end for end in clauses if text_width(text[end:].lstrip()) <= width), default=at)
    return text[:at].rstrip(), fit(text[at:].lstrip(), width)


def _ends_clause(text: str, at: int) -> bool:
    """Whether a clause ends before the blank at ``at``."""
    return text[at - 1] in ".,;:" or text[at + 1 : at + 2] == "("


def on_rows(text: str, width: int, rows: int, brief: str = "") -> tuple[str, str]:
    """A text on one row or two: the longest of its versions that fits; "" where the second is not needed.

    What does not fit on a single row has a ``brief`` one, if there is one that does.
    """
    if rows < 2:
        whole, *rest = versions(text)
        return first_fitting([whole, *([brief] if brief else []), *rest], width), ""
    made = ("", "")
    for version in versions(text):
        made = in_two(version, width)
        if not made[1].endswith("…") or version.endswith("…"):
            break
    return made


def unsaid(limit: str, text: str) -> str:
    """A verdict's sentence without the figures that it begins with, where the ``limit`` beside it has the very same."""
    said = _SPEAKER.fullmatch(text)
    return said[2].upper() + said[3] if said is not None and said[1] in limit else text
