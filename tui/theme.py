"""The colours: each role's value per theme and colour depth, and the `Look` that turns roles into terminal styles.

Accents mean phases and nothing else; a token that came faster or slower than usual has a step of its own; everything else is
grey. Text has a contrast of at least 5 to 1 on the ground (the tests compute it), and no meaning is carried by colour alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal, NamedTuple

from msgspec import Struct, field
from rich.color import Color
from rich.style import Style

from phasetop.tui.wrap import char_width

Role = Literal[
    "ground", "raised", "rule", "faint", "soft", "ink",
    "queue", "load", "prefill", "decode", "stall",
    "queue_area", "load_area", "prefill_area", "decode_area",
    "gap1", "gap2", "gap3", "gap4", "gap5", "gap6", "gap7",
    "prob1", "prob2", "prob3", "prob4", "prob5",
    "prompt", "thinking", "answer", "tool", "special",
]  # fmt: skip
Theme = Literal["dark", "light"]
Depth = Literal["truecolor", "256", "16", "none"]


class Shades(NamedTuple):
    """One role's colours: truecolor, xterm-256 and ANSI, each on dark and on light ground."""

    dark: str
    light: str
    dark_256: int
    light_256: int
    dark_16: str
    light_16: str


ROLES: Final[dict[Role, Shades]] = {
    "ground": Shades("#0f1419", "#fbfaf7", 233, 231, "default", "default"),
    "raised": Shades("#1b222a", "#ecebe6", 235, 255, "default", "default"),
    "rule": Shades("#37414c", "#c9c7c0", 238, 250, "bright_black", "white"),
    "faint": Shades("#84909c", "#66676a", 246, 241, "default", "default"),
    "soft": Shades("#a7b2bd", "#50555b", 249, 239, "default", "default"),
    "ink": Shades("#dfe5ea", "#1c2126", 254, 234, "default", "default"),
    # one accent a phase
    "queue": Shades("#8d97a2", "#62686f", 246, 242, "white", "bright_black"),
    "load": Shades("#e3cdf8", "#553270", 189, 54, "bright_magenta", "magenta"),
    "prefill": Shades("#4d94f2", "#0b62cf", 69, 26, "bright_blue", "blue"),
    "decode": Shades("#40d6ab", "#1c6a50", 79, 22, "bright_green", "green"),
    "stall": Shades("#ec7350", "#b8104f", 203, 161, "bright_red", "red"),
    # the same, subdued: areas and what is over, never text
    "queue_area": Shades("#545d67", "#989ca1", 240, 247, "bright_black", "bright_black"),
    "load_area": Shades("#6b5b88", "#9a86ab", 60, 139, "magenta", "magenta"),
    "prefill_area": Shades("#2a5aa4", "#739fda", 25, 68, "blue", "blue"),
    "decode_area": Shades("#1f715c", "#5fa88f", 23, 72, "green", "green"),
    # the seven steps of latency: a gap as a multiple of the turn's median gap
    "gap1": Shades("#4f8fe6", "#0a66bb", 69, 25, "bright_blue", "blue"),
    "gap2": Shades("#84b9e4", "#466f85", 110, 60, "cyan", "cyan"),
    "gap3": Shades("#bcc0c7", "#39424a", 250, 237, "default", "default"),
    "gap4": Shades("#cbcb9e", "#6c583a", 187, 95, "yellow", "yellow"),
    "gap5": Shades("#f9df78", "#836400", 221, 94, "bright_yellow", "yellow"),
    "gap6": Shades("#fd9d1c", "#852200", 208, 88, "bright_red", "red"),
    "gap7": Shades("#ec7350", "#b8104f", 203, 161, "bright_red", "red"),
    # probability of the taken token: sure is quiet, a gamble is loud
    "prob1": Shades("#828c94", "#686a6c", 246, 242, "default", "default"),
    "prob2": Shades("#b6a9cc", "#574d72", 146, 60, "default", "default"),
    "prob3": Shades("#c295f8", "#8847c6", 141, 128, "magenta", "magenta"),
    "prob4": Shades("#ff8abb", "#720a78", 211, 53, "bright_magenta", "magenta"),
    "prob5": Shades("#ffdfc9", "#a84a26", 223, 124, "bright_red", "red"),
    # channels
    "prompt": Shades("#84909c", "#66676a", 246, 241, "default", "default"),
    "thinking": Shades("#c4b088", "#6f5a22", 180, 94, "yellow", "yellow"),
    "answer": Shades("#dfe5ea", "#1c2126", 254, 234, "default", "default"),
    "tool": Shades("#7fc8e8", "#0f6a8c", 117, 24, "cyan", "cyan"),
    "special": Shades("#e3cdf8", "#553270", 189, 54, "magenta", "magenta"),
}
GAP_ROLES: Final[tuple[Role, ...]] = ("gap1", "gap1", "gap2", "gap3", "gap4", "gap5", "gap6", "gap7")
"""By step, 1 to 7."""
PROB_ROLES: Final[tuple[Role, ...]] = ("prob1", "prob2", "prob3", "prob4", "prob5")
PROB_LIMITS: Final = (0.9, 0.6, 0.3, 0.1)
"""A probability over the first is `prob1`; one that reaches none is `prob5`, underlined."""

