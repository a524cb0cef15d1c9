"""The figures' rail: a figure that is a dash says why in words that fit."""

from __future__ import annotations

import pytest
from msgspec import structs

from phasetop.tui import rail
from phasetop.tui.cells import Canvas
from phasetop.tui.frame import FrameMaker
from phasetop.tui.layout import layout
from phasetop.tui.theme import Look
from phasetop.tui.view import View
from tests.tui.fabricate import Turn, scripted, session_of


@pytest.mark.parametrize(
    ("why", "width", "note"),
    [
        ("the server tells no times of its own", 42, "not told"),
        ("the server does not tell it", 39, "not told"),
        ("the prefill is not over, or took no time", 39, "i tells why"),
        ("not told", 39, "not told"),
        ("the server tells no times of its own", 90, "the server tells no times of its own"),
    ],
)
def test_a_reason_that_does_not_fit_is_said_in_fewer_words(why: str, width: int, note: str) -> None:
    session = session_of(scripted("run", Turn(tokens=60)))
    plan = layout(160, 36)
    assert plan is not None
    frame = FrameMaker(session).frame(session.last_t, plan, View())
    assert frame.measures is not None
    rates = structs.replace(frame.measures.rates, prefill_per_s=None)
    unknown = {**frame.measures.unknown, "rates.prefill_tok_per_s": why}
    frame = structs.replace(frame, measures=structs.replace(frame.measures, rates=rates, unknown=unknown))
    canvas = Canvas(width, 14, Look())
    rail.paint(canvas.area(0, 0, width, 14), frame)
    row = canvas.text().split("\n")[1]
    assert row.startswith("prefill         — tok/s")
    assert row.endswith(f" {note}")
    assert len(row) == width
