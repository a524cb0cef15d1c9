"""The grid of cells: clipping, wide characters, harmlessness."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop.tui.cells import Canvas, fit
from phasetop.tui.theme import Look, ink
from phasetop.tui.wrap import text_width


def canvas(width: int = 20, height: int = 3) -> Canvas:
    return Canvas(width, height, Look())


def test_text_is_clipped_to_its_area_and_its_end_is_told() -> None:
    c = canvas()
    area = c.area(5, 1, 6, 1)
    assert area.put(4, 0, "abcdef") == 10
    assert area.put(-2, 0, "xyz") == 1
    area.put(0, 1, "below")
    assert c.text() == "\n     z   ab\n\n"


def test_a_wide_character_takes_two_cells_and_is_not_cut_in_two() -> None:
    c = canvas()
    c.area(0, 0, 5, 1).put(0, 0, "日本語")
    assert c.chars[0][:6] == ["日", "", "本", "", " ", " "]


@given(st.text(max_size=30))
def test_no_control_character_gets_into_a_cell(text: str) -> None:
    c = canvas()
    c.area(0, 0, 20, 1).put(0, 0, text)
    assert all(part.isprintable() for part in c.chars[0])


def test_escape_sequences_are_marks() -> None:
    c = canvas()
    c.area(0, 0, 20, 1).put(0, 0, "\x1b]52;c;AA\x07\x9b2J\u202e")
    assert c.text().startswith("�]52;c;AA��2J�")


@pytest.mark.parametrize(
    ("amounts", "text"),
    [
        (((5, "█"),), "█████·····"),
        (((2, "▒"), (4, "█")), "▒▒████····"),
        (((0.5, "█"),), "▌·········"),
        (((20, "█"),), "██████████"),
        (((0, "█"),), "··········"),
    ],
)
def test_bars_end_on_an_eighth_of_a_cell(amounts: tuple[tuple[float, str], ...], text: str) -> None:
    c = canvas(10, 1)
    c.area(0, 0, 10, 1).bar(0, 0, 10, 10, [(amount, "decode", fill) for amount, fill in amounts])
    assert c.text().rstrip("\n") == text


def test_a_value_has_its_columns() -> None:
    c = canvas(30, 2)
    c.area(0, 0, 30, 2).value(0, 0, "8.3", "ms", "p50")
    c.area(0, 0, 30, 2).value(0, 1, "1,234.5", "ms", "max")
    assert c.text() == "    8.3 ms p50\n1,234.5 ms max\n"


@given(st.text(alphabet="ab日 é", max_size=20), st.integers(0, 12), st.booleans())
def test_what_is_cut_to_fit_fits(text: str, width: int, keep_end: bool) -> None:
    cut = fit(text, width, keep_end=keep_end)
    assert text_width(cut) <= width
    assert cut == text or "…" in cut or width == 0


def test_a_name_keeps_its_end() -> None:
    assert fit("Llama-3.3-70B-Instruct", 11, keep_end=True) == "Llama…truct"


def test_equal_inks_are_one_object() -> None:
    assert ink("faint") is ink("faint", None, "")
