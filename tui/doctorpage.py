"""The page of what can be reached and measured from here: the same checks and list that `phasetop doctor` prints."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import wrap
from typing import Final

from phasetop.capabilities import Check, by_section, checks_of, folded_checks, folded_metrics, metrics_of
from phasetop.session import Session
from phasetop.tui.cells import Part
from phasetop.tui.frame import Frame
from phasetop.tui.terminalchecks import checks as terminal_checks
from phasetop.tui.theme import Role
from phasetop.visible import harmless

TITLE: Final = "what is reached and measured from here"
_ID: Final = 14
_STATE: Final = 9
_NAME: Final = 28
_LEAST: Final = 20


def lines(session: Session, frame: Frame, width: int) -> list[tuple[Part, ...]]:
    """The page's lines: checks by section, then each figure with its source; everything as of the cursor."""
    found: list[tuple[Part, ...]] = []
    if not frame.view.steers:
        found.append((("what this session's collector found; only the terminal is looked at now", "faint"),))
    facts = frame.view.terminal
    checks = (*checks_of(session, frame.cursor), *(terminal_checks(facts) if facts is not None else ()))
    for title, here in by_section(checks):
        found += [(), ((title, "soft"),)]
        for check in folded_checks(here):
            found += _check(check, width)
    found += [(), (("figures, and where each is from", "soft"),)]
    for metric in folded_metrics(metrics_of(session, frame.cursor)):
        head: tuple[Part, ...] = ((f"  {metric.name:<{_NAME}}"[: _NAME + 2] + " ", "soft"),)
        told = metric.source or "—"
        why = f"  {metric.why_not_better}" if metric.why_not_better else ""
        found += _wrapped(head, _NAME + 3, harmless(told + why, newlines=False), width, "soft" if metric.source else "faint")
    return found[1:] if found and not found[0] else found


def _check(check: Check, width: int) -> Iterable[tuple[Part, ...]]:
    plain = check.state == "ok"
    head: tuple[Part, ...] = (
        (f"  {check.state:<{_STATE}}", "faint" if plain else "ink"),
        (f"{harmless(check.id, newlines=False):<{_ID}}", "soft"),
    )
    indent = 2 + _STATE + _ID
    yield from _wrapped(head, indent, harmless(check.text or "", newlines=False), width, "soft" if plain else "ink")
    if check.todo:
        yield from _wrapped(((" " * indent, "faint"),), indent, "→ " + harmless(check.todo, newlines=False), width, "ink")


def _wrapped(head: tuple[Part, ...], indent: int, text: str, width: int, role: Role) -> list[tuple[Part, ...]]:
    rows = wrap(text, max(_LEAST, width - indent), break_on_hyphens=False) or [""]
    return [(*head, (rows[0], role)), *(((" " * indent, "faint"), (row, role)) for row in rows[1:])]
