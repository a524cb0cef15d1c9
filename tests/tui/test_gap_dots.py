"""Many gaps at once give the dots that one after the other gives."""

from __future__ import annotations

from math import log10

from hypothesis import given
from hypothesis import strategies as st

from phasetop.tui.lanes import GAP_DECADES, Dots

GAPS = st.lists(st.tuples(st.integers(0, 10_000), st.integers(-1, 10**11), st.integers(1, 7)), max_size=40)


@given(GAPS, st.integers(1, 8), st.integers(1, 90), st.sampled_from([0.4, 4.0, 40.0]))
def test_many_at_once(gaps: list[tuple[int, int, int]], rows: int, columns: int, floor_ms: float) -> None:
    one, many = Dots(columns, rows, 10_000), Dots(columns, rows, 10_000)
    sure = []
    for t, gap, step in gaps:
        height = log10(gap / 1e6 / floor_ms) / GAP_DECADES if gap > 0 else 0.0
        if abs(height * rows * 4 - round(height * rows * 4)) > 1e-9:  # on a border either is right
            sure.append((t, gap, step))
            one.add(t, height, step)
    many.add_gaps([t for t, _, _ in sure], [g for _, g, _ in sure], [s for _, _, s in sure], 0, floor_ms)
    assert many.cells() == one.cells()
