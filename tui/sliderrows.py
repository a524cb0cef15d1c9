"""The sliders of the roofline screen, drawn: a row each, with its value, its track and the request's own place on it."""

from __future__ import annotations

from typing import Final

from phasetop.figures import UNKNOWN, count
from phasetop.knobs import NAMES, Name
from phasetop.tui import onetoken
from phasetop.tui.cells import Area
from phasetop.tui.roofplaces import TRACK, TRACK_X
from phasetop.tui.view import Sliders
from phasetop.tui.wording import first_fitting
from phasetop.tui.wrap import text_width
from phasetop.visible import clean
from phasetop.what_if import Answer, Own, bits_of, place

_LABELS: Final[dict[Name, str]] = {
    "prompt": "prompt",
    "output": "reply",
    "dtype": "weights",
    "context": "context",
    "batch": "batch",
    "bandwidth": "bandwidth",
    "flops": "compute",
}
WORDS: Final[dict[Name, str]] = {
    "prompt": "tokens of the prompt that are read",
    "output": "tokens that are generated",
    "dtype": "bits a weight: what a step reads of each",
    "context": "tokens in the cache when decode begins",
    "batch": "sequences at once",
    "bandwidth": "what the machine can read",
    "flops": "what the machine can compute",
}
"""What each slider moves."""


def paint_sliders(area: Area, own: Own, done: Answer, sliders: Sliders) -> None:
    """A row a slider: its label (reversed: keys move it), its value, its place in the range, and the request's own."""
    area.put(0, 0, "what if", "soft")
    area.right(area.width, 0, "┊ as it ran" if area.width >= 36 else "", "faint")
    for y, name in enumerate(NAMES, 1):
        chosen = name == sliders.chosen
        area.label(0, y, _LABELS[name], focused=chosen)
        value, unit = words_of(name, own, done)
        changed = getattr(sliders.changed, name) is not None
        area.put(18 - text_width(value), y, value, "ink", None, "b" if changed else "")
        area.put(19, y, unit, "soft")
        _track(area, TRACK_X, y, name, own, done)
    y = len(NAMES) + 1
    if area.height > y:
        unknown = getattr(done.values, sliders.chosen) is None
        unknown = unknown and not (sliders.chosen == "dtype" and own.bits is not None)
        why = own.unknown.get(sliders.chosen) if unknown else None
        texts = (f"— {onetoken.short(why)}; ← → set it", "— not known; ← → set it") if why else (WORDS[sliders.chosen],)
        area.put(0, y, first_fitting(texts, area.width), "faint")


def words_of(name: Name, own: Own, done: Answer) -> tuple[str, str]:
    """A slider's value and unit."""
    value = getattr(done.values, name)
    match name:
        case "dtype":
            bits = bits_of(own, value) if value is not None or own.bits is not None else None
            kind = value or (own.metadata.quant if own.metadata is not None else None) or ""
            return (UNKNOWN if bits is None else f"{bits:.3g}"), f"bit {clean(kind.lower())}"
        case "bandwidth":
            return (UNKNOWN if value is None else f"{value / 1e9:,.4g}"), "GB/s"
        case "flops":
            scale, unit = (1e9, "GFLOP/s") if value is not None and value < 1e12 else (1e12, "TFLOP/s")
            return (UNKNOWN if value is None else f"{value / scale:,.4g}"), unit
        case "batch":
            return count(value), ""
    return count(value), "tokens"


def _track(area: Area, x: int, y: int, name: Name, own: Own, done: Answer) -> None:
    width = area.width - x
    if width < TRACK:
        return
    area.put(x, y, "─" * width, "rule")
    mine = getattr(own.values, name) if name != "context" else own.values.context
    home = place(name, mine, own)
    if home is not None:
        area.put(x + round(home * (width - 1)), y, "┊", "faint")
    at = place(name, getattr(done.values, name), own)
    if at is not None:
        area.put(x + round(at * (width - 1)), y, "●", "ink")
