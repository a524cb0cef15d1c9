"""The machine's lanes where a GPU works, and what flows from memory where that is known."""

from __future__ import annotations

import re

import pytest

from phasetop import events as ev
from phasetop.columns import Tokens
from phasetop.session import Session
from phasetop.tui import explain
from phasetop.tui.cells import Canvas
from phasetop.tui.frame import Frame, FrameMaker
from phasetop.tui.headline import words_of
from phasetop.tui.lanes import Axis
from phasetop.tui.layout import layout
from phasetop.tui.machine import Lane, TokenRate
from phasetop.tui.painter import paint
from phasetop.tui.theme import Look
from phasetop.tui.view import View
from tests.tui.cards import Counters, counted, on_a_card, on_a_cpu, with_weights
from tests.tui.fabricate import GIB, MS, S, Turn, ask, scripted, session_of
from tests.tui.test_snapshots import compare

TURN = Turn(tokens=500, gap_ms=8.3, stall_at=400)


def frame_of(session: Session, at: int) -> Frame:
    plan = layout(120, 36)
    assert plan is not None
    return FrameMaker(session).frame(at, plan, View(steers=True))


def lanes_of(session: Session, at: int) -> tuple[Lane, Lane]:
    first, second = frame_of(session, at).lanes
    return first, second


@pytest.mark.parametrize(("name", "counters"), [("card-nvml-120x36", "NVML"), ("card-gpm-120x36", "GPM")])
def test_the_view_of_a_gpu(name: str, counters: Counters) -> None:
    plan = layout(120, 36)
    assert plan is not None
    canvas = Canvas(120, 36, Look())
    session = session_of(on_a_card(TURN, counters=counters))
    assert paint(canvas, FrameMaker(session).frame(4500 * MS, plan, View(steers=True)), plan) == {}
    compare(name, canvas)


def test_what_nvml_tells_and_what_is_estimated() -> None:
    busy, memory = lanes_of(session_of(on_a_card(TURN)), 3 * S)
    assert (busy.label, busy.full, busy.number, busy.unit, busy.note) == ("GPU busy", "of time", "96", "%", "NVML")
    assert (memory.label, memory.full, memory.unit) == ("memory", "of peak", "GB/s")
    assert memory.note.endswith(" % est.")
    assert 540 < int(memory.number) < 570  # 4.69 GB a token of about 8.4 ms
    assert memory.held == "900 MiB"


def test_what_gpm_tells_is_measured() -> None:
    busy, memory = lanes_of(session_of(on_a_card(TURN, counters="GPM")), 3 * S)
    assert (busy.label, busy.full, busy.note) == ("SM", "of peak", "GPM")
    assert memory.label == "DRAM"
    assert memory.note == "61 % GPM"
    assert 605 < int(memory.number) < 625  # 61 % of 1,008 GB/s


def test_in_prefill_the_controller_says_at_most() -> None:
    _, memory = lanes_of(session_of(on_a_card(Turn(tokens=50, prefill_ms=3000))), 2 * S)
    assert memory.number.startswith("≤ 6")
    assert memory.unit == "GB/s"
    assert memory.note == "mem-ctrl"


def without_a_peak(turn: Turn) -> Session:
    script = ask(with_weights(peak=None), 0, turn)
    for event in script.events:
        if isinstance(event, ev.Device) and event.d:
            event.name = "a card that no table has"
    return session_of(counted(script, sm=96, memory=61).sorted())


def test_without_a_peak_a_gpu_s_memory_is_busy_of_the_time_in_every_phase() -> None:
    """`memory` is bytes a second, on every machine: what is percent has another name, and no phase changes it."""
    session = without_a_peak(Turn(tokens=50, prefill_ms=3000))
    _, prefill = lanes_of(session, 2 * S)
    _, decode = lanes_of(session, session.last_t)
    for lane in (prefill, decode):
        assert (lane.label, lane.full, lane.number, lane.unit) == ("mem busy", "of time", "61", "%")
    assert prefill.note == "NVML"
    assert re.fullmatch(r"\d{3} GB/s est\.", decode.note)


def test_several_gpus_have_their_mean_and_their_sum() -> None:
    script = ask(with_weights(gpus=2, counters="GPM"), 0, TURN)
    session = session_of(counted(script, sm=48, memory=22, gpus=2).sorted())
    busy, memory = lanes_of(session, 3 * S)
    assert (busy.number, busy.note) == ("48", "GPM, 2 GPUs")
    assert 430 < int(memory.number) < 455  # 22 % of two times 1,008 GB/s
    assert memory.note == "22 % GPM, 2 GPUs"


def test_cards_of_unlike_memory_count_by_what_each_reads() -> None:
    script = ask(with_weights(gpus=2, counters="GPM"), 0, TURN)
    for event in counted(script, sm=48, memory=30, gpus=2).events:
        if isinstance(event, ev.Device) and event.d == 2:
            event.peak_bytes_per_s = ev.Sourced(360e9, "NVML: bus width × clock")
        if isinstance(event, ev.Smp):
            event.v = {"11": 90.0, "21": 30.0}
    session = session_of(script.sorted())
    _, memory = lanes_of(session, 3 * S)
    assert memory.number == "1,015"  # 90 % of 1,008 GB/s and 30 % of 360; the mean of the shares, of all, would be 821
    assert memory.note == "74 % GPM, 2 GPUs"  # 1,015 of 1,368
    assert next(level for level in memory.levels if level is not None) == pytest.approx(0.742, abs=0.001)


