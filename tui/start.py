"""The start screen's state and keys: what was found, what is chosen, the ask line. No Textual here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from msgspec import Struct

from phasetop.faults import EXIT_INTERRUPTED, EXIT_OK, PhasetopError
from phasetop.offers import Looked, Offer
from phasetop.tui.choices import MESSAGE_S
from phasetop.tui.keys import Screen, When, lookup
from phasetop.tui.lineedit import LineEdit
from phasetop.tui.source import Lifeline, Source
from phasetop.tui.view import AskLine
from phasetop.tui.writing import Writing

TWICE_S: Final = 3.0


class Begun(Protocol):
    """What was chosen, for the view to go on with."""

    @property
    def source(self) -> Source:
        """The session."""
        ...

    @property
    def lifeline(self) -> Lifeline | None:
        """Whom to ask; None: read-only."""
        ...

    @property
    def title(self) -> str | None:
        """The name of what is replayed or watched."""
        ...

    @property
    def asking(self) -> bool:
        """Whether the ask line has the keys."""
        ...


class Starter(Protocol):
    """Looks around, and begins what is chosen."""

    @property
    def looking(self) -> bool:
        """Whether an answer is still to come."""
        ...

    def poll(self) -> bool:
        """Take what came, without waiting; True when something did."""
        ...

    def offers(self) -> tuple[Offer, ...]:
        """What can be begun, the obvious first."""
        ...

    def looked_at(self) -> tuple[Looked, ...]:
        """Where was looked, and what was there."""
        ...

    def look_again(self) -> None:
        """Look around once more."""
        ...

    def launch(self) -> None:
        """Start the server that is installed but does not run."""
        ...

    def fetch(self) -> None:
        """Fetch the embedded engine's model."""
        ...

    @property
    def fetching(self) -> bool:
        """Whether it is being fetched."""
        ...

    def end_fetch(self) -> None:
        """Fetch it no further."""
        ...

    def begin(self, offer: Offer, prompt: str | None) -> Begun:
        """Begin it. Raises `PhasetopError` when it cannot be begun."""
        ...


class StartPicture(Struct, frozen=True):
    """What the start screen shows."""

    offers: tuple[Offer, ...]
    chosen: int  # the offer that enter begins; -1: none
    looked: tuple[Looked, ...]
    looking: bool
    more: bool  # the list has all the room
    ask: AskLine
    message: str | None
    situation: frozenset[When]

    @property
    def offer(self) -> Offer | None:
        """What enter begins."""
        return self.offers[self.chosen] if 0 <= self.chosen < len(self.offers) else None

    @property
    def askable(self) -> Offer | None:
        """To whom a prompt would go: what is chosen, else the first that takes one."""
        chosen = self.offer
        if chosen is not None and chosen.takes_prompt:
            return chosen
        return next((offer for offer in self.offers if offer.takes_prompt), None)


