"""Pages over the view: the keys and what the colours mean, the notices, what failed. Each is drawn into the same cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from phasetop.figures import clock
from phasetop.metrics import measure
from phasetop.session import Session
from phasetop.tui import explain, helppage, turns
from phasetop.tui.cells import Area, Part, fit
from phasetop.tui.failure import Failure
from phasetop.tui.frame import Frame
from phasetop.tui.view import Page
from phasetop.visible import harmless

Kind = Page
Line = tuple[Part, ...]

TURNS_COLUMNS: Final = 140


def paint(
    kind: Kind,
    area: Area,
    frame: Frame,
    session: Session,
    failed: Mapping[str, Failure],
    top: int,
    settle: Callable[[int, bool], None] = lambda _top, _scrolls: None,
) -> dict[str, Failure]:
    """Draw a page from its line ``top`` on; returns what failed in it.

    ``settle`` is told the line that a list really begins with (one that was scrolled past its end stands at it), and
    whether there is more of it than fits.
    """

    def listed(title: str, lines: list[Line]) -> None:
        settle(paint_lines(area, title, lines, top), len(lines) > area.height - 1)

    try:
        match kind:
            case "help":
                settle(*helppage.paint(area, frame, top))
            case "log":
                listed("notices   times since the first request", log_lines(session, frame))
            case "error":
                listed("what failed", error_lines(failed))
            case "turns":
                turns.paint(area.area(1, 0, min(area.width - 2, TURNS_COLUMNS), area.height), frame)
            case "info":
                focus = frame.view.focus
                if frame.token is not None and (frame.view.token is not None or focus is None):
                    focus = "text"
                of_token = frame.token is not None and focus == "text"
                title = "the token under the cursor" if of_token else explain.TITLES[focus]
                listed(title, [(), *explain.lines(focus, frame, area.width - 2)])
            case "doctor":
                from phasetop.tui import doctorpage  # what it needs is looked at for this page alone

                listed(doctorpage.TITLE, doctorpage.lines(session, frame, area.width - 2))
            case "charts":
                from phasetop.tui import charts  # plotext takes 100 ms to load

                charts.paint(area, frame, session, top)
            case "roofline":
                from phasetop.tui import roofpage

                roofpage.paint(area, frame, session, frame.view.sliders)
    except Exception as error:
        failure = Failure.of(error)
        area.clear()
        area.put(1, 0, f"! this page failed: {failure.kind} · e shows it", "ink")
        return {kind: failure}
    return {}


def log_lines(session: Session, frame: Frame) -> list[Line]:
    """The notices up to the cursor, every turn's stalls and what is odd in the figures of the one shown, oldest first."""
    told = [(notice.t, notice.level, " ".join(notice.text.split())) for notice in session.notices.until(frame.cursor)]
    told += _stalls(session, frame.cursor)
    flags = frame.measures.flags if frame.measures else ()
    told += [(flag.t, "turn", flag.text) for flag in flags if flag.code != "stall"]  # each of those has its row
    zero = _first_sent(session, frame)
    lines: list[Line] = []
    for t, level, text in sorted(told, key=lambda each: each[0]):
        at = clock(t - zero) if t >= zero else "before"
        lines.append(((f"{at:>8}  ", "faint"), (f"{level:<6}", "soft"), harmless(text, newlines=False)))
    return lines or [(("nothing so far", "faint"),)]


def _first_sent(session: Session, frame: Frame) -> int:
    """When the first request was sent, ns since the anchor: where a replay's time begins, and the first turn's."""
    first = next((run for run in session.runs.values() if run.info.at() is not None), None)
    if first is None or frame.measures is None:
        return 0
    if first.r == frame.r:
        return frame.measures.phases.start
    return measure(session, first, frame.cursor).phases.start


def _stalls(session: Session, cursor: int) -> list[tuple[int, str, str]]:
    """When each stall ended, ``stall``, and what it was; of every turn, up to the cursor."""
    made: list[tuple[int, str, str]] = []
    for turn, run in enumerate(session.runs.values(), 1):
        tokens, upto = run.tokens, run.tokens.index(cursor)
        where = f" in turn {turn}" if len(session.runs) > 1 else ""
        made += [
            (tokens.t[i], "stall", f"{tokens.gap_ns[i] / 1e6:,.0f} ms without a token{where}")
            for i in tokens.stalls
            if i < upto
        ]
    return made


def error_lines(failed: Mapping[str, Failure]) -> list[Line]:
    """What failed, with the places in the program."""
    lines: list[Line] = []
    for name, failure in failed.items():
        lines.append(((name, "ink", "b"), ("  " + failure.kind, "soft"), ("  " + failure.words, "faint")))
        lines += [(("    " + where, "faint"),) for where in failure.where]
    return lines or [(("nothing failed", "faint"),)]


def paint_lines(area: Area, title: str, lines: list[Line], top: int) -> int:
    """A titled list from its line ``top`` on, or from where its end is still in sight; returns that line."""
    top = max(0, min(top, len(lines) - (area.height - 1)))
    area.put(1, 0, title, "soft")
    for y, line in enumerate(lines[top : top + area.height - 1], 1):
        x = 1
        for part in line:
            text = part if isinstance(part, str) else part[0]
            text = fit(text, max(0, area.width - 1 - x))
            x = area.line(x, y, text if isinstance(part, str) else (text, *part[1:]))
    more = len(lines) - top - (area.height - 1)
    if more > 0:
        note = f"{more:,} more below"
        area.right(area.width - 1, 0, note, "faint")
    return top
