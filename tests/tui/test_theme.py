"""The colours hold what the design promises, computed here: WCAG 2 contrast and CIEDE2000 under three kinds of vision."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from math import atan2, cos, degrees, exp, hypot, radians, sin, sqrt
from typing import get_args

import pytest

from phasetop.tui.keys import TABLE
from phasetop.tui.terminal import contrast, rgb_of
from phasetop.tui.theme import PLAIN, ROLES, Look, Role, ink

AREAS = [role for role in ROLES if role.endswith("_area")]
TEXT = [role for role in ROLES if role not in ("ground", "raised", "rule") and role not in AREAS]
PHASES: list[Role] = ["queue", "load", "prefill", "decode", "stall"]
GAPS: list[Role] = ["gap1", "gap2", "gap3", "gap4", "gap5", "gap6", "gap7"]
PROBABILITIES: list[Role] = ["prob1", "prob2", "prob3", "prob4", "prob5"]
VISION = {  # Machado, Oliveira, Fernandes 2009, severity 1.0, on linear RGB
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def xterm(index: int) -> str:
    """The colour of an xterm-256 index from 16 on."""
    if index >= 232:
        return "#" + f"{8 + 10 * (index - 232):02x}" * 3
    index -= 16
    return "#" + "".join(f"{(0, 95, 135, 175, 215, 255)[v]:02x}" for v in (index // 36, index // 6 % 6, index % 6))


VALUES: dict[str, Callable[[Role], str]] = {
    "dark": lambda role: ROLES[role].dark,
    "light": lambda role: ROLES[role].light,
    "dark 256": lambda role: xterm(ROLES[role].dark_256),
    "light 256": lambda role: xterm(ROLES[role].light_256),
}


def against(one: str, other: str) -> float:
    return contrast(rgb_of(one), rgb_of(other))


def test_contrast_itself() -> None:
    assert against("#000000", "#ffffff") == pytest.approx(21.0)
    assert against("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)  # WebAIM's well-known grey


@pytest.mark.parametrize("name", VALUES)
def test_text_can_be_read_on_the_ground(name: str) -> None:
    value = VALUES[name]
    assert min(against(value(role), value("ground")) for role in TEXT) >= 5.0


@pytest.mark.parametrize("name", VALUES)
def test_text_can_be_read_on_the_raised_ground_but_for_what_is_reversed(name: str) -> None:
    value = VALUES[name]
    assert min(against(value(role), value("raised")) for role in TEXT if role not in ("stall", "gap7")) >= 4.5


@pytest.mark.parametrize("name", VALUES)
def test_the_words_in_bands_and_chips_can_be_read(name: str) -> None:
    value = VALUES[name]
    assert min(against(value("ground"), value(phase)) for phase in PHASES) >= 5.0
    assert min(against(value("ink"), value(area)) for area in AREAS) >= 4.5
    assert min(against(value(area), value("ground")) for area in AREAS) >= 2.49


def lab(colour: str, vision: str) -> tuple[float, float, float]:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb_of(colour)]
    r, g, b = (min(1.0, max(0.0, sum(m * c for m, c in zip(row, linear, strict=True)))) for row in VISION[vision])
    xyz = (
        (0.4124564 * r + 0.3575761 * g + 0.1804375 * b) / 0.95047,
        0.2126729 * r + 0.7151522 * g + 0.0721750 * b,
        (0.0193339 * r + 0.1191920 * g + 0.9503041 * b) / 1.08883,
    )
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def delta(one: str, other: str, vision: str) -> float:
    """CIEDE2000."""
    (l1, a1, b1), (l2, a2, b2) = lab(one, vision), lab(other, vision)
    cm = (hypot(a1, b1) + hypot(a2, b2)) / 2
    g = 0.5 * (1 - sqrt(cm**7 / (cm**7 + 25**7)))
    a1, a2 = a1 * (1 + g), a2 * (1 + g)
    c1, c2 = hypot(a1, b1), hypot(a2, b2)
    h1, h2 = degrees(atan2(b1, a1)) % 360, degrees(atan2(b2, a2)) % 360
    dh = 0.0 if c1 * c2 == 0 else (h2 - h1 + 180) % 360 - 180
    hm = h1 + h2 if c1 * c2 == 0 else (h1 + dh / 2) % 360
    lm, cm = (l1 + l2) / 2, (c1 + c2) / 2
    t = (
        1
        - 0.17 * cos(radians(hm - 30))
        + 0.24 * cos(radians(2 * hm))
        + 0.32 * cos(radians(3 * hm + 6))
        - 0.2 * cos(radians(4 * hm - 63))
    )
    sl = 1 + 0.015 * (lm - 50) ** 2 / sqrt(20 + (lm - 50) ** 2)
    sc, sh = 1 + 0.045 * cm, 1 + 0.015 * cm * t
    rt = -sin(radians(60 * exp(-(((hm - 275) / 25) ** 2)))) * 2 * sqrt(cm**7 / (cm**7 + 25**7))
    dl, dc, big_h = (l2 - l1) / sl, (c2 - c1) / sc, 2 * sqrt(c1 * c2) * sin(radians(dh / 2)) / sh
    return sqrt(dl * dl + dc * dc + big_h * big_h + rt * dc * big_h)


RED_GREEN = ("normal", "deutan", "protan")


@pytest.mark.parametrize("vision", RED_GREEN)
@pytest.mark.parametrize(("name", "scale", "apart"), [("dark", GAPS, 10.5), ("light", GAPS, 10.0), ("dark 256", GAPS, 8.5)])
def test_neighbouring_steps_of_latency_can_be_told_apart(name: str, scale: list[Role], apart: float, vision: str) -> None:
    steps = [delta(VALUES[name](a), VALUES[name](b), vision) for a, b in itertools.pairwise(scale)]
    assert min(steps) >= apart


@pytest.mark.parametrize(("name", "apart"), [("dark", 8.19), ("light", 5.0)])
def test_without_blue_cones_the_steps_of_latency_are_still_apart(name: str, apart: float) -> None:
    """On dark the least are steps 6 and 7, which a shape tells apart; on light 1 and 2, both fast."""
    steps = [delta(VALUES[name](a), VALUES[name](b), "tritan") for a, b in itertools.pairwise(GAPS)]
    assert min(steps) >= apart


ANSI_NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"]
ANSI = {  # the sixteen colours of terminals that are much used, as their sources have them
    "xterm": (
        *(["#000000", "#cd0000", "#00cd00", "#cdcd00", "#0000ee", "#cd00cd", "#00cdcd", "#e5e5e5"]),
        *(["#7f7f7f", "#ff0000", "#00ff00", "#ffff00", "#5c5cff", "#ff00ff", "#00ffff", "#ffffff"]),
    ),
    "VGA": (
        *(["#000000", "#aa0000", "#00aa00", "#aa5500", "#0000aa", "#aa00aa", "#00aaaa", "#aaaaaa"]),
        *(["#555555", "#ff5555", "#55ff55", "#ffff55", "#5555ff", "#ff55ff", "#55ffff", "#ffffff"]),
    ),
    "Windows": (
        *(["#0c0c0c", "#c50f1f", "#13a10e", "#c19c00", "#0037da", "#881798", "#3a96dd", "#cccccc"]),
        *(["#767676", "#e74856", "#16c60c", "#f9f1a5", "#3b78ff", "#b4009e", "#61d6d6", "#f2f2f2"]),
    ),
}


def sixteen(name: str, terminal: str, theme: str) -> str:
    """One of the sixteen by its name; the default is the ink of the theme."""
    if name == "default":
        return "#e5e5e5" if theme == "dark" else "#000000"
    bright = name.startswith("bright_")
    return ANSI[terminal][ANSI_NAMES.index(name.removeprefix("bright_")) + 8 * bright]


def ansi_of(role: Role, theme: str) -> str:
    return ROLES[role].dark_16 if theme == "dark" else ROLES[role].light_16


@pytest.mark.parametrize("terminal", ANSI)
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_with_sixteen_colours_phases_are_apart_and_steps_but_for_those_of_one_hue(theme: str, terminal: str) -> None:
    """Steps 4 and 5, on light 6 and 7, have one hue: bold, reverse and the legend's numbers tell them apart."""
    shown = {role: sixteen(ansi_of(role, theme), terminal, theme) for role in (*PHASES, *GAPS)}
    # a stall is reversed, and what waits is grey like text: the accents are what must not be taken for one another
    accents: list[Role] = ["load", "prefill", "decode", "stall"]
    assert min(delta(shown[a], shown[b], "normal") for a, b in itertools.combinations(accents, 2)) >= 15.0
    alike = {("gap4", "gap5"), ("gap6", "gap7")}
    for one, other in itertools.pairwise(GAPS):
        if (one, other) not in alike:
            assert delta(shown[one], shown[other], "normal") >= 9.0, (one, other)
    faster, slower = {ansi_of(role, theme) for role in GAPS[:2]}, {ansi_of(role, theme) for role in GAPS[3:]}
    assert not faster & slower  # what is fast is never drawn as what is slow
    assert ansi_of("gap3", theme) == "default"


