"""Rows 2 to 4: which phase, how fast, what limits it and why. `words_of` makes the words, `paint` draws them.

Where no verdict says what the limit is, only what is measured stands here.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phasetop import events as ev
from phasetop.figures import UNKNOWN, count, milliseconds, rate, seconds, share, size
from phasetop.metrics import Finish
from phasetop.tasks import fraction
from phasetop.tui.cells import Area, fit
from phasetop.tui.frame import RUNNING, Frame, State
from phasetop.tui.kvgauge import about
from phasetop.tui.layout import Layout
from phasetop.tui.theme import Role
from phasetop.tui.wording import first_fitting, in_two, on_rows, shorten, unsaid
from phasetop.tui.wrap import text_width
from phasetop.visible import clean

CHIP: Final[dict[State, tuple[str, Role]]] = {
    "starting": ("START", "queue"),
    "ready": ("READY", "queue"),
    "load": ("LOAD", "load"),
    "queue": ("QUEUE", "queue"),
    "waiting": ("WAITING", "queue"),
    "prefill": ("PREFILL", "prefill"),
    "decode": ("DECODE", "decode"),
    "done": ("DONE", "queue"),
    "failed": ("FAILED", "ink"),
    "stopped": ("STOPPED", "ink"),
}
SENTENCE_X: Final = 27
LIMIT_WIDTH: Final = 60
MEASURE: Final = "phasetop doctor --measure-bandwidth"
BANDWIDTH: Final = "roofline.peak_bandwidth_bytes_per_s"
_LACKS_MORE: Final = ("roofline.decode_bytes_per_token", "rates.decode_tok_per_s")
"""What a bandwidth alone would not tell the limit without: what a step reads, and how long it takes."""
OTHERS_CORES: Final = 0.4
"""Other programs that use less are not told: `phasetop.verdict_phases.contended`."""


class Words(Struct, frozen=True):
    """What the headline says: the rate and what is under it, the limit in bold, the sentence.

    ``shorter``: other wordings of the limit, for where it does not fit; ``brief``: one of the sentence, for where it has
    a single row; "": what is left of the sentence when its last clauses go.
    """

    rate: str
    under: str
    limit: str
    why: str
    shorter: tuple[str, ...] = ()
    brief: str = ""

    @property
    def limits(self) -> tuple[str, ...]:
        """All wordings of the limit, from long to short."""
        return (self.limit, *self.shorter)


def words_of(frame: Frame) -> Words:
    """The headline's words."""
    measures = frame.measures
    if measures is None:
        return _without_request(frame)
    tokens, rates, gaps, phases = measures.tokens, measures.rates, measures.latency.gaps, measures.phases
    match frame.state:
        case "load" if frame.task is not None:
            return _task(frame.task)
        case "load":
            took = about((phases.ns("load") or 0) / 1e9)
            return Words("", "", "loading the model", f"{took} so far; the prompt is read after it.")
        case "queue":
            return Words("", "", "waiting for the server to begin", "It answers others first, or has just been asked.")
        case "waiting":
            return Words(
                "", "", "sent; no token yet", "The server has not told yet whether it loads, waits or reads the prompt."
            )
        case "prefill":
            return _judged(frame, _prefill(frame))
        case "decode":
            number = "" if rates.last_second_per_s is None else rate(rates.last_second_per_s)
            made = "" if tokens.output is None else _tokens(tokens.output)
            what = "chunk" if gaps.per == "chunk" else "token"
            limit = "the first tokens" if gaps.p50 is None else f"a {what} every {milliseconds(gaps.p50)} ms"
            if gaps.p50 and gaps.p95 and gaps.n >= 16 and gaps.p95 > 2 * gaps.p50:
                limit += f", one in twenty over {milliseconds(gaps.p95)}"
            return _judged(frame, Words(number, made, limit, _machine_sentence(frame)))
        case "done":
            summary = _summary(frame)
            return Words(
                "" if rates.decode_per_s is None else rate(rates.decode_per_s),
                "" if tokens.output is None else _tokens(tokens.output),
                summary[0],
                _ending(frame),
                summary[1:],
                _limit_in_brief(frame),
            )
        case "failed":
            text = measures.finish.text or _unsaid(measures.finish)
            status = f" (HTTP {measures.finish.status})" if measures.finish.status else ""
            return Words("", _tokens(tokens.output) if tokens.output else "", clean(text) + status, _what_to_do(frame))
        case _:
            made = _tokens(tokens.output) if tokens.output else ""
            number = "" if rates.decode_per_s is None else rate(rates.decode_per_s)
            return Words(number, made, "stopped before the end", _summary(frame)[0] if tokens.output else "")


_CUT: Final = {
    "collector-died": "phasetop's collector died",
    "link-lost": "the link to the run is lost",
    "stream-ended": "what came on stdin ended here",
}
"""What cut a reply other than its own connection, by its detail."""


def _unsaid(finish: Finish) -> str:
    """What went wrong where no words came with it, or redaction left them out: the code says what kind it was."""
    if finish.reason == "cut":
        return _CUT.get(finish.detail or "", "the connection broke")
    return f"the server failed: {finish.code}" if finish.code else "the server failed"


