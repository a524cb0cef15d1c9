"""What `phasetop` alone begins with: it looks around, and begins what was chosen. `phasetop.tui.start.Starter`."""

from __future__ import annotations

import time
from typing import Final

from msgspec import Struct

from phasetop import events as ev
from phasetop import priority
from phasetop.keeper import Keeper
from phasetop.lifeline import Lifeline, Start
from phasetop.live import LiveSource, Recorded, Watched
from phasetop.nearby import LiveSession, Recording, live_sessions, recordings
from phasetop.offers import Looked, Offer, looked_at, offers
from phasetop.opening import open_file
from phasetop.plan import Planned
from phasetop.priority import step_back
from phasetop.session import Session
from phasetop.tasks import newest

_FOLDERS_S: Final = 2.0
"""The folders are looked at so often."""


class Begun(Struct, frozen=True):
    """What was chosen, as a view shows it; ``asking``: the ask line has the keys."""

    source: LiveSource | Recorded | Watched
    lifeline: Keeper | None
    title: str | None
    asking: bool


class Starter:
    """Looks around with a collector of its own, which ends when something is begun.

    Args:
        planned: the plan of a run, by its target, argv and engine.

    """

    def __init__(self, planned: Planned) -> None:
        self._planned = planned
        self._lifeline = Lifeline(Start(target=None, argv=["start"], kind="observe"))
        self._looking = {self._lifeline.discover()}
        self._fetching: int | None = None
        self._unwanted = False
        self._live: list[LiveSession] = []
        self._kept: list[Recording] = []
        self._folders_at = float("-inf")
        self.run: Lifeline | None = None  # what was begun

    @property
    def session(self) -> Session:
        """What the looking around found."""
        return self._lifeline.follower.session

    @property
    def looking(self) -> bool:
        """Whether an answer is still to come."""
        return bool(self._looking)

    def poll(self) -> bool:
        """Take what came; True when something did."""
        came = self._lifeline.follower.poll()
        if came:
            self._looking -= {c.id for c in self.session.controls.items if c.op == "discover" and c.id is not None}
            self._follow_fetch()
        if time.monotonic() - self._folders_at >= _FOLDERS_S:
            self._folders_at = time.monotonic()
            before = (self._live, self._kept)
            self._live, self._kept = live_sessions(but=self._lifeline.session_id), recordings()
            came = came or before != (self._live, self._kept)
        return came

    def _follow_fetch(self) -> None:
        """End it when that was asked before it had a number; when the model has come, look again: it is an offer then."""
        if self._fetching is None:
            return
        answer = next((c for c in self.session.controls.items if c.id == self._fetching), None)
        if answer is not None and not answer.ok:
            self._fetching = None
            return
        last = self._download()
        if last is None:
            return
        if last.state != "run":
            self._fetching = None
            self.look_again()
        elif self._unwanted:
            self._unwanted = False
            self._lifeline.cancel_task(last.task)

    def _download(self) -> ev.Task | None:
        """The last word on what is fetched; None: it was not begun yet."""
        task = next((c.task for c in self.session.controls.items if c.id == self._fetching and c.op == "get"), None)
        return None if task is None else newest(self.session.tasks.items, task)

    def offers(self) -> tuple[Offer, ...]:
        """What can be begun, the obvious first."""
        return offers(self.session, self._live, self._kept, time.time())

    def looked_at(self) -> tuple[Looked, ...]:
        """Where was looked, and what was there."""
        return looked_at(self.session)

    def look_again(self) -> None:
        """Look around once more."""
        self._folders_at = float("-inf")
        self._looking.add(self._lifeline.discover())

    def launch(self) -> None:
        """Start the server that is installed but does not run."""
        self._lifeline.launch("ollama")

    @property
    def fetching(self) -> bool:
        """Whether the embedded engine's model is being fetched."""
        return self._fetching is not None

    def fetch(self) -> None:
        """Fetch the embedded engine's model."""
        self._unwanted = False
        if self._fetching is None:
            self._fetching = self._lifeline.get("smollm2")

    def end_fetch(self) -> None:
        """Fetch it no further; what came lies there for the next time."""
        if self._fetching is not None:
            self._unwanted = True
            self._follow_fetch()

    def begin(self, offer: Offer, prompt: str | None) -> Begun:
        """Begin what was chosen, with a prompt if one was typed.

        Raises:
            PhasetopError: it cannot be begun.
        """
        if offer.path is not None:
            begun = self._open(offer)
        else:
            assert offer.target is not None
            plan = self._planned(offer.target, ["run", offer.name], offer.engine)
            self.run = Lifeline(plan.start, record=plan.record, keep_as=plan.keep_as)
            step_back(priority.DRAWING)  # after its collector was started, which inherits the priority
            keeper = Keeper(self.run, plan)
            if prompt:
                keeper.ask(prompt)
            begun = Begun(LiveSource(self.run), keeper, None, not prompt)
        self._lifeline.stop()
        return begun

    def _open(self, offer: Offer) -> Begun:
        assert offer.path is not None
        if offer.kind == "live":
            return Begun(Watched(offer.path), None, offer.path.stem[:8], False)
        return Begun(Recorded(open_file(offer.path, offer.name), offer.path), None, offer.path.name, False)

    def close(self) -> None:
        """Part from the collectors; never hangs."""
        self._lifeline.close()
        if self.run is not None:
            self.run.close()
