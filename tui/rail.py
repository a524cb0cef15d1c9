"""The figures: beside the text as a rail, under it as a block, or as a strip of two rows; one set for all three."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from phasetop.figures import UNKNOWN, count, milliseconds, rate, seconds
from phasetop.pace import GAP_LIMITS, USUAL
from phasetop.tui import devices, kvgauge, onetoken
from phasetop.tui.cells import Area, fit
from phasetop.tui.frame import Frame
from phasetop.tui.layout import rail_rows
from phasetop.tui.textpane import limit_word
from phasetop.tui.theme import GAP_ROLES
from phasetop.tui.wording import first_fitting
from phasetop.visible import clean

FEW: Final = "too few tokens"
"""In the words of a report: fewer than two tokens. The rail has room for fourteen characters."""
BY_GAP: Final = 8
"""Rows of time by gap."""


class Figure(Struct, frozen=True):
    """A named figure: its number (a dash where it is unknown), unit, and where it is from or why there is none."""

    name: str
    number: str
    unit: str
    note: str


def figures_of(frame: Frame) -> list[Figure]:
    """First token, prefill, decode, gap: always these four, so that nothing moves when one becomes known."""
    measures = frame.measures
    if measures is None:
        names = (("first token", "s"), ("prefill", "tok/s"), ("decode", "tok/s"), ("gap", "ms"))
        return [Figure(name, UNKNOWN, unit, "no request yet" if unit == "s" else "not begun") for name, unit in names]
    return [_first_token(frame), _prefill(frame), _decode(frame), _gap(frame)]


def _first_token(frame: Frame) -> Figure:
    assert frame.measures is not None
    latency, tokens = frame.measures.latency, frame.measures.tokens
    if latency.ttft_ns is None:
        return Figure("first token", UNKNOWN, "s", _expected(frame))
    note = "our clock"
    if tokens.thinking and latency.first_answer_ns is not None:
        note = f"answer {' '.join(seconds(latency.first_answer_ns))}"
    elif tokens.thinking:
        note = "it thinks" if frame.running else "no answer came"
    return Figure("first token", *seconds(latency.ttft_ns), note)


def _prefill(frame: Frame) -> Figure:
    assert frame.measures is not None
    rates, tokens = frame.measures.rates, frame.measures.tokens
    if rates.prefill_per_s is None:
        return Figure("prefill", UNKNOWN, "tok/s", _reason(frame, "rates.prefill_tok_per_s"))
    note = f"{count(tokens.prefilled)} new" if tokens.prefilled is not None else ""
    return Figure("prefill", rate(rates.prefill_per_s), "tok/s", note)


def _decode(frame: Frame) -> Figure:
    assert frame.measures is not None
    rates, stalls = frame.measures.rates, frame.measures.latency.stalls
    if rates.decode_per_s is None:
        return Figure("decode", UNKNOWN, "tok/s", _reason(frame, "rates.decode_tok_per_s"))
    note = "our clock" if rates.server_decode_per_s is None else f"server {rate(rates.server_decode_per_s)}"
    if stalls:
        note = "stall counted" if stalls == 1 else f"with {count(stalls)} stalls"
    return Figure("decode", rate(rates.decode_per_s), "tok/s", note)


def _gap(frame: Frame) -> Figure:
    assert frame.measures is not None
    gaps = frame.measures.latency.gaps
    if gaps.p50 is None:
        return Figure("gap", UNKNOWN, "ms", _reason(frame, "latency.itl_ms.p50"))
    return Figure("gap", milliseconds(gaps.p50, fine=gaps.p50 < 5e6), "ms", f"median, a {gaps.per}")


def _reason(frame: Frame, path: str) -> str:
    """Why a figure is a dash: not begun while the request runs, else what the measures say."""
    if frame.running and frame.state != "decode":
        return "not begun"
    if frame.measures is None:
        return "no request yet"
    if frame.measures.latency.ttft_ns is None:
        return "no token came"
    why = frame.measures.unknown.get(path, FEW if path else "not measured")
    return FEW if why.startswith("fewer than two tokens") else why


def _expected(frame: Frame) -> str:
    measures = frame.measures
    if measures is None or not frame.running:
        return "none came"
    left_s = measures.first_token_in_s
    return "not yet" if left_s is None else f"in about {kvgauge.about(left_s)}"


def _server(frame: Frame) -> list[Figure]:
    """The server's memory, as its lane has it."""
    for lane in frame.lanes:
        if lane.held:
            number, _, unit = lane.held.partition(" ")
            return [Figure("RSS", number, unit, "of the server")]
    return []


def _one_token(frame: Frame) -> list[Figure]:
    """The time of a step and its floor, where that is known."""
    token = frame.measures.roofline.token if frame.measures is not None else None
    if token is None:
        return []
    number = milliseconds(token.step_s * 1e9, fine=True)
    return [Figure("one token", number, f"ms, floor {milliseconds(token.floor_s * 1e9, fine=True)}", "")]


