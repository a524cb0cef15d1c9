"""The roofline screen: the plot full size, sliders over what a request was, what it would take, and its timeline.

The figures are `what_if.answer`'s; what was measured stands beside them.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phasetop.figures import UNKNOWN, milliseconds, rate, seconds, share
from phasetop.metrics import Measures
from phasetop.roofline import Bound
from phasetop.session import Session
from phasetop.tui import onetoken, roofplot
from phasetop.tui.cells import Area, Share, fit
from phasetop.tui.frame import Frame
from phasetop.tui.kvgauge import about
from phasetop.tui.layout import Rect
from phasetop.tui.roofplaces import places
from phasetop.tui.roofplot import PREDICTED, Point, Roof, roof_of
from phasetop.tui.sliderrows import paint_sliders
from phasetop.tui.view import Sliders
from phasetop.tui.wording import first_fitting
from phasetop.what_if import Answer, Own, answer, own_of

TITLE: Final = "roofline"
HEADS: Final = ("this run, from its prefill on", "this run, from prefill", "from prefill")
"""Over what was measured: load and queue are in no prediction, and left out there, too."""
BOUND: Final[dict[Bound, str]] = {"compute": "the arithmetic", "bandwidth": "the memory"}


def paint(area: Area, frame: Frame, session: Session, sliders: Sliders) -> None:
    """Draw the screen."""
    run = session.runs.get(frame.r) if frame.r is not None else None
    measures = frame.measures
    if run is None or measures is None:
        area.area(1, 0, area.width - 2, 1).line(0, 0, (TITLE, "soft"), ("  —  no request yet", "faint"))
        return
    own = own_of(session, run, measures, frame.cursor)
    done = answer(own, sliders.changed)
    roof = whole_roof(measures, own, done)
    at = places(area.width, area.height)
    paint_sliders(_part(area, at.sliders), own, done, sliders)
    paint_figures(_part(area, at.figures), measures, done)
    if at.plot is not None:
        roofplot.paint(_part(area, at.plot), roof)
    if at.times is not None:
        paint_times(_part(area, at.times), measures, done)


def _part(area: Area, rect: Rect) -> Area:
    return area.area(rect.x, rect.y, rect.width, rect.height)


# ---- the plot


def whole_roof(measures: Measures, own: Own, done: Answer) -> Roof:
    """The roof that the values make, with what was measured and what should be reached under it."""
    roof = roof_of(measures)
    points = list(roof.points)
    if done.study is not None:
        for phase, work in (("decode", done.study.at_peak.step), ("prefill", done.study.at_peak.prefill)):
            reached = work.flops_per_s(done.study.machine)
            if work.intensity and reached:
                points.append(Point("decode" if phase == "decode" else "prefill", work.intensity, reached, PREDICTED))
    bandwidth, flops = done.values.bandwidth, done.values.flops
    return replace(
        roof,
        bytes_per_s=bandwidth,
        flops=flops,
        points=tuple(points),
        at_least=own.at_least and bandwidth == own.values.bandwidth,
        disturbed=roof.disturbed and bandwidth == own.values.bandwidth,
    )


# ---- the figures


_SUMS: Final = 24
"""Columns right of the timeline's bars."""


class Line(Struct, frozen=True):
    """A figure: what it should be, what bounds it, and what it was."""

    name: str
    number: str
    unit: str
    bound: str
    measured: str


def lines_of(measures: Measures, done: Answer) -> list[Line]:
    """Prefill, first token, decode, a token, both phases: predicted, and measured likewise, without load and queue."""
    found = done.study.at_peak if done.study is not None else None
    rates, latency, phases = measures.rates, measures.latency, measures.phases
    prefill_ns = phases.ns("prefill") if latency.ttft_ns is not None else None
    decode_ns = phases.ns("decode") if measures.finish.reason is not None else None
    prefill, first, decode, whole, tok_per_s, step = (None,) * 6 if found is None else (
        found.prefill_s, found.ttft_s, found.decode_s, found.total_s, found.tok_per_s, found.step_s
    )  # fmt: skip
    bounds = ("", "") if found is None else (_bound(found.prefill_bound), _bound(found.step_bound))
    first_ns = _from_prefill(measures)
    sum_ns = None if prefill_ns is None or decode_ns is None else prefill_ns + decode_ns
    return [
        Line("prefill", *_time(prefill), bounds[0], _measured(prefill_ns)),
        Line("first token", *_time(first), "", _measured(first_ns)),
        Line("decode", _rate(tok_per_s), "tok/s", bounds[1], _with("tok/s", _rate(rates.decode_per_s))),
        Line("a token", _ms(step), "ms", "", _with("ms", milliseconds(rates.tpot_ns, fine=True))),
        Line("reply", *_time(decode), "", _measured(decode_ns)),
        Line("both phases", *_time(whole), "", _measured(sum_ns)),
    ]


