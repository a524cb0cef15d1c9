"""What keys do with requests: the ask line, earlier prompts, the same prompt again, a key that the server wants."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from msgspec.structs import replace

from phasetop.faults import PhasetopError
from phasetop.figures import count
from phasetop.session import Session
from phasetop.tui.choices import Choices
from phasetop.tui.lineedit import LineEdit
from phasetop.tui.source import Lifeline, Source
from phasetop.tui.view import AskLine
from phasetop.tui.writing import Writing

KEY_NEEDED: Final = "key-needed"
KEY_HINT: Final = "the server wants an API key: a types it, enter sends it"
KEY_TYPING: Final = "the server's API key; it is shown and kept nowhere"
LABEL_CELLS: Final = 6
"""Before the text: a margin, ``ask`` or ``key``, a blank and the caret's line."""


class Asking(Choices, Writing):
    """The keys of the ask line; see `Choices` for what is shared."""

    def __init__(
        self,
        source: Source,
        lifeline: Lifeline | None,
        *,
        title: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        asking: bool = False,
        earlier: Iterable[str] = (),
        edit: Callable[[str], str] | None = None,
    ) -> None:
        super().__init__(source, lifeline, title=title, clock=clock)
        self.asking = asking
        self.line = LineEdit(_history=list(earlier))
        self.secret = LineEdit()  # an API key that is being typed
        self._edit = edit
        self._key_told = False
        self._again: tuple[int, bool] | None = None  # the newest request before a repetition; may it use the cache

    @property
    def keying(self) -> bool:
        """Whether the line takes an API key, since the server refused to answer without."""
        return self._lifeline is not None and key_needed(self._source.session)

    def ask_line(self, width: int) -> AskLine:
        """The line as it is drawn on a screen of ``width`` columns."""
        room = max(1, width - LABEL_CELLS - 1)
        if not self.keying:
            text, caret = self.line.shown(room)
            return AskLine(text, caret, self.asking)
        text, caret = LineEdit("•" * len(self.secret.text), self.secret.caret).shown(room)
        return AskLine(text, caret, self.asking, label="key", hint=KEY_TYPING if self.asking else KEY_HINT)

    def type(self, name: str, character: str | None) -> None:
        """A key for the line: an editing key by name, else the character that it types."""
        line = self.secret if self.keying else self.line
        if self.keying and name in ("up", "down"):
            return
        if not line.key(name) and character:
            line.insert(character)

    def paste(self, text: str) -> None:
        """A paste goes to the line, whatever has the keys (but a page)."""
        if self._lifeline is None or self.page is not None:
            return
        self.asking, self.changed = True, True
        if self.keying:
            self.secret.insert("".join(text.split()))
        else:
            self.line.insert(text)

    def told(self) -> None:
        """Time went on: say what became of a repetition as soon as it is known how much of the prompt was cached.

        And say once that a key is wanted: where the screen is short, the line that says it is not there.
        """
        if self.keying != self._key_told:
            self._key_told = not self._key_told
            if self._key_told:
                self.say(KEY_HINT)
        shown = self.shown
        if self._again is None or shown is None or shown.r is None or shown.measures is None or shown.r <= self._again[0]:
            return
        tokens = shown.measures.tokens
        begun = shown.measures.latency.ttft_ns is not None
        if tokens.cached is not None and tokens.prompt is not None and begun:
            self.say(again_words(tokens.cached, tokens.prompt, cache=self._again[1]))
        elif shown.running:
            return
        elif shown.state == "done":
            self.say("the same prompt again; the server does not tell how much of it was cached")
        self._again = None

    # ---- actions

    def do_ask(self) -> None:
        """Keys go to the ask line."""
        self.asking = True

    def do_leave(self) -> None:
        """Keys go to the view again; what was typed stays, but for a key."""
        self.asking = False
        self.secret = LineEdit()

    def do_send(self) -> None:
        """Send what was typed, and show what comes of it."""
        if self._lifeline is None:
            return
        if self.keying:
            self._send_key(self._lifeline)
            return
        text = self.line.take()
        if text.strip():
            self._lifeline.ask(text)
            self._newest()

    def _send_key(self, lifeline: Lifeline) -> None:
        key = self.secret.text.strip()
        self.secret = LineEdit()
        if not key:
            return
        lifeline.set_key(key)
        run = self._source.session.last_run()
        if run is not None:
            lifeline.again(run.r, cache=True)
        self._newest()

    def do_again(self) -> None:
        """Ask what was asked last once more."""
        self._repeat(cache=True)

    def do_afresh(self) -> None:
        """Ask it once more without the server's prompt cache."""
        self._repeat(cache=False)

    def _repeat(self, *, cache: bool) -> None:
        r = self.shown.r if self.shown is not None else None
        if self._lifeline is None or r is None:
            return
        try:
            self._lifeline.again(r, cache=cache)
        except PhasetopError as error:
            self.say(str(error))
            return
        self._again = (max(self._source.session.runs), cache)
        self._newest()

    def _newest(self) -> None:
        """Show what comes now."""
        self.asking = False
        self.frozen_at = None
        self._view = replace(self._view, turn=None, top=None)


def key_needed(session: Session) -> bool:
    """Whether the server refused for want of a key, and none was given since."""
    wanted = next((n.t for n in reversed(session.notices.items) if n.code == KEY_NEEDED), None)
    if wanted is None:
        return False
    given = next((c.t for c in reversed(session.controls.items) if c.op == "set" and c.ok), None)
    return given is None or given < wanted


def again_words(cached: int, prompt: int, *, cache: bool) -> str:
    """What became of the same prompt asked once more."""
    new = prompt - cached
    read = f"{count(new)} token{' was' if new == 1 else 's were'} read anew"
    if cache or cached:
        what = "the same prompt again" if cache else "the server used its cache all the same"
        return f"{what}: cached {count(cached)} of {count(prompt)}, so {read}"
    return f"the same prompt without the cache: all {read}"
