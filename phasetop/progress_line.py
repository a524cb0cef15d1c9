"""A task (a pull, a download) as one line on stderr, redrawn in place while it runs."""

from __future__ import annotations

import shutil
import sys

from phasetop import tasks
from phasetop.session import Session
from phasetop.visible import harmless

PULLS = "pull "
"""What the titles of pulls begin with."""


class ProgressLine:
    """Draws nothing where stderr is no terminal."""

    def __init__(self) -> None:
        self._shown = False
        self._text = ""

    def show(self, session: Session, task: int) -> None:
        """Draw the task, or where it has parts the part under way."""
        known = session.tasks.items
        whole = tasks.newest(known, task)
        parts = tasks.running(known, f"{whole.title}: ") if whole is not None and whole.title else []
        self.draw(tasks.text(known, parts[-1] if parts else task))

    def draw(self, text: str) -> None:
        """Draw a line, where it is another than the one that stands there."""
        if not sys.stderr.isatty() or text == self._text:
            return
        width = max(shutil.get_terminal_size().columns - 1, 20)
        self._write(f"\r\x1b[K{harmless(text, newlines=False)[:width]}")
        self._shown, self._text = True, text

    def follow(self, session: Session) -> None:
        """Draw a pull while one runs, and take it away after."""
        pulls = tasks.running(session.tasks.items, PULLS)
        if pulls:
            self.show(session, pulls[0])
        else:
            self.clear()

    def clear(self) -> None:
        """Take it away."""
        if self._shown:
            self._write("\r\x1b[K")
            self._shown, self._text = False, ""

    @staticmethod
    def _write(text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            pass  # words beside the result are no reason to stop
