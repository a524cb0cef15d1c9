"""A picture of the view as SVG, without a terminal: the very canvas that one would show, at one cursor of a session."""

from __future__ import annotations

from html import escape
from typing import Final

from phasetop.moments import Moment
from phasetop.session import Session
from phasetop.tui.cells import Canvas
from phasetop.tui.course import Course
from phasetop.tui.frame import FrameMaker
from phasetop.tui.layout import layout
from phasetop.tui.painter import paint
from phasetop.tui.scrub import Scrub, bar_of
from phasetop.tui.theme import Ink, Look
from phasetop.tui.view import View
from phasetop.tui.wrap import text_width
from phasetop.visible import harmless

CELL: Final = (8.4, 18.0)
_FONT: Final = 'font-family="\'DejaVu Sans Mono\', Menlo, Consolas, ui-monospace, monospace" font-size="14"'
_MARGIN: Final = 8
_BLOCKS: Final = frozenset("▁▂▃▄▅▆▇█▏▎▍▌▋▊▉")
"""Drawn as rectangles: glyphs of a font seldom meet those of the next cell."""


def picture_of(session: Session, at: Moment | None, size: tuple[int, int], look: Look, title: str) -> tuple[Canvas, int]:
    """The canvas of a replay that stands at a moment (None: the end), and the moment, ns since the anchor."""
    course = Course(session)
    cursor = course.stop if at is None else course.within(course.moment(at, None))
    canvas = Canvas(*size, look)
    maker, plan = FrameMaker(session), layout(*size, scrub=True)
    if plan is None:
        return canvas, cursor
    plan = layout(*size, maker.frame(cursor, plan, View()).cards, scrub=True) or plan
    bar = bar_of(course, session, plan.scrub.width if plan.scrub is not None else 0)
    scrub = Scrub(
        at_ns=max(0, min(cursor, course.last) - course.zero),
        total_ns=course.last - course.zero,
        turns=len(course.spans),
        bar=bar,
        cursor=bar.column(course.way(cursor)) if bar.columns else 0,
    )
    paint(canvas, maker.frame(cursor, plan, View(title=title, scrub=scrub)), plan)
    return canvas, cursor


def svg(canvas: Canvas, title: str) -> str:
    """A canvas as SVG: rows of text at their columns, so that it can be read and searched as text too."""
    w, h = CELL
    width, height = canvas.width * w + 2 * _MARGIN, canvas.height * h + 2 * _MARGIN
    ground = _hex(canvas.look, Ink("ink", "ground"), back=True)
    size = f'{width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" role="img" {_FONT}>',
        f"<title>{escape(harmless(title, newlines=False))}</title>",
        "<style>text{white-space:pre}</style>",  # browsers; xml:space below is for what knows no CSS
        f'<rect width="100%" height="100%" rx="6" fill="{ground}"/>',
        f'<g transform="translate({_MARGIN},{_MARGIN})" xml:space="preserve">',
    ]
    for y in range(canvas.height):
        for x, text, how in _runs(canvas, y):
            out += _cells(canvas.look, x, y, text, how, ground)
    return "\n".join([*out, "</g>", "</svg>", ""])


def _runs(canvas: Canvas, y: int) -> list[tuple[int, str, Ink]]:
    """A row's stretches of one ink: column, text, ink."""
    made: list[tuple[int, str, Ink]] = []
    chars, inks = canvas.chars[y], canvas.inks[y]
    x = 0
    while x < canvas.width:
        start, how = x, inks[x]
        while x < canvas.width and inks[x] == how:
            x += 1
        made.append((start, "".join(chars[start:x]), how))
    return made


def _cells(look: Look, x: int, y: int, text: str, how: Ink, ground: str) -> list[str]:
    w, h = CELL
    fore, back = _hex(look, how, back=False), _hex(look, how, back=True)
    if "r" in how.style:
        fore, back = back, fore
    left, top = x * w, y * h
    out = []
    if back != ground:
        out.append(_rect(left, top, text_width(text) * w, h, back))
    as_shapes = not look.ascii and text_width(text) == len(text)
    blocks = [(i, char) for i, char in enumerate(text) if char in _BLOCKS] if as_shapes else []
    for i, char in blocks:
        out.append(_block(left + i * w, top, char, fore))
    shown = "".join(" " if char in _BLOCKS and blocks else char for char in text)
    shown = look.glyphs(shown)
    if shown.strip():
        bold = ' font-weight="bold"' if "b" in how.style else ""
        bold += ' font-style="italic"' if "i" in how.style else ""
        bold += ' text-decoration="underline"' if "u" in how.style else ""
        lead = len(shown) - len(shown.lstrip(" "))
        bare = shown.strip(" ")
        span = f'textLength="{text_width(bare) * w:.1f}" lengthAdjust="spacingAndGlyphs"'
        out.append(f'<text x="{left + lead * w:.1f}" y="{top + 13.5:.1f}" {span} fill="{fore}"{bold}>{escape(bare)}</text>')
    return out


def _rect(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width + 0.3:.1f}" height="{height + 0.3:.1f}" fill="{colour}"/>'


def _block(x: float, y: float, char: str, colour: str) -> str:
    """A cell filled from below or from the left by eighths."""
    w, h = CELL
    if (eighths := "▁▂▃▄▅▆▇█".find(char) + 1) > 0:
        return _rect(x, y + h * (8 - eighths) / 8, w, h * eighths / 8, colour)
    return _rect(x, y, w * ("▏▎▍▌▋▊▉".find(char) + 1) / 8, h, colour)


def _hex(look: Look, how: Ink, *, back: bool) -> str:
    """The colour of an ink's text or ground; the theme's own where the terminal's would stand."""
    light = look.theme == "light"
    role = (how.bg or "ground") if back else how.fg
    colour = look.colour(role) if role != "ground" or look.depth != "16" else None
    if colour is None:
        dark, bright = ("#0f1419", "#dfe5ea") if not light else ("#fbfaf7", "#1c2126")
        on_colour = how.bg not in (None, "raised", "ground")
        return (bright if on_colour else dark) if back else dark if how.fg == "ground" or on_colour else bright
    return colour.get_truecolor().hex