def _paint_figure(area: Area, y: int, figure: Figure, *, focused: bool = False) -> None:
    area.label(0, y, fit(figure.name, 16 - len(figure.number)), focused=focused)  # never run together with the number
    area.right(17, y, figure.number)
    end = area.put(18, y, figure.unit, "soft")
    room = max(0, area.width - end - 1)
    note = figure.note if figure.number != UNKNOWN else first_fitting(reasons(figure.note), room)
    area.right(area.width, y, fit(note, room), "faint")


def reasons(why: str) -> tuple[str, ...]:
    """Why a figure is a dash, and the same in fewer words: cut, it would lose the one that matters."""
    return (why, "not told" if why.startswith(("the server tells no", "the server does not")) else "i tells why")


def _energy(frame: Frame) -> Figure:
    measures = frame.measures
    joules = measures.energy.j_per_output_token if measures is not None else None
    if measures is None or joules is None:
        begun = measures is not None and measures.finish.reason is not None
        return Figure("energy", UNKNOWN, "J/tok", "not measured" if begun else _reason(frame, ""))
    source = clean(measures.sources.get("energy.decode_j", "").partition(":")[0])
    return Figure("energy", f"{joules:.2f}" if joules < 9.995 else f"{joules:.1f}", "J/tok", source)


def paint(area: Area, frame: Frame, *, time_by_gap: bool = True, with_devices: bool = True) -> None:
    """The rail beside the text."""
    rows = rail_rows(area.height)
    figures = figures_of(frame) if rows.figures < 5 else [*figures_of(frame), _energy(frame)]
    for y, figure in enumerate(figures[: rows.figures]):
        _paint_figure(area, y, figure, focused=y == 0 and frame.view.focus == "figures")
    if rows.token is not None:
        onetoken.paint_block(area.area(0, rows.token, area.width, onetoken.ROWS), frame)
    y = rows.kv
    if area.height >= y + 4:
        y += kvgauge.paint_block(area.area(0, y, area.width, area.height - y), frame) + 1
    rows_beside = kvgauge.slots_rows(frame)
    if rows_beside and area.height >= y + rows_beside:
        kvgauge.paint_slots(area.area(0, y, area.width, rows_beside), frame)
        y += rows_beside + 1
    cards = with_devices and bool(frame.devices) and any(not row.note for row in frame.devices)
    if cards and area.height > y:
        rest = area.height - y
        room = rest - BY_GAP - 2 if time_by_gap and rest >= BY_GAP + 3 else rest
        y += devices.paint(area.area(0, y, area.width, room), frame.devices)
    for figure in _server(frame):
        if area.height > y:
            _paint_figure(area, y, figure)
    y += 2
    if time_by_gap and area.height >= y + BY_GAP:
        paint_time_by_gap(area.area(0, y, area.width, BY_GAP), frame)


def paint_block(area: Area, frame: Frame) -> None:
    """Under the text, in two columns, with the KV bar."""
    inner = area.area(1, 0, area.width - 2, area.height)
    first, prefill, decode, gap = figures_of(frame)
    second = [prefill, *(_server(frame) or [gap])]
    for y, figure in enumerate((first, decode)):
        inner.put(0, y, figure.name, "soft")
        inner.right(18, y, figure.number)
        inner.put(19, y, figure.unit, "soft")
    for y, figure in enumerate(second):
        inner.put(31, y, figure.name, "soft")
        inner.right(46, y, figure.number)
        inner.put(47, y, figure.unit, "soft")
    if area.height >= 7:
        kvgauge.paint_block(inner.area(0, 3, inner.width, 4), frame)


def paint_strip(area: Area, frame: Frame) -> None:
    """Two rows under the text."""
    kvgauge.paint_row(area.area(0, 0, area.width, 1), frame)
    first, prefill, decode, _ = figures_of(frame)
    x, room = 1, area.width - 1
    for figure in (first, prefill, decode, *_server(frame), *_one_token(frame)):
        width = len(figure.name) + len(figure.number) + len(figure.unit) + 2
        if x + width > room:
            break
        x = area.line(x, 1, (figure.name + " ", "soft"), figure.number, (f" {figure.unit}", "soft")) + 3


def paint_time_by_gap(area: Area, frame: Frame) -> None:
    """What slow tokens cost: by step, how many gaps and their share of the time."""
    gaps = frame.measures.latency.gaps if frame.measures else None
    area.put(0, 0, "time by gap", "soft")
    if gaps is None or gaps.p50 is None:
        area.right(area.width, 0, "too few tokens yet" if frame.running else "too few tokens", "faint")
        return
    area.right(22, 0, "gaps" if gaps.per == "token" else "chunks", "faint")
    area.right(30, 0, "time", "faint")
    total = sum(ns for _, ns in frame.tally) or 1
    for step, (n, ns) in enumerate(frame.tally, 1):
        word = limit_word(step, gaps.p50)
        name = f"> {word} stall" if step > len(GAP_LIMITS) else ("< " if step == 1 else "to ") + word
        area.put(0, step, name + (" usual" if step == USUAL else ""), GAP_ROLES[step])
        area.right(22, step, count(n))
        area.right(30, step, f"{ns / total * 100:.0f} %")
        area.bar(32, step, area.width - 32, 1, [(ns / total, GAP_ROLES[step], "█")], " ")
