"""The app that begins with the start screen and goes on with the view of what was chosen."""

from __future__ import annotations

import os
import time
from importlib import import_module
from typing import Final

from msgspec.structs import replace

from phasetop.session import Session
from phasetop.tui import startpage, terminal
from phasetop.tui.app import IDLE_S, ViewApp
from phasetop.tui.cells import Canvas
from phasetop.tui.keys import Key, keys_of
from phasetop.tui.layout import Rect
from phasetop.tui.running import Options, Terms, run_app
from phasetop.tui.start import Begun, StartControls, Starter
from phasetop.tui.theme import Look

_COLOUR_WORDS: Final = {"truecolor": "truecolor", "256": "256 colours", "16": "16 colours", "none": "no colours"}


class Nowhere:
    """The source before anything is begun."""

    live = False
    standing = None

    def __init__(self) -> None:
        self.session = Session()

    def poll(self) -> bool:
        """Nothing comes."""
        return False

    def alternatives(self, r: int, i: int) -> tuple[()]:  # noqa: ARG002
        """None of anything."""
        return ()

    def now(self) -> int:
        """The beginning."""
        return 0


def begin(starter: Starter, options: Options) -> int:
    """Show the start screen, then the view of what was chosen; returns the exit status as `view` does."""
    return run_app(lambda look, terms: StartApp(starter, options, look, terms), options, None)


class StartApp(ViewApp):
    """`ViewApp` with the start screen before it."""

    def __init__(self, starter: Starter, options: Options, look: Look, terms: Terms | None = None) -> None:
        super().__init__(Nowhere(), None, options, look, terms)
        self.start: StartControls | None = StartControls(
            starter,
            begun=self._begun,
            leave=self._leave,
            suspend=self.action_suspend_process,
            earlier=options.earlier,
            edit=self._edit,
            turn_theme=self._turn_theme,
            palette=self.open_palette,
        )

    def on_ready(self) -> None:
        """The first picture stands (Textual calls the handler of `ViewApp`, too): load what the view needs behind it."""
        self.call_after_refresh(import_module, "phasetop.tui.painter")

    def keys_here(self) -> list[Key]:
        """The keys that mean something now."""
        if self.start is None:
            return super().keys_here()
        return keys_of("start", self.start.picture(80).situation)

    def _begun(self, begun: Begun) -> None:
        """Go on with the view; its ask line knows the prompts that were typed here."""
        from phasetop.tui.player import Opening

        typed = self.start.line if self.start is not None else None
        self.start = None
        live = begun.source.live
        replay = Opening(end=live, word="watch" if live else "replay") if begun.lifeline is None else None
        options = replace(self._options, title=begun.title, ask=begun.asking, replay=replay)
        self.take_up(begun.source, begun.lifeline, options)
        if typed is not None:
            if not begun.asking:
                typed.take()
            self.controls.line = typed

    def _tick(self) -> None:
        if self.start is None:
            super()._tick()
            return
        if self._leaving or len(self.screen_stack) > 1:
            return
        self.start.poll()
        now = time.monotonic()
        if (self.start.changed or now - self._drawn_at >= 10 * IDLE_S) and self._pacer.may_draw(now):
            self._draw()

    def _draw(self) -> None:
        if self.start is None:
            super()._draw()
            return
        if self._leaving:
            return
        width, height = self.size
        canvas = Canvas(width, height, self._look)
        rects: list[Rect] = []
        if width >= 6 and height >= 2:
            rects = [Rect(0, 0, width, height)]
            picture = self.start.picture(width)
            if self.start.help:
                startpage.paint_help(canvas.area(0, 0, width, height))
            else:
                startpage.paint(canvas.area(0, 0, width, height), picture, self.start.screen, self._terminal())
            if picture.ask.focused:
                self._put_cursor(6 + picture.ask.caret, max(0, height - (2 if height < 14 else 3)))
        self.start.changed = False
        self.put(canvas, rects)

    def _terminal(self) -> str:
        width, height = self.size
        where = "over SSH" if terminal.is_remote(os.environ) else "local"
        return f"{_COLOUR_WORDS[self._look.depth]}, {width} × {height}, {where}"

    def _press(self, name: str, character: str | None) -> None:
        if self.start is None:
            super()._press(name, character)
            return
        if self._leaving:
            return
        self.start.press(name, character)
        if self._pacer.may_draw(time.monotonic()):
            self._draw()

    def put_paste(self, text: str) -> None:
        """A paste goes to the ask line, of the screen that is shown."""
        if self.start is None:
            super().put_paste(text)
        else:
            self.start.paste(text)

    def on_resize(self) -> None:
        """Draw at the new size, which the handler of `ViewApp` does: Textual calls both."""
        if self.start is not None:
            self.start.changed = True