class StartControls(Writing):
    """Obeys keys on the start screen.

    Args:
        starter: who looks around and begins.
        begun: called with what was begun.
        leave: called with the exit status when the person leaves.
        suspend: called for ctrl-Z.
        earlier: the prompts of other times, oldest first.
        edit: hands a text to the person's editor.
        turn_theme: changes to the other theme.
        palette: finds a key by what it does.
        clock: seconds of a steady clock.

    """

    def __init__(
        self,
        starter: Starter,
        *,
        begun: Callable[[Begun], None],
        leave: Callable[[int], None],
        suspend: Callable[[], None] = lambda: None,
        earlier: Iterable[str] = (),
        edit: Callable[[str], str] | None = None,
        turn_theme: Callable[[], str] | None = None,
        palette: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.help = False
        self.asking = False
        self.more = False
        self.line = LineEdit(_history=list(earlier))
        self.changed = True
        self._starter = starter
        self._begun = begun
        self._leave = leave
        self._suspend = suspend
        self._edit = edit
        self._turn_theme = turn_theme
        self._palette = palette
        self._clock = clock
        self._chosen: tuple[str, str, str] | None = None  # by what it is: the list may change under it
        self._message: tuple[str, float] | None = None
        self._interrupted_at = -TWICE_S

    @property
    def screen(self) -> Screen:
        """Where keys go now."""
        return "page" if self.help else "ask" if self.asking else "start"

    def poll(self) -> None:
        """Take what came; a message that stood long enough goes."""
        if self._starter.poll():
            self.changed = True
            if self.asking:  # what takes the prompt may have come just now
                self._choose_askable()
        if self._message is not None and self._clock() >= self._message[1]:
            self._message, self.changed = None, True

    def say(self, text: str) -> None:
        """Put a message on the screen for some seconds."""
        self._message = (text, self._clock() + MESSAGE_S)
        self.changed = True

    def picture(self, width: int) -> StartPicture:
        """The screen as of now, ``width`` columns wide."""
        offers, looked = self._starter.offers(), self._starter.looked_at()
        cases: set[When] = {"always"}
        if offers:
            cases.add("offered")
        if len(offers) > 1:
            cases.add("several")
        keys = {row.key for row in looked}
        if "o" in keys:
            cases.add("launchable")
        if "g" in keys:
            cases.add("fetchable")
        if self._starter.fetching and not self.more:
            cases.add("fetching")
        text, caret = self.line.shown(max(1, width - 7))
        return StartPicture(
            offers,
            self._at(offers),
            looked,
            self._starter.looking,
            self.more,
            AskLine(text, caret, self.asking),
            self._message[0] if self._message is not None else None,
            frozenset(cases),
        )

    def _at(self, offers: tuple[Offer, ...]) -> int:
        """The place of what is chosen; the first where nothing was, or it is gone.

        As long as servers are looked for, a file is no default: enter would open it where a model comes the next moment.
        """
        if self._chosen is not None:
            for i, offer in enumerate(offers):
                if _name(offer) == self._chosen:
                    return i
        if not offers or (self._starter.looking and offers[0].path is not None):
            return -1
        return 0

    def press(self, name: str, character: str | None) -> None:
        """Obey a key: its name as Textual calls it, and the character that it types, if it does."""
        self.changed = True
        picture = self.picture(80)
        if self.screen == "start" and name == "escape" and self.more:
            self.more = False
        elif (key := lookup(self.screen, name, picture.situation)) is not None and key.does != "edit":
            getattr(self, f"do_{key.does}", _nothing)()
        elif self.screen == "ask" and not self.line.key(name) and character:
            self.line.insert(character)

    def paste(self, text: str) -> None:
        """A paste goes to the ask line."""
        if not self.help:
            if not self.asking:
                self.do_ask()
            self.changed = True
            self.line.insert(text)

    # ---- actions

    def do_begin(self) -> None:
        """Begin what is chosen, and type the prompt there."""
        self._begin(None)

    def do_send(self) -> None:
        """Begin what is chosen with the prompt that was typed."""
        if self.line.text.strip():
            self._begin(self.line.text)

    def _begin(self, prompt: str | None) -> None:
        offer = self.picture(80).offer
        if offer is None:
            self.say("still looking for models" if self._starter.looking else "there is nothing to run yet")
            return
        if offer.kind == "fetch":
            self._starter.fetch()
            return
        if prompt is not None and offer.path is not None:
            self.say(f"{offer.name} takes no prompt: choose a model with ↑ ↓")
            self.asking = False
            return
        try:
            self._begun(self._starter.begin(offer, prompt))
        except PhasetopError as error:
            self.say(str(error))

    def do_up(self) -> None:
        """Choose the one above."""
        self._move(-1)

    def do_down(self) -> None:
        """Choose the one below."""
        self._move(1)

    def _move(self, step: int) -> None:
        offers = self._starter.offers()
        if offers:
            self._chosen = _name(offers[max(0, min(len(offers) - 1, self._at(offers) + step))])

    def do_more(self) -> None:
        """Give the list all the room, or take it back."""
        self.more = not self.more

    def do_launch(self) -> None:
        """Start the server that is installed."""
        self._starter.launch()
        self.say("starting Ollama")

    def do_fetch(self) -> None:
        """Fetch the embedded engine's model."""
        self._starter.fetch()

    def do_end_fetch(self) -> None:
        """End the download."""
        self._starter.end_fetch()
        self.say("the download ends; what came of it is kept, and g goes on with it")

    def do_look(self) -> None:
        """Look around again."""
        self._starter.look_again()

    def do_ask(self) -> None:
        """Keys go to the ask line; where what is chosen takes no prompt, the first that does is chosen."""
        self._choose_askable()
        self.asking = True

    def _choose_askable(self) -> None:
        picture = self.picture(80)
        if (other := picture.askable) is not None and other is not picture.offer:
            self._chosen = _name(other)

    def do_leave(self) -> None:
        """Keys go to the screen again; what was typed stays."""
        self.asking = False

    def do_help(self) -> None:
        """The keys."""
        self.help = True

    def do_back(self) -> None:
        """Leave the page."""
        self.help = False

    def do_theme(self) -> None:
        """The other theme."""
        if self._turn_theme is not None:
            self._turn_theme()

    def do_palette(self) -> None:
        """Find a key by what it does."""
        self._palette()

    def do_interrupt(self) -> None:
        """ctrl-C: twice leaves."""
        now = self._clock()
        if now - self._interrupted_at < TWICE_S:
            self._leave(EXIT_INTERRUPTED)
            return
        self._interrupted_at = now
        self.say("ctrl-c again quits")

    def do_suspend(self) -> None:
        """ctrl-Z: back to the shell for a while."""
        self._suspend()

    def do_quit(self) -> None:
        """Leave."""
        self._leave(EXIT_OK)


def _nothing() -> None:
    """A key of a shared screen that means nothing here."""


def _name(offer: Offer) -> tuple[str, str, str]:
    return (offer.kind, offer.name, offer.where)
