"""What the view remembers from one time to the next: what colours mean, which pane has the room, the theme."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from msgspec.structs import replace

from phasetop.tui.choices import Choices
from phasetop.tui.layout import PANES
from phasetop.tui.page import COLOURS
from phasetop.tui.theme import Theme


class Memory(Protocol):
    """Values by name, from one view to the next; they are JSON's."""

    def get(self, name: str) -> Any:
        """The value; None: nothing is remembered."""
        ...

    def put(self, name: str, value: Any) -> None:
        """Remember a value; None forgets it."""
        ...


THEME_WORDS: Final = "{} theme, remembered; ctrl-t changes it"


class Remembering(Choices):
    """The keys whose outcome stays."""

    _memory: Memory | None = None
    _turn_theme: Callable[[], Theme] | None = None

    def restore(self, memory: Memory | None, turn_theme: Callable[[], Theme] | None = None) -> None:
        """Begin as the last view was left; ``turn_theme`` changes to the other theme and says which that is."""
        self._memory, self._turn_theme = memory, turn_theme
        if memory is None:
            return
        if (colour := memory.get("colour")) in COLOURS:
            self._view = replace(self._view, colour=colour)
        if (zoom := memory.get("zoom")) in PANES:
            self._view = replace(self._view, zoom=zoom)
        self._view = replace(self._view, sweep=memory.get("sweep") is True)

    def remember(self) -> None:
        """Keep how the view is left; what is usual is not written."""
        if self._memory is None:
            return
        view = self._view
        self._memory.put("colour", view.colour if view.colour != COLOURS[0] else None)
        self._memory.put("zoom", view.zoom)
        self._memory.put("sweep", view.sweep or None)

    def do_theme(self) -> None:
        """The other theme."""
        if self._turn_theme is None:
            return
        theme = self._turn_theme()
        if self._memory is not None:
            self._memory.put("theme", theme)
        self.say(THEME_WORDS.format(theme))


def remembered_theme(memory: Memory | None) -> Theme | None:
    """The theme that a person chose another time."""
    chosen = memory.get("theme") if memory is not None else None
    return chosen if chosen in ("dark", "light") else None
