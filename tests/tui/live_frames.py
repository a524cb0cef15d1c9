"""What a live view draws of a real run, and what a replay of its file draws at the same cursors.

A line that is on its way while a picture is drawn is missing from that picture, and from no other: pictures before which
such a line was stamped are told apart, and not compared.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from phasetop import codec
from phasetop.lifeline import Lifeline
from phasetop.live import LiveSource
from phasetop.recording import load
from phasetop.session import Run, Session
from phasetop.tui.cells import Canvas
from phasetop.tui.frame import Frame, FrameMaker
from phasetop.tui.layout import Layout, layout
from phasetop.tui.painter import paint
from phasetop.tui.theme import Ink, Look
from phasetop.tui.view import View

EACH_S: Final = 0.05
SETTLED_NS: Final = 1_200_000_000
VIEWS: Final = (
    ((120, 36), View()),
    ((80, 24), View(sweep=True, colour="channel")),
    ((200, 60), View(colour="probability", pattern="e")),
    ((20, 5), View()),
)


@dataclass
class Picture:
    """One picture: which view, the cursor, how many lines were known, the frame and its cells."""

    which: int
    cursor: int
    lines: int
    frame: Frame
    chars: list[list[str]]
    inks: list[list[Ink]]


def _plan(which: int) -> Layout:
    made = layout(*VIEWS[which][0])
    assert made is not None
    return made


@dataclass
class Painter:
    """Makes pictures of a session, as the app does, in several views one after the other."""

    session: Session
    makers: list[FrameMaker] = field(default_factory=list)

    def picture(self, which: int, cursor: int) -> Picture:
        """One picture."""
        while len(self.makers) <= which:
            self.makers.append(FrameMaker(self.session))
        lines, (size, view) = self.session.lines, VIEWS[which]
        frame = self.makers[which].frame(cursor, _plan(which), view)
        canvas = Canvas(*size, Look())
        failed = paint(canvas, frame, _plan(which))
        assert not frame.failed
        assert not failed
        return Picture(which, cursor, lines, frame, canvas.chars, canvas.inks)


def watch(lifeline: Lifeline, r: int, limit_s: float = 60.0) -> list[Picture]:
    """Draw a run as it goes, until request ``r`` has ended and its figures have settled."""
    source = LiveSource(lifeline)
    painter = Painter(source.session)
    made: list[Picture] = []
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        source.poll()
        made.append(painter.picture(len(made) % len(VIEWS), source.now()))
        run = source.session.runs.get(r)
        if run is not None and run.ends.items and source.now() > run.ends.items[-1].t + SETTLED_NS:
            return made
        time.sleep(EACH_S)
    raise AssertionError(f"request {r} did not end in {limit_s} s")


def whole(pictures: list[Picture], path: Path) -> list[Picture]:
    """The pictures that had all that was stamped before them."""
    stamps = []
    for line in path.read_bytes().splitlines():
        event = codec.decode(line)
        if event is not None:
            stamps.append(event.t)
    least, earliest = 2**63, [2**63] * (len(stamps) + 1)
    for i in range(len(stamps) - 1, -1, -1):
        least = min(least, stamps[i])
        earliest[i] = least
    return [picture for picture in pictures if picture.cursor < earliest[min(picture.lines, len(stamps))]]


def check(pictures: list[Picture], path: Path) -> Run:
    """Replay the file at the same cursors, forward, then backward, and compare; returns the last request."""
    compared = whole(pictures, path)
    assert len(compared) > len(pictures) // 2, f"{len(pictures) - len(compared)} of {len(pictures)} pictures lacked a line"
    session = load(path)
    painter = Painter(session)
    for picture in (*compared, *compared[::-3]):
        again = painter.picture(picture.which, picture.cursor)
        assert again.frame == picture.frame
        assert again.chars == picture.chars
        assert again.inks == picture.inks
    states = {picture.frame.state for picture in compared}
    assert {"decode", "done"} <= states, states
    last = session.last_run()
    assert last is not None
    return last
