"""The figures: beside the text as a rail, under it as a block, or as a strip of two rows; one set for all three."""

from __future__ import annotations

from dataclasses import dataclass

from phasetop.figures import count, milliseconds, rate, seconds
from phasetop.pace import GAP_LIMITS, USUAL
from phasetop.tui.cells import Area, Part, Share
from phasetop.tui.frame import Frame
from phasetop.tui.theme import GAP_ROLES, Role


@dataclass(frozen=True, slots=True)
class Figure:
    """A named figure: its number (a dash where it is unknown), unit, and where it is from or why there is none."""

    name: str
    number: str
    unit: str
    note: str


def figures_of(frame: Frame) -> list[Figure]:
    """The figures of the request that is shown, in reading order."""
    measures = frame.measures
    if measures is None:
        reason = "no request yet"
        return [
            Figure("first token", "—", "s", reason),
            Figure("prefill", "—", "tok/s", ""),
            Figure("decode", "—", "tok/s", ""),
        ]
    latency, rates, tokens = measures.latency, measures.rates, measures.tokens
    made = []
    if latency.ttft_ns is not None:
        made.append(Figure("first token", *seconds(latency.ttft_ns), "client"))
    else:
        made.append(Figure("first token", "—", "s", _expected(frame)))
    if tokens.thinking and latency.first_answer_ns is not None:
        made.append(Figure("first answer", *seconds(latency.first_answer_ns), "after thinking"))
    elif tokens.thinking:
        made.append(Figure("first answer", "—", "s", "it thinks" if frame.running else "none came"))
    if rates.prefill_per_s is not None:
        note = f"{count(tokens.prefilled)} new" if tokens.prefilled is not None else ""
        made.append(Figure("prefill", rate(rates.prefill_per_s), "tok/s", note))
    else:
        made.append(Figure("prefill", "—", "tok/s", _reason(frame, "rates.prefill_tok_per_s", "not begun")))
    if rates.decode_per_s is not None:
        note = f"server {rate(rates.server_decode_per_s)}" if rates.server_decode_per_s is not None else "client"
        if latency.stalls:
            note = "stall counted" if latency.stalls == 1 else f"{count(latency.stalls)} stalls counted"
        made.append(Figure("decode", rate(rates.decode_per_s), "tok/s", note))
    else:
        made.append(Figure("decode", "—", "tok/s", _reason(frame, "rates.decode_tok_per_s", "not begun")))
    gaps = latency.gaps
    if gaps.p50 is not None:
        per = "a chunk is a token" if gaps.per == "token" else "of chunks, not tokens"
        made.append(Figure("gap", milliseconds(gaps.p50, fine=gaps.p50 < 5e6), "ms", per))
    return made


def _reason(frame: Frame, path: str, early: str) -> str:
    """Why a figure is a dash: not there yet while the request runs, else what the measures say."""
    if frame.running and frame.state != "decode":
        return early
    if frame.measures is None:
        return early
    return frame.measures.unknown.get(path, "too few tokens" if "decode" in path else "not told")


def _expected(frame: Frame) -> str:
    measures = frame.measures
    if measures is None or not frame.running:
        return "none came"
    progress, speed = measures.prefill, measures.rates.last_second_per_s
    if frame.state == "prefill" and progress.total and progress.done is not None and speed:
        return f"in about {' '.join(seconds(int((progress.total - progress.done) / speed * 1e9)))}"
    return "not yet"


def paint(area: Area, frame: Frame) -> None:
    """The rail beside the text."""
    y = 0
    for figure in figures_of(frame):
        _figure(area, y, figure)
        y += 1
    y += y < 5 or area.height > y + 5
    if area.height >= y + 4:
        _kv_block(area.area(0, y, area.width, 4), frame)
        y += 5
    server = _server(frame)
    if server is not None and area.height > y:
        _figure(area, y, server)
        y += 2
    if area.height >= y + 8 and frame.tally and any(n for n, _ in frame.tally):
        _time_by_gap(area.area(0, y, area.width, 8), frame)


def paint_block(area: Area, frame: Frame) -> None:
    """Under the text, in two columns, with the KV bar."""
    inner = area.area(1, 0, area.width - 2, area.height)
    figures = figures_of(frame)
    server = _server(frame)
    half = 31
    left, right = [figures[0], *[f for f in figures if f.name == "decode"]], [f for f in figures if f.name == "prefill"]
    if server is not None:
        right.append(server)
    for column, some in ((0, left), (half, right)):
        for y, figure in enumerate(some[:2]):
            inner.put(column, y, figure.name, "soft")
            inner.right(column + (18 if column == 0 else 15), y, figure.number)
            end = inner.put(column + (19 if column == 0 else 16), y, figure.unit, "soft")
            if figure.number == "—" and column == half:
                inner.put(end + 1, y, figure.note, "faint")
    if area.height >= 7:
        _kv_block(inner.area(0, 3, inner.width, 4), frame)


