"""A picture of the view as SVG, without a terminal: the very canvas that one would show, at one cursor of a session."""

from __future__ import annotations

from phasetop.moments import Moment
from phasetop.session import Session
from phasetop.tui.cells import Canvas
from phasetop.tui.course import Course
from phasetop.tui.frame import FrameMaker
from phasetop.tui.layout import layout
from phasetop.tui.painter import paint
from phasetop.tui.scrub import Scrub, bar_of
from phasetop.tui.svg import Style
from phasetop.tui.svg import svg as draw
from phasetop.tui.theme import Ink, Look
from phasetop.tui.view import View
from phasetop.visible import harmless


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
    """A canvas as SVG."""
    look = canvas.look
    styles = {ink: _style(look, ink) for row in canvas.inks for ink in set(row)}
    rows = [
        [(look.glyphs(char), styles[ink]) for char, ink in zip(chars, inks, strict=True)]
        for chars, inks in zip(canvas.chars, canvas.inks, strict=True)
    ]
    return draw(rows, _hex(look, Ink("ink", "ground"), back=True), harmless(title, newlines=False))


def _style(look: Look, ink: Ink) -> Style:
    fore, back = _hex(look, ink, back=False), _hex(look, ink, back=True)
    if "r" in ink.style:
        fore, back = back, fore
    return Style(fore, back, bold="b" in ink.style, italic="i" in ink.style, underline="u" in ink.style)


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
