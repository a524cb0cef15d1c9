"""The one key table: what a key does on each screen, the keys row, and the help page, all from here.

To add a key: a row in `TABLE`, and a method ``do_NAME`` in the app. No key has two meanings on one screen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Screen = Literal["live", "ask", "page"]
"""Where a key is pressed: in the view, in its ask line, on a page over it."""
When = Literal["always", "running", "steering", "failed", "behind", "turns", "frozen", "unfrozen", "unkept", "asked"]
"""The situation that a key belongs to; out of it the key does nothing and isn't in the keys row."""


@dataclass(frozen=True, slots=True)
class Key:
    """One row of the table.

    Attributes:
        names: the keys' names, as Textual calls them.
        label: how the key is written on the screen.
        word: what it does, in a word, for the keys row; "" leaves it out there.
        does: the action.
        help: what it does, for the help page; "" leaves it out there.
        when: the situation it belongs to.
        rank: the order in the keys row; the highest ones go first where there is no room, ``?`` and ``q`` never.

    """

    names: tuple[str, ...]
    label: str
    word: str
    does: str
    help: str
    when: When = "always"
    rank: int = 50


LIVE: Final = (
    Key(("space",), "space", "pause", "freeze", "pause the view, or go on", "unfrozen", 10),
    Key(("space",), "space", "go on", "freeze", "", "frozen", 10),
    Key(("escape",), "esc", "cancel", "escape", "leave, or end the reply", "running", 12),
    Key(("a", "enter"), "a", "ask", "ask", "ask the next turn; or enter", "steering", 14),
    Key(("R",), "R", "again", "again", "the same prompt again", "asked", 28),
    Key(("alt+shift+r",), "alt-R", "", "afresh", "again, without its cache", "asked"),
    Key(("c",), "c", "colour", "colour", "other colours for tokens", "always", 20),
    Key(("f",), "f", "follow", "follow", "follow the newest text", "behind", 16),
    Key(("z",), "z", "zoom", "zoom", "the text in full height", "always", 24),
    Key(
        ("left_square_bracket", "right_square_bracket"),
        "[ ]",
        "turn",
        "turn",
        "the turn before, after",
        "turns",
        22,
    ),
    Key(("s",), "s", "keep", "keep", "keep the recording", "unkept", 26),
    Key(("e",), "e", "error", "error", "what failed, in full", "failed", 18),
    Key(("up", "k"), "↑ ↓", "", "up", "scroll the text", "always"),
    Key(("down", "j"), "↓", "", "down", "", "always"),
    Key(("pageup",), "pgup pgdn", "", "page_up", "by pages; home and end", "always"),
    Key(("pagedown",), "pgdn", "", "page_down", "", "always"),
    Key(("home", "g"), "home", "", "home", "", "always"),
    Key(("end", "G", "upper_g"), "end", "", "follow", "", "always"),
    Key(("exclamation_mark",), "!", "", "log", "the notices so far", "always"),
    Key(("question_mark",), "?", "keys", "help", "this page", "always", 98),
    Key(("q",), "q", "quit", "quit", "quit; a running reply ends", "always", 99),
    Key(("ctrl+c",), "ctrl-c", "", "interrupt", "end the reply; twice: quit", "always"),
    Key(("ctrl+t",), "ctrl-t", "", "theme", "dark or light theme", "always"),
    Key(("ctrl+z",), "ctrl-z", "", "suspend", "", "always"),
)
ASK: Final = (
    Key(("enter",), "enter", "send", "send", "", "always", 10),
    Key(("escape",), "esc", "leave", "leave", "", "always", 12),
    Key(("up", "down"), "↑ ↓", "earlier prompts", "edit", "", "always", 14),
    Key(("ctrl+e", "alt+e"), "ctrl-e", "editor", "editor", "", "always", 16),
    Key(("ctrl+c",), "ctrl-c", "", "interrupt", "", "always"),
    Key(("ctrl+z",), "ctrl-z", "", "suspend", "", "always"),
)
PAGE: Final = (
    Key(
        ("escape", "q", "question_mark", "exclamation_mark", "e", "enter", "space"), "esc", "back", "back", "", "always", 10
    ),
    Key(("down", "pagedown", "j"), "↓", "", "page_on", "", "always"),
    Key(("up", "pageup", "k"), "↑", "", "page_back", "", "always"),
    Key(("ctrl+c",), "ctrl-c", "", "interrupt", "", "always"),
    Key(("ctrl+z",), "ctrl-z", "", "suspend", "", "always"),
)
TABLE: Final[dict[Screen, tuple[Key, ...]]] = {"live": LIVE, "ask": ASK, "page": PAGE}


def lookup(screen: Screen, name: str, situation: frozenset[When]) -> Key | None:
    """The row of a pressed key on a screen, as far as the situation has it."""
    for key in TABLE[screen]:
        if name in key.names and key.when in situation:
            return key
    return None


def row_of(screen: Screen, situation: frozenset[When], width: int) -> list[Key]:
    """What the keys row shows in ``width`` columns: by rank, the last dropped where room is short, never ``?`` and ``q``."""
    shown = sorted((key for key in TABLE[screen] if key.word and key.when in situation), key=lambda key: key.rank)
    while len(shown) > 1 and sum(len(key.label) + 1 + len(key.word) + 3 for key in shown) - 3 > width:
        droppable = [key for key in shown if key.rank < 98]
        shown.remove(droppable[-1] if droppable else shown[-1])
    return shown
