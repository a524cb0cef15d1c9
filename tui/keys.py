"""The one key table: what a key does on each screen, the keys row, and the help page, all from here.

To add a key: a row in `TABLE`, and a method ``do_NAME`` in the app. No key has two meanings on one screen.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

Screen = Literal["live", "ask", "search", "page", "roofline", "start", "replay", "time"]
"""Where a key is pressed: in the view, in its ask line, on a page over it, in a replay."""
When = Literal[
    "always",
    "running",
    "fetching",
    "steering",
    "failed",
    "behind",
    "turns",
    "frozen",
    "unfrozen",
    "unkept",
    "asked",
    "open",
    "charts",
    "scrolls",
    "narrow",
    "wide",
    "offered",
    "several",
    "launchable",
    "fetchable",
    "lacking",
    "stocked",
    "playing",
    "paused",
]
"""The situation that a key belongs to; out of it the key does nothing and isn't in the keys row."""


class Key(Struct, frozen=True):
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
    Key(("escape",), "esc", "close", "close", "close what is open", "open", 12),
    Key(("escape",), "esc", "cancel", "escape", "leave, or end the reply", "running", 12),
    Key(("escape",), "esc", "end the pull", "end_task", "", "fetching", 9),
    Key(("a", "enter"), "a", "ask", "ask", "ask the next turn; or enter", "steering", 14),
    Key(("R",), "R", "again", "again", "the same prompt again", "asked", 28),
    Key(("alt+shift+r",), "alt-R", "", "afresh", "again, without its cache", "asked"),
    Key(("c",), "c", "colour", "colour", "other colours for tokens", "always", 20),
    Key(("f",), "f", "follow", "follow", "follow the newest text", "behind", 16),
    Key(("tab",), "tab", "pane", "pane_on", "next pane; shift-tab: back", "always", 21),
    Key(("shift+tab",), "", "", "pane_back", "", "always"),
    Key(("z",), "z", "zoom", "zoom", "all the room for this pane", "always", 24),
    Key(("v",), "v", "figures", "figures", "the figures, and back", "narrow", 22),
    Key(("v",), "v", "", "figures", "", "wide"),
    Key(("w",), "w", "", "sweep", "the last 10 s, or all of it", "always"),
    Key(("T",), "T", "", "turns", "the turns", "always"),
    Key(("i",), "i", "explain", "explain", "what it is, and where from", "always", 25),
    Key(("p",), "p", "charts", "charts", "the charts", "always", 26),
    Key(("d",), "d", "", "doctor", "what is measured, and how", "always"),
    Key(("r",), "r", "roofline", "roofline", "the roofline, and what if", "always", 28),
    Key(("m",), "m", "", "mark", "leave a mark", "steering"),
    Key(("n", "N"), "n N", "", "next", "next, last stall or mark", "always"),
    Key(("slash",), "/", "", "search", "search the replies", "always"),
    Key(("y",), "y", "pull", "pull", "pull the lacking model", "lacking", 8),
    Key(("y",), "y", "", "copy", "copy the reply or selection", "stocked"),
    Key(("left", "right"), "← →", "", "move", "from token to token", "always"),
    Key(("shift+left", "shift+right", "shift+up", "shift+down"), "shift", "", "select", "with arrows: select", "always"),
    Key(
        ("left_square_bracket", "right_square_bracket"),
        "[ ]",
        "turn",
        "turn",
        "the turn before, after",
        "turns",
        22,
    ),
    Key(("s",), "s", "keep", "keep", "keep the recording", "unkept", 27),
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
    Key(("ctrl+p",), "ctrl-p", "", "palette", "find a key by what it does", "always"),
    Key(("ctrl+l",), "ctrl-l", "", "redraw", "", "always"),
    Key(("ctrl+z",), "ctrl-z", "", "suspend", "", "always"),
)
SEARCH: Final = (
    Key(("enter",), "enter", "find", "find", "", "always", 10),
    Key(("escape",), "esc", "leave", "unsearch", "", "always", 12),
    Key(("ctrl+c",), "ctrl-c", "", "unsearch", "", "always"),
    Key(("ctrl+z",), "ctrl-z", "", "suspend", "", "always"),
)
START: Final = (
    Key(("enter",), "enter", "run", "begin", "begin what is chosen; the prompt is typed there", "offered", 10),
    Key(("up", "k"), "↑ ↓", "choose", "up", "choose another", "several", 12),
    Key(("down", "j"), "↓", "", "down", "", "several"),
    Key(("a",), "a", "ask", "ask", "type a prompt for what is chosen", "offered", 14),
    Key(("o",), "o", "Ollama", "launch", "start Ollama", "launchable", 16),
    Key(("g",), "g", "get", "fetch", "fetch the embedded model", "fetchable", 18),
    Key(("escape",), "esc", "end the download", "end_fetch", "end the download", "fetching", 9),
    Key(("m",), "m", "all", "more", "all that can be begun", "several", 20),
    Key(("r",), "r", "look again", "look", "look around again", "always", 22),
    Key(("question_mark",), "?", "keys", "help", "this page", "always", 98),
    Key(("q",), "q", "quit", "quit", "quit", "always", 99),
    Key(("ctrl+t",), "ctrl-t", "", "theme", "dark or light theme", "always"),
    Key(("ctrl+p",), "ctrl-p", "", "palette", "find a key by what it does", "always"),
    Key(("ctrl+c",), "ctrl-c", "", "interrupt", "twice: quit", "always"),
    Key(("ctrl+z",), "ctrl-z", "", "suspend", "to the shell; fg comes back", "always"),
)
ASK: Final = (
    Key(("enter",), "enter", "send", "send", "send the prompt", "always", 10),
    Key(("escape",), "esc", "leave", "leave", "leave the line; what was typed stays", "always", 12),
    Key(("up", "down"), "↑ ↓", "earlier prompts", "edit", "earlier prompts", "always", 14),
    Key(("ctrl+e", "alt+e"), "ctrl-e", "editor", "editor", "write the prompt in $EDITOR", "always", 16),
    Key(("ctrl+c",), "ctrl-c", "", "interrupt", "", "always"),
    Key(("ctrl+z",), "ctrl-z", "", "suspend", "", "always"),
)
PAGE: Final = (
    Key(
        ("escape", "q", "question_mark", "exclamation_mark", "e", "enter", "space", "T", "i", "p", "d"),
        *("esc", "back", "back", "", "always", 10),
    ),
    Key(("tab",), "tab", "next chart", "page_next", "", "charts", 20),
    Key(("shift+tab",), "", "", "page_previous", "", "charts"),
    Key(("left_square_bracket", "right_square_bracket"), "[ ]", "turn", "turn", "", "turns", 22),
    Key((), "↑ ↓", "scroll", "page_on", "", "scrolls", 12),  # a word for the keys row; the keys are those below
    Key(("down", "pagedown", "j"), "↓", "", "page_on", "", "always"),
    Key(("up", "pageup", "k"), "↑", "", "page_back", "", "always"),
    Key(("ctrl+c",), "ctrl-c", "", "interrupt", "", "always"),
    Key(("ctrl+z",), "ctrl-z", "", "suspend", "", "always"),
)
ROOFLINE: Final = (
    Key(("escape", "q", "r", "enter", "space"), "esc", "back", "back", "back to the view", "always", 10),
    Key(("up", "down", "k", "j"), "↑ ↓", "choose", "slider", "choose what is moved; or click it", "always", 12),
    Key(("left", "right", "h", "l"), "← →", "move", "slide", "move it; or drag it, or the wheel", "always", 14),
    Key(("shift+left", "shift+right", "H", "L"), "shift", "far", "slide_far", "with ← →: coarse steps", "always", 16),
    Key(("0", "backspace"), "0", "as it ran", "reset", "all as the request had it; or backspace", "always", 18),
    Key(("left_square_bracket", "right_square_bracket"), "[ ]", "turn", "turn", "the turn before, after", "turns", 22),
    Key(("ctrl+c",), "ctrl-c", "", "interrupt", "", "always"),
    Key(("ctrl+z",), "ctrl-z", "", "suspend", "", "always"),
)
_OTHER: Final = frozenset(
    (
        *("freeze", "escape", "end_task", "ask", "again", "afresh", "mark", "keep", "pull"),
        *("move", "select", "next", "turn", "follow", "quit", "interrupt"),
    )
)
"""What the view's keys do that a replay's do not, or do otherwise."""
_AFTER: Final = 40
"""A replay's own keys come first in the keys row, but for the one that closes what is open."""
REPLAY: Final = (
    Key(("space",), "space", "pause", "play", "play, pause, play again", "playing", 10),
    Key(("space",), "space", "play", "play", "", "paused", 10),
    Key(("left", "right"), "← →", "token", "step", "the token before, after", "always", 12),
    Key(("shift+left", "shift+right"), "shift", "", "step", "with ← →: by ten tokens", "always"),
    Key(("comma", "full_stop"), ", .", "phase", "band", "the phase before, after", "always", 14),
    Key(("n", "N"), "n N", "stall", "next", "on, back: stall, mark, turn", "always", 16),
    Key(tuple("0123456789"), "0–9", "tenths", "tenth", "to a tenth of the session", "always", 18),
    Key(
        ("plus", "minus", "equals_sign", "underscore"), "+ −", "speed", "speed", "faster, slower: 0.1 to 100×", "always", 20
    ),
    Key(("t",), "t", "time", "time", "to a time, or token #900", "always", 22),
    Key(("l",), "l", "end", "end", "the end, and follow it", "always", 24),
    Key(("left_square_bracket", "right_square_bracket"), "[ ]", "turn", "turn", "the turn before, after", "turns", 23),
    Key(("f", "end", "G", "upper_g"), "f", "follow", "follow", "the text at the cursor again", "behind", 11),
    *(
        replace(key, rank=key.rank + _AFTER * (key.rank < 98 and key.does != "close"))
        for key in LIVE
        if key.does not in _OTHER
    ),
    Key(("q",), "q", "quit", "quit", "quit; what runs goes on", "always", 99),
    Key(("ctrl+c",), "ctrl-c", "", "interrupt", "twice: quit", "always"),
)
TIME: Final = (
    Key(("enter",), "enter", "go", "go", "go there", "always", 10),
    Key(("escape",), "esc", "leave", "untime", "leave the line", "always", 12),
    Key(("ctrl+c",), "ctrl-c", "", "untime", "", "always"),
    Key(("ctrl+z",), "ctrl-z", "", "suspend", "", "always"),
)
TABLE: Final[dict[Screen, tuple[Key, ...]]] = {
    "start": START,
    "live": LIVE,
    "ask": ASK,
    "search": SEARCH,
    "page": PAGE,
    "roofline": ROOFLINE,
    "replay": REPLAY,
    "time": TIME,
}


def lookup(screen: Screen, name: str, situation: frozenset[When]) -> Key | None:
    """The row of a pressed key on a screen, as far as the situation has it."""
    for key in TABLE[screen]:
        if name in key.names and key.when in situation:
            return key
    return None


def table_of(screen: Screen) -> tuple[Key, ...]:
    """The keys of a screen."""
    return TABLE[screen]


def keys_of(screen: Screen, situation: frozenset[When]) -> list[Key]:
    """The keys of a screen that mean something in a situation."""
    return [key for key in TABLE[screen] if key.when in situation]


def row_of(screen: Screen, situation: frozenset[When], width: int) -> list[Key]:
    """What the keys row shows in ``width`` columns: by rank, the last dropped where room is short, never ``?`` and ``q``."""
    shown = sorted((key for key in TABLE[screen] if key.word and key.when in situation), key=lambda key: key.rank)
    while len(shown) > 1 and sum(len(key.label) + 1 + len(key.word) + 3 for key in shown) - 3 > width:
        droppable = [key for key in shown if key.rank < 98]
        shown.remove(droppable[-1] if droppable else shown[-1])
    return shown
