"""Several cards in the view: their rows, lanes of their own where there is height, and the second rail."""

from __future__ import annotations

import pytest

from phasetop import events as ev
from phasetop.session import Session
from phasetop.tui import devices
from phasetop.tui.cells import Canvas
from phasetop.tui.devices import DeviceRow, short_name, shown_rows
from phasetop.tui.frame import Frame, FrameMaker
from phasetop.tui.layout import Layout, Pane, layout, zoomed
from phasetop.tui.painter import paint
from phasetop.tui.theme import Look
from phasetop.tui.view import View
from tests.tui.cards import many_cards, on_a_cpu
from tests.tui.fabricate import GIB, MS, S, Script, Turn, ask, session_of
from tests.tui.test_snapshots import compare

TWO = session_of(many_cards(2).sorted())
EIGHT = session_of(many_cards(8).sorted())


def drawn(
    session: Session, size: tuple[int, int], zoom: Pane | None = None, at: int | None = None
) -> tuple[Canvas, Frame, Layout]:
    """As the app draws it: the layout knows the cards from the frame before."""
    maker, cards = FrameMaker(session), 1
    for _ in range(2):
        found = layout(*size, cards)
        assert found is not None
        plan = zoomed(found, zoom) if zoom is not None else found
        view = View(steers=True, kept="x", zoom=zoom, focus=zoom)
        frame = maker.frame(session.last_t - 2 * S if at is None else at, plan, view)
        cards = frame.cards
    canvas = Canvas(*size, Look())
    assert paint(canvas, frame, plan) == {}
    return canvas, frame, plan


@pytest.mark.parametrize(
    ("name", "session", "size"),
    [("two-cards-200x60", TWO, (200, 60)), ("eight-cards-200x60", EIGHT, (200, 60)), ("two-cards-120x36", TWO, (120, 36))],
)
def test_the_view(name: str, session: Session, size: tuple[int, int]) -> None:
    compare(name, drawn(session, size)[0])


def test_each_card_has_lanes_of_its_own_from_fifty_rows_on() -> None:
    _, frame, plan = drawn(TWO, (200, 60))
    assert [lane.label.split() for lane in frame.lanes] == [["SM", "0"], ["DRAM", "0"], ["SM", "1"], ["DRAM", "1"]]
    assert (plan.lane_rows, plan.lane_pairs, plan.pair_gap) == (2, 2, True)
    assert plan.text is not None
    assert plan.text.y == 28
    assert all(lane.unit == "GB/s" and 210 < int(lane.number) < 240 for lane in frame.lanes[1::2])  # 22.4 % of 1,008
    _, frame, plan = drawn(TWO, (120, 36))
    assert [lane.label for lane in frame.lanes] == ["SM", "DRAM"]
    assert frame.lanes[0].note == "GPM, 2 GPUs"


def test_eight_cards_have_a_row_a_lane_and_text_is_left() -> None:
    _, frame, plan = drawn(EIGHT, (200, 60))
    assert len(frame.lanes) == 16
    assert plan.lane_rows == 1
    assert plan.text is not None
    assert plan.text.height >= 16
    zoom = drawn(EIGHT, (120, 36), "machine")[1]
    assert len(zoom.lanes) == 16


@pytest.mark.parametrize("cards", [1, 2, 3, 8, 40])
@pytest.mark.parametrize("size", [(200, 60), (120, 50), (80, 24), (60, 70), (100, 51), (20, 5)])
def test_panes_never_overlap_however_many_cards_there_are(cards: int, size: tuple[int, int]) -> None:
    plan = layout(*size, cards)
    assert plan is not None
    for each in (plan, *(zoomed(plan, pane) for pane in ("trace", "machine"))):
        if each.trace is not None and each.lanes:
            bottoms = [rect.bottom for rect in each.lanes.values()]
            assert bottoms == sorted(bottoms)
            assert bottoms[-1] <= each.trace.bottom
            assert each.text is None or each.text.y >= each.trace.bottom
            assert each.text is None or each.text.height >= 4 or size[1] < 24


def test_the_numbers_of_a_frame_are_the_same_made_afresh() -> None:
    maker = FrameMaker(EIGHT)
    plan = layout(200, 60, 8)
    assert plan is not None
    for at in range(0, EIGHT.last_t, 5900 * MS):
        assert maker.frame(at, plan, View()) == FrameMaker(EIGHT).frame(at, plan, View())


def test_rows_say_memory_temperature_and_power_or_what_holds_back() -> None:
    canvas, frame, _ = drawn(TWO, (200, 60))
    first, second = frame.devices
    assert (first.temperature_c, first.power_w, first.reason) == (61, 341, "")
    assert second.reason == "power cap"
    text = canvas.text()
    assert "24.6 of 80.0 GiB     61 °C  341 W" in text
    assert "24.5 of 80.0 GiB power cap  334 W" in text


def test_of_too_many_the_hottest_or_the_lost_one_is_shown() -> None:
    rows = tuple(DeviceRow(f"c{i}", temperature_c=heat) for i, heat in enumerate((50.0, 71.0, 60.0)))
    assert shown_rows(rows, 3) == (list(rows), 0)
    assert shown_rows(rows, 1) == ([rows[1]], 2)
    lost = (*rows[:2], DeviceRow("c2", reason="lost"))
    assert shown_rows(lost, 1)[0][0].name == "c2"
    assert "61 °C +1" in drawn(TWO, (120, 36))[0].text()


