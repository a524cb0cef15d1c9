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


@pytest.mark.parametrize("raw", [False, True])
def test_a_prompt_that_is_too_long_for_a_line_is_its_length_and_is_told(
    tmp_path: Path, pipe: tuple[int, int], raw: bool
) -> None:
    """No figure may be made of a part of it, and nobody may think that nothing was asked."""
    path = tmp_path / "s.phasetop"
    recorder = Recorder(path, pipe[1])
    recorder.open("s", [], "run", ev.Host())
    text = "é" * 10_000_000
    asked = {"temperature": 0.5}
    if raw:
        recorder.emit(ev.Request(t=5, r=0, api="completion", prompt=text, asked=asked))
    else:
        recorder.emit(ev.Request(t=5, r=0, api="chat", messages=[{"role": "user", "content": text}], asked=asked))
    recorder.emit(ev.Prompt(t=6, r=0, rendered=text, pieces=[text], n=10_000_000))
    recorder.close("done")
    session = load(path)
    info = session.runs[0].info.at()
    assert info is not None
    assert (info.prompt if raw else (info.messages or [{}])[0]["content"]) == 20_000_000
    assert info.asked == asked
    assert [(n.code, n.r) for n in session.notices.items] == [("prompt-left-out", 0)]
    assert "(20,000," in session.notices.items[0].text
    told = session.runs[0].prompt.at()
    assert told is not None
    assert (told.rendered, told.n) == (20_000_000, 10_000_000)
