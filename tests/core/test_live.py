"""What stays after the view, and a session of this machine that another process writes."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from phasetop import codec, places
from phasetop import events as ev
from phasetop.display import Display
from phasetop.faults import PhasetopError
from phasetop.keeper import Keeper
from phasetop.lifeline import Start
from phasetop.live import Watched, leave_behind, replay_view
from phasetop.opening import open_recording
from phasetop.plan import Plan
from phasetop.session import Session
from phasetop.tui.source import Source

HOST = ev.Host(name="box", os="Linux", cpu="EPYC", cores=2, ram_bytes=1)
HELLO = ev.Hello(t=0, format=1, session="s", anchor=ev.Anchor(mono=1000, wall=7), by="phasetop 0", host=HOST)


@dataclass
class Follower:
    session: Session


@dataclass
class Line:
    """A lifeline that notes what it is told, and answers asks as a collector does."""

    follower: Follower = field(default_factory=lambda: Follower(Session()))
    kept_as: str | None = None
    not_kept: str | None = None
    said: list[dict[str, Any]] = field(default_factory=list)

    def ask(self, **asked: Any) -> int:
        self.said.append(asked)
        number = len(self.said)
        r = number - 1
        session = self.follower.session
        session.apply(ev.Control(t=number, op="ask", id=number, ok=True, r=r))
        session.apply(ev.Request(t=number, r=r, api="chat"))
        return number

    def set(self, **values: Any) -> int:
        self.said.append(values)
        return 0


def keeper(line: Line, *, redact: bool = False, api: str = "chat", **plan: Any) -> Keeper:
    wanted = Plan(start=Start(target=None, redact=redact), api=api, **plan)
    return Keeper(line, wanted)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("phasetop.places.state_folder", lambda: tmp_path)
    monkeypatch.delenv("PHASETOP_NO_HISTORY", raising=False)
    return tmp_path


def test_the_same_prompt_again_has_the_same_history_and_may_leave_the_cache_alone() -> None:
    line = Line()
    chat = keeper(line, messages=[{"role": "user", "content": "first"}], settings={"seed": 1})
    chat.begin()
    chat.ask("second")
    chat.again(1, cache=True)
    chat.again(0, cache=False)
    assert [(one["messages"][-1]["content"], one["parent"], one["after"], one["settings"]) for one in line.said] == [
        ("first", None, None, {"seed": 1}),
        ("second", 0, 0, {"seed": 1}),
        ("second", 0, 1, {"seed": 1}),
        ("first", None, 2, {"seed": 1, "cache_prompt": False}),
    ]
    with pytest.raises(PhasetopError, match="not asked from here"):
        chat.again(9, cache=True)


def test_a_raw_prompt_again() -> None:
    line = Line()
    raw = keeper(line, api="raw", prompt="once upon")
    raw.begin()
    raw.again(0, cache=True)
    assert [(one["api"], one["prompt"], one["messages"], one["parent"]) for one in line.said] == [
        ("raw", "once upon", None, None)
    ] * 2


def test_prompts_are_kept_but_not_those_of_a_redacted_session(state: Path) -> None:
    keeper(Line()).ask("kept")
    keeper(Line(), redact=True).ask("secret")
    assert (state / "prompts.jsonl").read_text() == '"kept"\n'


def test_a_key_goes_to_the_collector_and_nowhere_else(state: Path) -> None:
    line = Line()
    keeper(line).set_key("sk-1")
    assert line.said == [{"api_key": "sk-1"}]
    assert list(state.iterdir()) == []


def test_reply_and_summary_stay_in_the_scrollback(capfd: pytest.CaptureFixture[str]) -> None:
    line = Line()
    session = line.follower.session
    for event in (
        HELLO,
        ev.Request(t=1, r=0, api="chat", messages=[{"role": "user", "content": "why"}]),
        ev.State(t=2, r=0, s="sent", at=2),
        ev.Tok(t=50_000_000, r=0, x="Be"),
        ev.Tok(t=60_000_000, r=0, x="cause."),
        ev.Timings(t=70_000_000, r=0, prompt_n=5, cached_n=0, prompt_ms=40.0, gen_n=2, gen_ms=10.0),
        ev.End(t=70_000_000, r=0, finish="stop"),
    ):
        session.apply(event)
    leave_behind(line)  # type: ignore[arg-type]
    out, err = capfd.readouterr()
    assert out == "Because."
    assert err.startswith("prompt   5 tok ")
    assert err.endswith("finish   stop · not kept; `--record` keeps it\n")
    line.not_kept = "no space left"
    leave_behind(line)  # type: ignore[arg-type]
    assert capfd.readouterr().err.endswith("finish   stop · not kept: no space left\n")


def test_nothing_asked_nothing_left(capfd: pytest.CaptureFixture[str]) -> None:
    leave_behind(Line())  # type: ignore[arg-type]
    assert capfd.readouterr() == ("", "")


def test_a_watched_session_goes_on_while_its_writer_lives_and_ends_what_ran_when_it_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "live.phasetop"
    path.write_bytes(codec.encode_all([HELLO, ev.Request(t=1, r=0, api="chat"), ev.State(t=2, r=0, s="sent", at=2)]))
    fd = os.open(path, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    clock = [5_000_000_000]
    watched = Watched(path, lambda: clock[0])
    try:
        assert watched.poll()
        assert watched.live
        assert watched.now() == 5_000_000_000 - 1000 - 5_000_000  # as far as all of it has come
        with path.open("ab") as file:
            file.write(codec.encode(ev.Tok(t=9, r=0, x="a")))
        clock[0] += 2_000_000_000
        assert watched.poll()
        assert watched.live
    finally:
        os.close(fd)
    clock[0] += 2_000_000_000
    assert watched.poll()
    assert not watched.live
    end = watched.session.runs[0].ends.last()
    assert end is not None
    assert (end.finish, end.detail) == ("cut", "collector-died")
    assert watched.now() == watched.session.last_t
    assert not watched.poll()


def test_a_watched_file_of_another_machine_goes_by_its_own_clock(tmp_path: Path) -> None:
    path = tmp_path / "live.phasetop"
    path.write_bytes(codec.encode_all([HELLO, ev.Request(t=7_000_000_000, r=0, api="chat")]))
    fd = os.open(path, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    clock = [500_000_000_000]  # this machine runs for longer than that
    watched = Watched(path, lambda: clock[0])
    try:
        assert watched.poll()
        assert watched.now() == 7_000_000_000
        clock[0] += 1_000_000_000
        assert watched.now() == 8_000_000_000
    finally:
        os.close(fd)


def test_a_replay_of_what_goes_on_in_a_further_part_follows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "a.phasetop", tmp_path / "a.part2.phasetop"
    first.write_bytes(codec.encode_all([HELLO, ev.Part(t=5, part=2, file=second.name)]))
    second.write_bytes(codec.encode_all([replace(HELLO, part=2), ev.Part(t=5, part=2), ev.Mark(t=6, at=6, label="here")]))
    shown: list[Source] = []

    def view(source: Source, **_: Any) -> int:
        shown.append(source)
        return 0

    monkeypatch.setattr("phasetop.tui.app.view", view)
    with second.open("ab", buffering=0) as writer:
        assert places.lock(writer.fileno())
        session, path = open_recording(str(first))
        assert replay_view(session, path, Display(), None, 1.0) == 0
        writer.write(codec.encode(ev.Mark(t=7, at=7, label="there")))
        (source,) = shown
        source.poll()
        assert [mark.label for mark in source.session.marks.items] == ["here", "there"]
        assert source.live
