"""The collector's pen: the last line is the last, and times never fall."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from phasetop import events as ev
from phasetop.backends.recorder import Recorder
from phasetop.recording import load


def test_nothing_is_written_after_the_last_line(tmp_path: Path, pipe: tuple[int, int]) -> None:
    """A thread that is not over yet (a discovery, a download) must not write on, neither to the file nor to the pipe."""
    path = tmp_path / "s.phasetop"
    recorder = Recorder(path, pipe[1])
    recorder.open("s", [], "run", ev.Host())
    recorder.notice("found", "one")
    recorder.close("done")
    recorder.notice("found", "too late")
    session = load(path)
    assert session.bye is not None
    assert (session.lines, session.bye.lines) == (3, 2)
    with pytest.raises(BlockingIOError):
        os.read(pipe[0], 1)


def test_times_never_fall_for_a_kind_and_request(tmp_path: Path, pipe: tuple[int, int]) -> None:
    path = tmp_path / "s.phasetop"
    recorder = Recorder(path, pipe[1])
    recorder.open("s", [], "run", ev.Host())
    for r, t in ((0, 50), (1, 20), (0, 40), (1, 30), (0, 60)):
        recorder.emit(ev.Tok(t=t, r=r, x="a"))
    recorder.close("done")
    runs = load(path).runs
    assert runs[0].tokens.t.tolist() == [50, 50, 60]
    assert runs[1].tokens.t.tolist() == [20, 30]