def _from_prefill(measures: Measures) -> int | None:
    """The first token as it is predicted: from the begin of the prefill on, without load and queue."""
    band, ttft_ns = measures.phases.band("prefill"), measures.latency.ttft_ns
    return None if band is None or ttft_ns is None else max(0, measures.phases.start + ttft_ns - band.t0)


def _bound(bound: Bound | None) -> str:
    return "" if bound is None else BOUND[bound]


def _rate(per_s: float | None) -> str:
    return UNKNOWN if per_s is None else f"{per_s:.2f}" if per_s < 9.995 else rate(per_s)


def _ms(s: float | None) -> str:
    return UNKNOWN if s is None else f"{s * 1e3:.3f}" if s < 1e-3 else f"{s * 1e3:,.2f}"


def _time(s: float | None) -> tuple[str, str]:
    """A predicted time: in ms where it is short."""
    if s is None:
        return UNKNOWN, "s"
    return (f"{s * 1e3:.1f}", "ms") if s < 0.09995 else seconds(round(s * 1e9))


def _measured(ns: int | None) -> str:
    number, unit = _time(None if ns is None else ns / 1e9)
    return _with(unit, number)


def _with(unit: str, number: str) -> str:
    return number if number == UNKNOWN else f"{number} {unit}"


def paint_figures(area: Area, measures: Measures, done: Answer) -> None:
    """The table, and below it what real kernels reach; or why there is none."""
    if area.height <= 0:
        return
    wide = area.width >= 56
    area.put(0, 0, "predicted", "soft")
    if wide:
        area.put(30, 0, "bound by", "faint")
    head = first_fitting(HEADS, area.width - (41 if wide else 11))
    area.right(area.width, 0, head, "faint")
    rows = lines_of(measures, done)
    for y, line in enumerate(rows, 1):
        area.put(0, y, line.name, "soft")
        area.right(20, y, line.number, "ink")
        area.put(21, y, line.unit, "soft")
        area.put(30, y, line.bound if wide else "", "soft")
        area.right(area.width, y, line.measured, "soft" if line.measured != UNKNOWN else "faint")
    y = len(rows) + 1
    for text in notes_of(done):
        area.put(0, y, fit(text, area.width), "faint")
        y += 1


def notes_of(done: Answer) -> list[str]:
    """What is missing, or what real kernels make of it."""
    study = done.study
    if study is None:
        return [f"— {onetoken.short(done.why)}"]
    if done.values.bandwidth is None:
        return ["— no time without the bandwidth: choose it, set it with ← →"]
    notes = []
    if study.at_peak.prefill_s is None:
        notes.append("— prefill needs FLOP/s: choose compute, set it with ← →")
    if study.low is not None and study.high is not None:
        notes.append(f"at the peaks; real kernels, 60 to 80 %: {_rate(study.low)} to {_rate(study.high)} tok/s")
    return notes


# ---- the timeline


def paint_times(area: Area, measures: Measures, done: Answer) -> None:
    """Prefill against decode on one scale: as it should be, and as it was."""
    found = done.study.at_peak if done.study is not None else None
    should = (found.prefill_s or 0.0, found.decode_s or 0.0) if found is not None else (0.0, 0.0)
    was = tuple((measures.phases.ns(name) or 0) / 1e9 for name in ("prefill", "decode"))
    if measures.latency.ttft_ns is None:
        was = (0.0, 0.0)
    longest = max(sum(should), sum(was))
    x = 13
    width = max(0, area.width - x - _SUMS)
    area.put(0, 0, "timeline", "soft")
    area.put(x, 0, "0", "faint")
    if longest <= 0:
        area.put(x + 3, 0, "—  " + (notes_of(done) or ["not begun"])[0].removeprefix("— "), "faint")
        return
    area.right(x + width, 0, about(longest), "faint")
    for y, (label, (prefill, decode), over) in enumerate((("predicted", should, False), ("this run", was, True)), 1):
        area.put(0, y, label, "soft")
        if prefill + decode <= 0:
            area.put(x, y, UNKNOWN, "faint")
            continue
        seen = max(prefill, longest / max(1, width)) if prefill else 0.0  # what there was has a cell at least
        parts: list[Share] = [
            (seen, "prefill_area" if over else "prefill", "█"),
            (decode, "decode_area" if over else "decode", "█"),
        ]
        area.bar(x, y, width, longest, parts, " ")
        area.right(x + width + 9, y, _with(*reversed(_time(prefill + decode))), "soft")
        told = over or (found is not None and found.prefill_s is not None)
        part = share(prefill / (prefill + decode)) if told else f"{UNKNOWN} %"
        area.right(area.width, y, f"{part} prefill", "faint")
