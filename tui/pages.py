"""Pages over the view: the keys and what the colours mean, the notices, what failed. Each is drawn into the same cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from phasetop.figures import clock
from phasetop.session import Session
from phasetop.tui import explain, turns
from phasetop.tui.cells import Area, Part, fit
from phasetop.tui.failure import Failure
from phasetop.tui.frame import Frame
from phasetop.tui.keys import LIVE
from phasetop.tui.textpane import INTRO, gap_scale
from phasetop.tui.view import Page
from phasetop.visible import harmless

Kind = Page
Line = tuple[Part, ...]

TURNS_COLUMNS: Final = 88
_EXPLAINED: Final = (
    ("latency.ttft_s", "first token"),
    ("rates.prefill_tok_per_s", "prefill"),
    ("tokens.cached", "cached"),
    ("rates.decode_tok_per_s", "decode"),
    ("latency.itl_ms", "gap"),
    ("kv.tokens", "KV tokens"),
    ("kv.context", "KV limit"),
    ("kv.used_bytes", "KV bytes"),
)
"""The figures of the view, by the paths that `Measures.unknown` and `.sources` have for them."""


def paint(
    kind: Kind, area: Area, frame: Frame, session: Session, failed: Mapping[str, Failure], top: int
) -> dict[str, Failure]:
    """Draw a page from its line ``top`` on; returns what failed in it."""
    try:
        match kind:
            case "help":
                paint_help(area, frame)
            case "log":
                paint_lines(area, "notices", log_lines(session, frame), top)
            case "error":
                paint_lines(area, "what failed", error_lines(failed), top)
            case "turns":
                turns.paint(area.area(1, 0, min(area.width - 2, TURNS_COLUMNS), area.height), frame)
            case "info":
                focus = "text" if frame.token is not None else frame.view.focus
                title = explain.TITLES[focus] if frame.token is None else "the token under the cursor"
                paint_lines(area, title, [(), *explain.lines(focus, frame, area.width - 2)], top)
            case "doctor":
                from phasetop.tui import doctorpage  # what it needs is looked at for this page alone

                paint_lines(area, doctorpage.TITLE, doctorpage.lines(session, frame, area.width - 2), top)
            case "charts":
                from phasetop.tui import charts  # plotext takes 100 ms to load

                charts.paint(area, frame, session, top)
    except Exception as error:
        failure = Failure.of(error)
        area.clear()
        area.put(1, 0, f"! this page failed: {failure.kind} · e shows it", "ink")
        return {kind: failure}
    return {}


def paint_help(area: Area, frame: Frame) -> None:
    """The key table in columns, the colours with this turn's values, where figures are from: one page."""
    rows = [key for key in LIVE if key.help and (frame.view.steers or key.when not in ("steering", "running", "unkept"))]
    columns = 2 if area.width >= 76 else 1
    per = -(-len(rows) // columns)
    area.put(1, 0, "keys", "soft")
    for i, key in enumerate(rows):
        x = 1 + (i // per) * (area.width // columns)
        y = 1 + i % per
        area.right(x + 9, y, key.label)
        area.put(x + 11, y, fit(key.help, area.width // columns - 13), "soft")
    y = (2 if 2 + per + len(INTRO) <= area.height else 1) + per
    for role, swatch, text in INTRO:
        area.put(1, y, swatch, "ground", role)
        area.put(6, y, fit(text, area.width - 7), "soft")
        y += 1
    area.put(1, y, "gap ms", "soft")
    x = gap_scale(area, 9, y, frame)
    area.put(x + 2, y, fit("steps of this turn's median", max(0, area.width - x - 3)), "faint")
    y += 2
    for line in figure_lines(frame)[: max(0, area.height - y)]:
        area.line(1, y, *line)
        y += 1


def figure_lines(frame: Frame) -> list[Line]:
    """Where the view's figures are from, and why those that are a dash are one."""
    measures = frame.measures
    if measures is None:
        return [(("figures", "soft"), ("  none before the first request", "faint"))]
    lines: list[Line] = [
        ((f"{'times':<12}", "soft"), ("ours: when the bytes of each token reached this machine", "faint")),
    ]
    for path, name in _EXPLAINED:
        why = _under(measures.unknown, path)
        source = _under(measures.sources, path)
        if why is not None:
            lines.append(((f"{name:<12}", "soft"), ("— ", "ink"), (harmless(why, newlines=False), "faint")))
        elif source is not None:
            lines.append(((f"{name:<12}", "soft"), (harmless(source, newlines=False), "faint")))
    return lines


def _under(reasons: Mapping[str, str], path: str) -> str | None:
    """What is said of a path, or of a prefix of it."""
    while path:
        if path in reasons:
            return reasons[path]
        path = path.rpartition(".")[0]
    return None


def log_lines(session: Session, frame: Frame) -> list[Line]:
    """The notices up to the cursor, oldest first."""
    lines: list[Line] = []
    for notice in session.notices.until(frame.cursor):
        text = harmless(" ".join(notice.text.split()), newlines=False)
        lines.append(((f"{clock(notice.t):>8}  ", "faint"), (f"{notice.level:<6}", "soft"), text))
    for flag in frame.measures.flags if frame.measures else ():
        lines.append(((f"{'':>8}  ", "faint"), ("now   ", "soft"), flag.text))
    return lines or [(("nothing so far", "faint"),)]


def error_lines(failed: Mapping[str, Failure]) -> list[Line]:
    """What failed, with the places in the program."""
    lines: list[Line] = []
    for name, failure in failed.items():
        lines.append(((name, "ink", "b"), ("  " + failure.kind, "soft"), ("  " + failure.words, "faint")))
        lines += [(("    " + where, "faint"),) for where in failure.where]
    return lines or [(("nothing failed", "faint"),)]


def paint_lines(area: Area, title: str, lines: list[Line], top: int) -> None:
    """A titled list from its line ``top`` on."""
    area.put(1, 0, title, "soft")
    for y, line in enumerate(lines[top : top + area.height - 1], 1):
        x = 1
        for part in line:
            text = part if isinstance(part, str) else part[0]
            text = fit(text, max(0, area.width - 1 - x))
            x = area.line(x, y, text if isinstance(part, str) else (text, *part[1:]))
    more = len(lines) - top - (area.height - 1)
    if more > 0:
        note = f"{more:,} more below"
        area.right(area.width - 1, 0, note, "faint")
