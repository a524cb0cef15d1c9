"""The keys and the mouse on the roofline screen: which value is chosen, and how the chosen one is moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from phasetop.knobs import COARSE, NAMES, Name, Values
from phasetop.tui.choices import Choices
from phasetop.tui.layout import Rect

if TYPE_CHECKING:
    from phasetop.what_if import Own


class Sliding(Choices):
    """What keys and the mouse do on the roofline screen."""

    held: Name | None = None
    """The slider that the mouse took up."""

    def do_slider(self, step: int) -> None:
        """Choose the slider below (1) or above (-1)."""
        sliders = self._view.sliders
        at = (NAMES.index(sliders.chosen) + step) % len(NAMES)
        self._view = replace(self._view, sliders=replace(sliders, chosen=NAMES[at]))

    def do_slide(self, step: int) -> None:
        """Move the chosen value a step up (1) or down (-1)."""
        from phasetop.what_if import moved  # with the cache's rules: the first picture does not wait for them

        own, sliders = self._own(), self._view.sliders
        if own is not None:
            self._set(moved(own, sliders.changed, sliders.chosen, step))

    def do_slide_far(self, step: int) -> None:
        """Move it by a coarse step."""
        self.do_slide(step * COARSE)

    def do_reset(self) -> None:
        """All values are the request's own again."""
        self._set(Values())

    def _set(self, changed: Values) -> None:
        self._view = replace(self._view, sliders=replace(self._view.sliders, changed=changed))

    def _choose(self, name: Name) -> None:
        self._view = replace(self._view, sliders=replace(self._view.sliders, chosen=name))

    def _own(self) -> Own | None:
        """The values of the request that is shown."""
        from phasetop.what_if import own_of

        shown, session = self.shown, self._source.session
        run = session.runs.get(shown.r) if shown is not None and shown.r is not None else None
        if shown is None or run is None or shown.measures is None:
            return None
        return own_of(session, run, shown.measures, shown.cursor)

    # ---- the mouse

    def point(self, page: Rect, x: int, y: int, *, drag: bool) -> None:
        """The mouse is down on the screen ``page``: choose the slider there, and put its value where the mouse is.

        With ``drag`` the slider that was taken up follows the mouse, wherever that goes.
        """
        from phasetop.tui.roofplaces import pointed
        from phasetop.what_if import placed

        if drag and self.held is None:
            return
        at = pointed(page.width, page.height, x - page.x, y - page.y, self.held if drag else None)
        self.held = at.name if at is not None and at.column is not None else None
        own = self._own() if at is not None else None
        if at is None or own is None:
            return
        self._choose(at.name)
        if at.column is not None:
            self._set(placed(own, self._view.sliders.changed, at.name, at.column, at.columns))
        self.changed = True

    def wheel_over(self, page: Rect, x: int, y: int, step: int) -> None:
        """The wheel turned up (1) or down (-1): the slider under it is moved by a step."""
        from phasetop.tui.roofplaces import pointed

        at = pointed(page.width, page.height, x - page.x, y - page.y)
        if at is not None:
            self._choose(at.name)
            self.do_slide(step)
            self.changed = True
