"""What keys do with the panes: which of them has the room, and the pages over them."""

from __future__ import annotations

from dataclasses import replace

from phasetop.tui.choices import Choices


class Panes(Choices):
    """The keys of panes, turns and pages."""

    @property
    def zoomed(self) -> bool:
        """The text has all the room."""
        return self._view.zoomed

    def do_zoom(self) -> None:
        """Give the text all the room, or take it back."""
        self._view = replace(self._view, zoomed=not self._view.zoomed)

    def do_turn(self, step: int) -> None:
        """Show the turn before or after."""
        runs = list(self._source.session.runs)
        if self.shown is None or self.shown.r not in runs:
            return
        at = runs.index(self.shown.r) + step
        if 0 <= at < len(runs):
            self._view = replace(self._view, turn=None if at == len(runs) - 1 else runs[at], top=None)

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
