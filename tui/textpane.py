"""The text: the reply swept over the pane, coloured token by token, with its gutter and legend; before it the prompt."""

from __future__ import annotations

from typing import Final

from phasetop.figures import count
from phasetop.pace import GAP_LIMITS, USUAL
from phasetop.tui.cells import Area, Part
from phasetop.tui.frame import Frame
from phasetop.tui.intro import INTRO
from phasetop.tui.lanes import ACCENT_OF
from phasetop.tui.layout import MARGIN, Layout
from phasetop.tui.page import Page
from phasetop.tui.theme import GAP_ROLES, Role

STALL: Final = " stall "
STEPS: Final = range(1, len(GAP_LIMITS) + 1)


def paint(area: Area, frame: Frame, layout: Layout) -> None:
    """Draw legend and rows."""
    top = 0
    if layout.legend and frame.page_kind != "none":
        _legend(area, frame)
        top = 1
    rows = area.area(0, top, area.width, area.height - top)
    if frame.page_kind == "none":
        _intro(rows, frame, layout)
        return
    _rows(rows, frame, frame.page, layout.gutter)


def _rows(area: Area, frame: Frame, page: Page, gutter: int) -> None:
    x = MARGIN + gutter
    for y, row in enumerate(page.rows):
        if gutter and row.gutter:
            area.right(MARGIN + gutter - 2, y, row.gutter, row.gutter_role)
        at = x
        for text, how in row.runs:
            at = area.put(at, y, text, how.fg, how.bg, how.style)
    if page.pen is not None and frame.running and frame.view.top is None:
        y, column = page.pen
        phase = frame.measures.phases.running if frame.measures else None
        area.put(min(x + column, area.width - 1), y, "▌", ACCENT_OF[phase] if phase else "faint")
    elif page.pen is not None and frame.ending is not None and frame.view.top is None:
        y, column = page.pen
        if x + column + len(frame.ending) + 3 <= area.width:
            area.put(x + column + 1, y, frame.ending, "ground", "special")


def _legend(area: Area, frame: Frame) -> None:
    if frame.page_kind != "reply":
        x = area.label(1, 0, "prompt", focused=frame.view.focus == "text")
        if frame.page.pen is not None:
            area.line(x, 0, ("   token  ", "faint"), ("read", "gap3"), ("   ▌", "prefill"), (_border(frame), "faint"))
        return
    match frame.view.colour:
        case "gap":
            _gap_legend(area, frame)
        case "probability":
            x = area.put(_head(area, frame), 0, "probability  ", "faint")
            if frame.has_probabilities:
                scale: tuple[Part, ...] = (
                    ("> 0.9", "prob1"),
                    ("  0.6", "prob2"),
                    ("  0.3", "prob3"),
                    ("  0.1", "prob4"),
                    "  ",
                )
                area.line(x, 0, *scale, ("a gamble", "prob5", "u"))
            elif frame.view.asked_for_probabilities:
                area.line(x, 0, "—", ("  from the next turn on", "faint"))
            else:
                area.line(x, 0, "—", ("  the server was not asked for it", "faint"))
        case "channel":
            x = area.put(_head(area, frame), 0, "channel  ", "faint")
            tokens = frame.measures.tokens if frame.measures is not None else None
            named: tuple[tuple[str, Role, str, int | None], ...] = (
                ("thinking", "thinking", "i", tokens.thinking if tokens else None),
                ("answer", "answer", "", tokens.answer if tokens else None),
                ("tool call", "tool", "", tokens.tool if tokens else None),
            )
            for name, role, style, n in named:
                x = area.line(x, 0, (name, role, style), (f" {count(n)}  ", "faint"))
        case _:
            _head(area, frame)


def _border(frame: Frame) -> str:
    """What begins at the border between what is read and what is to come."""
    batches = len(frame.trace.batches) if frame.trace is not None else 0
    return f"batch {batches + 1:,} begins here   to come" if batches else "to come"


def _head(area: Area, frame: Frame) -> int:
    """``reply``, and what of it was left out; returns the column for what the colours mean."""
    x = area.label(1, 0, "reply", focused=frame.view.focus == "text")
    if frame.redacted:
        tokens = frame.measures.tokens.output if frame.measures is not None else None
        return area.put(x + 3, 0, f"{count(tokens)} tokens, text left out", "soft") + 3
    return x + 3


def _gap_legend(area: Area, frame: Frame) -> int:
    measures = frame.measures
    gaps = measures.latency.gaps if measures else None
    what = "gap a chunk ms" if gaps is not None and gaps.per == "chunk" else "gap ms"
    return gap_scale(area, area.put(_head(area, frame), 0, f"{what}  ", "faint"), 0, frame)


def limit_word(step: int, median_ns: float) -> str:
    """Where a step of latency ends, in ms: two digits, whole ones from 100 ms on. Of a stall: where the step before ends."""
    ms = GAP_LIMITS[min(step, len(GAP_LIMITS)) - 1] * median_ns / 1e6
    return f"{ms:.2g}" if ms < 99.5 else f"{ms:,.0f}"


def gap_scale(area: Area, x: int, y: int, frame: Frame) -> int:
    """The steps of latency with this turn's values, each the step's upper end; returns the column after it."""
    gaps = frame.measures.latency.gaps if frame.measures else None
    if gaps is None or gaps.p50 is None:
        return area.put(x, y, "—  too few tokens yet", "faint")
    words = [(f"<{limit_word(step, gaps.p50)}" + (" usual" if step == USUAL else ""), GAP_ROLES[step]) for step in STEPS]
    for shown, between in ((words, 2), (words, 1), ([words[USUAL - 1]], 1)):
        if x + sum(len(word) + between for word, _ in shown) + len(STALL) <= area.width:
            for word, role in shown:
                x = area.put(x, y, word, role) + between
            return area.put(x, y, STALL, "ground", "gap7")
    return x  # half a number would read as another


def _intro(area: Area, frame: Frame, layout: Layout) -> None:
    """No request yet: say so, and what the colours will mean."""
    if layout.gutter and area.width > 60 and area.height >= 5:
        area.put(1, 0, "what you will see", "soft")
        for y, (role, swatch, text) in enumerate(INTRO, 1):
            area.put(1, y, swatch, "ground", role)
            area.put(6, y, text, "soft")
    elif frame.state in ("ready", "starting"):
        area.put(1, 0, "—  no request yet", "faint")