def test_layers_on_both_show_both() -> None:
    script = with_weights()
    model = next(event for event in script.events if isinstance(event, ev.Model))
    model.placed = {"CUDA0": 20, "CPU": 13}
    session = session_of(counted(ask(script, 0, TURN), sm=40, memory=20, cores=6.5).sorted())
    busy, cpu = lanes_of(session, 3 * S)
    assert (busy.label, cpu.label, cpu.number) == ("GPU busy", "CPU", "6.50")


def test_a_gpu_without_samples_says_so() -> None:
    script = ask(with_weights(counters="GPM"), 0, TURN)
    script.add(ev.Series(t=30 * MS, s=11, d=1, name="dram_percent", off="not supported under MIG"))
    script.add(ev.Series(t=30 * MS, s=10, d=1, name="sm_percent", off="not supported under MIG"))
    session = session_of(script.sorted())
    busy, memory = lanes_of(session, 3 * S)
    assert (busy.number, busy.note) == ("—", "not supported under MIG")
    assert memory.note.endswith("est.")  # what decode reads is known without it
    assert lanes_of(session, 300 * MS)[1].note == "not supported under MIG"


def test_on_a_cpu_memory_flows_once_a_reply_does() -> None:
    session = session_of(on_a_cpu(Turn(tokens=60, gap_ms=300)))
    cpu, before = lanes_of(session, 300 * MS)
    assert (cpu.label, before.label, before.full) == ("CPU", "memory", "of peak")
    assert (before.number, before.unit, before.note) == ("—", "GB/s", "not begun")
    _, flow = lanes_of(session, 9 * S)
    assert (flow.label, flow.unit, flow.full) == ("memory", "GB/s", "of peak")
    assert 15.2 < float(flow.number) < 15.8  # 4.69 GB in about 0.30 s
    drawn = [level for level in flow.levels if level is not None]
    assert sum(drawn) / len(drawn) == pytest.approx(float(flow.number) / 20, abs=0.05)
    assert flow.note == f"{100 * float(flow.number) / 20:.0f} % est."


def test_while_a_model_is_loaded_the_lane_is_ram_and_then_memory_flows() -> None:
    """Two quantities have two names: GiB that are occupied, and GB/s that are read."""
    script = with_weights(gpus=0)
    t = script.t + 101 * MS
    ask(script, 0, Turn(tokens=60, gap_ms=300, queue_ms=2000, prefill_ms=2000))
    for event in script.events:
        if isinstance(event, ev.State) and event.v == 0:
            event.s = "loading"
        elif isinstance(event, ev.State) and event.s == "sent":  # once the server is ready
            event.t, event.at = t + 1991 * MS, None
    script.add(ev.State(t=t + 1990 * MS, v=0, s="ready"))
    script.add(ev.Series(t=MS, s=77, name="memory_used_bytes", unit="B"), ev.Smp(t=S, t0=0, v={"77": 8.0 * GIB}))
    session = session_of(script.sorted())
    seen = [(lane.label, lane.unit) for at in (1, 3, 9) for lane in lanes_of(session, at * S)[1:]]
    assert seen == [("RAM", "GiB"), ("memory", "GB/s"), ("memory", "GB/s")]
    _, ram = lanes_of(session, S)
    assert (ram.full, ram.number, ram.note) == ("of 64.0", "8.00", "12 %")  # of the host's 64 GiB


def test_where_what_a_token_reads_is_not_told_the_lane_is_ram_throughout() -> None:
    session = session_of(scripted("run", Turn(tokens=300, gap_ms=15)))
    for at in (300 * MS, 3 * S, session.last_t):
        assert lanes_of(session, at)[1].label == "RAM"


def test_the_rate_of_a_column_is_what_its_gaps_make_of_it() -> None:
    session = session_of(ask(with_weights(), 0, Turn(tokens=40, gap_ms=50, per_line=3)).sorted())
    tokens = session.runs[0].tokens
    frame = frame_of(session, session.last_t)
    assert frame.trace is not None
    axis = frame.trace.axis
    rates = [rate for rate in TokenRate().update(tokens, axis, session.last_t) if rate is not None]
    assert sum(rates) / len(rates) == pytest.approx(3 * 39 / ((tokens.t[-1] - tokens.t[0]) / S), rel=0.1)
    growing = TokenRate()
    for upto in range(1, len(tokens) + 1):
        grown = growing.update(tokens, axis, tokens.t[upto - 1])
    assert grown == TokenRate().update(tokens, axis, tokens.t[-1])


def test_the_rate_is_the_same_wherever_a_read_was_cut_on_its_way() -> None:
    """Lines of one read can come in two pieces, through a pipe or over ssh: nothing of the second is left out."""
    axis = Axis(0, S, 1)
    toks = [ev.Tok(t=t, r=0, x="a") for t in (0, S // 2, S // 2, S, S)]
    rates = []
    for cut in range(1, len(toks) + 1):
        tokens, rate = Tokens(), TokenRate()
        tokens.extend(toks[:cut], [None] * cut)
        rate.update(tokens, axis, 0)
        tokens.extend(toks[cut:], [None] * (len(toks) - cut))
        rates.append(rate.update(tokens, axis, S))
    assert rates == [(4.0,)] * len(toks)


def test_the_facts_name_the_gpu_and_the_page_its_source() -> None:
    frame = frame_of(without_a_peak(TURN), 3 * S)
    assert words_of(frame).why.startswith("GPU busy 96 %; the server holds 900 MiB")
    lines = explain.lines("machine", frame, 80)
    texts = ["".join(part if isinstance(part, str) else part[0] for part in line) for line in lines]
    assert any("full height is all of the time" in text for text in texts)
    assert any("estimate: bytes a token × tokens a second" in text for text in texts)
