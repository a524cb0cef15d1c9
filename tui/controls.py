"""What keys do: the state of the view, and the commands that go to the collector. No Textual here; keys come in by name.

Every action is a method ``do_NAME`` whose name stands in the key table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from msgspec.structs import replace

from phasetop.faults import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, PhasetopError
from phasetop.tui import footer
from phasetop.tui.keys import Key, Screen, lookup
from phasetop.tui.lacking import Lacking
from phasetop.tui.layout import MARGIN, Layout, page_rect, pane_at
from phasetop.tui.panes import Panes
from phasetop.tui.reading import Reading
from phasetop.tui.remembering import Remembering
from phasetop.tui.sliders import Sliding
from phasetop.tui.source import Lifeline, Source
from phasetop.tui.terminal import Facts
from phasetop.tui.view import View

DIRECTED: Final = frozenset(("turn", "next", "move", "slider", "slide", "slide_far"))
"""Actions that go forth or back, by the key."""
FORWARD: Final = frozenset(("right_square_bracket", "n", "right", "down", "j", "l", "shift+right", "L"))
WHEEL_ROWS: Final = 3
"""A notch of the wheel scrolls the text by so many rows."""
TWICE_S: Final = 3.0
"""Two ctrl-C within this time leave."""


class Controls(Reading, Panes, Sliding, Lacking, Remembering):
    """Holds what a person chose, and obeys keys.

    Args:
        source: the session that is shown.
        lifeline: whom to ask and to cancel; None: read-only.
        leave: called with the exit status when the person leaves.
        suspend: called for ctrl-Z.
        title: the name of what is replayed or watched.
        asking: the ask line has the keys from the start.
        earlier: the prompts of other times, oldest first.
        edit: hands a text to the person's editor and returns what it became; None: there is no way to.
        palette: finds a key by what it does.
        redraw: sends the whole screen again.
        remote: the terminal is at the other end of a link.
        terminal: what was found of it.
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
        earlier: Iterable[str] = (),
        edit: Callable[[str], str] | None = None,
        palette: Callable[[], None] = lambda: None,
        redraw: Callable[[], None] = lambda: None,
        remote: bool = False,
        terminal: Facts | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(source, lifeline, title=title, clock=clock, asking=asking, earlier=earlier, edit=edit)
        self._view = replace(self._view, remote=remote, terminal=terminal)
        self._plan: Layout | None = None
        self._leave = leave
        self._suspend = suspend
        self._palette = palette
        self._redraw = redraw
        self._interrupted_at = -TWICE_S

    home: Screen = "live"
    """The screen under pages and lines."""
    scrubs = False
    """There is a scrub bar."""

    def ahead(self) -> list[int]:
        """Moments that will be gone to: their pictures are made beforehand."""
        return []

    @property
    def idle(self) -> bool:
        """Nothing moves by itself: it is looked at less often."""
        return self.frozen_at is not None or (self.shown is not None and not self.shown.running)

    @property
    def screen(self) -> Screen:
        """Where keys go now."""
        if self.page is not None:
            return "roofline" if self.page[0] == "roofline" else "page"
        return "search" if self.searching else "ask" if self.asking else "live"

    @property
    def cursor(self) -> int:
        """The moment that is shown, ns since the anchor."""
        return self.frozen_at if self.frozen_at is not None else self._source.now()

    def view(self, plan: Layout, *, failed: bool) -> View:
        """The view's state as a frame shows it."""
        self._legend, self._plan = plan.legend, plan
        if self._view.page == "doctor" and self._view.terminal is not None:
            size = replace(self._view.terminal, columns=plan.width, rows=plan.height)
            self._view = replace(self._view, terminal=size)
        self._view = replace(
            self._view,
            frozen=self.frozen_at is not None,
            kept=self._lifeline.kept if self._lifeline is not None else None,
            message=self._message[0] if self._message is not None else None,
            offer=self.offer,
            ask=self.ask_line(plan.width),
            search=self.search_line(plan.width - 24),
            failed=failed,
            standing=self._source.standing,
        )
        return self._view

    def tick(self) -> None:
        """Time goes on: a message that stood long enough goes, and what was awaited may be known."""
        self.told()
        self.pulled()
        self.arrive()
        self.want_probabilities()
        if self._message is not None and self._clock() >= self._message[1]:
            self._message, self.changed = None, True

    def press(self, name: str, character: str | None) -> None:
        """Obey a key: its name as Textual calls it, and the character that it types, if it does."""
        self.changed = True
        screen = self.screen
        if self.shown is None:
            if name in ("q", "ctrl+c"):
                self._leave(EXIT_OK if name == "q" else EXIT_INTERRUPTED)
        elif (key := lookup(screen, name, footer.situation(self.shown))) is not None and key.does != "edit":
            self._do(key, name)
        elif screen == "ask":
            self.type(name, character)
        elif screen == "search":
            self.type_search(name, character)

    def _do(self, key: Key, name: str) -> None:
        act = getattr(self, f"do_{key.does}")
        if key.does in DIRECTED:
            act(1 if name in FORWARD else -1)
        elif key.does == "select":
            self.do_select(name.removeprefix("shift+"))
        else:
            act()

    def click(self, x: int, y: int, *, select: bool = False) -> None:
        """The mouse on a cell: a token in the text, else the pane under it is focused."""
        shown, plan = self.shown, self._plan
        if shown is None or plan is None:
            return
        if self.page is not None:
            if self.screen == "roofline":
                self.point(page_rect(plan), x, y, drag=select)
            return
        text = plan.text
        if text is not None and text.y <= y < text.bottom and text.x <= x < text.right:
            self.click_text(y - text.y - plan.legend, x - MARGIN - plan.gutter, select=select)
        elif not select and (pane := pane_at(plan, x, y)) is not None:
            self.focus(pane)

    def release(self) -> None:
        """The mouse was let go."""
        self.held = None

    def wheel(self, x: int, y: int, step: int) -> None:
        """The wheel turned up (1) or down (-1) on a cell: the text is scrolled, or the page; a slider is moved."""
        if self.page is None:
            self.scroll(-WHEEL_ROWS * step)
        elif self.screen == "roofline" and self._plan is not None:
            self.wheel_over(page_rect(self._plan), x, y, step)
        elif self.screen == "page" and self.page[0] != "charts":
            self.do_page_back() if step > 0 else self.do_page_on()
            self.changed = True

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

    def do_redraw(self) -> None:
        """Send the whole screen again, where something else wrote on it."""
        self._redraw()

    def do_palette(self) -> None:
        """Find a key by what it does."""
        self._palette()

    def do_quit(self) -> None:
        """Leave."""
        self._leave(final_status(self._source))

    def do_keep(self) -> None:
        """Keep the recording."""
        if self._lifeline is not None:
            try:
                self.say(f"kept as {self._lifeline.keep(None)}")
            except PhasetopError as error:
                self.say(str(error))


def final_status(source: Source) -> int:
    """0, or 1 where the last request ended in an error or was cut."""
    return EXIT_FAILED if source.session.last_failed else EXIT_OK
