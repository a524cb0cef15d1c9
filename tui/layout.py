"""Where everything stands, at any size: pure arithmetic from the terminal's columns and rows.

One order at every size: verdict, trace, text, figures, footer. What does not fit is dropped in a fixed order, so that a
narrow terminal loses rails and rows and never the order; see `layout`.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

MARGIN: Final = 1
PLOT_X: Final = 10
GUTTER: Final = 8
"""Columns before the text: seven for the time, one blank."""
TEXT_COLUMNS: Final = 88
"""Text is never wider: a measure that one can read."""
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


class Rect(Struct, frozen=True):
    """A rectangle of cells."""

    x: int
    y: int
    width: int
    height: int

    @property
    def bottom(self) -> int:
        """The row after the last."""
        return self.y + self.height

    @property
    def right(self) -> int:
        """The column after the last."""
        return self.x + self.width


class RailRows(Struct, frozen=True):
    """Where the parts of the rail begin, below one another: figures (``figures`` of them), one token, KV."""

    figures: int
    token: int | None  # None: there is no room for it
    kv: int


def rail_rows(height: int) -> RailRows:
    """The parts of a rail of so many rows: energy goes first, then the gap, which the trace shows too, then one token."""
    if height < 12:
        return RailRows(4, None, 5)
    figures = 5 if height >= 26 else 4 if height >= 15 else 3
    return RailRows(figures, figures + 1, figures + 5)


Lane = Literal["phases", "gap", "machine", "ruler"]
Pane = Literal["trace", "text", "figures", "kv", "machine"]
"""The panes that can be focused and zoomed."""
PANES: Final[tuple[Pane, ...]] = ("trace", "text", "figures", "kv", "machine")
"""In the order in which `tab` goes through them."""


class Layout(Struct, frozen=True):
    """The panes' places; None: the pane is dropped at this size."""

    width: int
    height: int
    headline: Rect  # the chip's row first
    limit_below: bool  # the limit has a row of its own under the chip
    why: bool  # there is a row for the sentence
    progress_row: int | None  # within the headline; None: progress takes the sentence's row
    header: Rect | None = None
    trace: Rect | None = None  # phases, marks, gaps, machine lanes, time, one below the other at full width
    plot: Rect | None = None  # the trace's columns that lie on the time axis
    marks: bool = False
    gap_rows: int = 0
    lane_rows: int = 0  # of each machine lane; 0: no lanes
    lane_gap: bool = False  # a blank row before the machine lanes
    cards: int = 1  # GPUs that work
    lane_pairs: int = 1  # two lanes each: one a GPU, or one for all together
    pair_gap: bool = False  # a blank row between them
    ruler: bool = False
    text: Rect | None = None  # with gutter and, in its first row, the legend
    legend: bool = False
    gutter: int = GUTTER  # 0 where there is no room for one
    rail: Rect | None = None  # figures beside the text
    second_rail: Rect | None = None  # the turns, on very wide terminals
    alone: Rect | None = None  # one pane in all the room: `alone_pane`, figures or KV
    alone_pane: Pane | None = None
    block: Rect | None = None  # figures under the text, with the KV bar
    strip: Rect | None = None  # figures under the text in two rows
    notice: Rect | None = None
    ask: Rect | None = None
    keys: Rect | None = None
    scrub: Rect | None = None  # a replay's bar, in the ask line's row

    @property
    def values_x(self) -> int | None:
        """The column of the lanes' figures; None where there is no room for them."""
        return self.plot.right + 2 if self.plot is not None and self.width >= 50 else None

    @property
    def machine_rows(self) -> int:
        """The rows of all machine lanes."""
        return 2 * self.lane_rows * self.lane_pairs + (self.lane_pairs - 1) * self.pair_gap * (self.lane_rows > 0)

    @property
    def lanes(self) -> dict[Lane, Rect]:
        """The trace's parts."""
        if self.trace is None:
            return {}
        made: dict[Lane, Rect] = {}
        y = self.trace.y
        heights: tuple[tuple[Lane, int], ...] = (
            ("phases", 1 + self.marks),
            ("gap", self.gap_rows),
            ("machine", self.machine_rows),
            ("ruler", int(self.ruler)),
        )
        for name, height in heights:
            y += name == "machine" and self.lane_gap
            if height:
                made[name] = Rect(0, y, self.width, height)
            y += height
        return made