def paint_strip(area: Area, frame: Frame, *, ask_key: bool) -> None:
    """Two rows under the text."""
    measures = frame.measures
    x = area.put(1, 0, "KV cache ", "soft")
    width = max(10, min(30, area.width - 50))
    used, context = (measures.kv.tokens, measures.kv.context) if measures else (None, None)
    if used is None or not context:
        reason = "no request yet" if measures is None else _kv_reason(frame)
        area.line(x, 0, "—", (f" tokens  {reason}" if used is None else f"  {count(used)} tokens; {reason}", "faint"))
    else:
        area.bar(x, 0, width, context, _kv_shares(frame))
        parts: list[Part] = [count(used), (f" of {count(context)}  ", "soft")]
        parts += [(text, "soft") for text in _full_in(frame)]
        area.line(x + width + 2, 0, *parts)
    at = 1
    for figure in [
        *(f for f in figures_of(frame) if f.name in ("first token", "prefill", "decode")),
        *_some(_server(frame)),
    ]:
        note = f" {figure.unit}   "
        if at + len(figure.name) + len(figure.number) + len(note) > area.width - (8 if ask_key else 0):
            break
        at = area.line(at, 1, (figure.name + " ", "soft"), figure.number, (note, "soft"))
    if ask_key:
        area.right(area.width - 1, 1, "a ask", "faint")


def _some(figure: Figure | None) -> list[Figure]:
    return [] if figure is None else [figure]


def _figure(area: Area, y: int, figure: Figure) -> None:
    area.put(0, y, figure.name, "soft")
    area.right(17, y, figure.number)
    area.put(18, y, figure.unit, "soft")
    area.right(area.width, y, figure.note, "faint")


def _server(frame: Frame) -> Figure | None:
    """The server's memory, as its lane told it."""
    for lane in frame.lanes:
        if lane.note.startswith("RSS "):
            number, _, unit = lane.note[4:].partition(" ")
            return Figure("RSS", number, unit, "psutil")
    return None


def _kv_reason(frame: Frame) -> str:
    unknown = frame.measures.unknown if frame.measures else {}
    return unknown.get("kv.context") or unknown.get("kv.tokens") or "not told"


def _kv_shares(frame: Frame) -> list[Share]:
    """Cached, prompt, reply."""
    measures = frame.measures
    assert measures is not None
    used = measures.kv.tokens or 0
    cached = min(used, measures.tokens.cached or measures.prefill.cached or 0)
    prompt = measures.tokens.prompt or measures.prefill.total
    if measures.latency.ttft_ns is None:
        prompt = used  # a reply has not begun
    elif prompt is None:
        prompt = used - min(used, measures.tokens.output or 0)
    new = max(0, min(prompt, used) - cached)
    return [(cached, "prefill", "▒"), (new, "prefill", "█"), (used - cached - new, "decode", "█")]


def _full_in(frame: Frame) -> list[str]:
    """When the cache will be full, at the reply's rate; nothing while no reply runs."""
    measures = frame.measures
    if measures is None or frame.state != "decode" or not measures.rates.decode_per_s:
        return []
    if measures.kv.context is None or measures.kv.tokens is None:
        return []
    left = (measures.kv.context - measures.kv.tokens) / measures.rates.decode_per_s
    if left <= 0:
        return ["full"]
    return [f"full in {_coarse(left)}"]


def _coarse(s: float) -> str:
    return f"{s:.0f} s" if s < 100 else f"{s / 60:.0f} min" if s < 5400 else f"{s / 3600:.0f} h"


def _kv_block(area: Area, frame: Frame) -> None:
    """Tokens of the limit, the bar, and what it holds."""
    measures = frame.measures
    used, context = (measures.kv.tokens, measures.kv.context) if measures else (None, None)
    if used is None:
        _figure(area, 0, Figure("KV cache", "—", "tokens", "no request yet" if measures is None else _kv_reason(frame)))
        area.put(0, 1, "·" * area.width, "rule")
        return
    _figure(
        area, 0, Figure("KV cache", count(used), f"of {count(context)}" if context else "tokens", "— MiB" if context else "")
    )
    if not context:
        area.put(0, 1, f"— of what: {_kv_reason(frame)}", "faint")
    else:
        area.bar(0, 1, area.width, context, _kv_shares(frame))
    cached, prompt, reply = (amount for amount, _, _ in _kv_shares(frame))
    parts: list[Part] = [("▨", "prefill"), (f" cached {count(int(cached))}   ", "soft"), ("■", "prefill")]
    area.line(0, 2, *parts, (f" prompt {count(int(prompt))}", "soft"))
    area.line(0, 3, ("■", "decode"), (f" reply {count(int(reply))}", "soft"))
    for text in _full_in(frame):
        area.right(area.width, 3, text, "soft")


def _time_by_gap(area: Area, frame: Frame) -> None:
    """What slow tokens cost: by step, how many gaps and their share of the time."""
    gaps = frame.measures.latency.gaps if frame.measures else None
    if gaps is None or gaps.p50 is None:
        return
    area.line(0, 0, ("time by gap", "soft"), ("       gaps    time", "faint"))
    total = sum(ns for _, ns in frame.tally) or 1
    for step, (n, ns) in enumerate(frame.tally, 1):
        limit = GAP_LIMITS[min(step, len(GAP_LIMITS)) - 1] * gaps.p50 / 1e6
        word = f"{limit:.2g}" if limit < 100 else f"{limit:,.0f}"
        name = f"> {word} stall" if step > len(GAP_LIMITS) else ("< " if step == 1 else "to ") + word
        role: Role = GAP_ROLES[step]
        area.put(0, step, name + (" usual" if step == USUAL else ""), role)
        area.right(22, step, count(n))
        area.right(30, step, f"{ns / total * 100:.0f} %")
        area.bar(32, step, area.width - 32, 1, [(ns / total, role, "█")], " ")
