"""One token: the time of a decode step against its floor, as a bar: what it reads, and the rest, which no floor explains."""

from __future__ import annotations

from textwrap import wrap
from typing import Final

from phasetop.figures import UNKNOWN, milliseconds
from phasetop.roofline import OneToken
from phasetop.tui.cells import Area, Part, fit
from phasetop.tui.frame import Frame
from phasetop.tui.theme import Role
from phasetop.tui.wrap import text_width
from phasetop.visible import clean

ROWS: Final = 3
PATH: Final = "roofline.weights_s_per_token"
_COMMAND: Final = "phasetop doctor --measure-bandwidth"


def reason(frame: Frame) -> str:
    """Why there is no floor, as short as it can be said."""
    measures = frame.measures
    if measures is None:
        return "no request yet"
    if frame.running and frame.state != "decode":
        return "not begun"
    if measures.latency.ttft_ns is None:
        return "no token came"
    return short(measures.unknown.get(PATH, "too few tokens"))


def short(why: str) -> str:
    """A reason without its second way out: the command that measures is enough."""
    why = clean(why).replace("`", "")
    before, command, _ = why.partition(_COMMAND)
    return before + command


def _ms(s: float, *, fine: bool) -> str:
    """Milliseconds with two decimals, or (``fine`` is False) three digits."""
    ms = s * 1e3
    if fine or abs(ms) < 9.995:
        return milliseconds(s * 1e9, fine=True)
    return milliseconds(s * 1e9) if abs(ms) < 99.95 else f"{ms:,.0f}"


def whole(s: float, room: int) -> str:
    """A time in ms, with as many decimals of two as leave it whole in ``room`` cells: half a number reads as another."""
    tries = (milliseconds(s * 1e9, fine=True), milliseconds(s * 1e9), f"{s * 1e3:,.0f}")
    return next((words for words in tries if len(words) <= room), tries[-1])


def _legend(token: OneToken, room: int) -> tuple[Part, ...]:
    """What the bar is made of; where it does not fit, decimals go, then names: a number is never cut."""
    parts: tuple[tuple[str, Role, str, float], ...] = (
        ("■", "decode", "weights", token.weights_s),
        ("▨", "decode", "cache", token.cache_s),
        ("□", "soft", "rest", token.rest_s),
    )
    ways: tuple[tuple[int, tuple[str, ...]], ...] = (
        *((2, ()), (1, ()), (0, ())),
        *((0, ("weights",)), (0, ("weights", "cache")), (0, ("weights", "cache", "rest"))),
    )
    for decimals, without in ways:
        line: list[Part] = []
        for mark, role, name, s in parts:
            number = _ms(s, fine=decimals == 2) if decimals else f"{s * 1e3:,.0f}"
            named = number if name in without else f"{name} {number}"
            line += [(mark, role), (f" {named}" if name == "rest" else f" {named} ", "soft")]
        if sum(text_width(part[0]) for part in line) <= room:
            return tuple(line)
    return ()


def paint_block(area: Area, frame: Frame) -> None:
    """Three rows: the time of a step and its floor, the bar, what the bar is made of; or why there is no floor."""
    area.label(0, 0, "one token")
    token = frame.measures.roofline.token if frame.measures is not None else None
    if token is None:
        area.right(17, 0, UNKNOWN)
        end = area.put(18, 0, "ms", "soft")
        _paint_reason(area, end + 1, reason(frame))
        return
    area.right(17, 0, whole(token.step_s, 17 - len("one token ")))
    end = area.put(18, 0, "ms", "soft")
    area.right(area.width, 0, f"floor {whole(token.floor_s, area.width - end - len(' floor '))}", "faint")
    rest = max(0.0, token.rest_s)
    parts = [(token.weights_s, "█"), (token.cache_s, "▒")]
    area.bar(0, 1, area.width, token.floor_s + rest, [(s, "decode", fill) for s, fill in parts], "░")
    area.line(0, 2, *_legend(token, area.width))


def _paint_reason(area: Area, x: int, why: str) -> None:
    """Beside the dash where it fits, over an empty bar; else on the two rows below."""
    if text_width(why) <= area.width - x:
        area.right(area.width, 0, why, "faint")
        area.put(0, 1, "·" * area.width, "rule")
        return
    while len(wrap(why, area.width)) > ROWS - 1 and (cut := max(why.rfind(": "), why.rfind("; "))) > 0:
        why = why[:cut]
    first, *more = wrap(why, area.width)
    area.put(0, 1, first, "faint")
    area.put(0, 2, fit(" ".join(more), area.width), "faint")