Accent = Literal["queue", "load", "prefill", "decode"]
AREA_OF: Final[dict[Accent, Role]] = {
    "queue": "queue_area",
    "load": "load_area",
    "prefill": "prefill_area",
    "decode": "decode_area",
}
BAND_CHARS: Final[dict[Accent, str]] = {"queue": ".", "load": "=", "prefill": "▒", "decode": "█"}
"""What bands and areas are made of where there is no colour."""

_FROM = "█▉▊▋▍▎■▌▏▁▂▃▄▅▆▇▒▨░□·…▲●○◆│┃┊─━╍▸▶—–≤≥×÷±°→←↑↓�’‘“”−•²"
_TO = "#######_|.:-=+*#%%--..^*o*|||-=->>--<>x/~ ><^v?''" + '""' + "-*2"
_ASCII: Final = str.maketrans(_FROM, _TO)


class Ink(NamedTuple):
    """How a cell is drawn; ``style`` holds ``b`` bold, ``i`` italic, ``u`` underlined, ``r`` reversed."""

    fg: Role
    bg: Role | None = None
    style: str = ""


_ink = lru_cache(None)(Ink)


def ink(fg: Role, bg: Role | None = None, style: str = "") -> Ink:
    """The one `Ink` of these values: equal inks are the same object, which makes comparing rows cheap."""
    return _ink(fg, bg, style)


PLAIN: Final = ink("ink")


class Look(Struct, frozen=True, eq=False):
    """How roles look on this terminal.

    Args:
        theme: dark or light ground.
        depth: the colours that the terminal has; ``none`` leaves bold, reverse and underline.
        painted: the ground is painted; else it is the terminal's own.
        ascii: only ASCII leaves the program.

    """

    theme: Theme = "dark"
    depth: Depth = "truecolor"
    painted: bool = False
    ascii: bool = False
    _styles: dict[Ink, Style | None] = field(default_factory=dict)

    @property
    def coloured(self) -> bool:
        """Whether bands and chips are told apart by colour."""
        return self.depth != "none"

    @property
    def subdues(self) -> bool:
        """Whether there is a quieter tone of each accent."""
        return self.depth in ("truecolor", "256")

    @property
    def spreads(self) -> bool:
        """Whether areas are drawn with every second column of dots, since their colour cannot be subdued."""
        return not self.subdues

    @property
    def on_area(self) -> Role:
        """The text on a band that is over."""
        return "ink" if self.subdues else "ground"

    def colour(self, role: Role) -> Color | None:
        """A role's colour; None: the terminal's own, or none at all."""
        shades, light = ROLES[role], self.theme == "light"
        match self.depth:
            case "truecolor":
                return Color.parse(shades.light if light else shades.dark)
            case "256":
                return Color.from_ansi(shades.light_256 if light else shades.dark_256)
            case "16" if role == "ground":
                return Color.parse("bright_white" if light else "black")
            case "16":
                name = shades.light_16 if light else shades.dark_16
                return None if name == "default" else Color.parse(name)
        return None

    @property
    def ground(self) -> Color | None:
        """The colour that the ground is painted with; None where it is the terminal's own."""
        return self.colour("ground") if self.painted and self.subdues else None

    @property
    def blank(self) -> Style | None:
        """The style of an empty cell; None on the terminal's own ground."""
        return None if self.ground is None else self.style(PLAIN)

    def style(self, how: Ink) -> Style | None:
        """The terminal style of an ink; None where plain text does."""
        try:
            return self._styles[how]
        except KeyError:
            made = self._styles[how] = self._make(how)
            return made

    def _make(self, how: Ink) -> Style | None:
        reverse = "r" in how.style
        if how.bg is not None and how.bg != "raised" and (not self.coloured or self.colour(how.bg) is None):
            reverse = True
        background = self.ground if how.bg is None else self.colour(how.bg)
        foreground = None if reverse and how.fg == "ground" else self.colour(how.fg)
        style = Style(
            color=foreground,
            bgcolor=background,
            bold="b" in how.style or None,
            italic="i" in how.style or None,
            underline="u" in how.style or None,
            reverse=reverse or None,
        )
        return style if style else None

    def glyphs(self, text: str) -> str:
        """Text as this terminal can show it: with ``ascii`` each character becomes one of ASCII, of the same width."""
        if not self.ascii or text.isascii():
            return text
        return "".join(_ascii_of(char) for char in text.translate(_ASCII))


def _ascii_of(char: str) -> str:
    """One character as ASCII; braille by how many dots it has."""
    if char.isascii():
        return char
    code = ord(char)
    if 0x2800 <= code <= 0x28FF:
        dots = (code & 0xFF).bit_count()
        return " " if dots == 0 else "." if dots == 1 else ":" if dots < 5 else "|"
    return "?" * char_width(char)
