"""The text pane's content: which rows stand where, and each token's colour. Pure; `textpane` draws it.

The page is swept like an oscilloscope: new rows overwrite from the top, one blank row runs ahead, and the page before stays
below it, greyed. So nothing jumps away while one reads it, and the page is a pure function of (tokens, width, height).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, isnan
from typing import Final, Literal

from phasetop.pace import STALL
from phasetop.session import ANSWER, THINK, TOOL, Tokens
from phasetop.tui.theme import GAP_ROLES, PROB_LIMITS, PROB_ROLES, Ink, Role, ink
from phasetop.tui.tokentext import TokenTexts
from phasetop.tui.wrap import Wrap, text_width

Colour = Literal["gap", "probability", "channel", "plain"]
COLOURS: Final[tuple[Colour, ...]] = ("gap", "probability", "channel", "plain")
"""What the tokens' colours mean, in the order in which ``c`` goes through them."""

Run = tuple[str, Ink]


@dataclass(frozen=True, slots=True)
class PageRow:
    """One row: what stands in the gutter, and its text as runs of one ink."""

    gutter: str = ""
    gutter_role: Role = "faint"
    runs: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """The rows of the pane, top to bottom; ``pen``: (row, column) where the next token will stand."""

    rows: tuple[PageRow, ...] = ()
    pen: tuple[int, int] | None = None
    total: int = 0  # rows of text in all
    below: int = 0  # of them after those in sight, where it is scrolled


BLANK: Final = PageRow()
SWEPT_FROM: Final = 4
"""A pane of fewer rows is not swept but scrolled: there is nothing to read below the pen."""


def swept(rows: int, height: int) -> tuple[list[tuple[int, bool] | None], int]:
    """What each of ``height`` rows shows when there are ``rows`` rows of text, and the pen's row.

    A shown row is (its number, whether it is of the page that is being written).
    """
    page, pen = divmod(max(1, rows) - 1, height)
    shown: list[tuple[int, bool] | None] = []
    for y in range(height):
        if y <= pen:
            shown.append((page * height + y, True))
        elif y == pen + 1 or page == 0:
            shown.append(None)
        else:
            shown.append(((page - 1) * height + y, False))
    return shown, pen


def gutter_time(ns: int) -> str:
    """Seconds since the request was sent, in at most six columns."""
    seconds = ns / 1e9
    if seconds < 1000:
        return f"{seconds:.2f}"
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


class Reply:
    """One request's reply, wrapped at a width; tokens are taken as they come."""

    __slots__ = ("_texts", "tokens", "wrap")

    def __init__(self, tokens: Tokens, width: int) -> None:
        self.tokens = tokens
        self.wrap = Wrap(width)
        self._texts = TokenTexts(tokens)

    def grow(self) -> None:
        """Take the tokens that came since."""
        if len(self.wrap) < len(self.tokens):
            self.wrap.extend(self._texts.new())

    def page(self, upto: int, height: int, start: int, colour: Colour, top: int | None) -> Page:
        """The page of the first ``upto`` tokens: swept, or (``top``) an ordinary one from that row on.

        Args:
            upto: token lines to show.
            height: rows of the pane.
            start: when the request was sent, for the gutter.
            colour: what the tokens' colours mean.
            top: the first row to show; None follows the newest.

        """
        wrap = self.wrap
        rows = wrap.rows(upto)
        if height <= 0:
            return Page()
        if top is not None:
            top = max(0, min(top, rows - 1))
            last = min(rows, top + height)
            made = [self._row(y, upto, start, colour, fresh=True) for y in range(top, last)]
            return Page((*made, *[BLANK] * (height - len(made))), None, rows, rows - last)
        if height < SWEPT_FROM:
            top = max(0, rows - height)
            made = [self._row(y, upto, start, colour, fresh=True) for y in range(top, rows)]
            return Page((*made, *[BLANK] * (height - len(made))), (len(made) - 1, wrap.end_column(upto)), rows)
        shown, pen = swept(rows, height)
        made = [BLANK if each is None else self._row(each[0], upto, start, colour, fresh=each[1]) for each in shown]
        return Page(tuple(made), (pen, wrap.end_column(upto)), rows)

    def _row(self, row: int, upto: int, start: int, colour: Colour, *, fresh: bool) -> PageRow:
        pieces = self.wrap.row(row, upto)
        if not pieces:
            return BLANK
        tokens = self.tokens
        gutter, role = gutter_time(tokens.t[pieces[0][0]] - start), "faint"
        runs: list[Run] = []
        stalled = 0
        for token, text in pieces:
            if tokens.step[token] == STALL and colour == "gap":
                stalled = max(stalled, tokens.gap_ns[token])
            how = token_ink(tokens, token, colour) if fresh else ink("faint")
            _add_run(runs, text, how)
        if stalled:
            gutter = f"+{stalled / 1e6:.0f}"[:6]
            return PageRow(gutter, "stall" if fresh else "faint", tuple(runs))
        return PageRow(gutter, role, tuple(runs))  # type: ignore[arg-type]


