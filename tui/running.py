"""How an app is run on the terminal: what the terminal is is asked before, and it is given back as it was found."""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import textual.constants
from msgspec import Struct

from phasetop.faults import EXIT_HUNG_UP
from phasetop.tui import terminal
from phasetop.tui.remembering import Memory, remembered_theme
from phasetop.tui.theme import Depth, Look, Theme

if TYPE_CHECKING:
    from phasetop.tui.app import ViewApp
    from phasetop.tui.player import Opening
    from phasetop.tui.source import Lifeline

LOCAL_HZ: Final = 10
REMOTE_HZ: Final = 5


class Options(Struct, frozen=True):
    """How to show it.

    Attributes:
        ask: begin with the ask line focused; None: where there is a lifeline and no request is known.
        title: the name of what is replayed or watched; None: one's own live session.
        theme: dark or light; None: as the terminal's ground is.
        colours: how many; None: as the terminal says, at most 256 over SSH.
        ascii: only ASCII characters; None: as the locale says.
        mouse: take the mouse; None: not over SSH.
        hz: frames a second; None: 10, over SSH 5.
        earlier: the prompts of other times, oldest first.
        memory: where theme, colours and arrangement are remembered; None: nowhere.
        painted: called once, when the first picture stands.
        replay: the cursor is moved over the session, opened so; None: it is at the present.

    """

    ask: bool | None = None
    title: str | None = None
    theme: Theme | None = None
    colours: Depth | None = None
    ascii: bool | None = None
    mouse: bool | None = None
    hz: float | None = None
    earlier: tuple[str, ...] = ()
    memory: Memory | None = None
    painted: Callable[[], None] | None = None
    replay: Opening | None = None


class Terms(Struct, frozen=True):
    """How the terminal is drawn to: frames a second; whether it is asked and waited for; whether it is far away.

    ``facts``: what was found of it.
    """

    hz: float = LOCAL_HZ
    paced: bool = False
    remote: bool = False
    facts: terminal.Facts | None = None


def run_app(make: Callable[[Look, Terms], ViewApp], options: Options, lifeline: Lifeline | None) -> int:
    """Ask the terminal what it is, make the app for it, and run it; see `view`."""
    assert sys.__stdin__ is not None
    assert sys.__stderr__ is not None
    remote = terminal.is_remote(os.environ)
    told = terminal.ask_terminal(sys.__stdin__.fileno(), sys.__stderr__.fileno(), os.environ)
    theme = options.theme or remembered_theme(options.memory)
    look = terminal.look_for(os.environ, told.ground, theme=theme, ascii_only=options.ascii, depth=options.colours)
    # Colours are chosen here, each for its depth; Rich must not convert them by its own idea of the terminal.
    vars(textual.constants)["COLOR_SYSTEM"] = "truecolor"
    mouse = not remote if options.mouse is None else options.mouse
    facts = terminal.Facts(0, 0, told, look, mouse, os.environ)
    app = make(look, Terms(REMOTE_HZ if remote else LOCAL_HZ, told.answers, remote, facts))
    try:
        app.run(mouse=mouse)
    except OSError:
        if app.status != EXIT_HUNG_UP:  # else: a terminal that is gone cannot be restored
            raise
    finally:
        app.ended()
        told.drain()
        if app.status == EXIT_HUNG_UP:
            _let_go()
        if lifeline is not None:
            lifeline.stop()
    if app.error is not None:
        raise app.error
    return app.status


def _let_go() -> None:
    """The terminal is gone: what is still written to it goes nowhere, instead of failing."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    os.close(nowhere)


def leave_by_force(status: int, modes: list[Any]) -> None:
    """End the process with its terminal restored as far as that goes."""
    try:
        termios.tcsetattr(0, termios.TCSANOW, modes)
        os.set_blocking(2, False)
        os.write(2, terminal.RESET.encode())
    except (OSError, termios.error):
        pass
    finally:
        os._exit(status)
