"""The state of the view itself: what a person chose to see. It changes nothing that is measured."""

from __future__ import annotations

from dataclasses import dataclass, field

from phasetop.tui.page import Colour


@dataclass(frozen=True, slots=True)
class AskLine:
    """The ask line as it is drawn: its text and caret as `lineedit` cut them; ``focused``: keys go there.

    ``label`` says what is typed, a prompt or a key; ``hint`` stands in the empty line (None: by the situation).
    """

    text: str = ""
    caret: int = 0
    focused: bool = False
    label: str = "ask"
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class View:
    """What is shown and how.

    Attributes:
        colour: what the tokens' colours mean.
        frozen: the cursor stands (and the stream goes on).
        top: the first row of the text that is shown; None follows the newest.
        turn: the request that is shown; None: the newest.
        zoomed: the text has all the room.
        steers: there is a collector to ask and to cancel.
        kept: where the recording is kept; None: nowhere yet.
        title: the name of what is replayed or watched; None: one's own live session.
        failed: a pane failed, and its error can be looked at.
        message: what the view itself has to say, on the notice row.
        ask: the ask line.
        remote: the terminal is at the other end of a link, so that the clock goes by seconds.

    """

    colour: Colour = "gap"
    frozen: bool = False
    top: int | None = None
    turn: int | None = None
    zoomed: bool = False
    steers: bool = False
    kept: str | None = None
    title: str | None = None
    failed: bool = False
    message: str | None = None
    ask: AskLine = field(default_factory=AskLine)
    remote: bool = False
