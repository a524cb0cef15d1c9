"""The keys of the roofline screen: which value is chosen, and how the chosen one is moved."""

from __future__ import annotations

from msgspec.structs import replace

from phasetop.knobs import COARSE, NAMES, Values
from phasetop.tui.choices import Choices


class Sliding(Choices):
    """What keys do on the roofline screen."""

    def do_slider(self, step: int) -> None:
        """Choose the slider below (1) or above (-1)."""
        sliders = self._view.sliders
        at = (NAMES.index(sliders.chosen) + step) % len(NAMES)
        self._view = replace(self._view, sliders=replace(sliders, chosen=NAMES[at]))

    def do_slide(self, step: int) -> None:
        """Move the chosen value a step up (1) or down (-1)."""
        from phasetop.what_if import moved, own_of  # with the cache's rules: the first picture does not wait for them

        shown, session, sliders = self.shown, self._source.session, self._view.sliders
        run = session.runs.get(shown.r) if shown is not None and shown.r is not None else None
        if shown is None or run is None or shown.measures is None:
            return
        own = own_of(session, run, shown.measures, shown.cursor)
        changed = moved(own, sliders.changed, sliders.chosen, step)
        self._view = replace(self._view, sliders=replace(sliders, changed=changed))

    def do_slide_far(self, step: int) -> None:
        """Move it by a coarse step."""
        self.do_slide(step * COARSE)

    def do_reset(self) -> None:
        """All values are the request's own again."""
        self._view = replace(self._view, sliders=replace(self._view.sliders, changed=Values()))