@pytest.mark.parametrize("vision", RED_GREEN)
@pytest.mark.parametrize("name", ["dark", "light"])
def test_neighbouring_probabilities_and_any_two_phases_can_be_told_apart(name: str, vision: str) -> None:
    value = VALUES[name]
    assert min(delta(value(a), value(b), vision) for a, b in itertools.pairwise(PROBABILITIES)) >= 11.0
    assert min(delta(value(a), value(b), vision) for a, b in itertools.combinations(PHASES, 2)) >= 9.5


def test_every_role_has_a_colour() -> None:
    assert set(ROLES) == set(get_args(Role))


def test_on_the_terminals_own_ground_no_background_is_sent() -> None:
    style = Look(painted=False).style(ink("faint"))
    assert style is not None
    assert style.bgcolor is None
    assert Look(painted=False).blank is None
    painted = Look(painted=True).style(ink("faint"))
    assert painted is not None
    assert painted.bgcolor is not None


def test_without_colour_bold_reverse_and_underline_are_left() -> None:
    look = Look(depth="none")
    for role in ROLES:
        style = look.style(ink(role, None, "bu"))
        assert style is not None
        assert style.color is None
        assert style.bgcolor is None
    chip = look.style(ink("ground", "decode", "b"))
    assert chip is not None
    assert chip.reverse
    assert look.style(PLAIN) is None


def test_with_sixteen_colours_no_text_is_bright_black_nor_plain_blue_on_dark() -> None:
    for role in TEXT:
        assert ROLES[role].dark_16 not in ("bright_black", "blue", "black"), role
        if role != "queue":
            assert ROLES[role].light_16 not in ("bright_black", "white", "bright_white"), role


def test_in_ascii_every_cell_keeps_its_width() -> None:
    look = Look(ascii=True)
    shown = "█▌▁▅▒▨░□■·▲●│━╍—…×é日"
    assert look.glyphs(shown) == "#_.+%%--#.^*|=--.x???"
    assert look.glyphs("⠀⠁⠃⣿") == " .:|"
    assert Look().glyphs(shown) is shown


def test_in_ascii_every_key_is_still_named() -> None:
    look = Look(ascii=True)
    for key in (key for keys in TABLE.values() for key in keys):
        assert look.glyphs(key.label).count("?") == key.label.count("?"), key
