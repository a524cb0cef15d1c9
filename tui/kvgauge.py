"""The KV cache: tokens of the limit, the bar with what it holds, and when it will be full."""

from __future__ import annotations

from typing import Final

from phasetop.counts import CacheUse
from phasetop.figures import UNKNOWN, count, memory
from phasetop.metrics import Measures
from phasetop.tui.cells import Area, Part, Share, fit
from phasetop.tui.frame import Frame

SOON_S: Final = 30
"""Full within this time is told in bold."""


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
    if frame.state in ("queue", "load"):
        return "not yet"
    return measures.unknown.get("kv.context") or measures.unknown.get("kv.tokens") or "not told"


def shares(frame: Frame) -> list[Share]:
    """Cached, prompt, reply, as parts of the bar."""
    return shares_of(frame.measures)


def shares_of(measures: Measures | None) -> list[Share]:
    """The same of any request."""
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
    if measures is None or frame.state != "decode":
        return ()
    left = measures.kv.full_in_s
    if left is None:
        return ()
    if left <= 0:
        then = {"stops": ": the reply ends", "shifts": ": the oldest go"}.get(measures.kv.when_full or "", "")
        return (("full", "ink", "b"), (then, "soft"))
    return (("full in ", "soft"), (about(left), "ink", "b") if left < SOON_S else (about(left), "soft"))


def _cells(caches: tuple[CacheUse, ...]) -> list[CacheUse]:
    """The caches that have cells, where there are several: each gets a bar."""
    shown = [cache for cache in caches if cache.name != "state" and cache.used_cells is not None]
    return shown if len(shown) > 1 else []


def _mib(size_bytes: float) -> str:
    """Whole MiB or three digits, without the unit."""
    return memory(size_bytes)[0] if size_bytes < 1023.5 * (1 << 20) else f"{size_bytes / (1 << 20):,.0f}"


def _paint_caches(area: Area, frame: Frame, caches: list[CacheUse], total: int) -> None:
    """A bar a cache: what all layers attend to as the request has it; a window's cells are used again."""
    room = area.width - 8 - 15
    for y, cache in enumerate(caches):
        used, cells = cache.used_cells or 0, max(1, cache.cells)
        name = (
            "window" if cache.window is not None else {"kv": "all", "base": "all", "attn": "all"}.get(cache.name, cache.name)
        )
        area.put(0, y, fit(name, 7), "soft")
        if cache.window is None:
            area.bar(8, y, room, max(total, 1), shares(frame))
        else:
            area.bar(8, y, room, cells, [(used, "decode" if frame.page_kind == "reply" else "prefill", "█")])
        held = used * cache.cell_bytes
        of = f"of {_mib(cells * cache.cell_bytes)}" if used < cells else "reused"
        words = f"{_mib(held)} {of}"
        area.put(8 + room + 1, y, words if len(words) <= 14 else _mib(held), "soft")


def paint_block(area: Area, frame: Frame) -> int:
    """Figures, bar (or a bar a cache), two rows of what it holds; returns how many rows that took."""
    measures = frame.measures
    kv = measures.kv if measures is not None else None
    used, context = (kv.tokens, kv.context) if kv is not None else (None, None)
    area.label(0, 0, "KV cache", focused=frame.view.focus == "kv")
    area.right(17, 0, count(used))
    end = area.put(18, 0, f"of {count(context)}" if context else "tokens", "soft")
    caches: list[CacheUse] = []
    if used is None or not context:
        note = reason(frame)
        beside = len(note) <= area.width - end - 1
        area.right(area.width, 0, note if beside else "", "faint")
        area.put(0, 1, "·" * area.width if beside else fit(note, area.width), "rule" if beside else "faint")
    else:
        held = kv.used_bytes if kv is not None else None
        number, unit = memory(held) if held is not None else (UNKNOWN, "MiB")
        area.right(area.width, 0, f"{number} {unit}", "faint" if held is None else "soft")
        caches = _cells(kv.caches) if kv is not None and area.height > 4 else []
        if caches:
            _paint_caches(area.area(0, 1, area.width, len(caches)), frame, caches, context)
        else:
            area.bar(0, 1, area.width, context, shares(frame))
    y = 1 + max(1, len(caches))
    if used is None:
        return y + 2
    cached, prompt, reply = (count(int(amount)) for amount, _, _ in shares(frame))
    area.line(0, y, ("▨", "prefill"), (f" cached {cached}   ", "soft"), ("■", "prefill"), (f" prompt {prompt}", "soft"))
    x = area.line(0, y + 1, ("■", "decode"), (f" reply {reply}", "soft"))
    ending = full_in(frame)
    width = sum(len(part[0]) for part in ending)
    area.line(area.width - width, y + 1, *ending)
    if not frame.beside and kv is not None and kv.slots and kv.slots > 1:
        pool = f"{kv.slots} slots share it" if kv.shared else f"one of {kv.slots} slots" if kv.shared is False else ""
        if len(pool) > (room := area.width - width - 2 - x - 3):
            pool = f"{kv.slots} slots" if pool else ""
        area.put(x + 3, y + 1, pool if len(pool) <= room else "", "faint")
    return y + 2


def slots_rows(frame: Frame) -> int:
    """The rows of `paint_slots`: 0 where no other request runs on the server."""
    return len(frame.beside) + 2 if frame.beside else 0


def paint_slots(area: Area, frame: Frame) -> None:
    """A row a request that runs on the server, of the pool that they share or of its own slot."""
    measures = frame.measures
    assert measures is not None
    kv = measures.kv
    area.put(0, 0, "slots", "soft")
    pool = f"one pool of {count(kv.context)} for {kv.slots}" if kv.shared else f"{kv.slots} of {count(kv.context)} each"
    area.put(7, 0, pool if kv.slots and kv.context and kv.shared is not None else "requests at once", "faint")
    for y, (number, one) in enumerate(((frame.turn, measures), *frame.beside), 1):
        this = one is measures
        area.put(0, y, str(number), "ink" if this else "faint")
        total = one.kv.context or kv.context
        if total:
            area.bar(3, y, 17, total, shares_of(one))
        area.right(28, y, count(one.kv.tokens))
        area.put(29, y, "this turn" if this else one.phases.running or "waiting", "soft")


def paint_row(area: Area, frame: Frame) -> None:
    """One row: label, bar, figures."""
    measures = frame.measures
    kv = measures.kv if measures is not None else None
    used, context = (kv.tokens, kv.context) if kv is not None else (None, None)
    x = area.label(1, 0, "KV cache", focused=frame.view.focus == "kv") + 1
    if used is None or not context:
        known = UNKNOWN if used is None else count(used)
        end = area.line(x, 0, known, (" tokens  ", "soft"))
        area.put(end, 0, fit(reason(frame), max(0, area.width - 1 - end)), "faint")
        return
    width = max(8, min(30, area.width - 50))
    area.bar(x, 0, width, context, shares(frame))
    end = area.line(x + width + 2, 0, count(used), (f" of {count(context)}", "soft"))
    parts: list[Part] = []
    if kv is not None and kv.used_bytes is not None:
        parts += [("  ", "soft"), (" ".join(memory(kv.used_bytes)), "soft")]
    ending = full_in(frame)
    if end + sum(len(part[0]) for part in (*parts, *ending)) + 2 >= area.width:
        parts = []
    if end + sum(len(part[0]) for part in ending) + 2 > area.width:
        ending = ()
    area.line(end, 0, *parts, ("  ", "soft"), *ending)
