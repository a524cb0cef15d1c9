"""What the terminal can do, as checks: the same answers that the view goes by, in words."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Final

from phasetop.capabilities import Check
from phasetop.tui import terminal
from phasetop.tui.layout import layout
from phasetop.tui.terminal import Facts

WHOLE: Final = (80, 24)
"""From this size on nothing that matters is left out."""


def checks(facts: Facts) -> tuple[Check, ...]:
    """The checks of the section ``terminal``."""
    return (
        _size(facts),
        _colours(facts),
        _ground(facts),
        *_sync(facts),
        _mouse(facts),
        _locale(facts),
        *_link(facts),
    )


def _size(facts: Facts) -> Check:
    size = f"{facts.environ.get('TERM') or 'TERM is not set'}, {facts.columns}×{facts.rows}"
    if layout(facts.columns, facts.rows) is None:
        return Check("terminal", "limited", f"{size}: too small for the view", "make it 80×24 or more")
    if facts.columns < WHOLE[0] or facts.rows < WHOLE[1]:
        return Check("terminal", "limited", f"{size}: panes are left out", "from 80×24 on everything is shown")
    return Check("terminal", "ok", size)


def _colours(facts: Facts) -> Check:
    depth, remote = facts.look.depth, terminal.is_remote(facts.environ)
    match depth:
        case "truecolor":
            return Check("colours", "ok", "truecolor")
        case "256":
            why = "over SSH, for the bytes" if remote else "COLORTERM does not say truecolor"
            return Check("colours", "ok", f"256 ({why}): --colours truecolor gives more")
        case "16":
            text = f"16: TERM={facts.environ.get('TERM', '')} does not say more"
            return Check("colours", "limited", text, "--colours 256, or a TERM that ends in -256color")
    return Check("colours", "ok", "none: bold, reverse and underline alone (NO_COLOR, or --colours none)")


def _ground(facts: Facts) -> Check:
    if not facts.told.answers:
        text = "the terminal answers no questions: its ground is painted, and frames are not paced by it"
        return Check("ground", "limited", text, "--theme light where it should be")
    if facts.told.ground is None:
        return Check("ground", "limited", f"it does not tell its ground: {facts.look.theme} is assumed", "--theme sets it")
    own = "painted over: the faintest text would not be readable on it" if facts.look.painted else "its own is kept"
    return Check("ground", "ok", f"{facts.look.theme}; {own}")


def _sync(facts: Facts) -> Iterator[Check]:
    sync = facts.told.sync
    if sync is None:
        return
    if sync:
        yield Check("sync", "ok", "frames are shown whole (synchronized output, mode 2026)")
    else:
        yield Check("sync", "off", "no synchronized output (mode 2026): a frame may be seen half drawn; nothing hangs on it")


def _mouse(facts: Facts) -> Check:
    if facts.mouse:
        return Check("mouse", "ok", "taken: click, drag, wheel; with shift the terminal selects")
    return Check("mouse", "off", "left to the terminal (over SSH, or --no-mouse)")


def _locale(facts: Facts) -> Check:
    if facts.look.ascii:
        return Check("locale", "limited", "only ASCII is drawn: the locale is not UTF-8, or --ascii", "LC_ALL=C.UTF-8")
    return Check("locale", "ok", "UTF-8")


def _link(facts: Facts) -> Iterator[Check]:
    environ = facts.environ
    limits = []
    if terminal.is_remote(environ):
        limits.append("over SSH: 5 frames a second, 256 colours, no mouse (--fps, --colours); ssh -C sends a tenth")
    if environ.get("TMUX"):
        limits.append("in tmux: it answers for the terminal, and older ones have no synchronized output")
    elif environ.get("STY"):
        limits.append("in GNU screen: it is asked nothing, so the ground is painted and frames are not paced")
    if limits:
        yield Check("link", "limited", "; ".join(limits))


def look_at_terminal(environ: Mapping[str, str]) -> tuple[Check, ...]:
    """Ask the terminal on stdin and stderr, as the view does, and tell. Both must be terminals."""
    told = terminal.ask_terminal(0, 2, environ, sync=True)
    try:
        size = os.get_terminal_size(2)
    except OSError:
        size = os.terminal_size((0, 0))
    look = terminal.look_for(environ, told.ground)
    found = checks(Facts(size.columns, size.lines, told, look, not terminal.is_remote(environ), environ))
    told.drain()
    return found
