"""The ask line: a text of one line under a caret, with the prompts before it. Pure; keys come in by name."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from phasetop.tui.wrap import char_width, text_width

_BLANKS: Final = " \t\n"


class LineEdit(Struct):
    """What is typed. Pasted line breaks stay in the text; `shown` draws a text of several lines as ``12 lines``."""

    text: str = ""
    caret: int = 0
    _history: list[str] = field(default_factory=list)
    _at: int | None = None  # the place in the history; None: the text is new
    _draft: str = ""

    def insert(self, text: str) -> None:
        r"""Type or paste at the caret. Line ends become ``\n``; other control characters are left out."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        text = "".join(char for char in text if char in "\n\t" or char.isprintable() or ord(char) > 0x9F)
        self.text = self.text[: self.caret] + text + self.text[self.caret :]
        self.caret += len(text)

    def key(self, name: str) -> bool:
        """Obey an editing key; False where it is none."""
        match name:
            case "left":
                self.caret = max(0, self.caret - 1)
            case "right":
                self.caret = min(len(self.text), self.caret + 1)
            case "home" | "ctrl+a":
                self.caret = 0
            case "end":
                self.caret = len(self.text)
            case "ctrl+left" | "alt+b" | "alt+left":
                self.caret = self._word_left()
            case "ctrl+right" | "alt+f" | "alt+right":
                self.caret = self._word_right()
            case "backspace":
                self._cut(max(0, self.caret - 1), self.caret)
            case "delete" | "ctrl+d":
                self._cut(self.caret, min(len(self.text), self.caret + 1))
            case "ctrl+w" | "alt+backspace" | "ctrl+backspace":
                self._cut(self._word_left(), self.caret)
            case "ctrl+u":
                self._cut(0, self.caret)
            case "ctrl+k":
                self._cut(self.caret, len(self.text))
            case "up":
                self._recall(-1)
            case "down":
                self._recall(1)
            case _:
                return False
        return True

    def take(self) -> str:
        """The text, which goes to the history; the line is empty after it."""
        text = self.text
        if text.strip() and (not self._history or self._history[-1] != text):
            self._history.append(text)
        self.text, self.caret, self._at, self._draft = "", 0, None, ""
        return text

    def shown(self, width: int) -> tuple[str, int]:
        """What of the text stands in ``width`` columns, and the caret's column; its end is in sight where the caret is."""
        if "\n" in self.text:
            text = f"{self.text.count(chr(10)) + 1} lines"
            return text[:width], min(width - 1, len(text))
        text = self.text.replace("\t", " ")
        left = text[: self.caret]
        start = 0
        while text_width(left[start:]) > max(0, width - 1):
            start += 1
        out, room = "", width
        for char in text[start:]:
            room -= char_width(char)
            if room < 0:
                break
            out += char
        return out, text_width(left[start:])

    def _cut(self, start: int, end: int) -> None:
        self.text = self.text[:start] + self.text[end:]
        self.caret = start

    def _word_left(self) -> int:
        at = self.caret
        while at > 0 and self.text[at - 1] in _BLANKS:
            at -= 1
        while at > 0 and self.text[at - 1] not in _BLANKS:
            at -= 1
        return at

    def _word_right(self) -> int:
        at, end = self.caret, len(self.text)
        while at < end and self.text[at] in _BLANKS:
            at += 1
        while at < end and self.text[at] not in _BLANKS:
            at += 1
        return at

    def _recall(self, step: int) -> None:
        """Earlier prompts upwards, the draft at the lower end."""
        if not self._history:
            return
        if self._at is None:
            if step > 0:
                return
            self._draft, self._at = self.text, len(self._history)
        self._at = max(0, self._at + step)
        if self._at >= len(self._history):
            self._at, self.text = None, self._draft
        else:
            self.text = self._history[self._at]
        self.caret = len(self.text)
