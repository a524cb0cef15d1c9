"""A session handed to the view: what grows behind it, and the way back to its collector."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from phasetop.lifeline import Lifeline
from phasetop.plan import Plan
from phasetop.session import Session

VIEW_NICE: Final = 10


class LiveSource:
    """The session of a collector of one's own; `phasetop.tui.source.Source` has the contract."""

    def __init__(self, lifeline: Lifeline) -> None:
        self._lifeline = lifeline
        self._follower = lifeline.follower

    @property
    def session(self) -> Session:
        """What is known so far."""
        return self._follower.session

    @property
    def live(self) -> bool:
        """Whether more may come."""
        return not self._follower.ended

    def poll(self) -> bool:
        """Apply what is new; True when something came."""
        return self._follower.poll()

    def now(self) -> int:
        """The time since the anchor, ns."""
        return self._lifeline.now() if self.live else self.session.last_t


class Recorded:
    """A recording, at its end."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.live = False

    def poll(self) -> bool:
        """Nothing comes any more."""
        return False

    def now(self) -> int:
        """The last event's time, ns."""
        return self.session.last_t


class Keeper:
    """What the view may tell the collector; `phasetop.tui.source.Lifeline` has the contract."""

    def __init__(self, lifeline: Lifeline, plan: Plan) -> None:
        self._lifeline = lifeline
        self._plan = plan

    @property
    def kept(self) -> str | None:
        """What the recording is called; None while it would go at the end."""
        return self._lifeline.kept_as

    def ask(self, text: str) -> None:
        """Send the next turn with the chat so far as its history; after the running request, if one runs."""
        runs = self._lifeline.follower.session.runs
        raw = self._plan.api == "raw"
        messages = [{"role": "user", "content": text}]
        if not runs and not raw:
            messages = [*(m for m in self._plan.messages if m.get("role") == "system"), *messages]
        last = max(runs, default=None)
        self._lifeline.ask(
            api="raw" if raw else "chat",
            messages=None if raw else messages,
            prompt=text if raw else None,
            parent=None if raw else last,
            after=last,
            tools=self._plan.tools,
            settings=self._plan.settings,
        )

    def cancel(self, r: int) -> None:
        """End request ``r``; what came of it stays."""
        self._lifeline.cancel(r)

    def keep(self, name: str | None) -> str:
        """Keep the recording; returns what it is called. Raises `PhasetopError` when it cannot be kept."""
        session = self._lifeline.follower.session
        model = next((m.name for versions in session.models.values() if (m := versions.at()) and m.name), None)
        self._lifeline.keep(name, model)
        return self._lifeline.kept_as or ""

    def stop(self) -> None:
        """The view ends: no further commands come."""
        self._lifeline.stop()


def run_view(lifeline: Lifeline, plan: Plan) -> int:
    """The live view of a run; returns the exit status. Closes the lifeline, and says where the recording is."""
    _step_back()
    try:
        if plan.asks:
            lifeline.ask(
                api="raw" if plan.api == "raw" else "chat",
                messages=plan.messages,
                prompt=plan.prompt,
                tools=plan.tools,
                settings=plan.settings,
            )
        from phasetop.tui.app import Options, view

        status = view(LiveSource(lifeline), lifeline=Keeper(lifeline, plan), options=Options(ask=not plan.asks))
    finally:
        lifeline.close()
    kept = lifeline.kept_as
    print(f"kept as {kept}" if kept else "not kept; `--record` keeps it, `s` too", file=sys.stderr)
    return status


def _step_back() -> None:
    """Draw at a lower priority: the threads of a server on this machine meet at barriers, and one held up holds all.

    The collector was started before, and keeps its own.
    """
    try:
        os.nice(VIEW_NICE)
    except OSError:
        pass


def replay_view(session: Session, path: Path) -> int:
    """The same view over a recording, at its end; returns the exit status."""
    from phasetop.tui.app import Options, view

    return view(Recorded(session), options=Options(title=path.name))
