"""The live view: `view` shows a source until the person leaves, and returns the exit status.

All drawing is pure (`frame`, `painter`); the app turns a clock into frames, keys into the view's state and commands, and
sees to it that the terminal is given back as it was found, however the process ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass, replace
from typing import Final

import textual.constants
from textual import events
from textual.app import App, ComposeResult

from phasetop.faults import EXIT_FAILED, EXIT_HUNG_UP, EXIT_INTERRUPTED, EXIT_OK, EXIT_TERMINATED, PhasetopError
from phasetop.tui import footer, header, pages, terminal
from phasetop.tui.board import Board
from phasetop.tui.cells import Canvas
from phasetop.tui.failure import Failure
from phasetop.tui.frame import Frame, FrameMaker
from phasetop.tui.keys import Key, Screen, lookup
from phasetop.tui.layout import Layout, layout, tiles, zoomed
from phasetop.tui.lineedit import LineEdit
from phasetop.tui.pacing import Pacer
from phasetop.tui.page import COLOURS
from phasetop.tui.painter import paint
from phasetop.tui.source import Lifeline, Source
from phasetop.tui.theme import Look, Theme
from phasetop.tui.view import AskLine, View

__all__ = ["Options", "view"]

LOCAL_HZ: Final = 10
REMOTE_HZ: Final = 5
MESSAGE_S: Final = 8.0
TWICE_S: Final = 3.0
"""Two ctrl-C within this time leave."""
_LAST_ANSWER_S: Final = 1.0
_LAST_RESORT_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Options:
    """How to show it.

    Attributes:
        ask: begin with the ask line focused; None: where there is a lifeline and no request is known or on its way.
        title: the name of what is replayed or watched; None: one's own live session.
        theme: dark or light; None: as the terminal's ground is.
        ascii: only ASCII characters; None: as the locale says.
        mouse: take the mouse; None: not over SSH.
        hz: frames a second; None: 10, over SSH 5.

    """

    ask: bool | None = None
    title: str | None = None
    theme: Theme | None = None
    ascii: bool | None = None
    mouse: bool | None = None
    hz: float | None = None


def view(source: Source, *, lifeline: Lifeline | None = None, options: Options | None = None) -> int:
    """Show ``source`` on the terminal until the person leaves.

    Stdin, stdout and stderr must be terminals (the caller sees to that).

    Args:
        source: the session, growing or not.
        lifeline: whom to ask and to cancel; None for a replay or a watched session.
        options: how to show it.

    Returns:
        0; 1 where the last request ended in an error or was cut; 130 after ctrl-C twice; 143 after SIGTERM; 129 after
        SIGHUP.

    Raises:
        PhasetopError: the source cannot be read on.

    """
    options = options or Options()
    environ = os.environ
    assert sys.__stdin__ is not None
    assert sys.__stderr__ is not None
    ground = terminal.ask_ground(sys.__stdin__.fileno(), sys.__stderr__.fileno(), environ)
    look = terminal.look_for(environ, ground, theme=options.theme, ascii_only=options.ascii)
    # Colours are chosen here, each for its depth; Rich must not convert them by its own idea of the terminal.
    vars(textual.constants)["COLOR_SYSTEM"] = "truecolor"
    app = ViewApp(source, lifeline, options, look, remote=terminal.is_remote(environ))
    mouse = options.mouse if options.mouse is not None else not terminal.is_remote(environ)
    try:
        app.run(mouse=mouse)
    finally:
        if lifeline is not None:
            lifeline.stop()
    if app.error is not None:
        raise app.error
    return app.status


class ViewApp(App[None], inherit_bindings=False):
    """Clock, keys and commands; see `view`."""

    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    CSS = "Screen { background: ansi_default; }"

    def __init__(
        self, source: Source, lifeline: Lifeline | None, options: Options, look: Look, *, remote: bool = False
    ) -> None:
        super().__init__(ansi_color=True)
        self.status = EXIT_OK
        self.error: Exception | None = None
        self.failures: dict[str, Failure] = {}
        self.shown: Frame | None = None
        self._source = source
        self._lifeline = lifeline
        self._options = options
        self._look = look
        self._hz = options.hz or (REMOTE_HZ if remote else LOCAL_HZ)
        self._board = Board(look)
        self._maker = FrameMaker(source.session)
        self._pacer = Pacer()
        self._line = LineEdit()
        self._view = View(title=options.title, steers=lifeline is not None)
        self._asking = False
        self._frozen_at: int | None = None
        self._message: tuple[str, float] | None = None
        self._page: tuple[pages.Kind, int] | None = None
        self._changed = True
        self._drawn_at = 0.0
        self._ask_terminal = False
        self._leaving = False
        self._interrupted_at = -TWICE_S

    # ---- life

    def compose(self) -> ComposeResult:
        """The board, and nothing else."""
        yield self._board

    def on_mount(self) -> None:
        """Start the frame clock and take the signals."""
        no_request = self._lifeline is not None and not self._source.session.runs
        self._asking = self._options.ask if self._options.ask is not None else no_request and not self._options.title
        self.set_interval(1 / self._hz, self._tick)
        if not self.is_headless:
            loop = asyncio.get_running_loop()
            for number, status in ((signal.SIGTERM, EXIT_TERMINATED), (signal.SIGHUP, EXIT_HUNG_UP)):
                loop.add_signal_handler(number, self._obey_signal, status)
            loop.add_signal_handler(signal.SIGINT, self.do_interrupt)

    def on_ready(self) -> None:
        """The first picture."""
        self._tick()

    def on_resize(self) -> None:
        """Draw at the new size at once, and everything again when it has settled: terminals lose cells while they resize."""
        self._changed = True
        self._pacer.answered()
        self._draw()
        self.set_timer(0.3, self._board.redraw)

    def on_app_resume(self) -> None:
        """Back from ctrl-z: the screen holds something else."""
        self._pacer.answered()
        self._board.redraw()

    def _obey_signal(self, status: int) -> None:
        """Leave with this status; if the terminal is stuck, by force."""
        self.status = status
        _leave_by_force_after(_LAST_RESORT_S, status)
        self._leaving = True
        self.exit()

    def _leave(self, status: int) -> None:
        """Leave when the terminal has answered what it was asked last: a late answer would be typed into the shell."""
        if self._leaving:
            return
        self.status, self._leaving = status, True
        if self._pacer.waiting_since is None:
            self.exit()
        else:
            self.set_timer(_LAST_ANSWER_S, self.exit)

    def _handle_exception(self, error: Exception) -> None:
        self.error = self.error or error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Leave without Textual's own report, which prints the values of variables: `view` raises the error."""
        self._close_messages_no_wait()

    # ---- frames

    def _tick(self) -> None:
        """One beat of the frame clock: take what came, and draw if the terminal keeps up."""
        if self._leaving:
            return
        try:
            came = self._source.poll()
        except PhasetopError as error:
            self.error = error
            self._leave(EXIT_FAILED)
            return
        now = time.monotonic()
        if self._message is not None and now >= self._message[1]:
            self._message, self._changed = None, True
        self._changed = self._changed or came
        idle = self._frozen_at is not None or (self.shown is not None and not self.shown.running)
        if idle and not self._changed and now - self._drawn_at < 0.5:
            return
        if self._pacer.may_draw(now):
            self._draw()

    def _draw(self) -> None:
        """Compute the frame, paint it, and hand what changed to the terminal."""
        if self._leaving:
            return
        width, height = self.size
        plan = layout(width, height)
        canvas = Canvas(width, height, self._look)
        rects = []
        if plan is not None:
            if self._view.zoomed:
                plan = zoomed(plan)
            rects = tiles(plan)
            cursor = self._frozen_at if self._frozen_at is not None else self._source.now()
            frame = self._maker.frame(cursor, plan, self._current_view(plan))
            self.shown = frame
            if self._page is None:
                self.failures = {**frame.failed, **paint(canvas, frame, plan)}
            else:
                self._paint_page(canvas, frame, plan)
        with self.batch_update():
            drawn = self._board.show(canvas, rects)
        self._changed = False
        self._drawn_at = time.monotonic()
        self._ask_terminal = self._ask_terminal or (drawn > 0 and not self.is_headless)

    def _current_view(self, plan: Layout) -> View:
        text, caret = self._line.shown(max(1, plan.width - 7))
        if self._asking and plan.ask is not None:
            self.cursor_position = self.cursor_position.__class__(6 + caret, plan.ask.y)
        self._view = replace(
            self._view,
            frozen=self._frozen_at is not None,
            kept=self._lifeline.kept if self._lifeline is not None else None,
            message=self._message[0] if self._message is not None else None,
            ask=AskLine(text, caret, self._asking),
            failed=bool(self.failures),
        )
        return self._view

    def _paint_page(self, canvas: Canvas, frame: Frame, plan: Layout) -> None:
        assert self._page is not None
        kind, top = self._page
        area = canvas.area(0, 0, plan.width, plan.height)
        if plan.header is not None:
            header.paint(area.area(0, 0, plan.width, 1), frame)
        body = area.area(0, plan.headline.y, plan.width, plan.height - plan.headline.y - 1)
        match kind:
            case "help":
                pages.paint_help(body, frame)
            case "log":
                pages.paint_lines(body, "notices", pages.log_lines(self._source.session, frame), top)
            case "error":
                pages.paint_lines(body, "what failed", pages.error_lines(self.failures), top)
        footer.paint_keys(area.area(0, plan.height - 1, plan.width, 1), frame, "page")

    def post_display_hook(self) -> None:
        """A frame went out: ask the terminal to say when it has shown it."""
        if self._ask_terminal and not self._batch_count and self._driver is not None:
            self._ask_terminal = False
            if self._pacer.drew(time.monotonic()):
                self._driver.write("\x1b[6n")

    def on_cursor_position(self) -> None:
        """The terminal has shown the last frame."""
        self._pacer.answered()
        if self._leaving:
            self.exit()

    # ---- input

    @property
    def screen_name(self) -> Screen:
        """Where keys go now."""
        return "page" if self._page is not None else "ask" if self._asking else "live"

    async def on_event(self, event: events.Event) -> None:
        """Keys never reach Textual's own bindings."""
        if isinstance(event, events.Key):
            self._key(event)
        else:
            await super().on_event(event)

    def _key(self, event: events.Key) -> None:
        name, screen = event.key, self.screen_name
        if self.shown is None or self._leaving:
            if name in ("q", "ctrl+c"):
                self._leave(EXIT_OK if name == "q" else EXIT_INTERRUPTED)
            return
        if screen == "live" and name == "escape" and self._view.zoomed:
            self.do_zoom()
        elif (key := lookup(screen, name, footer.situation(self.shown))) is not None and key.does != "edit":
            self._do(key, name)
        elif screen == "ask" and not self._line.key(name) and event.character and event.is_printable:
            self._line.insert(event.character)
        self._changed = True
        if self._pacer.may_draw(time.monotonic()):
            self._draw()

    def _do(self, key: Key, name: str) -> None:
        action = getattr(self, f"do_{key.does}")
        if key.does == "turn":
            action(-1 if name == "left_square_bracket" else 1)
        else:
            action()

    def on_paste(self, event: events.Paste) -> None:
        """A paste goes to the ask line."""
        if self._lifeline is not None and self._page is None:
            self._asking = True
            self._line.insert(event.text)
            self._changed = True

    def on_mouse_scroll_up(self) -> None:
        """The wheel scrolls the text."""
        self._scroll(-3)

    def on_mouse_scroll_down(self) -> None:
        """The wheel scrolls the text."""
        self._scroll(3)

    # ---- actions, by their names in the key table

    def say(self, text: str) -> None:
        """Put a message on the notice row for some seconds."""
        self._message = (text, time.monotonic() + MESSAGE_S)
        self._changed = True

    def do_freeze(self) -> None:
        """Let the cursor stand, or go on with the present."""
        self._frozen_at = self._source.now() if self._frozen_at is None else None

    def do_escape(self) -> None:
        """End the running reply."""
        if self._lifeline is not None and self.shown is not None and self.shown.r is not None:
            self._lifeline.cancel(self.shown.r)

    def do_interrupt(self) -> None:
        """ctrl-C: end the running reply; twice: leave."""
        now = time.monotonic()
        if now - self._interrupted_at < TWICE_S:
            self._leave(EXIT_INTERRUPTED)
            return
        self._interrupted_at = now
        if self.shown is not None and self.shown.running and self._lifeline is not None:
            self.do_escape()
            self.say("the reply was ended; ctrl-c again quits")
        else:
            self.say("ctrl-c again quits")

    def do_suspend(self) -> None:
        """ctrl-Z: back to the shell for a while."""
        self.action_suspend_process()

    def do_quit(self) -> None:
        """Leave."""
        self._leave(final_status(self._source))

    def do_colour(self) -> None:
        """The next meaning of the tokens' colours."""
        self._view = replace(self._view, colour=COLOURS[(COLOURS.index(self._view.colour) + 1) % len(COLOURS)])

    def do_zoom(self) -> None:
        """Give the text all the room, or take it back."""
        self._view = replace(self._view, zoomed=not self._view.zoomed)

    def do_keep(self) -> None:
        """Keep the recording."""
        if self._lifeline is not None:
            try:
                self.say(f"kept as {self._lifeline.keep(None)}")
            except PhasetopError as error:
                self.say(str(error))

    def do_turn(self, step: int) -> None:
        """Show the turn before or after."""
        runs = list(self._source.session.runs)
        if self.shown is None or self.shown.r not in runs:
            return
        at = runs.index(self.shown.r) + step
        if 0 <= at < len(runs):
            self._view = replace(self._view, turn=None if at == len(runs) - 1 else runs[at], top=None)

    def do_follow(self) -> None:
        """Show the newest text."""
        self._view = replace(self._view, top=None)

    def do_home(self) -> None:
        """Show the first text."""
        self._scroll(-(10**9))

    def do_up(self) -> None:
        """Scroll up by a row."""
        self._scroll(-1)

    def do_down(self) -> None:
        """Scroll down by a row."""
        self._scroll(1)

    def do_page_up(self) -> None:
        """Scroll up by a page."""
        self._scroll(-max(1, len(self.shown.page.rows) - 1) if self.shown else 0)

    def do_page_down(self) -> None:
        """Scroll down by a page."""
        self._scroll(max(1, len(self.shown.page.rows) - 1) if self.shown else 0)

    def _scroll(self, step: int) -> None:
        """Move the text's first row; at the end it follows again."""
        if self.shown is None or self.shown.page_kind != "reply":
            return
        page = self.shown.page
        end = max(0, page.total - len(page.rows))
        top = (end if self._view.top is None else self._view.top) + step
        self._view = replace(self._view, top=None if top >= end else max(0, top))
        self._changed = True

    def do_ask(self) -> None:
        """Keys go to the ask line."""
        self._asking = True

    def do_leave(self) -> None:
        """Keys go to the view again; what was typed stays."""
        self._asking = False

    def do_send(self) -> None:
        """Send what was typed."""
        text = self._line.take()
        if self._lifeline is None or not text.strip():
            return
        self._lifeline.ask(text)
        self._asking, self._frozen_at = False, None
        self._view = replace(self._view, turn=None, top=None)

    def do_help(self) -> None:
        """The keys."""
        self._page = ("help", 0)

    def do_log(self) -> None:
        """The notices."""
        self._page = ("log", 0)

    def do_error(self) -> None:
        """What failed."""
        self._page = ("error", 0)

    def do_back(self) -> None:
        """Leave the page."""
        self._page = None

    def do_page_on(self) -> None:
        """Scroll the page down."""
        if self._page is not None:
            self._page = (self._page[0], self._page[1] + 5)

    def do_page_back(self) -> None:
        """Scroll the page up."""
        if self._page is not None:
            self._page = (self._page[0], max(0, self._page[1] - 5))


def final_status(source: Source) -> int:
    """0, or 1 where the last request ended in an error or was cut."""
    run = source.session.last_run()
    end = run.ends.last() if run is not None else None
    return EXIT_FAILED if end is not None and end.finish in ("error", "cut") else EXIT_OK


def _leave_by_force_after(patience_s: float, status: int) -> None:
    """End the process with its terminal restored, if it has not ended by then (a terminal that takes nothing more)."""

    def leave() -> None:
        try:
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, terminal.RESET.encode())
        finally:
            os._exit(status)

    timer = threading.Timer(patience_s, leave)
    timer.daemon = True
    timer.start()
