"""The state of the view itself: what a person chose to see. It changes nothing that is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from phasetop.knobs import Name, Values

if TYPE_CHECKING:
    from phasetop.alternatives import Alternative
    from phasetop.standing import Standing
    from phasetop.tui.layout import Pane
    from phasetop.tui.page import Colour
    from phasetop.tui.scrub import Scrub
    from phasetop.tui.terminal import Facts

Page = Literal["help", "log", "error", "turns", "info", "charts", "doctor", "roofline"]
"""The pages that can lie over the view."""


class AskLine(Struct, frozen=True):
    """The ask line as it is drawn: its text and caret as `lineedit` cut them; ``focused``: keys go there.

    ``label`` says what is typed, a prompt or a key; ``hint`` stands in the empty line (None: by the situation).
    """

    text: str = ""
    caret: int = 0
    focused: bool = False
    label: str = "ask"
    hint: str | None = None


class Sliders(Struct, frozen=True):
    """The roofline screen's: what was changed of the request, and which value the keys move."""

    changed: Values = field(default_factory=Values)
    chosen: Name = "output"


class View(Struct, frozen=True):
    """What is shown and how.

    Attributes:
        colour: what the tokens' colours mean.
        frozen: the cursor stands (and the stream goes on).
        top: the first row of the text that is shown; None follows the newest.
        turn: the request that is shown; None: the newest that the server has begun.
        focus: the pane that keys are about; None: the view as a whole.
        zoom: the pane that has all the room.
        sweep: the trace shows the last ten seconds.
        token: the token line under the cursor, of the request that is shown.
        anchor: the other end of a selection.
        alternatives: what each token of that line could have been, as far as the server told.
        pattern: what is searched for; "": nothing.
        search: the search line while one types in it.
        page: the page over the view.
        asked_for_probabilities: the next turn brings log-probabilities.
        steers: there is a collector to ask and to cancel.
        kept: where the recording is kept; None: nowhere yet.
        title: the name of what is replayed or watched; None: one's own live session.
        failed: a pane failed, and its error can be looked at.
        message: what the view itself has to say, on the notice row.
        offer: what one key would do about a failure, on the notice row.
        ask: the ask line.
        remote: the terminal is at the other end of a link, so that the clock goes by seconds.
        terminal: what was found of the terminal; None: nobody asked.
        sliders: of the roofline screen.
        standing: what is to be said of the link that the session comes by; None: nothing.
        scrub: where a replay is; None: this is none.
        time: the line for a time while one types in it.

    """

    colour: Colour = "gap"
    frozen: bool = False
    top: int | None = None
    turn: int | None = None
    focus: Pane | None = None
    zoom: Pane | None = None
    sweep: bool = False
    token: int | None = None
    anchor: int | None = None
    alternatives: tuple[tuple[Alternative, ...], ...] = ()
    pattern: str = ""
    search: AskLine | None = None
    page: Page | None = None
    asked_for_probabilities: bool = False
    steers: bool = False
    kept: str | None = None
    title: str | None = None
    failed: bool = False
    message: str | None = None
    offer: str | None = None
    ask: AskLine = field(default_factory=AskLine)
    remote: bool = False
    terminal: Facts | None = None
    sliders: Sliders = field(default_factory=Sliders)
    standing: Standing | None = None
    scrub: Scrub | None = None
    time: AskLine | None = None

    @property
    def stands(self) -> bool:
        """Whether the cursor stands: figures are those of its very moment then, not of the last beat before it."""
        return self.frozen or (self.scrub is not None and not self.scrub.playing and not self.scrub.following)

    @property
    def zoomed(self) -> bool:
        """Whether one pane has all the room."""
        return self.zoom is not None

    @property
    def selection(self) -> tuple[int, int]:
        """The tokens that are singled out, as [first, end): of the selection, or the one under the cursor."""
        if self.token is None:
            return (0, 0)
        if self.anchor is None:
            return (self.token, self.token + 1)
        return (min(self.anchor, self.token), max(self.anchor, self.token) + 1)
