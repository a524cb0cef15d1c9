"""The live view: `view` shows a source until the person leaves, and returns the exit status.

All drawing is pure (`frame`, `painter`), what keys do is in `controls`; the app turns a clock into frames. How the terminal
is asked before and given back after, however the process ends, is in `running`.
"""

from __future__ import annotations

from phasetop.tui.lean import App, ComposeResult  # isort: skip - before anything of Textual's, and asyncio

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace
from textual import events
from textual.geometry import Offset

from phasetop.faults import EXIT_FAILED, EXIT_HUNG_UP, EXIT_OK, EXIT_TERMINATED, PhasetopError
from phasetop.tui import footer
from phasetop.tui.board import Board
from phasetop.tui.cells import Canvas
from phasetop.tui.controls import Controls
from phasetop.tui.driver import TerminalDriver
from phasetop.tui.failure import Failure
from phasetop.tui.keys import Key, keys_of
from phasetop.tui.layout import Layout, Rect, layout, page_rect, zoomed
from phasetop.tui.pacing import Pacer
from phasetop.tui.running import Options, Terms, leave_by_force, run_app
from phasetop.tui.source import Lifeline, Source
from phasetop.tui.theme import Look, Theme
from phasetop.tui.tiling import tiles
from phasetop.tui.view import View

if TYPE_CHECKING:
    from phasetop.tui.frame import Frame, FrameMaker

IDLE_S: Final = 0.5
"""What does not run is looked at this often."""
SETTLED_S: Final = 0.3
"""After a resize everything is drawn again when so long none followed: terminals lose cells meanwhile."""
_LAST_ANSWER_S: Final = 1.0
_LAST_RESORT_S: Final = 3.0


def _controls(options: Options) -> Callable[..., Controls]:
    """What makes the controls: a replay has its own, loaded for it alone."""
    if options.replay is None:
        return Controls
    from phasetop.tui.replaying import replay_controls

    return replay_controls(options.replay)


def view(source: Source, *, lifeline: Lifeline | None = None, options: Options | None = None) -> int:
    """Show ``source`` on the terminal until the person leaves.

    Stdin, stdout and stderr must be terminals (the caller sees to that).

    Args:
        source: the session, growing or not.
        lifeline: whom to ask and to cancel; None for a replay or a watched session.
        options: how to show it.

    Returns:
        0; 1 where the last request ended in an error or was cut; 130 after ctrl-C twice; 143 after SIGTERM; 129 after
        SIGHUP (then stdin, stdout and stderr lead nowhere).

    Raises:
        PhasetopError: the source cannot be read on.
        Exception: the view itself broke; the terminal is restored before.

    """
    options = options or Options()
    return run_app(lambda look, terms: ViewApp(source, lifeline, options, look, terms), options, lifeline)


