"""Where everything stands, at any size: pure arithmetic from the terminal's columns and rows.

One order at every size: verdict, trace, text, figures, footer. What does not fit is dropped in a fixed order (`fitting`), so
that a narrow terminal loses rails and rows and never the order.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from phasetop.tui.fitting import Rows, fitted

MARGIN: Final = 1
PLOT_X: Final = 10
GUTTER: Final = 8
"""Columns before the text: seven for the time, one blank."""
TEXT_COLUMNS: Final = 88
"""Text is never wider: a measure that one can read."""
PAGE_GAP_FROM: Final = 20
"""From so many rows on a page over the view has a blank row above it."""


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
    if height == 13:  # one token stands right under the figures, so that the row of a device fits, too
        return RailRows(3, 3, 7)
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
    spare: bool = False  # the row after the headline is blank: a long error may end there
    goes_on: bool = False  # a long sentence goes on in that row: the one after it is blank
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
    def headline_room(self) -> Rect:
        """The headline's rows with the blank one after it, where a long error may end there."""
        return Rect(self.headline.x, self.headline.y, self.headline.width, self.headline.height + self.spare)

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
    return _placed(fitted(width, height, cards, scrub=scrub), cards, scrub=scrub)


def _placed(rows: Rows, cards: int, *, scrub: bool) -> Layout:
    """The parts one below the other, the foot from the last row up."""
    width = rows.width
    y = 1 + rows.header_gap
    goes_on = rows.progress and rows.before_trace
    spare = bool(rows.before_trace and not goes_on)
    headline = Rect(0, y, width, rows.headline)
    y += rows.headline + rows.before_trace
    trace = Rect(0, y, width, rows.trace)
    y += rows.trace + rows.before_text
    foot = rows.height - 1
    keys = Rect(0, foot, width, 1)
    ask = block = strip = None
    if rows.ask:
        foot -= 1
        ask = Rect(0, foot, width, 1)
    if rows.block:
        foot -= rows.block + 1
        block = Rect(0, foot, width, rows.block)
    if rows.strip:
        foot -= rows.strip
        strip = Rect(0, foot, width, rows.strip)
    foot -= 1
    text_width = min(width, MARGIN + GUTTER + TEXT_COLUMNS + 1)
    rail = second_rail = None
    if rows.rail:
        rail_width = 39 if width < 140 else 42
        rail_x = 104 if width >= 200 else width - rail_width - MARGIN
        rail = Rect(rail_x, y, rail_width, max(0, foot - y))
        text_width = min(text_width, rail_x - 4)
        if width >= 200:
            second_rail = Rect(152, y, min(46, width - 153), max(0, foot - y))
    return Layout(
        width,
        rows.height,
        headline,
        limit_below=rows.narrow,
        why=True,
        progress_row=2 + rows.narrow if rows.progress else None,
        goes_on=goes_on,
        spare=spare,
        header=Rect(0, 0, width, 1),
        trace=trace,
        plot=_plot(width, trace),
        marks=rows.marks,
        gap_rows=rows.gap,
        lane_rows=rows.lane,
        lane_gap=rows.before_lanes and rows.lane > 0,
        cards=cards,
        lane_pairs=rows.pairs,
        pair_gap=rows.pair_gap,
        ruler=rows.ruler,
        text=Rect(0, y, text_width, max(1, foot - rows.after_text - y)),
        legend=rows.legend,
        rail=rail,
        second_rail=second_rail,
        block=block,
        strip=strip,
        notice=Rect(0, foot, width, 1),
        ask=ask,
        keys=keys,
        scrub=replace(_plot(width, ask), height=1) if scrub and ask is not None else None,
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


def page_rect(plan: Layout) -> Rect:
    """Where a page over the view stands: between the header and the keys, with a blank row under the header."""
    top = max(2, plan.headline.y) if plan.height >= PAGE_GAP_FROM else plan.headline.y
    return Rect(0, top, plan.width, plan.height - top - 1)


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