def _add_run(runs: list[Run], text: str, how: Ink) -> None:
    """Append text in an ink; blanks before a reversed token stay plain, equal inks become one run."""
    if how.bg is not None and text.startswith(" "):
        bare = text.lstrip(" ")
        _add_run(runs, text[: len(text) - len(bare)], ink("gap3"))
        text = bare
        if not text:
            return
    if runs and runs[-1][1] is how:
        runs[-1] = (runs[-1][0] + text, how)
    else:
        runs.append((text, how))


def token_ink(tokens: Tokens, i: int, colour: Colour) -> Ink:
    """How a token is drawn."""
    channel = tokens.channel[i]
    slant = "i" if channel == THINK else ""
    match colour:
        case "gap":
            step = tokens.step[i]
            return ink("ground", "gap7") if step == STALL else ink(GAP_ROLES[step], None, slant)
        case "probability":
            logp = tokens.logp[i]
            if isnan(logp):
                return ink("faint", None, slant)
            p = exp(min(0.0, logp))
            bucket = sum(p <= limit for limit in PROB_LIMITS)
            return ink(PROB_ROLES[bucket], None, slant + ("u" if bucket == len(PROB_LIMITS) else ""))
        case "channel":
            role: Role = {ANSWER: "answer", THINK: "thinking", TOOL: "tool"}[channel]  # type: ignore[assignment]
            return ink(role, None, slant)
        case _:
            return ink("ink", None, slant)


class PromptText:
    """A prompt, wrapped at a width: in the model's tokens where they are known, else as it was asked."""

    __slots__ = ("counted", "wrap")

    def __init__(self, pieces: list[str], width: int, *, counted: bool) -> None:
        self.wrap = Wrap(width)
        self.wrap.extend(pieces)
        self.counted = counted

    def page(self, read: int | None, height: int) -> Page:
        """The rows around the border between what is read and what is to come; the pen stands on the border."""
        if height <= 0:
            return Page()
        wrap = self.wrap
        rows = wrap.rows()
        if not self.counted or read is None:
            made = [
                PageRow("", "faint", tuple((text, ink("soft")) for _, text in wrap.row(y))) for y in range(min(rows, height))
            ]
            return Page(tuple(made), None, rows)
        read = min(read, len(wrap))
        border = wrap.row_of(min(read, len(wrap) - 1)) if len(wrap) else 0
        top = max(0, min(border - height * 2 // 3, rows - height))
        made, pen = [], None
        for y in range(top, min(rows, top + height)):
            pieces = wrap.row(y)
            runs: list[Run] = []
            for token, text in pieces:
                if token >= read and pen is None and text.startswith(" "):
                    pen = (y - top, sum(text_width(run) for run, _ in runs))
                _add_run(runs, text, ink("gap3" if token < read else "faint"))
            made.append(PageRow(f"{pieces[0][0]:,}" if pieces else "", "faint", tuple(runs)))
        return Page(tuple(made), pen, rows)
