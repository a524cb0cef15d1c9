"""Sessions handed to the view, and what stays in the terminal's scrollback after it."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from phasetop import places, priority, prompts
from phasetop.alternatives import Alternative, read_alternatives
from phasetop.display import Display
from phasetop.faults import EXIT_HUNG_UP, FormatError
from phasetop.follow import Follower
from phasetop.parts import last_part
from phasetop.present import Present
from phasetop.priority import step_back
from phasetop.recorded_words import tell_of_recording
from phasetop.recording import notice, settle, why_it_ended
from phasetop.remembered import Remembered
from phasetop.reread import Reread
from phasetop.session import Session
from phasetop.standing import Standing
from phasetop.visible import harmless

if TYPE_CHECKING:
    from phasetop.capabilities import Check
    from phasetop.lifeline import Lifeline
    from phasetop.moments import Moment
    from phasetop.plan import Plan, Planned
    from phasetop.tui.player import Opening
    from phasetop.tui.running import Options
    from phasetop.tui.source import Source

_LOOK_S: Final = 1.0
_FITS_NS: Final = 15_000_000_000
"""A writer says something every ten seconds: its newest line is no older than this where its clock is ours."""
_COLLECTED: Final = (10_000, 20, 20)
"""The collector's thresholds once a view stands: often, for what is new alone is little."""
_ON_THE_WAY_NS: Final = 5_000_000
"""What is stamped needs a moment to be written and read. The present that is shown lies so far back: nothing that belongs
before it is missing, so that a replay shows the same there."""


class LiveSource:
    """The session of a collector of one's own; `phasetop.tui.source.Source` has the contract."""

    standing = None

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

    def alternatives(self, r: int, i: int) -> tuple[tuple[Alternative, ...], ...]:
        """What each token of a line could have been, read again from the file."""
        path = self._lifeline.path
        return read_alternatives(self.session, None if path is None else Reread(path), r, i)

    def now(self) -> int:
        """The time since the anchor, ns, as far as all of it has come."""
        last = self.session.last_t
        return max(0, max(self._lifeline.now(), last) - _ON_THE_WAY_NS) if self.live else last


class Recorded:
    """A recording, at its end."""

    standing = None

    def __init__(self, session: Session, path: Path | None = None) -> None:
        self.session = session
        self.live = False
        self._lines = None if path is None else Reread(path)

    def poll(self) -> bool:
        """Nothing comes any more."""
        return False

    def alternatives(self, r: int, i: int) -> tuple[tuple[Alternative, ...], ...]:
        """What each token of a line could have been, read again from the file."""
        return read_alternatives(self.session, self._lines, r, i)

    def now(self) -> int:
        """The last event's time, ns."""
        return self.session.last_t


