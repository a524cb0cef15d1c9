"""Moments as people type them."""

from __future__ import annotations

import pytest

from phasetop.moments import END, START, Moment, moment_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("12.5", 12.5),
        ("12,5", 12.5),
        (" 12.5s ", 12.5),
        ("12.5 s", 12.5),
        ("0", 0),
        (".5", 0.5),
        ("319ms", 0.319),
        ("1:02", 62),
        ("1:02.5", 62.5),
        ("01:02:03", 3723),
        ("2m", 120),
        ("2m30s", 150),
        ("1h 2m", 3720),
        ("3 min", 180),
    ],
)
def test_times(text: str, seconds: float) -> None:
    assert moment_of(text) == Moment("s", seconds)


@pytest.mark.parametrize("text", ["#900", "tok900", "token 900", "Token 900"])
def test_tokens(text: str) -> None:
    assert moment_of(text) == Moment("token", 900)


def test_shares() -> None:
    assert moment_of("50%") == Moment("share", 0.5)
    assert moment_of("end") == moment_of("100 %") == END
    assert moment_of("start") == moment_of("0%") == START


@pytest.mark.parametrize("text", ["", " ", "soon", "1:2:3:4", "-5", "101%", "#", "1e9", "12.5x", "9" * 40, "\x1b[2J"])
def test_what_is_none_says_what_would_be(text: str) -> None:
    with pytest.raises(ValueError, match=r"12\.5"):
        moment_of(text)