def _judged(frame: Frame, facts: Words) -> Words:
    """The verdict in the place of plain facts, where there is one."""
    if frame.verdict is None:
        return facts
    limit = clean(frame.verdict.limit)
    return replace(facts, limit=limit, why=unsaid(limit, clean(frame.verdict.text)), brief=clean(frame.verdict.short))


def _without_request(frame: Frame) -> Words:
    match frame.state:
        case "failed":
            return Words(
                "", "", clean(frame.error or "nothing can be asked"), "q quits; phasetop doctor says what is reachable"
            )
        case "load" if frame.task is not None:
            return _task(frame.task)
        case "load":
            return Words("", "", "loading the model", f"{about((frame.loading_ns or 0) / 1e9)} so far")
        case "ready":
            return Words("", "", "no request yet", "Type a prompt; enter sends it." if frame.view.steers else "")
        case _:
            return Words("", "", f"looking for the server {frame.facts.link or ''}".rstrip(), "")


def _task(task: ev.Task) -> Words:
    """What is fetched or made ready, and how far it is."""
    if task.done is None:
        return Words("", "", clean(task.title or "getting ready"), "How much there is to do is not told.")
    done, total = _amount(task.done, task.unit), None if task.total is None else _amount(task.total, task.unit)
    why = f"{done} so far" if total is None else f"{done} of {total}"
    return Words("", "", clean(task.title or "getting ready"), why + ".")


def _amount(value: float, unit: str | None) -> str:
    return size(value) if unit == "B" else f"{value:,.0f} {unit or ''}".strip()


def _prefill(frame: Frame) -> Words:
    measures = frame.measures
    assert measures is not None
    progress, rates = measures.prefill, measures.rates
    number = "" if rates.last_second_per_s is None else rate(rates.last_second_per_s)
    batches = len(frame.trace.batches) if frame.trace else 0
    under = f"{batches:,} batch{'es' if batches != 1 else ''}" if batches else ""
    if progress.done is None:
        return Words(number, under, "reading the prompt", "The server does not tell how far it is.")
    if progress.total is None:
        return Words(number, under, "reading the prompt", f"{count(progress.done)} tokens read")
    cached = progress.cached or 0
    new, read = progress.total - cached, progress.done - cached
    why = f"{count(read)} of {count(new)} new tokens are read"
    why += f", {count(cached)} came from the cache." if cached else "."
    if read <= 0 and new > 0 and measures.phases.running == "prefill":
        why += f" {_tells(new, frame.facts.batch)}"
    if measures.first_token_in_s is not None:
        why += f" First token in about {about(measures.first_token_in_s)}."
    return Words(number, under, "reading the prompt", why)


def _tells(new: int, batch: int | None) -> str:
    """When the server will say how far it is, while it has read nothing of ``new`` tokens: it is silent within a batch."""
    if batch is None:
        return "It tells after each batch."
    return (
        "It tells at the end: the prompt is one batch." if new <= batch else f"It tells after each batch of {count(batch)}."
    )


def _summary(frame: Frame) -> tuple[str, ...]:
    """How long the parts of a turn took, and its stalls; then the same in fewer words, its tokens told under the rate."""
    measures = frame.measures
    assert measures is not None
    stalls = measures.latency.stalls
    end = [f"{count(stalls)} stall{'s' if stalls != 1 else ''}"] if stalls else []
    whole, short = [], []
    if measures.latency.ttft_ns is not None:
        first = " ".join(seconds(measures.latency.ttft_ns))
        whole.append(f"{first} to the first token")
        short.append(f"first token {first}")
    if measures.tokens.output is not None and measures.tokens.output > 1:
        decode = measures.phases.ns("decode")
        took = " ".join(seconds(decode)) if decode else ""
        whole.append(_tokens(measures.tokens.output) + (f" in {took}" if took else ""))
        short += [f"decode {took}"] if took else []
    return (", ".join([*whole, *end]), ", ".join([*short, *end]), ", ".join([*short[:1], *end]))


def _ending(frame: Frame) -> str:
    """How it ended, and what limited it; where only the wish for more ended it, the limit comes first."""
    measures = frame.measures
    assert measures is not None
    finish = measures.finish
    verdict = clean(frame.verdict.text) if frame.verdict is not None else ""
    match finish.reason, finish.detail:
        case "length", "context":
            ended = "The context is full."
        case "length", _ if verdict:
            return f"{verdict} It ended at the limit of tokens."
        case "length", _:
            ended = "It ended at the limit of tokens."
        case "tool_calls", _:
            ended = "It ended with a tool call."
        case _, "stop-string":
            ended = "It ended at a stop string."
        case _ if verdict:
            return verdict
        case _:
            ended = "It ended by itself."
    if not verdict and _measurable(frame):
        return f"{ended} What held it back, {MEASURE} tells."
    return f"{ended} {verdict}" if verdict else ended + (" Enter asks the next turn." if frame.view.steers else "")


