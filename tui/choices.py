"""What a person chose to see, and whom the view may ask: what all parts of the controls share."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from phasetop.tui.source import Lifeline, Source
from phasetop.tui.view import View

if TYPE_CHECKING:
    from phasetop.tui import pages
    from phasetop.tui.frame import Frame

MESSAGE_S: Final = 8.0
"""A message of the view's own stands so long."""


class Choices:
    """The state that keys change.

    Args:
        source: the session that is shown.
        lifeline: whom to ask and to cancel; None: read-only.
        title: the name of what is replayed or watched.
        clock: seconds of a steady clock.

    """

    def __init__(
        self,
        source: Source,
        lifeline: Lifeline | None,
        *,
        title: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.page: tuple[pages.Kind, int] | None = None
        self.page_scrolls = False  # there is more of it than fits
        self.shown: Frame | None = None  # the newest frame
        self.changed = True
        self.frozen_at: int | None = None  # where the cursor stands; None: at the present
        self._source = source
        self._lifeline = lifeline
        self._clock = clock
        self._view = View(title=title, steers=lifeline is not None)
        self._message: tuple[str, float] | None = None

    def say(self, text: str) -> None:
        """Put a message on the notice row for some seconds."""
        self._message = (text, self._clock() + MESSAGE_S)
        self.changed = True
