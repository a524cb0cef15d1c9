"""How many rows each part of the view has at a size: what does not fit is taken from the parts in a fixed order. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

RAIL_FROM: Final = 112
"""The width from which figures stand beside the text."""
TALL_TEXT: Final = 10
"""While the text has fewer rows than this, comfort goes."""
PAIRS_FROM: Final = 50
"""The height from which each of several GPUs can have lanes of its own."""
TEXT_BESIDE_PAIRS: Final = 16
"""They have, as long as so many rows are left for the text."""
SHORT_TEXT: Final = 4
"""While it has fewer than this, lanes go."""
_AIR: Final = {"before_lanes": False, "after_text": False}
_COMFORT: Final = {"legend": False, "ask": False, "gap": 3}
_NEEDED: Final = {
    "gap": 1,
    "lane": 0,
    "before_text": False,
    "strip": 0,
    "before_trace": False,
    "header_gap": 0,
    "progress": False,
    "marks": False,
}
"""What goes, in this order, and what is left of it."""


class Rows(Struct):
    """How many rows each part has; `fitted` takes from them what does not fit."""

    width: int
    height: int
    narrow: bool
    rail: bool
    block: int
    strip: int
    gap: int
    lane: int  # of each machine lane
    pairs: int
    pair_gap: bool
    before_lanes: bool
    after_text: bool
    legend: bool
    ask: bool
    progress: bool
    ruler: bool = True
    marks: bool = True
    before_text: bool = True
    before_trace: bool = True
    header_gap: int = 1

    @property
    def headline(self) -> int:
        """Chip and limit, sentence, and progress, or the rest of the sentence."""
        return 2 + self.narrow + self.progress

    @property
    def machine(self) -> int:
        """All lanes of the machine."""
        return 2 * self.lane * self.pairs + (self.pairs - 1) * self.pair_gap

    @property
    def trace(self) -> int:
        """Phases, marks, gaps, machine lanes, ruler."""
        return 1 + self.marks + self.gap + (self.before_lanes and self.lane > 0) + self.machine + self.ruler

    @property
    def foot(self) -> int:
        """What is below the text: a blank row, notice, figures, ask line, keys."""
        return self.after_text + 1 + self.strip + (self.block and self.block + 1) + self.ask + 1

    @property
    def text(self) -> int:
        """What is left for the text, without its legend."""
        head = 1 + self.header_gap + self.headline + self.before_trace
        return self.height - head - self.trace - self.before_text - self.legend - self.foot


def fitted(width: int, height: int, cards: int, *, scrub: bool) -> Rows:
    """The rows of every part: comfort first, and then what the text needs taken from it in a fixed order."""
    narrow, rail = width < 80, width >= RAIL_FROM
    block = 7 if not rail and height >= 36 else 0
    rows = Rows(
        width,
        height,
        narrow=narrow,
        rail=rail,
        block=block,
        strip=0 if rail or block else 2,
        gap=8 if height >= 50 and not narrow else 3 if narrow else 5,
        lane=1 if narrow else 2,
        pairs=1,
        pair_gap=False,
        before_lanes=not narrow,
        after_text=not narrow,
        legend=not narrow,
        ask=scrub or not narrow,
        progress=True,
    )
    if cards > 1 and height >= PAIRS_FROM and not narrow:
        for rows.lane, rows.pairs, rows.pair_gap in ((2, cards, True), (2, cards, False), (1, cards, False), (2, 1, False)):
            if rows.text >= TEXT_BESIDE_PAIRS:
                break
    # Beside a rail a sentence is long, and goes on in the row for progress; else progress has its row, and the header air.
    _shrink(rows, TALL_TEXT, {**_AIR, **({"header_gap": 0} if rail else {"progress": False}), "lane": 1})
    if rows.text < TALL_TEXT and rows.rail and rows.text + rows.legend < 8:
        rows.rail, rows.strip = False, 2
    _shrink(rows, TALL_TEXT, _COMFORT if not scrub else {**_COMFORT, "ask": True})
    if narrow:
        _shrink(rows, TALL_TEXT, {"progress": False})
    _shrink(rows, SHORT_TEXT, _NEEDED)
    return rows


def _shrink(rows: Rows, least: int, order: Mapping[str, int]) -> None:
    """Take from the parts, one after the other, until the text has ``least`` rows."""
    for name, left in order.items():
        if rows.text < least:
            setattr(rows, name, min(getattr(rows, name), left))
