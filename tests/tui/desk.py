"""Controls over a session at a moment, with a clock that the test moves; no terminal."""

from __future__ import annotations

from typing import Any

from phasetop import events as ev
from phasetop.session import Session
from phasetop.tui.controls import Controls
from phasetop.tui.frame import FrameMaker
from phasetop.tui.layout import layout, zoomed
from tests.tui.fabricate import Growing, Wire

NAMES = {" ": "space", "/": "slash"}


class Desk:
    """What a person sits at."""

    def __init__(
        self,
        session: Session,
        at: int,
        *,
        steers: bool = True,
        asking: bool = False,
        size: tuple[int, int] = (120, 36),
        source: Growing | None = None,
        events: list[ev.Event] | None = None,
        **more: Any,
    ) -> None:
        self.wire = Wire()
        self.left: list[int] = []
        self.time = 0.0
        self.size = size
        self.clock = [at]
        if source is None:
            source = Growing(list(events or []), self.clock)
            source.session = session
        self.controls = Controls(
            source,
            self.wire if steers else None,
            leave=self.left.append,
            asking=asking,
            clock=lambda: self.time,
            **more,
        )
        self._maker = FrameMaker(session)
        self.draw()

    def draw(self) -> None:
        """The next frame; what waited for it is done."""
        self._frame()
        self.controls.tick()
        self._frame()

    def _frame(self) -> None:
        plan = layout(*self.size)
        assert plan is not None
        if self.controls.zoom is not None:
            plan = zoomed(plan, self.controls.zoom)
        view = self.controls.view(plan, failed=False)
        self.controls.shown = self._maker.frame(self.controls.cursor, plan, view)

    def press(self, *keys: str) -> Desk:
        """Keys by name, or the characters that they type."""
        for key in keys:
            self.controls.press(NAMES.get(key, key), key if len(key) == 1 else " " if key == "space" else None)
            self.draw()
        return self

    @property
    def message(self) -> str | None:
        """What the view says."""
        shown = self.controls.shown
        return shown.view.message if shown is not None else None
