"""What `phasetop doctor` prints for people: checks by section, then each figure with its source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Final

from phasetop.capabilities import STATES, Check, Metric, by_section, folded_checks, folded_metrics

WIDTH: Final = 80
MOST: Final = 110
"""Longer lines are not read."""
_STATE: Final = max(map(len, STATES)) + 1
_ID: Final = 13
_LEAST: Final = 24


def lines(checks: Sequence[Check], metrics: Sequence[Metric], width: int = WIDTH) -> Iterator[str]:
    """All lines; texts are not made harmless here."""
    width = max(_LEAST + 24, min(width, MOST))
    for title, here in by_section(tuple(checks)):
        yield title
        for check in folded_checks(here):
            yield from _check(check, width)
    yield from _figures(metrics, width)
    yield summary(checks)


def _check(check: Check, width: int) -> Iterator[str]:
    head = f"  {check.state:<{_STATE}} {check.id:<{_ID}} "
    yield from _hung(head, check.text or "", width)
    if check.todo:
        yield from _hung(" " * (len(head) - 2) + "> ", check.todo, width)


def _figures(metrics: Sequence[Metric], width: int) -> Iterator[str]:
    yield "figures, and where each is from"
    metrics = folded_metrics(metrics)
    room = max((len(metric.name) for metric in metrics), default=0)
    for metric in metrics:
        why = metric.why_not_better
        if metric.source is None:
            text = f"-  {why or 'not known'}"
        else:
            text = f"{metric.source}  ({why})" if why else metric.source
        yield from _hung(f"  {metric.name:<{min(room, 34)}} ", text, width)


def _hung(head: str, text: str, width: int) -> Iterable[str]:
    rows = wrap(" ".join(text.split()), max(_LEAST, width - len(head)), break_on_hyphens=False) or [""]
    yield (head + rows[0]).rstrip()
    for row in rows[1:]:
        yield " " * len(head) + row


def summary(checks: Sequence[Check]) -> str:
    """How many are in which state: ``17 ok, 2 limited, 1 broken``."""
    counts = {state: sum(check.state == state for check in checks) for state in STATES}
    return ", ".join(f"{n} {state}" for state, n in counts.items() if n) or "nothing was found"
