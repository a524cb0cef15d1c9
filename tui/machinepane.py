"""The machine's lanes, drawn: filled from below in the subdued accent of the phase above, full height is 100 %."""

from __future__ import annotations

from collections.abc import Sequence

from phasetop.figures import UNKNOWN
from phasetop.tui.cells import BARS, HALF_DOTS, Area, fit
from phasetop.tui.frame import Frame
from phasetop.tui.lanes import phases_by_column
from phasetop.tui.layout import Layout
from phasetop.tui.machine import Lane
from phasetop.tui.theme import AREA_OF, Accent
from phasetop.tui.wrap import text_width


def paint(area: Area, frame: Frame, layout: Layout) -> None:
    """Draw all lanes, one under the other."""
    plot = layout.plot
    assert plot is not None
    accents = phases_by_column(frame.trace.bands, plot.width) if frame.trace else ()
    for i, lane in enumerate(frame.lanes):
        y = i * layout.lane_rows + i // 2 * layout.pair_gap
        rows = area.area(0, y, area.width, layout.lane_rows)
        paint_lane(rows, plot.x, lane, accents, layout.values_x, focused=frame.view.focus == "machine" and i == 0)


def paint_lane(
    area: Area, x: int, lane: Lane, accents: Sequence[Accent | None], values: int | None, *, focused: bool = False
) -> None:
    """One lane in one row or more."""
    rows = area.height
    area.label(1, 0, lane.label, focused=focused)
    if rows > 1:
        area.right(x - 1, 1, lane.full, "faint")
    glyphs = HALF_DOTS if area.look.spreads else BARS
    steps = len(glyphs) - 1
    heights = [
        0 if level is None or accent is None else max(1, round(level * rows * steps))
        for level, accent in zip(lane.levels, accents, strict=False)
    ]
    for row in range(rows):
        floor = steps * (rows - 1 - row)
        text = "".join(glyphs[min(steps, max(0, height - floor))] for height in heights)
        for accent, x0, x1 in _stretches(accents):
            area.put(x + x0, row, text[x0:x1], AREA_OF[accent])
    if values is None:
        return
    area.right(values + 7, 0, lane.number, "faint" if lane.stale else "ink")
    room = area.width - 1 - (values + 8)
    if rows > 1:
        area.put(values + 8, 0, lane.unit, "soft")
        area.put(min(values + 8, area.width - 1 - text_width(lane.note)), 1, lane.note, "faint")
        return
    unit, note = beside(lane, room)
    end = area.put(values + 8, 0, unit, "soft")
    area.put(end + 1 if unit else end, 0, note, "faint")


def beside(lane: Lane, room: int) -> tuple[str, str]:
    """Unit and note of a lane of one row in ``room`` columns: where the note is too long of it the source, its last word.

    The reason of a dash, and the age of what is old, is worth more than the unit.
    """
    needed = lane.number == UNKNOWN or lane.stale
    last = lane.note.rpartition(" ")[2]
    source = last if last.rstrip(".").replace("-", "").isalpha() and last != "GPUs" and not needed else ""
    for note in (lane.note, source):
        if note and text_width(lane.unit) + (1 if lane.unit else 0) + text_width(note) <= room:
            return lane.unit, note
    return ("", fit(lane.note, room)) if needed and lane.note else (lane.unit, "")


def _stretches(accents: Sequence[Accent | None]) -> list[tuple[Accent, int, int]]:
    """Columns of one accent, as (accent, first, end)."""
    made: list[tuple[Accent, int, int]] = []
    for x, accent in enumerate(accents):
        if accent is None:
            continue
        if made and made[-1][0] == accent and made[-1][2] == x:
            made[-1] = (accent, made[-1][1], x + 1)
        else:
            made.append((accent, x, x + 1))
    return made