def lost_card() -> Session:
    script = many_cards(2)
    last = max(event.t for event in script.events if isinstance(event, ev.Smp))
    names = [str(1000 + 10 * 2 + i) for i in range(4)]
    gone = ev.Smp(t=last + MS, t0=last, v=dict.fromkeys(names), e=dict.fromkeys(names, "the GPU fell off the bus"))
    script.events.append(gone)
    script.events = [*script.events, ev.Mark(t=last + 3 * S, at=last)]
    return session_of(script.sorted())


def test_a_card_that_fell_off_is_lost_and_has_no_old_power() -> None:
    session = lost_card()
    rows = devices.rows_of(session, None, session.last_t, session.last_t)
    assert [row.reason for row in rows] == ["", "lost"]
    canvas = Canvas(46, 2, Look())
    devices.paint(canvas.area(0, 0, 46, 2), rows)
    assert canvas.text().split("\n")[1].endswith("lost")


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA H100 PCIe", "H100"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "1g.5gb"),
        ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", "3g.40gb"),
        ("AMD Radeon RX 7900 XTX", "RX 7900 XTX"),
        ("NVIDIA GeForce RTX 4070 Laptop GPU", "RTX 4070"),
        ("NVIDIA GB10", "GB10"),
        (None, "GPU"),
        ("bad\x1b[2Jname", "bad␛[2Jname"),
    ],
)
def test_names_are_short(name: str | None, short: str) -> None:
    assert short_name(name) == short


def mig() -> Script:
    """Three slices of one card: what NVML tells of a slice is not its power, nor how busy it is."""
    script = many_cards(3, name="NVIDIA H100 80GB HBM3 MIG 1g.10gb", mem_gib=10)
    for event in script.events:
        if isinstance(event, ev.Series) and event.name in ("power_w", "sm_percent"):
            event.off = "not told for one MIG slice, only for the whole GPU"
        if isinstance(event, ev.Smp):
            event.v = {s: value for s, value in event.v.items() if int(s) < 1000 or int(s) % 10 != 1}
    return script


def test_slices_have_their_names_and_reasons() -> None:
    canvas, frame, _ = drawn(session_of(mig().sorted()), (200, 60))
    assert [row.name.split() for row in frame.devices] == [["1g.10gb", "0"], ["1g.10gb", "1"], ["1g.10gb", "2"]]
    assert all(row.power_w is None for row in frame.devices)
    assert "of 10.0 GiB" in canvas.text()


def test_without_a_gpu_the_row_is_the_machine_s_memory() -> None:
    session = session_of(on_a_cpu(Turn(tokens=60, gap_ms=300)))
    canvas, frame, _ = drawn(session, (200, 60), at=session.last_t)
    (row,) = frame.devices
    assert (row.name, row.total_bytes) == ("RAM", 64 * GIB)
    assert row.used_bytes is None  # this session does not sample it
    assert any("RAM" in line and "—" in line and "of 64.0 GiB" in line for line in canvas.text().split("\n"))


def test_with_layers_on_the_cpu_that_and_the_gpus_together_are_the_story() -> None:
    script = many_cards(2)
    model = next(event for event in script.events if isinstance(event, ev.Model))
    model.placed = {"CUDA0": 12, "CUDA1": 8, "CPU": 13}
    _, frame, plan = drawn(session_of(script.sorted()), (200, 60))
    assert (frame.cards, plan.lane_pairs) == (1, 1)
    assert [lane.label for lane in frame.lanes] == ["SM", "CPU"]
    assert len(frame.devices) == 2


def test_a_server_elsewhere_is_not_given_this_machine_s_cards() -> None:
    script = many_cards(2)
    server = next(event for event in script.events if isinstance(event, ev.Server))
    server.local = False
    _, frame, _ = drawn(session_of(script.sorted()), (200, 60))
    assert frame.devices == ()


def test_before_a_request_all_cards_are_shown() -> None:
    script = many_cards(2)
    canvas, frame, _ = drawn(session_of([event for event in script.sorted() if event.t < 50 * MS]), (200, 60), at=50 * MS)
    assert frame.cards == 2
    assert [row.name.split()[0] for row in frame.devices] == ["H100", "H100"]
    assert "roofline" in canvas.text()
    assert "no request yet" in canvas.text()


def test_a_turn_s_bar_tells_what_came_before_the_prefill_from_it() -> None:
    script = ask(many_cards(2), 3, Turn(tokens=60, gap_ms=30, prefill_ms=900, queue_ms=4000), at_ms=50)
    session = session_of(script.sorted())
    canvas, _, _ = drawn(session, (200, 60), at=session.last_t)
    y = max(y for y, row in enumerate(canvas.text().split("\n")) if "▄" in row[152:])
    roles = [canvas.inks[y][x].fg for x in range(152, 198) if canvas.chars[y][x] == "▄"]
    assert roles == sorted(roles, key=["load", "queue", "prefill", "decode"].index)
    assert roles.count("queue") > 3 * roles.count("prefill") > 0
