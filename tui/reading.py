"""What keys do in the text: scrolling, the cursor over tokens, searching, copying, colours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from phasetop.alternatives import Alternative
from phasetop.session import Run
from phasetop.tui import copying
from phasetop.tui.choices import Choices
from phasetop.tui.lineedit import LineEdit
from phasetop.tui.page import COLOURS, Colour
from phasetop.tui.search import first_tokens
from phasetop.tui.tokentext import TokenTexts
from phasetop.tui.view import AskLine
from phasetop.tui.waypoints import Waypoint, neighbour, waypoints

COLOUR_WORDS: Final[dict[Colour, str]] = {
    "gap": "colours: how long each token took, beside the usual",
    "probability": "colours: how probable each token was",
    "channel": "colours: answer, thinking, tool call",
    "plain": "no colours",
}
"""What is said where no legend stands."""
LOGPROBS: Final = 5
"""So many alternatives are asked for with each token."""
LOGPROBS_COST: Final = "about 160 bytes a token; some servers decode slower"
"""What asking for log-probabilities costs: 20 bytes for each of the alternatives, and 60 for the token."""


class Reading(Choices):
    """The keys of the text pane."""

    _legend = True
    _line: LineEdit | None = None  # the search line, while one types in it
    _at_t: int | None = None  # where `n` went last, ns since the anchor
    _pending: tuple[int, int] | None = None  # the request and the token that the cursor goes to when its turn is shown
    copy: Callable[[str], None] | None = None  # hands a sequence to the terminal

    # ---- colours

    def do_colour(self) -> None:
        """The next meaning of the tokens' colours."""
        colour = COLOURS[(COLOURS.index(self._view.colour) + 1) % len(COLOURS)]
        self._view = replace(self._view, colour=colour)
        known = colour != "probability" or self.shown is None or self.shown.has_probabilities
        if known:
            if not self._legend:
                self.say(COLOUR_WORDS[colour])
        elif self._lifeline is None:
            self.say("colours: probability, which the server was not asked for")
        elif self._view.asked_for_probabilities:
            self.say("colours: probability, from the next turn on")
        else:
            self.want_probabilities()
        self._read_again()

    def want_probabilities(self) -> None:
        """Where colours mean probability and the reply has none: ask for it, from the next turn on, and say so, once."""
        shown, view = self.shown, self._view
        if view.colour != "probability" or view.asked_for_probabilities or self._lifeline is None:
            return
        if shown is not None and shown.upto and not shown.has_probabilities:
            self._lifeline.want_logprobs(LOGPROBS)
            self._view = replace(view, asked_for_probabilities=True)
            self.say(f"probability: from the next turn on the server is asked for it, {LOGPROBS_COST}")

    # ---- scrolling

    def do_follow(self) -> None:
        """Show the newest text."""
        self._view = replace(self._view, top=None, token=None, anchor=None, alternatives=())
        self._at_t = None

    def do_home(self) -> None:
        """Show the first text."""
        self.scroll(-(10**9))

    def do_up(self) -> None:
        """Up by a row: the text, or the cursor in it."""
        if self._view.focus == "text":
            self._move_row(-1)
        else:
            self.scroll(-1)

    def do_down(self) -> None:
        """Down by a row: the text, or the cursor in it."""
        if self._view.focus == "text":
            self._move_row(1)
        else:
            self.scroll(1)

    def do_page_up(self) -> None:
        """Scroll up by a page."""
        self.scroll(-max(1, len(self.shown.page.rows) - 1) if self.shown else 0)

    def do_page_down(self) -> None:
        """Scroll down by a page."""
        self.scroll(max(1, len(self.shown.page.rows) - 1) if self.shown else 0)

    def scroll(self, step: int) -> None:
        """Move the text's first row; at the end it follows again."""
        if self.shown is None or self.shown.page_kind != "reply":
            return
        page = self.shown.page
        end = max(0, page.total - len(page.rows))
        top = (end if self._view.top is None else self._view.top) + step
        follows = top >= end and self._view.token is None
        self._view = replace(self._view, top=None if follows else max(0, min(top, end)))
        self.changed = True

    # ---- the cursor over tokens

    def do_move(self, step: int) -> None:
        """To the token after (1) or before (-1)."""
        self._move(step)

    def do_select(self, direction: str) -> None:
        """Take what lies ``left``, ``right``, ``up`` or ``down`` of the cursor into the selection."""
        step = -1 if direction in ("left", "up") else 1
        if direction in ("left", "right"):
            self._move(step, select=True)
        else:
            self._move_row(step, select=True)

    def _show_text(self) -> None:
        """Where another pane has all the room, take it back: this is about the text."""
        if self._view.zoom not in (None, "text"):
            self._view = replace(self._view, zoom=None)

    def _move(self, step: int, *, select: bool = False) -> None:
        """Move the cursor by tokens; the first time it stands on the newest token."""
        if self.shown is None or not self.shown.upto:
            return
        last = self.shown.upto - 1
        token = self._view.token
        self.put_cursor(last if token is None else max(0, min(last, token + step)), select=select)

    def _move_row(self, step: int, *, select: bool = False) -> None:
        """Move the cursor by rows, as far as can be in its column."""
        shown = self.shown
        if shown is None or shown.reply is None or not shown.upto:
            return
        token, reply = self._view.token, shown.reply
        if token is None:
            self._move(0)
            return
        row = reply.wrap.row_of(token)
        column = reply.column_of(token, row, shown.upto)
        at = row + step
        while 0 <= at < shown.page.total:
            found = reply.token_at(at, column, shown.upto)
            if found is not None and found != token:
                self.put_cursor(found, select=select)
                return
            at += step

    def put_cursor(self, token: int, *, select: bool = False) -> None:
        """Put the cursor on a token of the request that is shown, and bring it into sight."""
        shown = self.shown
        if shown is None or shown.reply is None:
            return
        before = self._view
        anchor = None
        if select:
            anchor = before.anchor if before.anchor is not None else before.token if before.token is not None else token
        rows = max(1, len(shown.page.rows))
        row = shown.reply.wrap.row_of(token)
        end = max(0, shown.page.total - rows)
        top = before.top if before.top is not None else end
        if not top <= row < top + rows:
            top = max(0, min(end, row - rows // 3))
        self._view = replace(before, token=token, anchor=anchor, top=top, focus="text")
        self._at_t, self._message = None, None
        self._read_again()
        self.changed = True

    def click_text(self, row: int, column: int, *, select: bool = False) -> None:
        """The mouse on a row of the pane."""
        shown = self.shown
        if shown is None or shown.reply is None or not 0 <= row < len(shown.page.rows):
            return
        number = shown.page.rows[row].number
        if number < 0:
            return
        token = shown.reply.token_at(number, max(0, column), shown.upto)
        if token is not None:
            if self._view.top is None:  # the page stands as it is under the mouse
                self._view = replace(self._view, top=max(0, number - row))
            self.put_cursor(token, select=select)

    def _read_again(self) -> None:
        """What the token under the cursor could have been: read from the file, if there is reason to."""
        view, shown = self._view, self.shown
        told: tuple[tuple[Alternative, ...], ...] = ()
        if view.token is not None and shown is not None and shown.r is not None:
            told = self._source.alternatives(shown.r, view.token)
        self._view = replace(view, alternatives=told)

    # ---- next and previous

    def do_next(self, step: int) -> None:
        """To the next (1) or previous (-1) hit of the search; without one: stall, mark or turn."""
        if self._view.pattern:
            self._go_to_hit(step)
            return
        shown = self.shown
        points = waypoints(self._source.session, shown.cursor if shown is not None else 0)
        point = neighbour(points, self._moment(), step)
        if point is None:
            what = "no stall, mark or turn" if points else "no stalls and no marks so far"
            self.say(f"{what} {'after' if step > 0 else 'before'} this" if points else what)
            return
        self._go_to(point)
        at = points.index(point) + 1
        self.say(f"{point.words}   {at} of {len(points)}")

    def _moment(self) -> int | None:
        """When the token under the cursor came, or where `n` went last."""
        shown, token = self.shown, self._view.token
        run = self._source.session.runs.get(shown.r) if shown is not None and shown.r is not None else None
        if self._at_t is not None or run is None or token is None or token >= len(run.tokens):
            return self._at_t
        return run.tokens.t[token]

    def _go_to(self, point: Waypoint) -> None:
        """Show a moment: its turn, and the cursor on its token."""
        runs = list(self._source.session.runs)
        turn = None if point.r == runs[-1] else point.r
        self._show_text()
        self._view = replace(self._view, turn=turn, token=None, anchor=None)
        self._at_t, self._pending = point.t, (point.r, point.token)
        self.arrive()
        self.changed = True

    def arrive(self) -> None:
        """Where the turn that was to be shown is shown: put the cursor where it was to go."""
        shown = self.shown
        if self._pending is None or shown is None or shown.r != self._pending[0]:
            return
        token, self._pending = self._pending[1], None
        if shown.upto:
            at = self._at_t
            self.put_cursor(min(token, shown.upto - 1))
            self._at_t = at

    # ---- searching

    def do_search(self) -> None:
        """Type what to look for."""
        self._line = LineEdit()
        self._show_text()
        self.changed = True

    @property
    def searching(self) -> bool:
        """Keys go to the search line."""
        return self._line is not None

    def search_line(self, width: int) -> AskLine | None:
        """The search line as it is drawn."""
        if self._line is None:
            return None
        text, caret = self._line.shown(max(1, width))
        return AskLine(text, caret, focused=True, label="/")

    def type_search(self, name: str, character: str | None) -> None:
        """A key in the search line; what it holds is looked for at once."""
        assert self._line is not None
        if not self._line.key(name) and character:
            self._line.insert(character)
        self._view = replace(self._view, pattern=self._line.text)

    def do_find(self) -> None:
        """Go to the first hit from here on, and give the keys back to the text."""
        assert self._line is not None
        pattern = self._line.text
        self._line = None
        self._view = replace(self._view, pattern=pattern, focus="text" if pattern else self._view.focus)
        if pattern:
            self._go_to_hit(0)

    def do_unsearch(self) -> None:
        """Leave the search line; nothing is looked for."""
        self._line = None
        self._view = replace(self._view, pattern="")

    def paste_search(self, text: str) -> None:
        """A paste into the search line: its first line."""
        assert self._line is not None
        self._line.insert(text.strip("\r\n").splitlines()[0] if text.strip("\r\n") else "")
        self._view = replace(self._view, pattern=self._line.text)

    def _go_to_hit(self, step: int) -> None:
        """The next hit (step 0: the first from the cursor on); past the last of this turn those of the next."""
        shown, pattern = self.shown, self._view.pattern
        runs = self._source.session.runs
        if shown is None or shown.r not in runs:
            return
        here = self._hits_of(runs[shown.r], pattern, shown.upto)
        token = self._view.token
        if token is None:
            token = self._first_in_sight()
            step = step or 0
        if step > 0:
            found = next((k for k, each in enumerate(here) if each > token), None)
        elif step < 0:
            found = next((k for k in range(len(here) - 1, -1, -1) if here[k] < token), None)
        else:
            found = next((k for k, each in enumerate(here) if each >= token), None)
        if found is not None:
            self.put_cursor(here[found])
            self.say(f"hit {found + 1:,} of {len(here):,} in this turn")
            return
        order = list(runs)
        at = order.index(shown.r)
        forward = step >= 0
        others = [*order[at + 1 :], *order[: at + 1]] if forward else [*order[:at][::-1], *order[at:][::-1]]
        for r in others:
            hits = self._hits_of(runs[r], pattern, runs[r].tokens.index(shown.cursor))
            if hits:
                where = hits[0] if forward else hits[-1]
                self._go_to(Waypoint(runs[r].tokens.t[where], r, where, ""))
                around = (order.index(r) <= at) if forward else (order.index(r) >= at)
                turn = "this turn" if r == shown.r else f"turn {order.index(r) + 1}"
                self.say(
                    f"hit {1 if forward else len(hits):,} of {len(hits):,} in {turn}" + (", gone around" if around else "")
                )
                return
        self.say(f"nothing like '{pattern}' in the replies")

    def _hits_of(self, run: Run, pattern: str, upto: int) -> list[int]:
        texts = TokenTexts(run.tokens).new()[:upto]
        return first_tokens(pattern, texts)

    def _first_in_sight(self) -> int:
        """The first token of the page."""
        shown = self.shown
        if shown is None or shown.reply is None:
            return 0
        numbers = [row.number for row in shown.page.rows if row.number >= 0]
        return shown.reply.wrap.start_of(min(numbers))[0] if numbers else 0

    # ---- copying

    def do_copy(self) -> None:
        """Copy the selection, or the whole reply."""
        shown = self.shown
        run = self._source.session.runs.get(shown.r) if shown is not None and shown.r is not None else None
        if run is None or shown is None or not shown.upto:
            self.say("nothing to copy yet")
            return
        if shown.redacted:
            self.say("the text was left out of this recording: there is nothing to copy")
            return
        first, end = self._view.selection if self._view.anchor is not None else (0, shown.upto)
        text = copying.pasteable("".join(raw_text(run, i) for i in range(first, min(end, shown.upto))))
        what = f"{end - first:,} tokens" if self._view.anchor is not None else "the reply"
        sequence = copying.osc52(text)
        if sequence is not None:
            (self.copy or _nowhere)(sequence)
        way = "to the clipboard (if the terminal allows) and " if sequence is not None else "too long for the clipboard: "
        try:
            self.say(f"copied {what}, {len(text):,} characters, {way}to {copying.tilde(copying.save(text))}")
        except OSError as error:
            why = f"no file: {error.strerror or error}"
            self.say(f"copied {what} to the clipboard, if the terminal allows; {why}" if sequence else f"not copied: {why}")


def _nowhere(sequence: str) -> None:
    """Without a terminal there is no clipboard."""


def raw_text(run: Run, i: int) -> str:
    """The text of a line of tokens, as it came."""
    text = run.tokens.text[i]
    if isinstance(text, int):
        return ""
    return text or run.tokens.raw_bytes.get(i, b"").decode("utf-8", "replace")
