"""The turns: every figure has its unit, the bars a legend, and the turn that the view shows is marked and in sight."""

from __future__ import annotations

import pytest

from phasetop import events as ev
from phasetop.metrics import Measures, measure
from phasetop.session import Run, Session
from phasetop.tui import frame as frames
from phasetop.tui import turns
from phasetop.tui.cells import Canvas
from phasetop.tui.frame import FrameMaker
from phasetop.tui.layout import layout
from phasetop.tui.theme import Depth, Look
from phasetop.tui.view import View
from tests.tui.fabricate import MS, S, Turn, ask, opening, scripted, session_of


def drawn(session: Session, width: int, height: int, *, turn: int | None = None, depth: Depth = "truecolor") -> list[str]:
    plan = layout(120, 36)
    assert plan is not None
    canvas = Canvas(width, height, Look(depth=depth))
    frame = FrameMaker(session).frame(session.last_t + 2 * S, plan, View(page="turns", turn=turn))
    turns.paint(canvas.area(0, 0, width, height), frame)
    return canvas.text().split("\n")


def several() -> Session:
    """One that loads for 1.5 s, one with most of its prompt cached, one that fails."""
    script = opening()
    t = script.t + 101 * MS
    ask(script, 0, Turn(tokens=100, gap_ms=10, prompt=500, prefill_ms=500, queue_ms=1500))
    next(event for event in script.events if isinstance(event, ev.State) and event.v == 0).s = "loading"
    script.add(ev.State(t=t + 1490 * MS, v=0, s="ready"))
    ask(script, 1, Turn(tokens=50, gap_ms=20, prompt=700, cached=600, prefill_ms=100, finish="length"))
    ask(script, 2, Turn(tokens=10, error="no room"))
    return session_of(script.sorted())


def cells(rows: list[str], head: str) -> list[str]:
    """A column's unit and figures, by its head."""
    end = rows[0].index(head) + len(head)
    return [row[:end].rpartition(" ")[2] for row in rows[1:5]]


@pytest.mark.parametrize("width", [78, 118, 198])
def test_each_figure_has_its_unit_and_its_own_value(width: int) -> None:
    session = several()
    rows = drawn(session, width, 20)
    assert cells(rows, "prompt")[:3] == ["tokens", "500", "700"]
    assert cells(rows, "cached")[:3] == ["tokens", "0", "600"]
    assert cells(rows, "reply")[:3] == ["tokens", "100", "50"]
    assert cells(rows, "first")[0] == cells(rows, "in all")[0] == "s"
    assert cells(rows, "prefill")[0] == cells(rows, "decode")[0] == "tok/s"
    assert float(cells(rows, "decode")[1]) == pytest.approx(100, rel=0.1)  # a token every 10 ms
    assert float(cells(rows, "prefill")[2].replace(",", "")) == pytest.approx(1000, rel=0.1)  # 100 new ones in 0.1 s
    assert cells(rows, "stalls")[1:3] == ["0", "0"]
    assert "done" in rows[2]
    assert "at limit" in rows[3]
    assert "failed" in rows[4]


def test_seconds_stay_seconds() -> None:
    """The column says s: 150 s are not 2:30."""
    session = session_of(ask(opening(), 0, Turn(tokens=30, prefill_ms=150_000)).sorted())
    assert float(cells(drawn(session, 118, 12), "first")[1]) == pytest.approx(150, abs=1)


@pytest.mark.parametrize("width", [46, 78, 118])
def test_the_bars_have_a_scale_a_legend_and_the_turns_numbers(width: int) -> None:
    rows = drawn(several(), width, 20)
    scale = next(row for row in rows if "■ prefill" in row)
    assert scale.index("■ load") < scale.index("■ prefill") < scale.index("■ decode")
    assert scale.rstrip().endswith(" s")
    bars = [row for row in rows if "▄" in row]
    assert [row.split()[0] for row in bars] == ["1", "2"]  # the one that failed at once took no time
    longest = max(bars, key=lambda row: row.count("▄"))
    assert longest is bars[0]


def test_without_colours_the_bars_are_told_apart() -> None:
    rows = drawn(several(), 78, 20, depth="none")
    bar = next(row for row in rows if "=" in row and "load" not in row)
    assert bar.index("=") < bar.index("▒") < bar.index("█")
    assert any("= load" in row and "▒ prefill" in row and "█ decode" in row for row in rows)


def test_the_turn_that_is_shown_is_marked_and_never_out_of_sight() -> None:
    script = opening()
    for r in range(12):
        ask(script, r, Turn(tokens=5, prefill_ms=50))
    session = session_of(script.sorted())
    newest = drawn(session, 46, 16)
    assert next(row for row in newest if "▸" in row).split()[:2] == ["▸", "12"]
    first = drawn(session, 46, 16, turn=0)
    assert next(row for row in first if "▸" in row).split()[:2] == ["▸", "1"]


def test_before_any_turn_it_says_so() -> None:
    assert drawn(session_of(scripted("empty", Turn())), 46, 10)[0] == "turns  —  no request yet"


@pytest.mark.parametrize("size", [(12, 3), (46, 5), (60, 4), (200, 60)])
def test_at_any_size_nothing_leaves_its_place(size: tuple[int, int]) -> None:
    for at in (0, 500 * MS, 60 * S):
        rows = drawn(several(), *size)
        assert all(len(row) <= size[0] for row in rows), at


def test_the_legend_has_what_is_drawn_also_where_it_is_short() -> None:
    script = opening()
    ask(script, 0, Turn(tokens=100, gap_ms=100, queue_ms=85))  # less than a hundredth of its time
    text = "\n".join(drawn(session_of(script.sorted()), 198, 20))
    assert "■ queue" in text
    assert "■ load" not in text


def hundreds(n: int) -> Session:
    """So many turns, the reply of each a token longer than the one before."""
    session, t = Session(), S
    for r in range(n):
        session.apply(ev.Request(t=t, r=r, api="chat"))
        session.apply(ev.State(t=t, r=r, s="sent", at=t))
        for _ in range(r + 2):
            t += 10 * MS
            session.apply(ev.Tok(t=t, r=r, x="a"))
        session.apply(ev.End(t=t, r=r, finish="stop"))
        t += S
    return session


@pytest.mark.parametrize("turn", [None, 3, 20, 75])
def test_of_many_turns_those_in_sight_have_their_own_numbers(turn: int | None) -> None:
    rows = drawn(hundreds(90), 118, 30, turn=turn)
    table = [row.replace("▸", " ").split() for row in rows[2:30]]
    numbers = [int(cells[0]) for cells in table]
    assert numbers == list(range(numbers[0], numbers[0] + 28))
    assert [int(cells[3]) for cells in table] == [n + 1 for n in numbers]  # prompt, cached, reply
    marked = [int(row.replace("▸", " ").split()[0]) for row in rows if "▸" in row]
    assert marked == [90 if turn is None else turn + 1]


def test_a_frame_measures_no_more_turns_than_can_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 600 turns a frame on a wide terminal once took 240 ms, each time: more were measured than are kept."""
    measured: list[int] = []

    def counting(session: Session, run: Run, at: int) -> Measures:
        measured.append(run.r)
        return measure(session, run, at)

    monkeypatch.setattr(frames, "measure", counting)
    session = hundreds(600)
    plan = layout(200, 60)
    assert plan is not None
    assert plan.second_rail is not None
    maker = FrameMaker(session)
    assert len(maker.frame(session.last_t + 2 * S, plan, View()).history) <= plan.height
    assert len(measured) <= plan.height
    del measured[:]
    maker.frame(session.last_t + 3 * S, plan, View())
    assert measured == []
