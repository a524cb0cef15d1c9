"""One token: the step's time against its floor, and why there is none."""

from __future__ import annotations

import msgspec
import pytest

from phasetop.tui import explain, onetoken, rail
from phasetop.tui.cells import Canvas
from phasetop.tui.frame import Frame, FrameMaker
from phasetop.tui.layout import layout, pane_at
from phasetop.tui.theme import Look
from phasetop.tui.view import View
from tests.tui.cards import on_a_card, on_a_cpu
from tests.tui.fabricate import MS, S, Turn, session_of

TURN = Turn(tokens=60, gap_ms=300)


def frame_of(peak: float | None, at: int = 9 * S) -> Frame:
    plan = layout(120, 36)
    assert plan is not None
    return FrameMaker(session_of(on_a_cpu(TURN, peak=peak))).frame(at, plan, View())


def rows(frame: Frame, width: int = 39) -> list[str]:
    canvas = Canvas(width, 3, Look())
    onetoken.paint_block(canvas.area(0, 0, width, 3), frame)
    return canvas.text().split("\n")[:3]


def test_the_bar_has_weights_cache_and_rest_in_proportion() -> None:
    frame = frame_of(20e9)
    assert frame.measures is not None
    output, step_ns = frame.measures.tokens.output, frame.measures.rates.tpot_ns
    assert output is not None
    assert step_ns is not None
    weights_ms = (4_186_435_840 + 430_960_640) / 20e9 * 1e3
    cache_ms = (512 + output // 2) * 2 * 32 * 8 * 128 * 2 / 20e9 * 1e3  # keys and values, layers, heads, length, f16
    head, bar, line = rows(frame)
    assert head.split() == ["one", "token", f"{step_ns / 1e6:.2f}", "ms", "floor", f"{weights_ms + cache_ms:.2f}"]
    assert line.split() == [
        *("■", "weights", f"{weights_ms:.0f}", "▨", "cache", f"{cache_ms:.2f}", "□", "rest"),
        f"{step_ns / 1e6 - weights_ms - cache_ms:.1f}",
    ]
    assert bar.count("█") == pytest.approx(39 * weights_ms / (step_ns / 1e6), abs=1)
    assert set(bar) <= set("█▒░")


def test_a_step_that_is_faster_than_its_floor_has_no_rest() -> None:
    head, bar, line = rows(frame_of(10e9))
    assert "floor 46" in head
    assert "░" not in bar
    assert line.split()[-1].startswith("-")


def test_without_a_peak_it_says_how_one_is_measured() -> None:
    assert [row.strip() for row in rows(frame_of(None))] == [
        "one token       — ms",
        "the CPU's bandwidth was not measured:",
        "phasetop doctor --measure-bandwidth",
    ]


def test_before_the_reply_it_has_not_begun() -> None:
    head, bar, _ = rows(frame_of(20e9, 300 * MS))
    assert head.split() == ["one", "token", "—", "ms", "not", "begun"]
    assert bar == "·" * 39


def test_the_strip_has_it_where_there_is_room() -> None:
    session = session_of(on_a_card(Turn(tokens=300, gap_ms=8.3)))
    plan = layout(110, 30)
    assert plan is not None
    assert plan.strip is not None
    frame = FrameMaker(session).frame(session.last_t, plan, View())
    texts = []
    for width in (110, 80):
        canvas = Canvas(width, 2, Look())
        rail.paint_strip(canvas.area(0, 0, width, 2), frame)
        texts.append(canvas.text())
    assert "ms, floor 4.6" in texts[0]
    assert "one token" not in texts[1]


def test_the_kv_gauge_is_still_found_by_the_mouse() -> None:
    plan = layout(120, 36)
    assert plan is not None
    assert plan.rail is not None
    session = session_of(on_a_cpu(TURN))
    canvas = Canvas(120, 36, Look())
    area = canvas.area(plan.rail.x, plan.rail.y, plan.rail.width, plan.rail.height)
    rail.paint(area, FrameMaker(session).frame(9 * S, plan, View()))
    texts = canvas.text().split("\n")
    kv = next(y for y, text in enumerate(texts) if "KV cache" in text)
    token = next(y for y, text in enumerate(texts) if "one token" in text)
    assert pane_at(plan, plan.rail.x + 2, kv) == "kv"
    assert pane_at(plan, plan.rail.x + 2, token) == "figures"


@pytest.mark.parametrize(("peak", "words"), [(20e9, "estimate: read test"), (None, "was not measured")])
def test_the_page_says_where_the_floor_is_from(peak: float | None, words: str) -> None:
    lines = explain.lines("figures", frame_of(peak), 100)
    texts = ["".join(part if isinstance(part, str) else part[0] for part in line) for line in lines]
    floor = next(i for i, text in enumerate(texts) if text.startswith("floor"))
    assert words in " ".join(texts[floor:])


@pytest.mark.parametrize("step_ms", [1426.12, 1397.0, 9999.99, 99.996, 12345.6])
def test_a_number_is_never_cut_nor_run_together_with_its_name(step_ms: float) -> None:
    """Decimals go first, then names: half of 1,397 would read as 139."""
    frame = frame_of(20e9)
    assert frame.measures is not None
    roofline = frame.measures.roofline
    assert roofline.token is not None
    token = msgspec.structs.replace(roofline.token, weights_s=step_ms / 2e3, cache_s=0.012, rest_s=step_ms / 2e3 - 0.012)
    measures = msgspec.structs.replace(frame.measures, roofline=msgspec.structs.replace(roofline, token=token))
    for width in (30, 39, 46):
        head, _, line = rows(msgspec.structs.replace(frame, measures=measures), width)
        assert head.startswith("one token ")
        assert float(head.split()[2].replace(",", "")) == pytest.approx(step_ms, abs=0.51)
        numbers = [float(word.replace(",", "")) for word in line.split() if word[0].isdigit() or word[0] == "-"]
        assert numbers == pytest.approx([step_ms / 2, 12, step_ms / 2 - 12], abs=0.51)
