"""Tasks in words: how much, how fast, how long yet; and the line that shows them."""

from __future__ import annotations

import io
import sys

import pytest

from phasetop import events as ev
from phasetop import tasks
from phasetop.progress_line import ProgressLine
from phasetop.session import Session

S = 1_000_000_000


def task(t: float, done: float | None, *, number: int = 0, state: str = "run", title: str = "pull tiny") -> ev.Task:
    return ev.Task(t=round(t * S), task=number, state=state, title=title, done=done, total=1e9, unit="B")


def test_the_rate_is_over_the_last_seconds() -> None:
    known = [task(0, 0), task(10, 100e6), task(11, 150e6), task(12, 200e6), task(13, 250e6), task(14, 300e6)]
    assert tasks.rate_per_s(known, 0) == pytest.approx(50e6)
    assert tasks.rate_per_s(known[:1], 0) is None
    assert tasks.rate_per_s([], 0) is None
    assert tasks.rate_per_s([task(1, 5), task(1, 9)], 0) is None  # no time between them


def test_a_line_of_it() -> None:
    known = [task(0, 0), task(1, 50e6), task(2, 100e6)]
    assert tasks.text(known, 0) == "pull tiny   0.10 GB of 1.00 GB   10 %   50.0 MB/s   18.00 s"
    assert tasks.text([ev.Task(t=0, task=0, state="run", title="pull tiny")], 0) == "pull tiny"
    assert tasks.text([], 0) == ""


def test_what_runs() -> None:
    known = [task(0, 0), task(1, 5, number=1, title="pull tiny: 2df6"), task(2, 0, number=2, title="load m")]
    assert tasks.running(known, "pull ") == [0, 1]
    known.append(task(3, 9, number=1, state="ok", title="pull tiny: 2df6"))
    assert tasks.running(known, "pull ") == [0]
    assert tasks.newest(known, 1).state == "ok"  # type: ignore[union-attr]


class Terminal(io.StringIO):
    """A stderr that is one."""

    def isatty(self) -> bool:
        return True


def test_the_line_shows_the_part_under_way_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    session, line = Session(), ProgressLine()
    for each in (task(0, 0), task(1, 30e6, number=1, title="pull tiny: \x1b[2J2df6")):
        session.apply(each)
    line.follow(session)
    assert "30.0 MB of 1.00 GB" in out.getvalue()
    assert "\x1b[2J" not in out.getvalue()  # a name is data
    session.apply(task(2, 1e9, state="ok"))
    session.apply(task(2, 1e9, number=1, state="ok", title="pull tiny: 2df6"))
    line.follow(session)
    assert out.getvalue().endswith("\r\x1b[K")


def test_nothing_is_drawn_into_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    session = Session()
    session.apply(task(0, 0))
    line = ProgressLine()
    line.follow(session)
    line.clear()
    assert capsys.readouterr().err == ""


def test_a_part_runs_no_longer_than_its_whole() -> None:
    known = [
        task(0, 0, number=1),
        task(1, 0, number=2, title="pull tiny: 2df6"),
        task(2, 5, number=3, title="pull tiny: b507"),
        task(3, None, number=9, title="pull other: ffff"),  # its whole was not told of
    ]
    assert [each.task for each in tasks.unended(known)] == [1, 2, 3, 9]
    ended = [*known, task(4, 9, number=1, state="ok")]
    assert [each.task for each in tasks.unended(ended)] == [9]
    again = [*ended, task(5, 0, number=11), task(6, 1, number=12, title="pull tiny: 2df6")]
    assert [each.task for each in tasks.unended(again)] == [9, 11, 12]  # and no part of the first pull comes back
    assert tasks.unended([]) == []
