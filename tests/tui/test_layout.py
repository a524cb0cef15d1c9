"""Where everything stands: the grid of the design at its four sizes, and no harm at any other."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasetop.tui.layout import Layout, Rect, layout, zoomed
from phasetop.tui.tiling import tiles

GRID = {
    #            headline, phases, gaps,    lanes,    time, text,     notice, keys
    (80, 24): ((2, 3), (5, 6), (7, 9), (10, 11), 12, (14, 19), 20, 23),
    (120, 36): ((2, 4), (6, 7), (8, 12), (14, 17), 18, (20, 31), 33, 35),
    (200, 60): ((2, 4), (6, 7), (8, 15), (17, 20), 21, (23, 55), 57, 59),
    (60, 40): ((2, 5), (7, 8), (9, 11), (12, 13), 14, (16, 29), 30, 39),
}


def rows(rect: Rect | None) -> tuple[int, int]:
    assert rect is not None
    return rect.y, rect.bottom - 1


def plan(width: int, height: int) -> Layout:
    made = layout(width, height)
    assert made is not None
    return made


@pytest.mark.parametrize("size", GRID, ids=str)
def test_the_grid(size: tuple[int, int]) -> None:
    made = plan(*size)
    headline, phases, gaps, lanes, time, text, notice, keys = GRID[size]
    assert rows(made.headline) == headline
    assert rows(made.lanes["phases"]) == phases
    assert rows(made.lanes["gap"]) == gaps
    assert rows(made.lanes["machine"]) == lanes
    assert rows(made.lanes["ruler"]) == (time, time)
    assert rows(made.text) == text
    assert rows(made.notice) == (notice, notice)
    assert rows(made.keys) == (keys, keys)


@given(st.integers(40, 240), st.integers(12, 80))
def test_a_sentence_of_two_rows_touches_nothing(width: int, height: int) -> None:
    made = plan(width, height)
    if made.goes_on:
        assert made.progress_row == made.headline.height - 1
        assert made.lanes["phases"].y > made.headline.bottom


def test_columns() -> None:
    for width, x0, x1 in ((80, 10, 60), (120, 10, 98), (200, 10, 178)):
        made = plan(width, 36)
        assert made.plot is not None
        assert (made.plot.x, made.plot.right) == (x0, x1)
    rail = plan(120, 36).rail
    assert rail is not None
    assert (rail.x, rail.right) == (80, 119)
    assert plan(80, 24).rail is None
    assert plan(80, 24).strip is not None


def test_text_is_never_wider_than_one_can_read() -> None:
    for width in (80, 120, 160, 300):
        text = plan(width, 60).text
        assert text is not None
        assert text.width - 1 - 8 - 1 <= 88


def test_the_smallest_sizes() -> None:
    small = plan(20, 5)
    assert (rows(small.headline), rows(small.trace), rows(small.text)) == ((0, 1), (2, 2), (3, 4))
    assert plan(6, 2).headline.height == 1
    assert plan(6, 2).text is None
    assert layout(5, 20) is None
    assert layout(80, 1) is None


SIZES = st.tuples(st.integers(6, 260), st.integers(2, 90))


def panes(made: Layout) -> list[Rect]:
    named = (made.header, made.headline, made.text, made.rail, made.second_rail, made.block, made.strip, made.notice)
    rects = [rect for rect in (*named, made.ask, made.keys) if rect is not None]
    return [*rects, *made.lanes.values()]


@given(SIZES, st.booleans())
@settings(max_examples=300)
def test_panes_lie_in_the_screen_and_on_no_other(size: tuple[int, int], zoom: bool) -> None:
    made = zoomed(plan(*size)) if zoom else plan(*size)
    seen: set[tuple[int, int]] = set()
    for rect in panes(made):
        assert rect.x >= 0
        assert rect.y >= 0
        assert rect.right <= size[0]
        assert rect.bottom <= size[1]
        cells = {(x, y) for x in range(rect.x, rect.right) for y in range(rect.y, rect.bottom)}
        assert not cells & seen, made
        seen |= cells


@given(SIZES, st.booleans())
@settings(max_examples=300)
def test_tiles_cover_the_screen_exactly(size: tuple[int, int], zoom: bool) -> None:
    made = zoomed(plan(*size)) if zoom else plan(*size)
    cells = [(x, y) for rect in tiles(made) for y in range(rect.y, rect.bottom) for x in range(rect.x, rect.right)]
    assert len(cells) == len(set(cells)) == size[0] * size[1]


@given(SIZES)
@settings(max_examples=200)
def test_text_and_typing_lie_in_one_tile(size: tuple[int, int]) -> None:
    made = plan(*size)
    for rect in (made.text, made.notice, made.ask):
        if rect is not None and rect.height > 0:
            assert any(
                tile.x <= rect.x and rect.right <= tile.right and tile.y <= rect.y and rect.bottom <= tile.bottom
                for tile in tiles(made)
            ), made
