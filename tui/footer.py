"""The last rows: news, the ask line, the keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from phasetop.tui.cells import Area, fit
from phasetop.tui.keys import Screen, When, row_of
from phasetop.tui.theme import Role
from phasetop.tui.tokenfacts import reading
from phasetop.tui.view import AskLine, View
from phasetop.visible import harmless

if TYPE_CHECKING:
    from phasetop.tui.frame import Frame


def is_open(view: View) -> bool:
    """Whether something lies over or within the view that esc closes first."""
    return bool(view.zoom or view.focus or view.pattern) or view.token is not None


def situation(frame: Frame) -> frozenset[When]:
    """What is the case, as the key table speaks of it."""
    view = frame.view
    cases: set[When] = {"always", "frozen" if view.frozen else "unfrozen"}
    if view.steers:
        cases.add("steering")
        if frame.running and frame.r is not None and not is_open(view):
            cases.add("running")
        elif frame.task is not None and not is_open(view):
            cases.add("fetching")
        if frame.r is not None:
            cases.add("asked")
        if view.kept is None and frame.recorded:
            cases.add("unkept")
    if is_open(view):
        cases.add("open")
    cases.add("wide" if frame.wide else "narrow")
    cases.add("stocked" if view.offer is None else "lacking")
    if view.page == "charts" and not frame.wide:
        cases.add("charts")
    if view.failed:
        cases.add("failed")
    if view.scrub is not None:
        cases.add("playing" if view.scrub.playing or view.scrub.following else "paused")
        cases |= {"turns"} if view.scrub.turns > 1 else set()
    if view.top is not None:
        cases.add("behind")
    if frame.turns > 1:
        cases.add("turns")
    return frozenset(cases)


_SCROLLS: Final[frozenset[When]] = frozenset(("scrolls",))
_MARKS: dict[str, tuple[str, Role]] = {
    "stall": ("▲", "stall"),
    "warn": ("▲", "ink"),
    "error": ("▲", "ink"),
    "info": ("●", "soft"),
}


def paint_notice(area: Area, frame: Frame) -> None:
    """One row: what the view says, where one is in the text, or the newest notice."""
    view = frame.view
    room = area.width - 2
    if view.message is not None:
        area.put(1, 0, fit(harmless(view.message, newlines=False), room), "ink")
    elif view.offer is not None:
        area.put(1, 0, "▲")
        area.put(3, 0, fit(view.offer, room - 2), "ink")
    elif frame.token is not None and (view.scrub is None or view.top is None or view.token is not None):
        asked = view.colour == "probability"
        area.line(1, 0, *reading(frame.token, room, alternatives=asked))
    elif view.frozen:
        area.line(1, 0, ("paused", "ink", "b"), ("  the reply goes on; space follows it again", "faint"))
    elif view.top is not None:
        rows = frame.page.below
        area.line(1, 0, f"{rows:,} row{'s' if rows != 1 else ''} behind", ("  f follows", "faint"))
    elif view.standing is not None:
        area.put(1, 0, "▲")
        area.put(3, 0, fit(harmless(view.standing.text, newlines=False), room - 2), "ink")
    elif frame.notice is not None and frame.notice.text != frame.error:
        mark, role = _MARKS.get(frame.notice.level, _MARKS["info"])
        area.put(1, 0, mark, role)
        more = f"  {frame.notice.count - 1} more: !" if frame.notice.count > 1 else ""
        text = fit(harmless(" ".join(frame.notice.text.split()), newlines=False), max(0, room - 2 - len(more)))
        area.put(area.put(3, 0, text, "soft"), 0, more, "faint")


def hint_of(frame: Frame) -> str:
    """What the empty ask line says."""
    if not frame.view.ask.focused:
        return "after this reply; esc ends it now" if frame.running else "the next turn, with this one as history"
    if frame.running:
        return "after this reply; esc leaves, esc again ends the reply"
    return "the next turn, with this one as history" if frame.turn else "type a prompt; enter sends it"


def paint_ask(area: Area, frame: Frame) -> None:
    """The line that one types in; its caret is drawn, and stands where the terminal's own is put."""
    if frame.view.steers:
        draw_ask(area, frame.view.ask, frame.view.ask.hint or hint_of(frame))


def draw_ask(area: Area, line: AskLine, hint: str) -> None:
    """The line itself: its label, then what is typed, or the hint."""
    x = area.put(1, 0, line.label + " ", "ink" if line.focused else "soft")
    if not line.text:
        area.put(x, 0, "▏", "ink" if line.focused else "soft")
        area.put(x + 1, 0, fit(hint, area.width - x - 2), "faint")
        return
    area.put(x + 1, 0, line.text, "ink")
    if line.focused:
        area.reverse(x + 1 + line.caret, 0)


def paint_search(area: Area, frame: Frame) -> None:
    """The line that one types a search in, and what it finds in this turn."""
    line = frame.view.search
    assert line is not None
    end = area.put(area.put(1, 0, "/"), 0, line.text)
    area.put(end, 0, " ")
    area.reverse(2 + line.caret, 0)
    if line.text:
        n = frame.hits
        found = "no hit in this turn" if not n else f"{n:,} hit{'s' if n != 1 else ''} in this turn"
        area.put(end + 3, 0, found, "faint")
    else:
        area.put(4, 0, "part of the reply; without a capital, case does not matter", "faint")


def paint_line(area: Area, frame: Frame) -> None:
    """The line that one types in: a search, a time, a prompt."""
    if frame.view.search is not None:
        paint_search(area, frame)
    elif frame.view.time is not None:
        draw_ask(area, frame.view.time, "a time of the session: 12.5, 1:02; a token of this turn: #900; 50%; end")
    else:
        paint_ask(area, frame)


def paint_keys(area: Area, frame: Frame, screen: Screen, *, message_here: bool = False, scrolls: bool = False) -> None:
    """The keys that matter here; with ``message_here`` the view's message stands instead while there is one.

    ``scrolls``: of the page that lies over the view there is more than fits.
    """
    if message_here and frame.view.message is not None:
        area.put(1, 0, fit(harmless(frame.view.message, newlines=False), area.width - 2), "ink")
        return
    x = 1
    cases = situation(frame)
    if scrolls:
        cases |= _SCROLLS
    for key in row_of(screen, cases, area.width - 2):
        x = area.line(x, 0, (key.label, "ink"), (" " + key.word, "faint")) + 3
