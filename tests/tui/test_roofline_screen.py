"""The roofline screen: its plot, its sliders under real keys, live and in a replay, and what is not known."""

from __future__ import annotations

import asyncio

import pytest
from textual.events import MouseScrollDown, MouseScrollUp

from phasetop.knobs import Values, stepped
from phasetop.session import Session
from phasetop.tui import pages, roofplot
from phasetop.tui.app import ViewApp
from phasetop.tui.cells import Canvas
from phasetop.tui.frame import FrameMaker
from phasetop.tui.keys import TABLE
from phasetop.tui.layout import layout
from phasetop.tui.roofpage import lines_of
from phasetop.tui.roofplot import Point, Roof
from phasetop.tui.running import Options
from phasetop.tui.theme import Look
from phasetop.tui.view import View
from phasetop.what_if import answer, own_of
from tests.tui.cards import on_a_card, on_a_cpu
from tests.tui.desk import Desk
from tests.tui.fabricate import S, Turn, scripted, session_of
from tests.tui.test_snapshots import compare

CARD = session_of(on_a_card(Turn(tokens=500, gap_ms=8.3)))
CPU = session_of(on_a_cpu(Turn(tokens=60, gap_ms=300)))
NO_PEAK = session_of(on_a_cpu(Turn(tokens=60, gap_ms=300), peak=None))
PRESSED: dict[str, tuple[tuple[str, ...], str]] = {
    # action: the keys, and what the screen shows then
    "back": (("r", "escape"), "one token"),
    "slider": (("r", "down"), "bits a weight"),
    "slide": (("r", "right"), "512 tokens"),  # the reply had 500
    "slide_far": (("r", "shift+right"), "1,536 tokens"),
    "reset": (("r", "shift+right", "0"), "500 tokens"),
    "turn": (("r", "left_square_bracket"), "what if"),
    "interrupt": (("r", "ctrl+c"), "what if"),
    "suspend": ((), ""),  # the pty tests do it
}


def picture(session: Session, size: tuple[int, int], at: int | None = None, view: View | None = None) -> Canvas:
    plan = layout(*size)
    assert plan is not None
    canvas = Canvas(*size, Look())
    frame = FrameMaker(session).frame(session.last_t if at is None else at, plan, view or View(page="roofline"))
    assert pages.paint("roofline", canvas.area(0, 2, size[0], size[1] - 3), frame, session, {}, 0) == {}
    return canvas


@pytest.mark.parametrize(
    ("name", "session", "size"),
    [
        ("roofline-120x36", CARD, (120, 36)),
        ("roofline-80x24", CARD, (80, 24)),
        ("roofline-cpu-60x40", CPU, (60, 40)),
        ("roofline-no-peak-80x24", NO_PEAK, (80, 24)),
    ],
)
def test_the_screen(name: str, session: Session, size: tuple[int, int]) -> None:
    compare(name, picture(session, size))


@pytest.mark.parametrize("size", [(40, 12), (20, 9), (100, 13), (72, 40), (250, 80)], ids=str)
@pytest.mark.parametrize("at", [0, S, 60 * S])
def test_at_any_size_and_time_the_margins_stay_free(size: tuple[int, int], at: int) -> None:
    for session in (CARD, CPU, NO_PEAK):
        for row in picture(session, size, at).text().split("\n"):
            assert row[:1] in ("", " ")
            assert len(row) < size[0]


def test_every_key_of_the_screen_is_pressed_here() -> None:
    assert {key.does for key in TABLE["roofline"]} == set(PRESSED)


@pytest.mark.parametrize("does", [name for name, (keys, _) in PRESSED.items() if keys])
def test_the_key_shows(does: str) -> None:
    keys, words = PRESSED[does]

    async def scene() -> None:
        desk = Desk(CARD, CARD.last_t)
        source = desk.controls._source
        app = ViewApp(source, None, Options(hz=50, title="a.phasetop"), Look())  # a replay: there is nobody to ask
        async with app.run_test(size=(120, 36)):
            for key in keys:
                app.simulate_key(key)
            for _ in range(500):
                if words in app.text:
                    break
                await asyncio.sleep(0.01)
            assert words in app.text, app.text
            app.simulate_key("escape")
            app.simulate_key("q")

    asyncio.run(scene())


