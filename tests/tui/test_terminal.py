"""What the terminal says of itself, and the look that follows."""

from __future__ import annotations

import pytest

from phasetop.tui.pacing import Pacer, beat
from phasetop.tui.terminal import RESET, depth_of, is_remote, look_for, parse_ground, speaks_utf8, theme_by_environment

BLACK = (0.0, 0.0, 0.0)
WHITE = (1.0, 1.0, 1.0)
GREY = (0.45, 0.45, 0.45)


@pytest.mark.parametrize(
    ("environ", "depth"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "truecolor"),
        ({"TERM": "xterm", "COLORTERM": "24bit"}, "truecolor"),
        ({"TERM": "xterm-kitty"}, "truecolor"),
        ({"TERM": "tmux-256color"}, "256"),
        ({"TERM": "xterm"}, "16"),
        ({"TERM": "linux"}, "16"),
        ({}, "16"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": "1"}, "none"),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, "256"),  # no-color.org: only when it is not empty
    ],
)
def test_depth(environ: dict[str, str], depth: str) -> None:
    assert depth_of(environ) == depth


@pytest.mark.parametrize(
    ("answer", "ground"),
    [
        (b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\\x1b[?62;22c", WHITE),
        (b"\x1b]11;rgb:00/00/00\x07", BLACK),
        (b"\x1b[?1;2c", None),
        (b"", None),
        (b"\x1b]11;rgb:zz/00/00\x07", None),
    ],
)
def test_the_answer_to_osc_11(answer: bytes, ground: object) -> None:
    assert parse_ground(answer) == ground


def test_a_known_ground_that_is_dark_enough_is_left_alone() -> None:
    look = look_for({"COLORTERM": "truecolor"}, BLACK)
    assert (look.theme, look.painted) == ("dark", False)
    look = look_for({"COLORTERM": "truecolor"}, WHITE)
    assert (look.theme, look.painted) == ("light", False)


def test_a_ground_on_which_the_faintest_text_cannot_be_read_is_painted() -> None:
    assert look_for({"COLORTERM": "truecolor"}, GREY).painted
    assert look_for({"COLORTERM": "truecolor"}, None).painted
    assert look_for({"COLORTERM": "truecolor"}, BLACK, theme="light").painted


def test_colours_of_the_environment() -> None:
    assert theme_by_environment({"COLORFGBG": "0;15"}) == "light"
    assert theme_by_environment({"COLORFGBG": "15;default;0"}) == "dark"
    assert theme_by_environment({}) == "dark"
    assert look_for({"TERM": "xterm"}, None).ground is None  # sixteen colours: the ground cannot be chosen


def test_the_locale() -> None:
    assert speaks_utf8({"LANG": "en_US.UTF-8"})
    assert speaks_utf8({})
    assert not speaks_utf8({"LC_ALL": "de_DE.ISO-8859-1", "LANG": "en_US.UTF-8"})
    assert look_for({"LANG": "C.ISO-8859-15", "TERM": "xterm"}, None).ascii


def test_ssh() -> None:
    assert is_remote({"SSH_CONNECTION": "1.2.3.4 5 6.7.8.9 22"})
    assert not is_remote({"SSH_CONNECTION": ""})


def test_the_reset_undoes_every_mode() -> None:
    for mode in (1000, 1003, 1006, 2004, 1004, 1049):
        assert f"\x1b[?{mode}l" in RESET
    assert "\x1b[?25h" in RESET


def test_a_frame_waits_for_the_terminals_answer() -> None:
    pacer = Pacer()
    assert pacer.drew(0.0)
    pacer.answered(0.1)
    assert pacer.drew(1.0)
    assert not pacer.may_draw(1.1)
    pacer.answered(1.1)
    assert pacer.may_draw(1.1)


def test_a_terminal_that_answers_nothing_is_not_asked() -> None:
    pacer = Pacer(paced=False)
    assert not pacer.drew(0.0)
    assert pacer.may_draw(0.0)


def test_after_three_seconds_of_silence_one_more_frame_is_tried() -> None:
    pacer = Pacer()
    pacer.drew(10.0)
    assert not pacer.may_draw(12.9)
    assert pacer.may_draw(13.0)
    assert pacer.drew(13.0)
    assert not pacer.may_draw(13.1)
    pacer.answered(15.0)
    assert (pacer.missed, pacer.paced, pacer.patience_s) == (0, True, 6.0)


def test_one_that_falls_silent_for_good_is_no_longer_waited_for() -> None:
    pacer, now = Pacer(), 0.0
    for wait in (3.0, 6.0, 12.0, 24.0):
        assert pacer.drew(now)
        assert not pacer.may_draw(now + wait - 0.1)
        now += wait
        assert pacer.may_draw(now)
    assert not pacer.drew(now)
    assert pacer.may_draw(now)


def test_beats_are_of_the_sessions_clock() -> None:
    assert [beat(t, 500) for t in (0, 499, 500, 1234)] == [0, 0, 500, 1000]