def to_measure(frame: Frame) -> str:
    """How the limit would be known, where a command alone makes it so; the rail, where there is one, says it, too."""
    unknown = frame.measures.unknown if frame.measures is not None else {}
    if any(path in unknown for path in _LACKS_MORE):
        return ""
    return f"What held it back, {MEASURE} tells." if MEASURE in unknown.get(BANDWIDTH, "") else ""


def _limit_in_brief(frame: Frame) -> str:
    """What limited a turn that is over, in a few words; or how that would be known."""
    if frame.verdict is not None:
        limit = clean(frame.verdict.limit)
        return f"{limit[:1].upper()}{limit[1:]}."
    return f"Limit: {MEASURE} tells." if _measurable(frame) else ""


def _measurable(frame: Frame) -> bool:
    """Whether a command makes the limit known, and no rail says so."""
    return not frame.wide and to_measure(frame) != ""


def _what_to_do(frame: Frame) -> str:
    measures = frame.measures
    assert measures is not None
    if measures.finish.reason == "cut":
        return "What came before stays. a asks again." if frame.view.steers else "What came before stays."
    if frame.view.offer is not None:
        return "y pulls it, and asks again when it is there."
    if measures.finish.status in (401, 403):
        return "The server wants a key: --api-key, or LLAMA_API_KEY."
    return "a asks again." if frame.view.steers else ""


def _machine_sentence(frame: Frame) -> str:
    """What the machine does meanwhile, in a sentence of measured figures."""
    parts = []
    for lane in frame.lanes:
        known = lane.number != UNKNOWN and not lane.stale
        if known and lane.label == "CPU":
            busy = f"{lane.number} {lane.full} cores busy" if lane.full else f"{lane.number} cores busy"
            others = f"{lane.others:.{len(lane.number.partition('.')[2])}f}"
            parts.append(f"{busy}, {others} by other programs" if lane.others >= OTHERS_CORES else busy)
        elif known and lane.label in ("SM", "GPU busy"):
            parts.append(f"GPU busy {lane.number} %")
        if lane.held and not lane.stale:
            parts.append(f"the server holds {lane.held}")
    if not parts:
        return "What limits it is not known: no counters here."
    return f"{'; '.join(parts)}."


def _tokens(n: int) -> str:
    return f"{count(n)} token{'s' if n != 1 else ''}"


def paint(area: Area, frame: Frame, layout: Layout) -> None:
    """Draw chip, rate, limit, sentence and progress."""
    words = words_of(frame)
    chip, role = CHIP[frame.state]
    head = min(18, area.width - 6)
    area.put(1, 0, f" {chip:^7} ", "ground", role, "b")
    running = frame.state in RUNNING
    if words.rate:
        area.right(head, 0, words.rate, "ink", "b")
        area.put(head + 1, 0, "tok/s", "soft")
    elif running and frame.state in ("prefill", "decode"):
        area.right(head, 0, "—", "ink")
        area.put(head + 1, 0, "tok/s", "soft")
    x, y = (1, 1) if layout.limit_below else (SENTENCE_X, 0)
    room = area.width - 1 - x
    progress = running and _has_progress(frame)
    limit, why, more = first_fitting(words.limits, room), words.why, ""
    if frame.verdict is not None and running:
        limit = fit(limit, LIMIT_WIDTH)
    if frame.state == "failed" and text_width(words.limit) > room:
        limit, why = in_two(words.limit, room)
        if layout.goes_on or layout.spare:  # the rest of the error, else what to do
            why, more = in_two(words.limit[len(limit) :].lstrip(), room)
            more = more or shorten(words.why, room)
    else:
        why, more = on_rows(why, room, 2 if layout.goes_on and not progress else 1, words.brief)
    area.put(x, y, fit(limit, room), "ink", None, "b")
    if progress and (layout.progress_row is not None or layout.why):
        row = y + 1 if layout.progress_row is None else layout.progress_row
        _paint_progress(area.area(x, row, room, 1), frame)
    if layout.why and not (progress and layout.progress_row is None):
        area.put(x, y + 1, why, "soft")
        area.put(x, y + 2, more, "soft")
    if not layout.limit_below:
        area.right(head + 6, 1, words.under, "faint")


def _has_progress(frame: Frame) -> bool:
    if frame.state == "load" and frame.task is not None:
        return bool(frame.task.total) and frame.task.done is not None
    progress = frame.measures.prefill if frame.measures is not None else None
    return frame.state == "prefill" and progress is not None and bool(progress.total) and progress.done is not None


def _paint_progress(area: Area, frame: Frame) -> None:
    """A thin line: cached, read, to come; at the right the share of the new ones. Of a task: done, to do."""
    if frame.state == "load" and frame.task is not None and (part := fraction(frame.task)) is not None:
        area.bar(0, 0, max(1, area.width - 8), 1, [(part, "load", "━")])
        area.right(area.width, 0, share(part), "ink")
        return
    assert frame.measures is not None
    progress = frame.measures.prefill
    total, done, cached = progress.total or 1, progress.done or 0, progress.cached or 0
    width = max(1, area.width - 8)
    area.bar(0, 0, width, total, [(cached, "prefill", "╍"), (max(0, done - cached), "prefill", "━")])
    if progress.fraction_new is not None:
        area.right(area.width, 0, share(progress.fraction_new), "ink")