class Watched:
    """A session of this machine that another process writes: its file, followed while its writer holds the lock."""

    def __init__(self, path: Path, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._path = path
        self._clock = clock
        self._lines = Reread(path)
        self._follower = Follower(path, None, lambda: 0)  # a watcher ends nothing by the clock
        self._present = Present(clock)
        self._timed: Session | None = None  # the session whose writer's clock was looked at
        self._same_clock = False
        self._looked = 0
        self._gone = False

    @property
    def session(self) -> Session:
        """What is known so far."""
        return self._follower.session

    @property
    def live(self) -> bool:
        """Whether more may come."""
        return not self._gone and not self._follower.ended

    def now(self) -> int:
        """The time since the anchor, ns: by this machine's clock, where it is the writer's, too."""
        hello, last = self.session.hello, self.session.last_t
        if hello is None or not self.live:
            return last
        if not self._same_clock:
            return self._present.at(last)
        return max(0, max(last, self._clock() - hello.anchor.mono) - _ON_THE_WAY_NS)

    def alternatives(self, r: int, i: int) -> tuple[tuple[Alternative, ...], ...]:
        """What each token of a line could have been, read again from the file."""
        return read_alternatives(self.session, self._lines, r, i)

    @property
    def standing(self) -> Standing | None:
        """How much of a long file has been read, while it is."""
        if not self._follower.behind:
            return None
        share = f"{100 * self._follower.share:.0f} %"
        return Standing(f"reading {share}", f"{share} of what was recorded so far has been read")

    def catch_up(self) -> None:
        """Take all that is there."""
        self.poll()
        while self._follower.behind:
            self.poll()

    def poll(self) -> bool:
        """Apply what is new; when its writer is gone without a word, end what ran."""
        if self._gone:
            return False
        looks = self._clock() - self._looked > _LOOK_S * 1e9
        was = self._follower.path
        gone = looks and not places.is_live(was or self._path)
        came = self._follower.poll()
        if came:
            self._note_the_time()
        # Not while there is more to read; and the session may have gone on in a further part.
        gone = gone and self._follower.path == was and not self._follower.behind
        if looks and not self._follower.behind:
            self._looked = self._clock()
        if gone and not self._follower.ended:
            self._gone = True
            if self.session.hello is None:
                raise FormatError(f"{self._path}: this is no phasetop recording: it has no whole line")
            if (lacking := self._follower.lacks_part) is not None:
                notice(self.session, "part-missing", f"part {lacking} of this session is not there any more", level="warn")
            settle(self.session, self.session.last_t, why_it_ended(self.session))
            return True
        return came

    def _note_the_time(self) -> None:
        """What was read tells whether the writer is here: a file may come from another machine, over a network's disk."""
        hello, last = self.session.hello, self.session.last_t
        self._present.read(last)
        if self._timed is not self.session and hello is not None:
            self._timed = self.session
            self._same_clock = abs(self._clock() - hello.anchor.mono - last) < _FITS_NS


def options_of(
    display: Display,
    *,
    ask: bool | None = None,
    title: str | None = None,
    typed: bool = True,
    painted: Callable[[], None] | None = None,
    replay: Opening | None = None,
) -> Options:
    """The view's options; ``typed``: there is an ask line, which earlier prompts come back to."""
    from phasetop.tui.running import Options

    def stands() -> None:
        gc.freeze()  # what was made to start stays, and no collection need look through it again
        gc.set_threshold(*_COLLECTED)
        if painted is not None:
            painted()

    return Options(
        ask=ask,
        title=title,
        theme=display.theme,
        colours=display.colours,
        ascii=display.ascii,
        mouse=display.mouse,
        hz=display.fps,
        earlier=tuple(prompts.load()) if typed else (),
        memory=Remembered(),
        painted=stands,
        replay=replay,
    )


def run_view(lifeline: Lifeline, plan: Plan) -> int:
    """The live view of a run; returns the exit status. Closes the lifeline, and leaves reply and summary on the terminal."""
    from phasetop.keeper import Keeper

    step_back(priority.STARTING)
    status = EXIT_HUNG_UP
    try:
        keeper = Keeper(lifeline, plan)
        waits = serves_here(plan)
        if plan.asks and not waits:
            keeper.begin()

        def painted() -> None:
            if plan.asks and waits:
                keeper.begin()
            step_back(priority.DRAWING)

        from phasetop.tui.app import view

        options = options_of(plan.display, ask=not plan.asks, painted=painted)
        if waits and options.hz is None and not priority.has_gpu():
            options = replace(options, hz=priority.CPU_HZ)
        status = view(LiveSource(lifeline), lifeline=keeper, options=options)
    finally:
        lifeline.close()
    if status != EXIT_HUNG_UP:
        leave_behind(lifeline)
        tell_of_recording(lifeline)
    return status


def start_view(display: Display, planned: Planned) -> int:
    """The start screen, then the view of what was chosen there, begun by its plan; returns the exit status."""
    from phasetop.starter import Starter

    places.sweep_unfinished()
    starter = Starter(planned)
    status = EXIT_HUNG_UP
    try:
        from phasetop.tui.startapp import begin

        status = begin(starter, options_of(display))
    finally:
        starter.close()
    if status != EXIT_HUNG_UP and starter.run is not None:
        leave_behind(starter.run)
        tell_of_recording(starter.run)
    return status


def leave_behind(lifeline: Lifeline) -> None:
    """Print the last reply and its summary, where the view was: they stay in the scrollback."""
    from phasetop import summary
    from phasetop.headless import TextOut

    session, kept = lifeline.follower.session, lifeline.kept_as
    begun = [run for run in session.runs.values() if run.info.at() is not None]
    if not begun:
        return
    run = begun[-1]
    try:
        out = TextOut(run_json=False, show_thinking=False)
        out.write_new(run)
        out.end()
        _say(summary.lines(session, run, kept, lifeline.not_kept))
    except OSError:
        pass  # the terminal went away meanwhile: nobody reads it


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        print(harmless(line, newlines=False), file=sys.stderr)
    sys.stderr.flush()


def serves_here(plan: Plan) -> bool:
    """Whether what answers may run on this machine's CPU: then the request waits until the view is loaded (0.3 s).

    Loading it beside a decode costs the decode up to a third of its rate while it lasts.
    """
    target = plan.start.target
    if target is None or target.url is None:
        return True
    host = urlsplit(target.url).hostname or ""
    return host == "localhost" or host.startswith("127.") or host in ("::1", "0.0.0.0", "::")  # noqa: S104 - as typed


def replay_view(session: Session, path: Path, display: Display, at: Moment | None, speed: float) -> int:
    """The same view over a recording, with a cursor that begins at its start, or at a moment; returns the exit status.

    What is still being written is followed, and grows under the cursor.
    """
    from phasetop.tui.app import view
    from phasetop.tui.player import Opening

    source: Recorded | Watched = Recorded(session, path)
    if session.bye is None and places.is_live(last_part(path)):
        source = Watched(path)
        source.catch_up()
    options = options_of(display, title=path.name, typed=False, replay=Opening(at, speed))
    return view(source, options=options)


def screenshot(
    session: Session, title: str, display: Display, at: Moment | None, size: tuple[int, int], *, svg: bool
) -> str:
    """A picture of a replay that stands at a moment (None: the end): SVG, or its characters alone. No terminal is needed."""
    from phasetop.tui import picture
    from phasetop.tui.theme import Look

    look = Look(display.theme or "dark", display.colours or "truecolor", painted=True, ascii=bool(display.ascii))
    canvas, _ = picture.picture_of(session, at, size, look, title)
    return picture.svg(canvas, f"phasetop: {title}") if svg else canvas.text()


def watch_view(source: Source, display: Display, title: str, *, here: bool) -> int:
    """The view of a replay over a session that somebody else runs, at its end; ``here``: this machine is left its CPU.

    Returns the exit status.
    """
    from phasetop.tui.app import view
    from phasetop.tui.player import Opening

    options = options_of(display, title=title, typed=False, replay=Opening(end=True, word="watch"))
    if here:
        step_back(priority.DRAWING)
        if options.hz is None and not priority.has_gpu():
            options = replace(options, hz=priority.CPU_HZ)
    return view(source, options=options)


def look_at_terminal(environ: Mapping[str, str]) -> tuple[Check, ...]:
    """What the terminal on stdin and stderr can do, asked as the view asks it."""
    from phasetop.tui.terminalchecks import look_at_terminal as look

    return look(environ)


class Driven(LiveSource):
    """A session whose next request is sent by what is driven each frame; it ends with that."""

    def __init__(self, lifeline: Lifeline, advance: Callable[[], bool]) -> None:
        super().__init__(lifeline)
        self._advance = advance
        self._over = False

    def poll(self) -> bool:
        """Apply what is new, and go on with the work."""
        came = super().poll()
        if not self._over and not self._advance():
            self._over = True
            self._lifeline.stop()
        return came
