"""What keys do with the panes: which of them is focused and has the room, turns and marks, and the pages over the view."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from phasetop.tui.choices import Choices
from phasetop.tui.layout import PANES, Pane
from phasetop.tui.view import Page

PANE_WORDS: Final[dict[Pane, str]] = {
    "trace": "the trace: z gives it all the room, w shows the last 10 s, i explains it",
    "text": "the text: ← → ↑ ↓ move over tokens, with shift they select, y copies",
    "figures": "the figures: z gives them all the room, i says where each is from",
    "kv": "the KV cache: z gives it all the room, i explains it",
    "machine": "the machine: z gives it all the room, i says where its figures are from",
}
"""What is said of a pane when it is focused."""


class Panes(Choices):
    """The keys of panes, turns and pages."""

    @property
    def zoom(self) -> Pane | None:
        """The pane that has all the room."""
        return self._view.zoom

    @property
    def zoomed(self) -> bool:
        """One pane has all the room."""
        return self._view.zoomed

    def focus(self, pane: Pane | None) -> None:
        """Let keys be about a pane; the one that is zoomed changes with it."""
        zoom = pane if self._view.zoom is not None and pane is not None else self._view.zoom
        self._view = replace(self._view, focus=pane, zoom=zoom)
        self.changed = True

    def do_pane_on(self) -> None:
        """Focus the next pane."""
        self._step(1)

    def do_pane_back(self) -> None:
        """Focus the pane before."""
        self._step(-1)

    def _step(self, step: int) -> None:
        focus = self._view.focus
        at = (0 if step > 0 else len(PANES) - 1) if focus is None else (PANES.index(focus) + step) % len(PANES)
        self.focus(PANES[at])
        self.say(PANE_WORDS[PANES[at]])

    def do_zoom(self) -> None:
        """Give the focused pane all the room, or take it back."""
        self._view = replace(self._view, zoom=None if self._view.zoom is not None else self._view.focus or "text")

    def do_figures(self) -> None:
        """The figures in all the room, or back."""
        self._view = replace(self._view, zoom=None if self._view.zoom == "figures" else "figures")

    def do_sweep(self) -> None:
        """The last ten seconds, or the whole request."""
        self._view = replace(self._view, sweep=not self._view.sweep)
        self.say("the last 10 s" if self._view.sweep else "the whole request")

    def do_close(self) -> None:
        """Close what is open: one thing at a time, the newest first."""
        view = self._view
        if view.token is not None or view.pattern:
            self._view = replace(view, token=None, anchor=None, alternatives=(), pattern="", top=None)
        elif view.zoom is not None:
            self._view = replace(view, zoom=None)
        else:
            self._view = replace(view, focus=None)

    def do_mark(self) -> None:
        """Leave a mark at this moment."""
        if self._lifeline is None:
            self.say("this is read-only: marks are left by whoever runs it")
            return
        number = len(self._source.session.marks.items) + 1
        self._lifeline.mark(self.frozen_at if self.frozen_at is not None else self._source.now(), str(number))
        self.say(f"mark {number}; n and N go to it")

    def do_turn(self, step: int) -> None:
        """Show the turn before or after."""
        from phasetop.tui.frame import default_turn  # with all figures, which the start screen does without

        runs = list(self._source.session.runs)
        if self.shown is None or self.shown.r not in runs:
            return
        at = runs.index(self.shown.r) + step
        if 0 <= at < len(runs):
            now = self.frozen_at if self.frozen_at is not None else self._source.now()
            newest = default_turn(list(self._source.session.runs.values()), now)
            turn = None if newest is not None and runs[at] == newest.r else runs[at]
            self._view = replace(self._view, turn=turn, top=None, token=None, anchor=None, alternatives=())

    # ---- pages

    def open(self, page: Page) -> None:
        """Lay a page over the view."""
        self.page, self.page_scrolls = (page, 0), False
        self._view = replace(self._view, page=page)
        self.changed = True

    def do_help(self) -> None:
        """The keys."""
        self.open("help")

    def do_log(self) -> None:
        """The notices."""
        self.open("log")

    def do_error(self) -> None:
        """What failed."""
        self.open("error")

    def do_turns(self) -> None:
        """The turns."""
        self.open("turns")

    def do_explain(self) -> None:
        """Where the figures of the focused pane are from."""
        self.open("info")

    def do_charts(self) -> None:
        """The charts."""
        self.open("charts")

    def do_doctor(self) -> None:
        """What can be reached and measured from here; a live session's collector looks around again."""
        self.open("doctor")
        if self._lifeline is not None:
            self._lifeline.discover()

    def do_roofline(self) -> None:
        """The roofline."""
        self.open("roofline")

    def do_back(self) -> None:
        """Leave the page."""
        self.page = None
        self._view = replace(self._view, page=None)

    def settle_page(self, top: int, scrolls: bool) -> None:
        """The line that the page really begins with, and whether there is more than fits."""
        self.page_scrolls = scrolls
        if self.page is not None:
            self.page = (self.page[0], top)

    def do_page_on(self) -> None:
        """Scroll the page down."""
        if self.page is not None:
            self.page = (self.page[0], self.page[1] + 5)

    def do_page_back(self) -> None:
        """Scroll the page up."""
        if self.page is not None:
            self.page = (self.page[0], max(0, self.page[1] - 5))

    def do_page_next(self) -> None:
        """The next chart."""
        if self.page is not None:
            self.page = (self.page[0], self.page[1] + 1)

    def do_page_previous(self) -> None:
        """The chart before."""
        if self.page is not None:
            self.page = (self.page[0], self.page[1] - 1)