def layout(width: int, height: int, cards: int = 1, *, scrub: bool = False) -> Layout | None:
    """The layout of a terminal of ``width`` × ``height`` cells; None where nothing fits (under 6 columns or 2 rows).

    Several ``cards`` have a pair of lanes each where there is height, else one pair together. ``scrub``: of a replay, whose
    bar takes the ask line's place and never goes.
    """
    if width < 6 or height < 2:
        return None
    if width < 40 or height < 12:
        return _tiny(width, height)
    narrow = width < 80
    rail = width >= RAIL_FROM
    block_rows = 7 if not rail and height >= 36 else 0
    strip_rows = 0 if rail or block_rows else 2
    progress = True
    gap_rows = 8 if height >= 50 and not narrow else 3 if narrow else 5
    lane_rows = 1 if narrow else 2
    pairs, pair_gap = 1, False
    blanks = {"lanes": not narrow, "text": not narrow}
    legend = not narrow
    ask = scrub or not narrow
    ruler = marks = before_text = before_trace = True
    header_gap = 1

    def spare() -> int:
        """The rows that are left for the text."""
        head = 1 + header_gap + (3 if narrow else 2) + (0 if narrow else progress) + (narrow or not progress) * before_trace
        trace = 1 + marks + gap_rows + blanks["lanes"] + 2 * lane_rows * pairs + (pairs - 1) * pair_gap + ruler
        foot = 1 + blanks["text"] + (block_rows and block_rows + 1) + strip_rows + ask + 1
        return height - head - trace - before_text - legend - foot

    if cards > 1 and height >= PAIRS_FROM and not narrow:
        for tried in ((2, cards, True), (2, cards, False), (1, cards, False), (2, 1, False)):
            lane_rows, pairs, pair_gap = tried
            if spare() >= TEXT_BESIDE_PAIRS:
                break
    if spare() < TALL_TEXT:
        blanks["lanes"] = False
    if spare() < TALL_TEXT:
        blanks["text"] = False
    if spare() < TALL_TEXT:
        lane_rows = 1
    if spare() < TALL_TEXT and rail and spare() + legend < 8:
        rail, strip_rows = False, 2
    if spare() < TALL_TEXT:
        legend = False
    if spare() < TALL_TEXT:
        ask = scrub
    if spare() < TALL_TEXT:
        gap_rows = min(gap_rows, 3)
    if spare() < TALL_TEXT:
        progress = False
    if spare() < SHORT_TEXT:
        gap_rows = 1
    if spare() < SHORT_TEXT:
        lane_rows = 0
    if spare() < SHORT_TEXT:
        before_text = False
    if spare() < SHORT_TEXT:
        strip_rows = 0
    if spare() < SHORT_TEXT:
        before_trace = False
    if spare() < SHORT_TEXT:
        header_gap = 0
    if spare() < SHORT_TEXT:
        marks = False

    y = 1 + header_gap
    head_rows = 3 if narrow else 2 + progress
    headline = Rect(0, y, width, head_rows)
    y += head_rows + ((narrow or not progress) and before_trace)
    machine_rows = 2 * lane_rows * pairs + (pairs - 1) * pair_gap
    trace_rows = 1 + marks + gap_rows + (blanks["lanes"] and lane_rows > 0) + machine_rows + ruler
    trace = Rect(0, y, width, trace_rows)
    y += trace_rows + before_text
    foot = height - 1
    keys = Rect(0, foot, width, 1)
    ask_rect = None
    if ask:
        foot -= 1
        ask_rect = Rect(0, foot, width, 1)
    block = strip = None
    if block_rows:
        foot -= block_rows + 1
        block = Rect(0, foot, width, block_rows)
    if strip_rows:
        foot -= strip_rows
        strip = Rect(0, foot, width, strip_rows)
    foot -= 1
    notice = Rect(0, foot, width, 1)
    body = Rect(0, y, width, max(1, foot - blanks["text"] - y))
    rail_rect = second_rail = None
    text_width = min(width, MARGIN + GUTTER + TEXT_COLUMNS + 1)
    if rail:
        rail_width = 39 if width < 140 else 42
        rail_x = 104 if width >= 200 else width - rail_width - MARGIN
        rail_rect = Rect(rail_x, y, rail_width, max(0, foot - y))
        text_width = min(text_width, rail_x - 4)
        if width >= 200:
            second_rail = Rect(152, y, min(46, width - 153), max(0, foot - y))
    return Layout(
        width,
        height,
        headline,
        limit_below=narrow,
        why=True,
        progress_row=2 if not narrow and progress else None,
        header=Rect(0, 0, width, 1),
        trace=trace,
        plot=_plot(width, trace),
        marks=marks,
        gap_rows=gap_rows,
        lane_rows=lane_rows,
        lane_gap=blanks["lanes"] and lane_rows > 0,
        cards=cards,
        lane_pairs=pairs,
        pair_gap=pair_gap,
        ruler=ruler,
        text=Rect(0, body.y, text_width, body.height),
        legend=legend,
        rail=rail_rect,
        second_rail=second_rail,
        block=block,
        strip=strip,
        notice=notice,
        ask=ask_rect,
        keys=keys,
        scrub=replace(_plot(width, ask_rect), height=1) if scrub and ask_rect is not None else None,
    )