class ViewApp(App[None], inherit_bindings=False):
    """The frame clock, the signals, and the way in for keys; see `view`."""

    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    CSS = "Screen { background: ansi_default; }"

    def __init__(
        self,
        source: Source,
        lifeline: Lifeline | None,
        options: Options,
        look: Look,
        terms: Terms | None = None,
    ) -> None:
        super().__init__(driver_class=TerminalDriver, ansi_color=True)
        self.status = EXIT_OK
        self.error: Exception | None = None
        self.failures: dict[str, Failure] = {}
        terms = terms or Terms()
        self._options = options
        self._remote, self._facts = terms.remote, terms.facts
        self._own = self._look = look  # what the terminal is, and what is worn
        self.take_up(source, lifeline, options)
        self._hz = options.hz or terms.hz
        self._board = Board(look)
        self._pacer = Pacer(terms.paced)
        self._drawn_at = 0.0
        self._ask_terminal = False
        self._leaving = False
        self._last_resort: threading.Timer | None = None
        self._modes_before: list[Any] = []

    def take_up(self, source: Source, lifeline: Lifeline | None, options: Options) -> None:
        """Show this session from now on."""
        no_request = lifeline is not None and not source.session.runs
        self._source, self._taken_up = source, (source.session, lifeline, options)
        self._maker: FrameMaker | None = None  # made at the first frame: the start screen has none
        self.controls = _controls(options)(
            source,
            lifeline,
            leave=self._leave,
            suspend=self.action_suspend_process,
            title=options.title,
            asking=no_request if options.ask is None else options.ask and lifeline is not None,
            earlier=options.earlier,
            edit=self._edit,
            palette=self.open_palette,
            redraw=self._redraw,
            remote=self._remote,
            terminal=self._facts,
        )
        self.controls.copy = self._to_terminal
        self.controls.restore(options.memory, self._turn_theme)

    @property
    def shown(self) -> Frame | None:
        """The newest frame."""
        return self.controls.shown

    @property
    def text(self) -> str:
        """What is on the screen, without colours."""
        return self._board.canvas.text()

    # ---- life

    def compose(self) -> ComposeResult:
        """The board, and nothing else."""
        yield self._board

    def on_mount(self) -> None:
        """Start the frame clock and take the signals."""
        self.set_interval(1 / self._hz, self._tick)
        if not self.is_headless and isinstance(self._driver, TerminalDriver):
            self._modes_before = self._driver.attrs_before or []
            loop = asyncio.get_running_loop()

            def lost() -> None:
                loop.call_soon_threadsafe(self._obey_signal, EXIT_HUNG_UP)

            self._driver.lost = lost
            for number, status in ((signal.SIGTERM, EXIT_TERMINATED), (signal.SIGHUP, EXIT_HUNG_UP)):
                loop.add_signal_handler(number, self._obey_signal, status)
            loop.add_signal_handler(signal.SIGINT, self._press, "ctrl+c", None)

    def on_ready(self) -> None:
        """The first picture."""
        self._tick()
        if self._options.painted is not None:
            self.call_after_refresh(self._options.painted)
        self.call_after_refresh(self._look_ahead, self.controls.ahead())

    def _look_ahead(self, moments: list[int]) -> None:
        """Make pictures that nobody sees, one between two others: what is kept of them makes each seek cheap."""
        plan = layout(*self.size, scrub=self.controls.scrubs)
        if plan is not None and moments and self._maker is not None and not self._leaving:
            self._maker.frame(moments[0], plan, View())
            self.call_later(self._look_ahead, moments[1:])

    def on_resize(self) -> None:
        """Draw at the new size at once, and everything again when it has settled."""
        self.controls.changed = True
        shown = self._board.canvas
        if self.size != (shown.width, shown.height):  # Textual tells a size twice
            self._draw()
        self.set_timer(SETTLED_S, self._redraw)

    def on_app_resume(self) -> None:
        """Back from ctrl-Z: the screen holds something else."""
        self._pacer.waiting_since = None
        self._redraw()

    def _redraw(self) -> None:
        """Send everything again, whatever stands there."""
        if isinstance(self._driver, TerminalDriver):
            self._driver.forget()
        self._board.redraw()

    def _edit(self, text: str) -> str:
        """Hand a text to the person's editor, which has the terminal meanwhile; nothing is drawn until it ends."""
        from phasetop import editor

        command = editor.command_of(os.environ)
        with self.suspend():
            try:
                return editor.edit(text, command)
            finally:
                self._pacer.waiting_since = None
                self._redraw()

    def _to_terminal(self, sequence: str) -> None:
        """Hand a sequence to the terminal, between frames."""
        if self._driver is not None:
            self._driver.write(sequence)

    def _turn_theme(self) -> Theme:
        """The other theme, from the next frame on."""
        theme: Theme = "light" if self._look.theme == "dark" else "dark"
        self._look = self._own if theme == self._own.theme else replace(self._own, theme=theme, painted=True, _styles={})
        self._board.wear(self._look)
        return theme

    def _obey_signal(self, status: int) -> None:
        """Leave with this status; by force, if the terminal takes nothing more."""
        if self._leaving and self._last_resort is not None:
            return
        self.status, self._leaving = status, True
        self._last_resort = threading.Timer(_LAST_RESORT_S, leave_by_force, (status, self._modes_before))
        self._last_resort.daemon = True
        self._last_resort.start()
        self.exit()

    def ended(self) -> None:
        """The terminal is restored: nothing has to be forced, and how the view was left can be written down."""
        self.controls.remember()
        if self._last_resort is not None:
            self._last_resort.cancel()

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
        if self._leaving or len(self.screen_stack) > 1:
            return
        controls = self.controls
        try:
            came = self._source.poll()
        except PhasetopError as error:
            self.error = error
            self._leave(EXIT_FAILED)
            return
        session, lifeline, options = self._taken_up
        if self._source.session is not session:  # the watched file was replaced
            self.take_up(self._source, lifeline, options)
            controls = self.controls
        controls.tick()
        controls.changed = controls.changed or came
        now = time.monotonic()
        if controls.idle and not controls.changed and now - self._drawn_at < IDLE_S:
            return
        if self._pacer.may_draw(now):
            self._draw()

    def _draw(self) -> None:
        """Compute the frame, paint it, and hand what changed to the terminal."""
        if self._leaving:
            return
        width, height = self.size
        canvas = Canvas(width, height, self._look)
        cards = self.controls.shown.cards if self.controls.shown is not None else 1
        plan = layout(width, height, cards, scrub=self.controls.scrubs)
        rects: list[Rect] = []
        if plan is not None:
            from phasetop.tui.frame import FrameMaker
            from phasetop.tui.painter import paint

            self._maker = self._maker or FrameMaker(self._source.session)
            if (pane := self.controls.zoom) is not None:
                plan = zoomed(plan, pane)
            rects = tiles(plan)
            frame = self._maker.frame(self.controls.cursor, plan, self.controls.view(plan, failed=bool(self.failures)))
            self.controls.shown = frame
            if self.controls.page is None:
                self.failures = {**frame.failed, **paint(canvas, frame, plan)}
            else:
                self._paint_page(canvas, frame, plan)
            if frame.view.ask.focused and plan.ask is not None:  # where input methods show what is typed
                self._put_cursor(plan.ask.x + 6 + frame.view.ask.caret, plan.ask.y)
        self.controls.changed = False
        self.put(canvas, rects)

    def _put_cursor(self, x: int, y: int) -> None:
        self.cursor_position = Offset(x, y)

    def put(self, canvas: Canvas, rects: list[Rect]) -> None:
        """Hand a canvas to the terminal, cut into tiles."""
        with self.batch_update():
            drawn = self._board.show(canvas, rects)
        self._drawn_at = time.monotonic()
        self._ask_terminal = self._ask_terminal or (drawn > 0 and not self.is_headless)

    def _paint_page(self, canvas: Canvas, frame: Frame, plan: Layout) -> None:
        from phasetop.tui import header, pages

        assert self.controls.page is not None
        kind, top = self.controls.page
        if plan.header is not None:
            header.paint(canvas.area(0, 0, plan.width, 1), frame)
        at = page_rect(plan)
        body = canvas.area(at.x, at.y, at.width, at.height)
        self.failures.update(
            pages.paint(kind, body, frame, self._source.session, self.failures, top, self.controls.settle_page)
        )
        row = canvas.area(0, plan.height - 1, plan.width, 1)
        footer.paint_keys(row, frame, self.controls.screen, scrolls=self.controls.page_scrolls)

    def post_display_hook(self) -> None:
        """A frame went out: ask the terminal to say when it has shown it."""
        if self._ask_terminal and not self._batch_count and self._driver is not None:
            self._ask_terminal = False
            if self._pacer.drew(time.monotonic()):
                self._driver.write("\x1b[6n")

    # ---- input

    async def on_event(self, event: events.Event) -> None:
        """Keys never reach Textual's own bindings; the terminal's answers pace the frames."""
        if isinstance(event, events.Key) and len(self.screen_stack) == 1:
            self._press(event.key, event.character if event.is_printable else None)
        elif isinstance(event, events.CursorPosition):
            self._pacer.answered(time.monotonic())
            if self._leaving:
                self.exit()
        else:
            await super().on_event(event)

    def keys_here(self) -> list[Key]:
        """The keys that mean something now."""
        shown = self.controls.shown
        return [] if shown is None else keys_of(self.controls.home, footer.situation(shown))

    def open_palette(self) -> None:
        """Find a key by what it does."""
        from phasetop.tui.palette import palette

        self.push_screen(palette(self.keys_here(), lambda name: self._press(name, None)))

    def _press(self, name: str, character: str | None) -> None:
        if self._leaving:
            return
        self.controls.press(name, character)
        if self._pacer.may_draw(time.monotonic()):
            self._draw()

    def on_paste(self, event: events.Paste) -> None:
        """A paste goes to the ask line."""
        self.put_paste(event.text)

    def put_paste(self, text: str) -> None:
        """Take a pasted text."""
        self.controls.paste(text)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """A click puts the cursor on a token, or focuses a pane; with shift it selects up to there."""
        if event.button == 1:
            self._pointed(event, select=event.shift)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Dragging selects."""
        if event.button == 1:
            self._pointed(event, select=True)

    def on_mouse_up(self) -> None:
        """Nothing is dragged any more."""
        self.controls.release()

    def _pointed(self, event: events.MouseEvent, *, select: bool) -> None:
        self.controls.click(int(event.screen_x), int(event.screen_y), select=select)
        if self._pacer.may_draw(time.monotonic()):
            self._draw()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """The wheel scrolls what is under it, or moves it."""
        self.controls.wheel(int(event.screen_x), int(event.screen_y), 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """The wheel scrolls what is under it, or moves it."""
        self.controls.wheel(int(event.screen_x), int(event.screen_y), -1)
