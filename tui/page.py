"""The text pane's content: which rows stand where, and each token's colour. Pure; `textpane` draws it.

The page is swept like an oscilloscope: new rows overwrite from the top, one blank row runs ahead, and the page before stays
below it, greyed. So nothing jumps away while one reads it, and the page is a pure function of (tokens, width, height). When
the reply is over nothing is written any more: its last rows stand in their order, all in colour.
"""

from __future__ import annotations

from math import exp, isnan
from typing import Final, Literal

from msgspec import Struct

from phasetop.columns import ANSWER, THINK, TOOL, Tokens
from phasetop.pace import STALL
from phasetop.tui.search import Search
from phasetop.tui.theme import GAP_ROLES, PROB_LIMITS, PROB_ROLES, Ink, Role, ink
from phasetop.tui.tokentext import TokenTexts, is_special
from phasetop.tui.wrap import Wrap, text_width

Colour = Literal["gap", "probability", "channel", "plain"]
COLOURS: Final[tuple[Colour, ...]] = ("gap", "probability", "channel", "plain")
"""What the tokens' colours mean, in the order in which ``c`` goes through them."""

Run = tuple[str, Ink]


class PageRow(Struct, frozen=True):
    """One row: what stands in the gutter, and its text as runs of one ink."""

    gutter: str = ""
    gutter_role: Role = "faint"
    runs: tuple[Run, ...] = ()
    number: int = -1  # which of the text's rows it is; -1: none


class Picked(Struct, frozen=True):
    """What is singled out in the text: the tokens of a selection (or the one under the cursor), and a search's hits."""

    first: int = 0
    end: int = 0  # the token after the last; no token where it is not over ``first``
    search: Search | None = None


NOTHING: Final = Picked()


class Page(Struct, frozen=True):
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

    def page(
        self,
        upto: int,
        height: int,
        start: int,
        colour: Colour,
        top: int | None,
        picked: Picked = NOTHING,
        *,
        over: bool = False,
    ) -> Page:
        """The page of the first ``upto`` tokens: swept, or (``top``) an ordinary one from that row on.

        Args:
            upto: token lines to show.
            height: rows of the pane.
            start: when the request was sent, for the gutter.
            colour: what the tokens' colours mean.
            top: the first row to show; None follows the newest.
            picked: what is singled out.
            over: the reply has ended.

        """
        wrap = self.wrap
        rows = wrap.rows(upto)
        if height <= 0:
            return Page()
        if top is not None:
            top = max(0, min(top, rows - 1))
            last = min(rows, top + height)
            made = [self._row(y, upto, start, colour, picked, fresh=True) for y in range(top, last)]
            return Page((*made, *[BLANK] * (height - len(made))), None, rows, rows - last)
        if over or height < SWEPT_FROM:
            top = max(0, rows - height)
            made = [self._row(y, upto, start, colour, picked, fresh=True) for y in range(top, rows)]
            return Page((*made, *[BLANK] * (height - len(made))), (len(made) - 1, wrap.end_column(upto)), rows)
        shown, pen = swept(rows, height)
        made = [BLANK if each is None else self._row(each[0], upto, start, colour, picked, fresh=each[1]) for each in shown]
        return Page(tuple(made), (pen, wrap.end_column(upto)), rows)

    def token_at(self, row: int, column: int, upto: int) -> int | None:
        """The token in a column of a row of text, or the nearest in that row; None where the row has none."""
        pieces = self.wrap.row(row, upto)
        x = 0
        for token, text in pieces:
            x += text_width(text)
            if column < x:
                return token
        if pieces:
            return pieces[-1][0]
        first = self.wrap.start_of(row)[0] if row < self.wrap.rows(upto) else upto
        return first if first < upto else None

    def column_of(self, token: int, row: int, upto: int) -> int:
        """The column of a row that a token's first visible character there stands in."""
        x = 0
        for each, text in self.wrap.row(row, upto):
            if each >= token:
                return x + (text_width(text) - text_width(text.lstrip(" ")) if each == token else 0)
            x += text_width(text)
        return x

    def _row(self, row: int, upto: int, start: int, colour: Colour, picked: Picked, *, fresh: bool) -> PageRow:
        pieces = self.wrap.row(row, upto)
        tokens = self.tokens
        runs: list[Run] = []
        stalled = 0
        plain = picked is NOTHING
        at_start, offset = self.wrap.start_of(row)
        for token, text in pieces:
            if tokens.step[token] == STALL and colour == "gap":
                stalled = max(stalled, tokens.gap_ns[token])
            how = token_ink(tokens, token, colour) if fresh else ink("faint")
            if plain:
                _add_run(runs, text, how)
            else:
                _add_picked(runs, text, how, picked, token, offset if token == at_start else 0, upto)
        if picked.first < picked.end and not any(picked.first <= token < picked.end for token, _ in pieces):
            hidden = picked.end - 1  # a line end, or a token without text: it has no cell of its own
            if hidden < upto and self.wrap.row_of(hidden) == row:
                runs.append((" ", ink("ink", None, "r")))
        if not pieces:
            return PageRow(runs=tuple(runs), number=row) if runs else PageRow(number=row)
        if stalled:
            gutter = f"+{stalled / 1e6:.0f}"[:6]
            return PageRow(gutter, "stall" if fresh else "faint", tuple(runs), row)
        return PageRow(gutter_time(tokens.t[pieces[0][0]] - start), "faint", tuple(runs), row)


def _add_run(runs: list[Run], text: str, how: Ink) -> None:
    """Append text in an ink; blanks before a reversed token stay plain, equal inks become one run."""
    if how.bg is not None and how.bg != "raised" and text.startswith(" "):
        bare = text.lstrip(" ")
        _add_run(runs, text[: len(text) - len(bare)], ink("gap3"))
        text = bare
        if not text:
            return
    if runs and runs[-1][1] is how:
        runs[-1] = (runs[-1][0] + text, how)
    else:
        runs.append((text, how))


def _add_picked(runs: list[Run], text: str, how: Ink, picked: Picked, token: int, offset: int, upto: int) -> None:
    """Append a piece of a token with what is singled out in it: the selection reversed, hits on a raised ground."""
    if picked.first <= token < picked.end:
        alone = picked.end - picked.first == 1 and text.strip(" ") != ""
        bare = text.lstrip(" ") if alone else text  # the cursor covers a word and not the blank before it
        if len(bare) < len(text):
            _add_run(runs, text[: len(text) - len(bare)], ink("gap3"))
        _add_run(runs, bare, ink("ink", None, "r"))
        return
    hits = picked.search.within(token, offset, len(text), upto) if picked.search is not None else []
    at = 0
    for begin, end in hits:
        if begin > at:
            _add_run(runs, text[at:begin], how)
        _add_run(runs, text[begin:end], ink("ink" if how.bg is not None else how.fg, "raised", how.style + "bu"))
        at = end
    if at < len(text):
        _add_run(runs, text[at:], how)


def token_ink(tokens: Tokens, i: int, colour: Colour) -> Ink:
    """How a token is drawn."""
    channel = tokens.channel[i]
    slant = "i" if channel == THINK else ""
    if is_special(tokens.text[i]):
        return ink("ground", "special")
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
                if 0 < read <= token and pen is None and text.startswith(" "):
                    pen = (y - top, sum(text_width(run) for run, _ in runs))
                special = is_special(wrap.texts[token])
                _add_run(runs, text, ink("ground", "special") if special else ink("gap3" if token < read else "faint"))
            made.append(PageRow(f"{pieces[0][0]:,}" if pieces else "", "faint", tuple(runs)))
        return Page(tuple(made), pen, rows)