def zoomed(plain: Layout, pane: Pane = "text") -> Layout:
    """The same with one pane in all the room under the headline."""
    if plain.trace is None or plain.text is None or plain.notice is None:
        return plain
    y = plain.trace.y
    foot = (plain.keys.y if plain.keys else plain.height) - (plain.ask is not None) - 1
    room = Rect(0, y, plain.width, foot - y)
    bare = replace(
        plain,
        trace=None,
        plot=None,
        marks=False,
        gap_rows=0,
        lane_rows=0,
        lane_gap=False,
        ruler=False,
        text=None,
        legend=False,
        rail=None,
        second_rail=None,
        block=None,
        strip=None,
        notice=replace(plain.notice, y=foot),
    )
    match pane:
        case "text":
            text = replace(room, width=min(plain.width, MARGIN + GUTTER + TEXT_COLUMNS + 1))
            return replace(bare, text=text, legend=text.height > 4)
        case "trace" | "machine":
            return _long_trace(bare, plain, room, pane)
        case _:
            return replace(bare, alone=Rect(MARGIN, y, max(1, plain.width - 2 * MARGIN), room.height), alone_pane=pane)


def _long_trace(bare: Layout, plain: Layout, room: Rect, pane: Pane) -> Layout:
    """The trace in all the room: the gaps have the spare rows, or the machine's lanes."""
    lanes, pairs = plain.lane_rows, plain.lane_pairs
    rest = room.height - 3  # phases, marks, ruler
    if pane == "machine":
        gap_rows = min(plain.gap_rows, max(1, rest // 5))
        pairs = plain.cards if rest - gap_rows - 1 >= 2 * plain.cards else 1
        lanes = max(0, min(12, (rest - gap_rows - 1) // (2 * pairs)))
    pair_gap = pairs > 1 and 2 * pairs * lanes + pairs - 1 <= rest - 4
    machine_rows = 2 * pairs * lanes + (pairs - 1) * pair_gap
    if rest - machine_rows - 1 < 3:
        lanes, pairs, pair_gap = (1 if rest >= 4 else 0), 1, False
        machine_rows = 2 * lanes
    gap_rows = rest - machine_rows - (lanes > 0)
    return replace(
        bare,
        trace=room,
        plot=_plot(plain.width, room),
        marks=True,
        gap_rows=max(1, gap_rows),
        lane_rows=lanes,
        lane_gap=lanes > 0 and gap_rows >= 2,
        lane_pairs=pairs,
        pair_gap=pair_gap,
        ruler=True,
    )


def _plot(width: int, trace: Rect) -> Rect:
    right = width - (22 if width >= 100 else 20)
    if width < 50:  # no room for a value column
        right = width - MARGIN
    return Rect(PLOT_X, trace.y, max(1, right - PLOT_X), trace.height)


def _tiny(width: int, height: int) -> Layout:
    """20×5 and its like: chip and rate, limit, phase bar, two rows of text; less where there is less."""
    rows = min(height, 2 if height >= 5 else 1)
    headline = Rect(0, 0, width, rows)
    if height < 5 or width < 20:
        return Layout(width, height, headline, limit_below=rows > 1, why=False, progress_row=None)
    trace = Rect(0, 2, width, 1)
    keys = height >= 9
    text = Rect(0, 3, width, height - 3 - keys)
    return Layout(
        width,
        height,
        headline,
        limit_below=True,
        why=False,
        progress_row=None,
        trace=trace,
        plot=Rect(MARGIN, 2, width - 2 * MARGIN, 1),
        text=text,
        gutter=GUTTER if width >= 40 else 0,
        keys=Rect(0, height - 1, width, 1) if keys else None,
    )


def pane_at(plan: Layout, x: int, y: int) -> Pane | None:
    """The pane that a cell belongs to."""

    def within(rect: Rect | None) -> bool:
        return rect is not None and rect.x <= x < rect.right and rect.y <= y < rect.bottom

    if within(plan.alone):
        return plan.alone_pane
    if within(plan.trace):
        return "machine" if within(plan.lanes.get("machine")) else "trace"
    if within(plan.text):
        return "text"
    if plan.rail is not None and within(plan.rail):
        kv = plan.rail.y + rail_rows(plan.rail.height).kv
        return "kv" if kv <= y < kv + 4 else "figures"
    if plan.block is not None and within(plan.block):
        return "kv" if y >= plan.block.y + 3 else "figures"
    if plan.strip is not None and within(plan.strip):
        return "kv" if y == plan.strip.y else "figures"
    return None
