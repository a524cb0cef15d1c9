"""The key that hands what is typed to the person's own editor: one for every ask line."""

from __future__ import annotations

from collections.abc import Callable

from phasetop.faults import PhasetopError
from phasetop.tui.lineedit import LineEdit


class Writing:
    """Who has an ask line; ``_edit`` hands a text to the editor and returns what it became, None: there is no way to."""

    line: LineEdit
    asking: bool
    _edit: Callable[[str], str] | None

    @property
    def keying(self) -> bool:
        """Whether the line takes a secret, which no file may hold."""
        return False

    def say(self, text: str) -> None:
        """Tell the person."""
        raise NotImplementedError

    def do_editor(self) -> None:
        """Write the prompt in an editor."""
        if self._edit is None or self.keying:
            return
        try:
            text = self._edit(self.line.text)
        except PhasetopError as error:
            self.say(str(error))
            return
        self.line.text, self.line.caret = "", 0
        self.line.insert(text)
        self.asking = True
