"""Textual's command palette over the key table: find a key by what it does. Loaded when it is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.screen import Screen
from textual.style import Style

from phasetop.tui.keys import Key


class Finder(CommandPalette):
    """The palette as quiet as the view: no boxes, no accents, what is chosen black on light grey."""

    DEFAULT_CSS = """
    Finder > Vertical { background: ansi_default; margin-top: 4; }
    Finder #--input { background: ansi_default; border: none; padding: 0; }
    Finder #--input.--list-visible { border: none; }
    Finder SearchIcon { display: none; }
    Finder CommandInput, Finder CommandInput:focus { background: ansi_default; color: ansi_default; padding: 0 1; }
    Finder CommandList { background: ansi_default; border: none; padding: 0; }
    Finder CommandList > .option-list--option { background: ansi_default; color: ansi_default; padding: 0 1; }
    Finder CommandList:ansi > .option-list--option-highlighted {
        background: ansi_white; color: ansi_black; text-style: none;
    }
    """


def palette(keys: Iterable[Key], press: Callable[[str], None]) -> CommandPalette:
    """The palette over those keys; ``press`` obeys the chosen one, by its first name."""
    rows = [(f"{key.label:<9} {key.help}", key) for key in keys if key.help and key.does != "palette"]

    class Keys(Provider):
        """The keys that mean something now."""

        def __init__(self, screen: Screen[object], match_style: Style | None = None) -> None:
            super().__init__(screen, match_style)

        async def discover(self) -> Hits:
            for text, key in rows:
                yield DiscoveryHit(text, partial(press, key.names[0]))

        async def search(self, query: str) -> Hits:
            matcher = self.matcher(query)
            for text, key in rows:
                if (score := matcher.match(text)) > 0:
                    yield Hit(score, matcher.highlight(text), partial(press, key.names[0]), text=text)

    return Finder([Keys], placeholder="what do you want to do?")