def where(app: ViewApp, label: str) -> tuple[int, int, int]:
    """A slider's track: its first column, its row, how many columns it has."""
    rows = app.text.split("\n")
    y = next(y for y, row in enumerate(rows) if row.startswith(f" {label} "))
    columns = [x for x, char in enumerate(rows[y]) if char in "─●┊" and x < 66]
    return min(columns), y, len(columns)


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (60, 40)], ids=str)
def test_the_mouse_sets_a_slider_drags_it_and_turns_it(size: tuple[int, int]) -> None:
    async def scene() -> None:
        source = Desk(CARD, CARD.last_t).controls._source
        app = ViewApp(source, None, Options(hz=50, title="a.phasetop"), Look())
        async with app.run_test(size=size) as pilot:
            app.simulate_key("r")
            for _ in range(500):
                if "what if" in app.text:
                    break
                await asyncio.sleep(0.01)

            def changed() -> Values:
                return app.controls._view.sliders.changed

            def chosen() -> str:
                return app.controls._view.sliders.chosen

            async def click(x: int, y: int) -> None:
                await pilot.mouse_down(offset=(x, y))
                await pilot.mouse_up(offset=(x, y))

            x, y, n = where(app, "prompt")
            await pilot.mouse_down(offset=(x + n - 1, y))
            assert changed().prompt == 1 << 20  # the right end of its range
            app.controls.click(x - 40, y + 5, select=True)  # dragged away from it: it follows, and no other one does
            assert changed() == Values(prompt=1)
            await pilot.mouse_up(offset=(x, y + 5))
            app.controls.click(x + 2, y + 1, select=True)  # the button is up: nothing is dragged any more
            assert changed() == Values(prompt=1)
            x, y, n = where(app, "batch")
            await click(x + n // 2, y)
            batch = changed().batch
            assert batch is not None
            assert 16 <= batch <= 64  # the middle of 1 to 1,024, on a logarithmic scale
            assert chosen() == "batch"
            await pilot._post_mouse_events([MouseScrollUp], offset=(x, y), button=0)
            assert changed().batch == stepped("batch", batch, 1)
            await pilot._post_mouse_events([MouseScrollDown], offset=(3, y), button=0)  # on its label, too
            assert changed().batch == batch
            await click(x, y)  # where it was as the request ran: its own again
            assert changed().batch is None
            x, y, n = where(app, "weights")
            await click(x + n - 1, y)
            assert changed().dtype == "fp32"
            await click(4, where(app, "reply")[1])  # a label is only chosen
            assert chosen() == "output"
            assert changed().output is None
            app._draw()
            assert "bit fp32" in app.text
            before = changed()
            await pilot._post_mouse_events([MouseScrollUp], offset=(30, size[1] - 2), button=0)  # on no slider
            assert changed() == before
            app.simulate_key("escape")
            app.simulate_key("q")

    asyncio.run(scene())


def test_sliders_stay_while_the_screen_is_left_and_are_the_view_s() -> None:
    desk = Desk(CARD, CARD.last_t).press("r", "down", "right", "right")
    assert desk.controls.shown is not None
    assert desk.controls.shown.view.sliders.changed.dtype == "q5_k_m"
    desk.press("escape", "r")
    assert desk.controls.shown.view.sliders.changed.dtype == "q5_k_m"
    desk.press("backspace")
    assert desk.controls.shown.view.sliders.changed.dtype is None
    assert desk.wire.said == []


def test_before_any_request_it_says_so_and_keys_do_no_harm() -> None:
    empty = session_of(scripted("empty", Turn()))
    assert "no request yet" in picture(empty, (80, 24), S).text()
    Desk(empty, S).press("r", "right", "down", "shift+left", "0", "escape")


def rows_of(roof: Roof, width: int = 46, height: int = 14) -> list[str]:
    canvas = Canvas(width, height, Look())
    roofplot.paint(canvas.area(0, 0, width, height), roof)
    return canvas.text().split("\n")


def test_a_dot_lies_where_its_figures_say() -> None:
    """10 FLOP/B is a quarter of four decades; 10 of 1 … 1,000 TFLOP/s is a third up."""
    roof = Roof(3.352e12, 989e12, (Point("decode", 10.0, 10e12),))
    rows = rows_of(roof, 41, 34)  # 31 rows of plot
    at = [(x, y) for y, row in enumerate(rows) for x, char in enumerate(row) if char == "●"]
    assert at == [(10, 21)]  # the row of the title, then 20.4 of 31 down
    assert "989 peak" in rows[0]
    assert any("3,352 GB/s" in row for row in rows)
    assert "decode 10" in rows[21]


def test_the_roof_bends_where_both_limits_meet() -> None:
    """989 ÷ 3.352 = 295 FLOP/B: at 62 % of four decades."""
    rows = rows_of(Roof(3.352e12, 989e12), 100, 30)
    flat = next(row for row in rows[1:] if len(row.strip()) > 20)
    assert abs(len(flat) - len(flat.lstrip()) - 61) <= 3
    assert flat[-1] != " "


def test_a_roof_without_peaks_has_dots_the_reason_and_what_was_read() -> None:
    rows = rows_of(Roof(None, None, (Point("decode", 3.0, 50e9),), why="no peak for this device", read_bytes_per_s=16e9))
    assert rows[1] == "No roof: no peak for this device."
    assert any("● decode 50" in row or "●" in row for row in rows)
    assert any("decode 50" in row for row in rows)  # GFLOP/s
    assert any("decode read 16 GB/s" in row for row in rows)
    assert "GFLOP/s" in rows[0]
    assert rows_of(Roof(None, None))[1:8] == [""] * 7


def test_what_was_read_is_a_line_through_the_dot_of_decode() -> None:
    """50 GFLOP/s at 3.125 FLOP a byte are 16 GB/s: the line has dots in the dot's own rows, left and right of it."""
    rows = rows_of(Roof(None, None, (Point("decode", 3.125, 50e9),), why="x", read_bytes_per_s=16e9), 60, 30)
    y, x = next((y, row.index("●")) for y, row in enumerate(rows) if "●" in row)
    line = {y: [x for x, char in enumerate(row) if 0x2800 < ord(char) <= 0x28FF] for y, row in enumerate(rows)}
    assert line[y - 1]
    assert line[y + 1]
    assert max(line[y + 1]) <= x <= min(line[y - 1]) + 1


def test_what_was_read_is_named_where_nothing_stands() -> None:
    """A slope so flat that the row of its name has several of its dots, and the dot of decode."""
    points = (Point("decode", 2.8, 0.57e9), Point("prefill", 60.0, 0.9e9))
    text = "\n".join(rows_of(Roof(None, None, points, why="not known", read_bytes_per_s=0.2e9), 46, 14))
    assert text.count("●") == 2
    assert "decode read 0.2 GB/s" in text
    assert "decode 0.57" in text
    assert "prefill 0.9" in text


def test_the_reason_says_what_to_type_and_no_command_is_broken_over_rows() -> None:
    reason = "the CPU's bandwidth was not measured: `phasetop doctor --measure-bandwidth` does, or --peak-bandwidth sets it"
    why, ways = roofplot.missing(reason)
    assert why == "the CPU's bandwidth was not measured"
    assert [command for command, _ in ways] == [
        "phasetop doctor --measure-bandwidth",
        "phasetop run --peak-bandwidth 40GB/s",
    ]
    points = (Point("decode", 2.8, 3.2e9), Point("prefill", 140.0, 10e9))
    for width, height in ((36, 9), (52, 28), (24, 9)):
        rows = rows_of(Roof(None, None, points, why=why, ways=ways), width, height)
        text = "\n".join(rows)
        assert "--measure-bandwidth" in text or width < 35
        assert "--peak-bandwidth 40GB/s" in text
        assert "decode 3.2" in text
        assert "prefill 10" in text
    layers = "21 layers run on the CPU; the CPU's bandwidth was not measured: `phasetop doctor --measure-bandwidth` does"
    assert roofplot.missing(layers)[0] == "21 layers run on the CPU; the CPU's bandwidth was not measured"
    assert roofplot.missing("no request yet") == ("no request yet", ())


def test_a_known_bandwidth_without_a_peak_of_flops_says_what_lacks() -> None:
    assert rows_of(Roof(20e9, None))[0].endswith("peak not known")


def test_names_do_not_lie_on_dots_nor_on_the_roof() -> None:
    points = (Point("decode", 3.2, 4.8e12), Point("prefill", 4.0, 5.0e12))
    text = "\n".join(rows_of(Roof(3.352e12, 989e12, points)))
    assert text.count("●") == 2
    assert "decode 4.8" in text
    assert "prefill 5.0" in text


def test_this_run_leaves_load_and_queue_out_as_the_prediction_does() -> None:
    # queue 0.4 s, prefill 0.42 s, then the first token
    turn = Turn(tokens=40, gap_ms=20, queue_ms=400, prefill_ms=420)
    session = session_of(on_a_card(turn))
    plan = layout(120, 36)
    assert plan is not None
    frame = FrameMaker(session).frame(session.last_t, plan, View(page="roofline"))
    assert frame.measures is not None
    assert frame.measures.latency.ttft_ns is not None
    assert frame.measures.latency.ttft_ns > 0.8 * S
    own = own_of(session, session.runs[0], frame.measures)
    rows = {line.name: line.measured for line in lines_of(frame.measures, answer(own, Values()))}
    assert rows["first token"] == rows["prefill"] == "0.42 s"
    assert "in all" not in rows  # that is the whole wait on the screen of turns
    assert "both phases" in rows
    assert "this run, from prefill" in picture(session, (120, 36)).text()
