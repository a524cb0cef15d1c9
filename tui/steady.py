"""The verdict that the headline shows: it changes when the evidence was the same for two seconds, or with the phase.

Its figures are those of the moment, as everywhere else on the screen: one that stands is said again of them, and one that
no longer holds of them gives way at once.

A pure function of (Session, request, cursor): the evidence is looked at on beats of the session's own clock, so that live
and replay show the same. A verdict that only says that the limit is not known is none: the plain facts stand instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from phasetop.metrics import Band, Measures, Phase, measure
from phasetop.session import Run, Session
from phasetop.tui.lanes import SECOND_NS
from phasetop.tui.pacing import NUMBERS_NS, beat

if TYPE_CHECKING:
    from phasetop.verdict import Verdict

VERDICT_NS: Final = 2 * SECOND_NS
"""A verdict changes at most so often, and after evidence that was the same for so long."""
LOOKS: Final = (0, SECOND_NS, 2 * SECOND_NS)
"""How long before such a beat the evidence is looked at."""
_BACK: Final = 15
"""Evidence that changed again and again is followed back over so many beats; then the phase's first verdict stands."""
_FIRST_NS: Final = 30 * SECOND_NS
"""A phase that had no verdict for so long has no first one."""
_KEPT: Final = 256
_UNKNOWN: Final = "limit-unknown"


def told(verdict: Verdict | None) -> Verdict | None:
    """The verdict, if it says what the limit is."""
    return None if verdict is None or verdict.code == _UNKNOWN else verdict


class Steady:
    """Keeps what was looked at."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, Phase], Verdict | None] = {}  # by request, moment, and the phase asked about

    def forget(self) -> None:
        """What was looked at may have changed: something came late."""
        self._known.clear()

    def shown(self, session: Session, run: Run, measures: Measures, cursor: int) -> Verdict | None:
        """The verdict on a request as of ``cursor``, whose figures are ``measures``; None: the limit is not known."""
        phases = measures.phases
        band = phases.band(phases.running) if phases.running is not None else None
        now = told(measures.verdict)
        if band is None:
            return now
        stands = self._stands(session, run, band, cursor)
        if stands is None:
            return None
        if measures.evidence is None or (now is not None and stands.code == now.code):
            return now
        from phasetop.verdict import again  # the rules: no first picture waits for them

        return again(stands.code, measures.evidence) or now

    def _stands(self, session: Session, run: Run, band: Band, cursor: int) -> Verdict | None:
        """The verdict that was given of the running phase, as of when the evidence was the same for two seconds."""
        if len(self._known) > _KEPT:
            self._known.clear()

        def at(t: int) -> Verdict | None:
            key = (run.r, t, band.phase)
            if key not in self._known:
                self._known[key] = _verdict(session, run, t, band.phase)
            return self._known[key]

        newest = beat(cursor, VERDICT_NS)
        for t in range(newest, newest - _BACK * VERDICT_NS, -VERDICT_NS):
            if t - VERDICT_NS < band.t0:
                break
            if len({verdict.code if (verdict := at(t - ago)) is not None else None for ago in LOOKS}) == 1:
                return at(t)
        until = min(cursor, band.t0 + _FIRST_NS)
        for t in range(beat(band.t0, NUMBERS_NS) + NUMBERS_NS, until + 1, NUMBERS_NS):
            if (first := at(t)) is not None:
                return first
        return None


def _verdict(session: Session, run: Run, t: int, phase: Phase) -> Verdict | None:
    measures = measure(session, run, t)
    return told(measures.verdict) if measures.phases.running == phase else None
