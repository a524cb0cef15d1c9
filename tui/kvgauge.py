"""The KV cache: tokens of the limit, the bar with what it holds, and when it will be full."""

from __future__ import annotations

from phasetop.figures import UNKNOWN, count
from phasetop.tui.cells import Area, Part, Share, fit
from phasetop.tui.frame import Frame


def about(s: float) -> str:
    """A duration that is only estimated: ``0.9 s``, ``34 s``, ``13 min``."""
    if s < 9.95:
        return f"{s:.1f} s"
    return f"{s:.0f} s" if s < 100 else f"{s / 60:.0f} min" if s < 5400 else f"{s / 3600:.0f} h"


def reason(frame: Frame) -> str:
    """Why nothing is known of the cache."""
    measures = frame.measures
    if measures is None:
        return "no request yet"
    if not frame.running and measures.latency.ttft_ns is None:
        return "no token came"
    return measures.unknown.get("kv.context") or measures.unknown.get("kv.tokens") or "not told"


def shares(frame: Frame) -> list[Share]:
    """Cached, prompt, reply, as parts of the bar."""
    measures = frame.measures
    used = measures.kv.tokens if measures is not None else None
    if measures is None or used is None:
        return []
    cached = min(used, measures.tokens.cached or measures.prefill.cached or 0)
    prompt = measures.tokens.prompt or measures.prefill.total
    if measures.latency.ttft_ns is None:
        prompt = used  # a reply has not begun
    elif prompt is None:
        prompt = used - min(used, measures.tokens.output or 0)
    new = max(0, min(prompt, used) - cached)
    return [(cached, "prefill", "▒"), (new, "prefill", "█"), (used - cached - new, "decode", "█")]


def full_in(frame: Frame) -> tuple[Part, ...]:
    """When it will be full at the reply's rate, bold when that is soon; nothing while no reply runs."""
    measures = frame.measures
    if measures is None or frame.state != "decode" or not measures.rates.decode_per_s:
        return ()
    if measures.kv.context is None or measures.kv.tokens is None:
        return ()
    left = (measures.kv.context - measures.kv.tokens) / measures.rates.decode_per_s
    if left <= 0:
        return (("full", "ink", "b"),)
    return (("full in ", "soft"), (about(left), "ink", "b") if left < 30 else (about(left), "soft"))


def paint_block(area: Area, frame: Frame) -> None:
    """Four rows: figures, bar, two rows of what it holds."""
    measures = frame.measures
    used, context = (measures.kv.tokens, measures.kv.context) if measures is not None else (None, None)
    area.put(0, 0, "KV cache", "soft")
    area.right(17, 0, count(used))
    end = area.put(18, 0, f"of {count(context)}" if context else "tokens", "soft")
    if used is None or not context:
        note = reason(frame)
        area.right(area.width, 0, fit(note, max(0, area.width - end - 1)), "faint")
        area.put(0, 1, "·" * area.width, "rule")
    else:
        area.right(area.width, 0, f"{UNKNOWN} MiB", "faint")
        area.bar(0, 1, area.width, context, shares(frame))
    if used is None:
        return
    cached, prompt, reply = (count(int(amount)) for amount, _, _ in shares(frame))
    area.line(0, 2, ("▨", "prefill"), (f" cached {cached}   ", "soft"), ("■", "prefill"), (f" prompt {prompt}", "soft"))
    area.line(0, 3, ("■", "decode"), (f" reply {reply}", "soft"))
    ending = full_in(frame)
    area.line(area.width - sum(len(part[0]) for part in ending), 3, *ending)


def paint_row(area: Area, frame: Frame) -> None:
    """One row: label, bar, figures."""
    measures = frame.measures
    used, context = (measures.kv.tokens, measures.kv.context) if measures is not None else (None, None)
    x = area.put(1, 0, "KV cache ", "soft")
    if used is None or not context:
        known = UNKNOWN if used is None else count(used)
        end = area.line(x, 0, known, (" tokens  ", "soft"))
        area.put(end, 0, fit(reason(frame), max(0, area.width - 1 - end)), "faint")
        return
    width = max(8, min(30, area.width - 50))
    area.bar(x, 0, width, context, shares(frame))
    area.line(x + width + 2, 0, count(used), (f" of {count(context)}  ", "soft"), *full_in(frame))
