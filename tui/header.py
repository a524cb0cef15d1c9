"""Row 0: who answers at the left; turn, recording and clock at the right."""

from __future__ import annotations

from phasetop.figures import clock
from phasetop.tui.cells import Area, Part, fit
from phasetop.tui.frame import Frame
from phasetop.tui.lanes import SECOND_NS
from phasetop.tui.pacing import beat
from phasetop.tui.theme import Role
from phasetop.tui.wrap import text_width
from phasetop.visible import harmless


def paint(area: Area, frame: Frame) -> None:
    """Draw the header; where room is short the device goes first, the model's name never (``…`` in its middle)."""
    edge = area.width - 1
    facts = frame.facts
    name = _clean(facts.model) or "phasetop"
    quant = None if facts.quant is None or facts.quant.casefold() in name.casefold() else facts.quant  # a file's name tells
    rest = [_clean(part) for part in (quant, facts.link, facts.server, facts.device) if part]
    right = _right(frame, full=True)
    if _width(right) + len(name) + 24 > edge:
        right = _right(frame, full=False)
    if _width(right) + min(len(name), 12) + 4 > edge:
        right = []
    room = edge - 1 - (_width(right) + 2 if right else 0)
    while rest and text_width(name) + sum(2 + text_width(part) for part in rest) > room:
        rest.pop()
    parts: list[Part] = [(fit(name, max(1, room), keep_end=True), "ink", "b")]
    parts += [("  " + part, "soft") for part in rest]
    area.line(1, 0, *parts)
    area.line(edge - _width(right), 0, *right)


def _clean(text: str | None) -> str:
    return harmless(text, newlines=False) if text else ""


def _width(parts: list[tuple[str, Role]]) -> int:
    return sum(text_width(text) for text, _ in parts)


def _right(frame: Frame, *, full: bool) -> list[tuple[str, Role]]:
    """Turn, recording, clock; or what is replayed or watched."""
    view = frame.view
    parts: list[tuple[str, Role]] = []
    if view.standing is not None:
        parts.append((view.standing.short, "ink"))
    if view.title is not None and (full or view.standing is None):
        parts.append((_clean(view.title), "soft"))
    if frame.turn:
        newest = frame.turn == frame.turns and view.title is None
        turns = max(frame.turns, view.scrub.turns if view.scrub is not None else 0)
        parts.append((f"turn {frame.turn}" + ("" if newest else f" of {turns}"), "soft"))
    if view.steers and not frame.recorded:
        parts.append(("not recorded", "soft"))
    elif view.steers and view.kept is None:
        parts.append(("not kept · s keeps it" if full else "not kept", "faint"))
    elif view.steers:
        parts.append(("● rec", "soft"))
    if view.scrub is not None:
        parts.append((view.scrub.word, "soft"))
    elif frame.r is not None:
        elapsed = beat(frame.elapsed_ns, SECOND_NS) if view.remote and frame.running else frame.elapsed_ns
        parts.append((clock(elapsed), "soft"))
    spaced: list[tuple[str, Role]] = []
    for part in parts:
        spaced += [("   ", "soft"), part] if spaced else [part]
    return spaced
