"""What keys do in the text: scrolling, colours."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from phasetop.tui.choices import Choices
from phasetop.tui.page import COLOURS, Colour

COLOUR_WORDS: Final[dict[Colour, str]] = {
    "gap": "colours: how long each token took, beside the usual",
    "probability": "colours: how probable each token was",
    "channel": "colours: answer, thinking, tool call",
    "plain": "no colours",
}
"""What is said where no legend stands."""


class Reading(Choices):
    """The keys of the text pane."""

    _legend = True

    def do_colour(self) -> None:
        """The next meaning of the tokens' colours."""
        colour = COLOURS[(COLOURS.index(self._view.colour) + 1) % len(COLOURS)]
        self._view = replace(self._view, colour=colour)
        if not self._legend:
            known = colour != "probability" or self.shown is None or self.shown.has_probabilities
            self.say(COLOUR_WORDS[colour] if known else "colours: probability, which the server was not asked for")

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
