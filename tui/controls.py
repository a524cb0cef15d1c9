"""What keys do: the state of the view, and the commands that go to the collector. No Textual here; keys come in by name.

Every action is a method ``do_NAME`` whose name stands in the key table.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from phasetop.faults import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, PhasetopError
from phasetop.tui import footer, pages
from phasetop.tui.frame import Frame
from phasetop.tui.keys import Key, Screen, lookup
from phasetop.tui.layout import Layout
from phasetop.tui.lineedit import LineEdit
from phasetop.tui.page import COLOURS, Colour
from phasetop.tui.source import Lifeline, Source
from phasetop.tui.view import AskLine, View

MESSAGE_S: Final = 8.0
"""A message of the view's own stands so long."""
COLOUR_WORDS: Final[dict[Colour, str]] = {
    "gap": "colours: how long each token took, beside the usual",
    "probability": "colours: how probable each token was",
    "channel": "colours: answer, thinking, tool call",
    "plain": "no colours",
}
"""What is said where no legend stands."""
TWICE_S: Final = 3.0
"""Two ctrl-C within this time leave."""


class Controls:
    """Holds what a person chose, and obeys keys.

    Args:
        source: the session that is shown.
        lifeline: whom to ask and to cancel; None: read-only.
        leave: called with the exit status when the person leaves.
        suspend: called for ctrl-Z.
        title: the name of what is replayed or watched.
        asking: the ask line has the keys from the start.
        clock: seconds of a steady clock.

    """

    def __init__(
        self,
        source: Source,
        lifeline: Lifeline | None,
        *,
        leave: Callable[[int], None],
        suspend: Callable[[], None] = lambda: None,
        title: str | None = None,
        asking: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.frozen_at: int | None = None
        self.page: tuple[pages.Kind, int] | None = None
        self.asking = asking
        self.line = LineEdit()
        self.shown: Frame | None = None  # the newest frame
        self.changed = True
        self._source = source
        self._lifeline = lifeline
        self._leave = leave
        self._suspend = suspend
        self._clock = clock
        self._view = View(title=title, steers=lifeline is not None)
        self._message: tuple[str, float] | None = None
        self._interrupted_at = -TWICE_S
        self._legend = True

    @property
    def screen(self) -> Screen:
        """Where keys go now."""
        return "page" if self.page is not None else "ask" if self.asking else "live"

    @property
    def zoomed(self) -> bool:
        """The text has all the room."""
        return self._view.zoomed

    @property
    def cursor(self) -> int:
        """The moment that is shown, ns since the anchor."""
        return self.frozen_at if self.frozen_at is not None else self._source.now()

    def view(self, plan: Layout, *, failed: bool) -> View:
        """The view's state as a frame shows it."""
        self._legend = plan.legend
        text, caret = self.line.shown(max(1, plan.width - 7))
        self._view = replace(
            self._view,
            frozen=self.frozen_at is not None,
            kept=self._lifeline.kept if self._lifeline is not None else None,
            message=self._message[0] if self._message is not None else None,
            ask=AskLine(text, caret, self.asking),
            failed=failed,
        )
        return self._view

    def tick(self) -> None:
        """Time goes on: a message that stood long enough goes."""
        if self._message is not None and self._clock() >= self._message[1]:
            self._message, self.changed = None, True

    def say(self, text: str) -> None:
        """Put a message on the notice row for some seconds."""
        self._message = (text, self._clock() + MESSAGE_S)
        self.changed = True

    def press(self, name: str, character: str | None) -> None:
        """Obey a key: its name as Textual calls it, and the character that it types, if it does."""
        self.changed = True
        screen = self.screen
        if self.shown is None:
            if name in ("q", "ctrl+c"):
                self._leave(EXIT_OK if name == "q" else EXIT_INTERRUPTED)
        elif screen == "live" and name == "escape" and self.zoomed:
            self.do_zoom()
        elif (key := lookup(screen, name, footer.situation(self.shown))) is not None and key.does != "edit":
            self._do(key, name)
        elif screen == "ask" and not self.line.key(name) and character:
            self.line.insert(character)

    def paste(self, text: str) -> None:
        """A paste goes to the ask line."""
        if self._lifeline is not None and self.page is None:
            self.asking, self.changed = True, True
            self.line.insert(text)

    def _do(self, key: Key, name: str) -> None:
        if key.does == "turn":
            self.do_turn(-1 if name == "left_square_bracket" else 1)
        else:
            getattr(self, f"do_{key.does}")()

    # ---- actions

    def do_freeze(self) -> None:
        """Let the cursor stand, or go on with the present."""
        self.frozen_at = self._source.now() if self.frozen_at is None else None

    def do_escape(self) -> None:
        """End the running reply."""
        if self._lifeline is not None and self.shown is not None and self.shown.r is not None:
            self._lifeline.cancel(self.shown.r)

    def do_interrupt(self) -> None:
        """ctrl-C: end the running reply; twice: leave."""
        now = self._clock()
        if now - self._interrupted_at < TWICE_S:
            self._leave(EXIT_INTERRUPTED)
            return
        self._interrupted_at = now
        if self.shown is not None and self.shown.running and self._lifeline is not None:
            self.do_escape()
            self.say("the reply was ended; ctrl-c again quits")
        else:
            self.say("ctrl-c again quits")

    def do_suspend(self) -> None:
        """ctrl-Z: back to the shell for a while."""
        self._suspend()

    def do_quit(self) -> None:
        """Leave."""
        self._leave(final_status(self._source))

    def do_colour(self) -> None:
        """The next meaning of the tokens' colours."""
        colour = COLOURS[(COLOURS.index(self._view.colour) + 1) % len(COLOURS)]
        self._view = replace(self._view, colour=colour)
        if not self._legend:
            known = colour != "probability" or self.shown is None or self.shown.has_probabilities
            self.say(COLOUR_WORDS[colour] if known else "colours: probability, which the server was not asked for")

    def do_zoom(self) -> None:
        """Give the text all the room, or take it back."""
        self._view = replace(self._view, zoomed=not self._view.zoomed)

    def do_keep(self) -> None:
        """Keep the recording."""
        if self._lifeline is not None:
            try:
                self.say(f"kept as {self._lifeline.keep(None)}")
            except PhasetopError as error:
                self.say(str(error))

    def do_turn(self, step: int) -> None:
        """Show the turn before or after."""
        runs = list(self._source.session.runs)
        if self.shown is None or self.shown.r not in runs:
            return
        at = runs.index(self.shown.r) + step
        if 0 <= at < len(runs):
            self._view = replace(self._view, turn=None if at == len(runs) - 1 else runs[at], top=None)

    def do_follow(self) -> None:
        """Show the newest text."""
        self._view = replace(self._view, top=None)

    def do_home(self) -> None:
        """Show the first text."""
        self.scroll(-(10**9))

    def do_up(self) -> None:
        """Scroll up by a row."""
        self.scroll(-1)

    def do_down(self) -> None:
        """Scroll down by a row."""
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
        self._view = replace(self._view, top=None if top >= end else max(0, top))
        self.changed = True

    def do_ask(self) -> None:
        """Keys go to the ask line."""
        self.asking = True

    def do_leave(self) -> None:
        """Keys go to the view again; what was typed stays."""
        self.asking = False

    def do_send(self) -> None:
        """Send what was typed, and show what comes of it."""
        text = self.line.take()
        if self._lifeline is None or not text.strip():
            return
        self._lifeline.ask(text)
        self.asking, self.frozen_at = False, None
        self._view = replace(self._view, turn=None, top=None)

    def do_help(self) -> None:
        """The keys."""
        self.page = ("help", 0)

    def do_log(self) -> None:
        """The notices."""
        self.page = ("log", 0)

    def do_error(self) -> None:
        """What failed."""
        self.page = ("error", 0)

    def do_back(self) -> None:
        """Leave the page."""
        self.page = None

    def do_page_on(self) -> None:
        """Scroll the page down."""
        if self.page is not None:
            self.page = (self.page[0], self.page[1] + 5)

    def do_page_back(self) -> None:
        """Scroll the page up."""
        if self.page is not None:
            self.page = (self.page[0], max(0, self.page[1] - 5))


def final_status(source: Source) -> int:
    """0, or 1 where the last request ended in an error or was cut."""
    run = source.session.last_run()
    end = run.ends.last() if run is not None else None
    return EXIT_FAILED if end is not None and end.finish in ("error", "cut") else EXIT_OK
