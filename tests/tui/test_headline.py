"""The words on top: what is measured, and no claim beyond it."""

from __future__ import annotations

import re

import msgspec
import pytest

from phasetop import events as ev
from phasetop.session import Session
from phasetop.tui import painter as view
from phasetop.tui.cells import Canvas
from phasetop.tui.frame import Frame, FrameMaker
from phasetop.tui.headline import paint, to_measure, words_of
from phasetop.tui.layout import layout
from phasetop.tui.theme import Look
from phasetop.tui.view import View
from tests.tui.cards import on_a_cpu
from tests.tui.fabricate import MS, S, Script, Turn, ask, opening, sample, scripted, session_of


def frame_of(session: Session, cursor: int, steers: bool = True) -> Frame:
    plan = layout(120, 36)
    assert plan is not None
    return FrameMaker(session).frame(cursor, plan, View(steers=steers))


def test_prefill_counts_only_new_tokens() -> None:
    turn = Turn(prompt=1100, cached=100, prefill_ms=4000, batches=4, tokens=2)
    words = words_of(frame_of(session_of(ask(opening(), 0, turn).sorted()), 3 * S))
    assert words.limit == "reading the prompt"
    assert words.why.startswith("500 of 1,000 new tokens are read, 100 came from the cache. First token in about ")


def test_decode_says_how_often_a_token_comes_and_what_the_machine_does() -> None:
    words = words_of(frame_of(session_of(scripted("run", Turn(tokens=300, gap_ms=15))), 4 * S))
    assert re.fullmatch(r"a token every 1[45]\.\d ms", words.limit)
    assert words.why.endswith(" of 2 cores busy; the server holds 214 MiB.")
    assert "bound" not in words.limit + words.why


def test_other_programs_on_the_cpu_are_told() -> None:
    script = opening()
    ask(script, 0, Turn(tokens=300, gap_ms=15))
    script.add(ev.Smp(t=3900 * MS, t0=3400 * MS, v={"0": 1.98, "2": 0.81}))
    assert "1.98 of 2 cores busy, 1.17 by other programs" in words_of(frame_of(session_of(script.sorted()), 4 * S)).why


def test_several_tokens_a_line_are_called_chunks() -> None:
    session = session_of(ask(opening(), 0, Turn(tokens=60, per_line=3)).sorted())
    assert words_of(frame_of(session, 1200 * MS)).limit.startswith("a chunk every ")


def test_a_summary_at_the_end() -> None:
    session = session_of(ask(opening(), 0, Turn(tokens=100)).sorted())
    words = words_of(frame_of(session, session.last_t + S))
    assert words.limit.startswith("0.42 s to the first token, 100 tokens in 1.")
    assert words.why == "It ended by itself. Enter asks the next turn."
    assert words_of(frame_of(session, session.last_t + S, steers=False)).why == "It ended by itself."


def test_the_servers_error_is_one_line() -> None:
    script = opening()
    ask(script, 0, Turn(error="no room:\n\n  the context is full"))
    session = session_of(sample(script).sorted())
    words = words_of(frame_of(session, session.last_t))
    assert words.limit == "no room: the context is full (HTTP 500)"


def test_an_error_without_its_words_still_says_of_what_kind_it_is() -> None:
    script = opening()
    t = script.t
    script.add(ev.Request(t=t, r=0, v=0, m=0, api="chat"))
    script.add(ev.End(t=t + S, r=0, finish="error", error=ev.Fault(code="connection-refused", text=62)))
    session = session_of(script.sorted())
    assert words_of(frame_of(session, session.last_t)).limit == "the server failed: connection-refused"


def test_a_refused_key_says_what_to_do() -> None:
    script = opening()
    script.add(ev.Request(t=S, r=0, v=0, m=0), ev.State(t=S, r=0, s="sent"))
    script.add(ev.End(t=S + MS, r=0, finish="error", error=ev.Fault(status=401, text="Invalid API Key")))
    assert "--api-key" in words_of(frame_of(session_of(script.sorted()), 2 * S)).why


def test_what_is_fetched_shows_how_far_it_is() -> None:
    script = opening()
    for i in range(4):
        done = None if i == 0 else 1.2e9 * i
        script.add(ev.Task(t=(1 + i) * S, task=1, title="pull llama3.1:8b", state="run", done=done, total=4.8e9, unit="B"))
    script.add(ev.Task(t=6 * S, task=1, state="ok"))
    session = session_of(script.sorted())
    plan = layout(120, 36)
    assert plan is not None
    for at, why in ((1, "How much there is to do is not told."), (3, "2.40 GB of 4.80 GB."), (4, "3.60 GB of 4.80 GB.")):
        frame = FrameMaker(session).frame(at * S, plan, View())
        assert frame.state == "load"
        assert words_of(frame).limit == "pull llama3.1:8b"
        assert words_of(frame).why == why
    canvas = Canvas(120, 36, Look())
    paint(canvas.area(0, 2, 120, 3), frame, plan)
    progress = canvas.text().split("\n")[4]
    assert progress.count("━") == round(0.75 * (progress.rindex("·") - progress.index("━") + 1))
    assert progress.endswith("75 %")
    assert FrameMaker(session).frame(7 * S, plan, View()).state == "ready"


