"""The key table holds together."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest
from textual.keys import REPLACED_KEYS, Keys, _character_to_key

from phasetop.tui.controls import Controls
from phasetop.tui.keys import TABLE, Screen, When, lookup, row_of
from phasetop.tui.replaying import ReplayControls
from phasetop.tui.start import StartControls

CONTROLS = {"start": StartControls, "replay": ReplayControls, "time": ReplayControls}
ALL: frozenset[When] = frozenset(get_args(When)) - {"frozen"}
TYPED = {_character_to_key(chr(code)) for code in range(33, 127)}
MODIFIED = {f"ctrl+{c}" for c in "acdekluwz"} | {"alt+e", "alt+shift+r"}
NAMED = TYPED | {key.value for key in Keys} | set(REPLACED_KEYS.values()) | MODIFIED


@pytest.mark.parametrize("screen", TABLE)
def test_no_key_has_two_meanings_in_one_situation(screen: Screen) -> None:
    exclusive = {frozenset(("frozen", "unfrozen")), frozenset(("open", "running")), frozenset(("narrow", "wide"))}
    exclusive |= {frozenset(("lacking", "stocked")), frozenset(("open", "fetching")), frozenset(("running", "fetching"))}
    exclusive.add(frozenset(("playing", "paused")))
    for one, other in itertools.combinations(TABLE[screen], 2):
        if set(one.names) & set(other.names):
            assert frozenset((one.when, other.when)) in exclusive


@pytest.mark.parametrize("screen", TABLE)
def test_every_key_does_something_and_has_a_name_that_textual_knows(screen: Screen) -> None:
    for key in TABLE[screen]:
        assert key.does == "edit" or hasattr(CONTROLS.get(screen, Controls), f"do_{key.does}"), key
        for name in key.names:
            assert len(name) == 1 or name in NAMED or name == "upper_g", name


def test_characters_are_called_what_textual_calls_them() -> None:
    assert [_character_to_key(c) for c in "?![]"] == [
        "question_mark",
        "exclamation_mark",
        "left_square_bracket",
        "right_square_bracket",
    ]


@pytest.mark.parametrize("width", [20, 40, 58, 78, 118])
def test_the_keys_row_fits_and_help_and_quit_are_never_dropped(width: int) -> None:
    shown = row_of("live", ALL, width)
    assert sum(len(key.label) + 1 + len(key.word) + 3 for key in shown) - 3 <= width
    assert [key.label for key in shown][-2:] == ["?", "q"]


def test_out_of_its_situation_a_key_does_nothing() -> None:
    assert lookup("live", "escape", frozenset(("always",))) is None
    assert lookup("live", "escape", frozenset(("always", "running"))) is not None


def test_everything_is_explained() -> None:
    explained = {name for key in TABLE["live"] if key.help for name in key.names}
    paired = {"down", "pagedown", "home", "end", "j", "k", "g", "G", "upper_g", "ctrl+z", "ctrl+l", "shift+tab"}
    for key in TABLE["live"]:
        assert set(key.names) <= explained | paired, key
