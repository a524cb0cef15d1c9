"""`phasetop sessions` for people: the list, and the sums, as tables that fit the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from phasetop.figures import UNKNOWN, count, file_size, seconds
from phasetop.sessions_list import Listed
from phasetop.totals import Sum
from phasetop.visible import harmless

RUNNING: Final = "●"
CUT_OFF: Final = "◌"
_LEAST_KEY: Final = 12


def table(listed: Sequence[Listed], width: int = 80, *, now: datetime | None = None) -> list[str]:
    """The sessions as lines of at most ``width`` columns: how to call each, when, how long, what; what the marks mean."""
    now = now or datetime.now().astimezone()
    heads = ("", "", "name", "started", "lasted", "req", "size", "model")
    rows = [
        (
            RUNNING if one.live else "" if one.row.complete else CUT_OFF,
            f"@{one.back}" if one.back is not None else "",
            one_line(one.name),
            when(one.row.began_ns, now),
            " ".join(lasted(one.row.duration_s)),
            count(one.row.requests),
            file_size(one.bytes),
            _models(one),
        )
        for one in listed
    ]
    rights = (False, True, False, False, True, True, True, False)
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads))]
    _fit(widths, width)
    lines = [_row(row, widths, rights) for row in (heads, *rows)]
    meanings = [
        (any(one.live for one in listed), f"{RUNNING} runs now"),
        (
            any(not one.live and not one.row.complete for one in listed),
            f"{CUT_OFF} cut off before its end",
        ),
    ]
    told = [text for there, text in meanings if there]
    return [*lines, *(["", "   ".join(told)] if told else [])]


def _fit(widths: list[int], room: int) -> None:
    """Take from the models and the names by turns, down to what still tells them apart: the numbers stay whole."""
    name, model = 2, len(widths) - 1
    over = sum(widths) + 2 * (len(widths) - 1) - 1 - room
    for i, least in ((model, 12), (name, 22), (model, 7), (name, 12)):
        if over > 0:
            taken = min(over, max(0, widths[i] - least))
            widths[i] -= taken
            over -= taken


def _row(row: Sequence[str], widths: Sequence[int], rights: Sequence[bool]) -> str:
    cells = [cell.rjust(w) if right else cut(cell, w).ljust(w) for cell, w, right in zip(row, widths, rights, strict=True)]
    return f"{cells[0]} {'  '.join(cells[1:])}".rstrip()


def cut(text: str, width: int) -> str:
    """A text in at most ``width`` characters; where it is longer, its middle goes."""
    if len(text) <= width:
        return text
    end = max(0, (width - 1) // 3)
    return f"{text[: width - 1 - end]}…{text[len(text) - end :] if end else ''}"


def one_line(text: str) -> str:
    """A name as it may be printed."""
    return harmless(text, newlines=False)


def when(ns: int, now: datetime) -> str:
    """A moment of the wall clock, local: ``30 Nov 09:51``, of another year ``30 Nov 2025``."""
    try:
        moment = datetime.fromtimestamp(ns / 1e9).astimezone()
    except (OverflowError, OSError, ValueError):
        return UNKNOWN
    return f"{moment:%d %b %H:%M}" if moment.year == now.year else f"{moment:%d %b %Y}"


def lasted(duration_s: float) -> tuple[str, str]:
    """A session's length: ``4.61 s``, ``12:31 min``, ``9:20 h``."""
    if duration_s < 3600:
        return seconds(duration_s * 1e9)
    minutes = round(duration_s / 60)
    return f"{minutes // 60}:{minutes % 60:02d}", "h"


def _models(one: Listed) -> str:
    names = one.row.models
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return f"{one_line(names[0])}{more}" if names else UNKNOWN


def totals_table(by: str, rows: Sequence[Sum], width: int = 80) -> list[str]:
    """The sums as lines; what only some requests tell is a lower bound."""
    heads = (by, "requests", "prompt", "cached", "output", "energy", "wall time")
    cells = [
        (
            one_line(row.key or UNKNOWN),
            count(row.requests),
            _sum(row.prompt_tokens, row.missing.get("prompt_tokens", 0)),
            _sum(row.cached_tokens, row.missing.get("cached_tokens", 0)),
            _sum(row.output_tokens, row.missing.get("output_tokens", 0)),
            _energy(row),
            " ".join(lasted(row.wall_s)),
        )
        for row in rows
    ]
    widths = [max(len(row[i]) for row in (heads, *cells)) for i in range(len(heads))]
    over = sum(widths) + 2 * (len(widths) - 1) - width
    widths[0] = max(_LEAST_KEY, widths[0] - max(0, over))
    lines = [
        "  ".join(
            cut(cell, w).ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (heads, *cells)
    ]
    if any("≥" in cell for row in cells for cell in row[1:]):
        lines += ["", "≥: not every request tells it"]
    return lines


def _sum(value: int | None, missing: int) -> str:
    return UNKNOWN if value is None else f"{'≥ ' if missing else ''}{count(value)}"


def _energy(row: Sum) -> str:
    if row.energy_j is None:
        return UNKNOWN
    bound = "≥ " if row.missing.get("energy_j") else ""
    joules = row.energy_j
    return f"{bound}{joules:,.0f} J" if joules < 36_000 else f"{bound}{joules / 3.6e6:,.2f} kWh"


def in_short(one: Listed) -> str:
    """A session in one line."""
    row = one.row
    requests = f"{row.requests} request{'' if row.requests == 1 else 's'}"
    return f"{one_line(one.name)}: {requests}, {' '.join(lasted(row.duration_s))}, {file_size(one.bytes)}"