def test_at_the_end_80_columns_hold_the_summary_and_how_it_ended() -> None:
    """Nothing there is cut: fewer words stand where the many do not fit."""
    session = session_of(on_a_cpu(Turn(tokens=60, gap_ms=300, finish="length", stall_at=30, stall_ms=2500), peak=None))
    for width, height, limit in (
        (80, 24, "first token 0.42 s, decode "),
        (120, 36, "0.42 s to the first token, 60 tokens in "),
    ):
        plan = layout(width, height)
        assert plan is not None
        canvas = Canvas(width, height, Look())
        frame = FrameMaker(session).frame(session.last_t + 2 * S, plan, View(steers=True))
        paint(canvas.area(0, plan.headline.y, width, plan.headline.height), frame, plan)
        rows = canvas.text().split("\n")[plan.headline.y : plan.headline.bottom]
        assert "…" not in "".join(rows)
        assert f"   {limit}" in rows[0]
        assert rows[0].endswith(", 1 stall")
        said = " ".join(row[27:] for row in rows[1:] if row)
        if width == 80:
            assert said == "Limit: phasetop doctor --measure-bandwidth tells."
        else:  # the rail says that
            assert said == "It ended at the limit of tokens. Enter asks the next turn."


def test_at_the_end_80_columns_say_what_limited_it() -> None:
    session = session_of(on_a_cpu(Turn(tokens=60, gap_ms=300)))
    plan = layout(80, 24)
    assert plan is not None
    canvas = Canvas(80, 24, Look())
    paint(canvas.area(0, 2, 80, 2), FrameMaker(session).frame(session.last_t + 2 * S, plan, View()), plan)
    said = canvas.text().split("\n")[3][27:]
    assert re.fullmatch(r"Memory bandwidth: 15\.\d GB/s, 7\d % of peak\.", said)


def test_a_long_error_leaves_a_row_for_what_to_do() -> None:
    script = opening()
    ask(script, 0, Turn(error="the context is full: " + "4,096 tokens were asked for, and 2,048 fit; " * 3))
    session = session_of(script.sorted())
    plan = layout(120, 36)
    assert plan is not None
    canvas = Canvas(120, 36, Look())
    paint(canvas.area(0, 1, 120, 3), FrameMaker(session).frame(session.last_t, plan, View(steers=True)), plan)
    rows = [row.strip() for row in canvas.text().split("\n")[1:4]]
    assert "the context is full: 4,096 tokens were asked for" in rows[0]
    assert rows[1].endswith("(HTTP 500)")
    assert rows[2] == "a asks again."


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (None, "It tells after each batch."),
        ({"batch": 512}, "It tells after each batch of 512."),
        ({"batch": 2048}, "It tells at the end: the prompt is one batch."),
    ],
)
def test_a_server_that_is_silent_within_a_batch_is_not_taken_for_a_hung_one(
    settings: dict[str, int] | None, words: str
) -> None:
    script = Script()
    script.add(*opening().events)
    script.add(ev.Request(t=S, r=0, v=0, m=0, prompt="a", asked=settings), ev.State(t=S, r=0, s="sent"))
    script.add(ev.State(t=S, r=0, s="prefill"), ev.Prog(t=S + MS, r=0, total=753, cached=0, done=0))
    why = words_of(frame_of(session_of(script.sorted()), 20 * S)).why
    assert why == f"0 of 753 new tokens are read. {words}"
    script.add(ev.Prog(t=10 * S, r=0, total=753, cached=0, done=512))
    assert "It tells" not in words_of(frame_of(session_of(script.sorted()), 20 * S)).why


@pytest.mark.parametrize("lacks", ["roofline.decode_bytes_per_token", "rates.decode_tok_per_s", None])
def test_to_measure_is_said_only_where_the_bandwidth_alone_is_lacking(lacks: str | None) -> None:
    session = session_of(on_a_cpu(Turn(tokens=60, gap_ms=300), peak=None))
    frame = frame_of(session, session.last_t)
    assert frame.measures is not None
    assert to_measure(frame) == "What held it back, phasetop doctor --measure-bandwidth tells."
    if lacks is not None:
        unknown = {**frame.measures.unknown, lacks: "tokens were drafted"}
        frame = msgspec.structs.replace(frame, measures=msgspec.structs.replace(frame.measures, unknown=unknown))
        assert to_measure(frame) == ""


@pytest.mark.parametrize("size", [(66, 18), (90, 22), (80, 24), (120, 36), (60, 40)])
def test_a_long_error_takes_the_rows_that_are_blank(size: tuple[int, int]) -> None:
    error = (
        "request (9,999 tokens) exceeds the available context size (4,096 tokens): "
        "make it longer, or the prompt shorter than it is, then ask it again"
    )
    script = opening()
    ask(script, 0, Turn(error=error))
    session = session_of(script.sorted())
    plan = layout(*size)
    assert plan is not None
    canvas = Canvas(*size, Look())
    view.paint(canvas, FrameMaker(session).frame(session.last_t, plan, View(steers=True)), plan)
    x = 1 if plan.limit_below else 27
    assert plan.trace is not None
    said = " ".join(row[x:].strip() for row in canvas.text().split("\n")[plan.headline.y + plan.limit_below : plan.trace.y])
    assert said.startswith(f"{error} (HTTP 500)")
