"""A watched session without a view: the replies' text as it comes, then their summaries, or one JSON object at the end."""

from __future__ import annotations

import time
from typing import Final, Protocol

from phasetop.faults import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, EXIT_PIPE
from phasetop.headless import Interrupts, TextOut, error_line, tell_notices
from phasetop.output import print_json, say, silence_stdout, tell, writing
from phasetop.session import Run, Session
from phasetop.standing import Standing

POLL_S: Final = 0.05
"""Somebody else's run is looked at so often: three times less than one's own, as it may have ten watchers."""


class Source(Protocol):
    """A session that grows; `phasetop.tui.source.Source` has more."""

    @property
    def session(self) -> Session:
        """What is known so far."""
        ...

    @property
    def live(self) -> bool:
        """Whether more may come."""
        ...

    @property
    def standing(self) -> Standing | None:
        """What is to be said of the way it comes by."""
        ...

    def poll(self) -> bool:
        """Take what came, without waiting."""
        ...


class Teller:
    """Writes a session's replies in their order, each with its summary when it has ended.

    Args:
        kept_as: what the recording is called; None: it is nobody's here.
        as_json: the text goes to stderr, and no summary is printed.
        show_thinking: thinking goes where the answer goes.
    """

    def __init__(self, kept_as: str | None, *, as_json: bool, show_thinking: bool) -> None:
        self._kept_as = kept_as
        self._as_json = as_json
        self._show_thinking = show_thinking
        self._session: Session | None = None
        self._told = 0  # notices
        self._done: set[int] = set()
        self._out: TextOut | None = None

    def tell(self, session: Session) -> None:
        """Write what is new. A reply that runs beside another waits until that one has ended.

        Raises:
            BrokenPipeError: nobody reads stdout any more.
        """
        if session is not self._session:  # another one stands in its place
            self._session, self._told, self._done, self._out = session, 0, set(), None
        self._told = tell_notices(session, self._told)
        for run in session.runs.values():
            if run.r in self._done or run.info.at() is None:
                continue
            if self._out is None:
                self._out = TextOut(self._as_json, self._show_thinking)
            self._out.write_new(run)
            if not run.ends.items:
                return
            self._done.add(run.r)
            self._finish(session, run, self._out)
            self._out = None

    def _finish(self, session: Session, run: Run, out: TextOut) -> None:
        out.end()
        end = run.ends.last()
        assert end is not None
        if end.error is not None:
            say(error_line(session, end.error))
        elif end.finish == "cut":
            say("the reply was cut: the stream ended before its end")
        if not self._as_json and (out.wrote or end.error is None):
            from phasetop import summary

            for line in summary.lines(session, run, self._kept_as, watched=True):
                tell(line)


def follow(source: Source, *, kept_as: str | None, as_json: str | None, show_thinking: bool) -> int:
    """Follow to the end; returns the exit status.

    Raises:
        PhasetopError: it cannot be read on, or the output cannot be written.
    """
    teller = Teller(kept_as, as_json=as_json is not None, show_thinking=show_thinking)
    away = False
    try:
        with writing(), Interrupts() as interrupts:
            teller.tell(source.session)  # what was read before
            while True:
                came = source.poll()
                if came:
                    teller.tell(source.session)
                away = _tell_link(source.standing, away)
                if not source.live or interrupts.count or interrupts.status is not None:
                    break
                if not came:
                    time.sleep(POLL_S)
            teller.tell(source.session)
        if as_json is not None:
            _print_json(source.session, kept_as, as_json)
    except BrokenPipeError:
        silence_stdout()
        return EXIT_PIPE
    if interrupts.status is not None:
        return interrupts.status
    if interrupts.count:
        return EXIT_INTERRUPTED
    return EXIT_FAILED if source.session.last_failed else EXIT_OK


def _tell_link(standing: Standing | None, away: bool) -> bool:
    """Say once that the link is lost, and once that it is back; returns whether it is away."""
    lost = standing is not None and standing.short.startswith("link lost")
    if lost and not away:
        assert standing is not None
        say(standing.text)
    elif away and standing is None:
        say("the link is back")
    return lost or (away and standing is not None)


def _print_json(session: Session, kept_as: str | None, how: str) -> None:
    from phasetop import report

    runs = [run for run in session.runs.values() if run.info.at() is not None]
    objects = [report.request_object(session, run, kept_as=kept_as) for run in runs]
    print_json({"session": kept_as, "requests": objects}, how)
