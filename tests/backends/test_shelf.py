"""Sessions in several files: each part replays on its own, together they are the session, and followers lose nothing."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from phasetop import codec, keeping, places
from phasetop import events as ev
from phasetop.alternatives import read_alternatives
from phasetop.backends import part_head
from phasetop.backends.part_head import PartHead
from phasetop.backends.recorder import Recorder
from phasetop.backends.shelf import Limits
from phasetop.catalogue_index import Index
from phasetop.export import Exported
from phasetop.export.as_json import write as as_json
from phasetop.follow import Follower
from phasetop.lifeline import Lifeline, Start, Target
from phasetop.metrics import measure
from phasetop.parts import part_beside
from phasetop.recording import load, why_it_ended
from phasetop.reread import Reread
from phasetop.session import Session
from phasetop.sessions_list import listed

if TYPE_CHECKING:
    from tests.conftest import Home, Metronome

MS = 1_000_000
HOST = ev.Host(name="box", cpu="EPYC", cores=2)


def describe() -> list[ev.Event]:
    return [
        ev.Server(t=1, v=0, backend="ollama", url="http://h"),
        ev.Model(t=2, m=0, v=0, name="m", params=7),
        ev.Model(t=3, m=0, v=0, quant="Q4_0"),
        ev.Series(t=4, s=0, d=0, name="cpu_cores_used", source="psutil"),
        ev.State(t=5, v=0, s="ready"),
        ev.Notice(t=6, code="no-props", text="no props here"),
    ]


def request(r: int, tokens: int, *, begin: int) -> list[ev.Event]:
    """One whole request with a sample beside each token."""
    t = begin
    events: list[ev.Event] = [
        ev.Request(t=t, r=r, v=0, m=0, api="chat", messages=[{"role": "user", "content": f"ask {r}"}]),
        ev.State(t=t + 1, r=r, s="sent", at=t + 1),
        ev.Prompt(t=t + 2, r=r, n=5),
    ]
    for i in range(tokens):
        t += 10 * MS
        events.append(ev.Tok(t=t, r=r, x=f" w{i}", p=-0.5, top=[f" w{i}", -0.5, f" {r}", -1.0]))
        events.append(ev.Smp(t=t, t0=t - 10 * MS, v={"0": 1.5}))
    events.append(ev.Timings(t=t, r=r, prompt_n=5, cached_n=0, prompt_ms=1.0, gen_n=tokens, gen_ms=10.0 * tokens))
    events.append(ev.End(t=t, r=r, finish="stop"))
    return events


def many(requests: int, tokens: int) -> list[ev.Event]:
    return [event for r in range(requests) for event in request(r, tokens, begin=10 + r * (tokens + 1) * 10 * MS)]


def record(path: Path, pipe: int, events: list[ev.Event], limits: Limits) -> Recorder:
    recorder = Recorder(path, pipe, limits=limits)
    recorder.open("0192f3c4", [], "run", HOST)
    for event in [*describe(), *events]:
        recorder.emit(event)
    return recorder


def same(a: Session, b: Session) -> None:
    """Everything that a view or a figure is made of."""
    assert a.runs.keys() == b.runs.keys()
    for r, run in a.runs.items():
        other = b.runs[r]
        for column in ("t", "n", "count", "channel", "gap_ns", "text"):
            assert getattr(run.tokens, column) == getattr(other.tokens, column), (r, column)
        assert run.info.at() == other.info.at()
        assert measure(a, run) == measure(b, other)
    assert a.samples.keys() == b.samples.keys()
    assert all(a.samples[s].t == b.samples[s].t for s in a.samples)
    assert [m.at() for m in a.models.values()] == [m.at() for m in b.models.values()]
    assert [n.text for n in a.notices.items] == [n.text for n in b.notices.items]
    assert [s.s for s in a.server_states.items] == [s.s for s in b.server_states.items]


def test_the_parts_together_are_the_session_and_each_replays_on_its_own(
    tmp_path: Path, pipe: tuple[int, int], state_home: Home
) -> None:
    events = many(9, 12)
    whole = tmp_path / "whole.phasetop"
    record(whole, pipe[1], events, Limits()).close("done")
    path = tmp_path / "long.phasetop"
    record(path, pipe[1], events, Limits(part_bytes=4000)).close("done")
    parts = keeping.parts_of(path)
    assert len(parts) >= 4
    joined = load(path)
    same(joined, load(whole))
    assert (joined.bad_lines, joined.bye is not None) == (0, True)
    together = tmp_path / "together.phasetop"
    together.write_bytes(b"".join(part.read_bytes() for part in parts))
    same(load(together), joined)
    seen: list[int] = []
    for part in parts:
        alone = load_alone(part, tmp_path)
        assert alone.bad_lines == 0
        whole_ones = {r: run for r, run in alone.runs.items() if run.ends.items}
        assert all(not run.tokens for run in alone.runs.values() if not run.ends.items)  # not sent yet when it was cut
        for r, run in whole_ones.items():
            assert run.tokens.text == joined.runs[r].tokens.text
            assert measure(alone, run).rates == measure(joined, joined.runs[r]).rates
            model = alone.model_of(run)
            assert model is not None
            assert (model.name, model.params, model.quant) == ("m", 7, "Q4_0")
            assert "no-props" in {notice.code for notice in alone.notices.items}
        seen += whole_ones
    assert seen == list(range(9))  # cut between requests: none stands in two
    one = listed(path, Index())
    assert (one.row.requests, one.row.complete, one.row.models) == (9, True, ("m",))
    assert read_alternatives(joined, Reread(path), 8, 11)[0][1].text == " 8"


def test_by_time_a_part_ends_when_nothing_is_under_way(
    tmp_path: Path, pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, clock = tmp_path / "timed.phasetop", [0]
    recorder = Recorder(path, pipe[1], limits=Limits(part_ns=100))
    monkeypatch.setattr(recorder, "now", lambda: clock[0])
    recorder.open("0192f3c4", [], "run", HOST)
    for r, at in enumerate((99, 150, 249, 260)):  # the second is over 100, the third under it again, the fourth over
        clock[0] = at
        for event in request(r, 3, begin=10):
            recorder.emit(event)
    recorder.close("done")
    counts = [part.read_bytes().count(b'"k":"end"') for part in keeping.parts_of(path)]
    assert counts == [1, 2, 1]
    assert len(load(path).runs) == 4


def test_an_export_has_every_line_once(tmp_path: Path, pipe: tuple[int, int]) -> None:
    path = tmp_path / "long.phasetop"
    record(path, pipe[1], many(6, 12), Limits(part_bytes=3000)).close("done")
    assert len(keeping.parts_of(path)) > 2
    told = json.loads("".join(as_json(Exported(load(path), path, "long"))))
    kinds = [event["k"] for event in told["events"]]
    assert [kinds.count(kind) for kind in ("hello", "model", "request", "tok", "smp", "end", "bye")] == [
        1,
        2,
        6,
        72,
        72,
        6,
        1,
    ]


def load_alone(part: Path, tmp_path: Path) -> Session:
    copy = tmp_path / "alone" / "x.phasetop"
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(part.read_bytes())
    return load(copy)


def test_a_request_longer_than_a_part_stands_whole_in_the_next(
    tmp_path: Path, pipe: tuple[int, int], state_home: Home
) -> None:
    first, long = request(0, 12, begin=10), request(1, 40, begin=200 * MS)
    events = [*first, *long[:30], *request(2, 3, begin=300 * MS), *long[30:]]
    whole, path = tmp_path / "whole.phasetop", tmp_path / "long.phasetop"
    record(whole, pipe[1], events, Limits()).close("done")
    record(path, pipe[1], events, Limits(part_bytes=2500)).close("done")
    joined = load(path)
    same(joined, load(whole))
    parts = keeping.parts_of(path)
    carrying = [part for part in parts if b'"carried":[1' in part.read_bytes()]
    assert carrying
    alone = load_alone(carrying[-1], tmp_path)
    assert alone.runs[1].tokens.text == joined.runs[1].tokens.text
    assert measure(alone, alone.runs[1]) == measure(joined, joined.runs[1])
    two = [load_alone(part, tmp_path).runs.get(2) for part in parts]
    assert [r.tokens.text for r in two if r is not None and r.ends.items] == [joined.runs[2].tokens.text]
    assert listed(path, Index()).row.requests == 3


@pytest.mark.parametrize("how", ["its own name", "a second name", "a link"])
def test_whoever_follows_loses_nothing(tmp_path: Path, pipe: tuple[int, int], state_home: Home, how: str) -> None:
    live = places.make_private(places.live_folder())
    path, watched = live / "0192.phasetop", live / "0192.phasetop"
    limits = Limits(part_bytes=3000)
    if how == "a link":
        path = tmp_path / "mine.phasetop"
        watched.symlink_to(path)
        limits = Limits(part_bytes=3000, link=watched)
    recorder = Recorder(path, pipe[1], limits=limits)
    recorder.open("0192", [], "run", HOST)
    if how == "a second name":
        watched, _ = keeping.keep(path, "kept")
        recorder.also_known_as(watched)
    every, rare = Follower(watched, None, lambda: 0), Follower(watched, None, lambda: 0)
    for i, event in enumerate([*describe(), *many(6, 12)]):
        recorder.emit(event)
        every.poll()
        if i % 57 == 0:
            rare.poll()
    recorder.close("done")
    for follower in (every, rare):
        follower.poll()
        assert follower.ended
        assert follower.path is not None
        assert "part" in follower.path.name
        same(follower.session, load(watched))
        assert follower.session.bad_lines == 0
        follower.close()
    assert len(every.session.runs) == 6
    if how == "a link":
        assert part_beside(watched, 2).resolve() == part_beside(path, 2)
    if how == "a second name":
        keeping.leave_live_folder(path, watched)
        assert list(live.iterdir()) == []
        assert [len(files) for files in places.kept_files()] == [len(keeping.parts_of(watched))]


@pytest.mark.parametrize("kept", [True, False])
def test_a_slow_follower_finds_the_parts_of_a_run_that_is_over(pipe: tuple[int, int], state_home: Home, kept: bool) -> None:
    path = places.make_private(places.live_folder()) / "0192.phasetop"
    recorder = Recorder(path, pipe[1], limits=Limits(part_bytes=3000))
    recorder.open("0192", [], "run", HOST)
    slow = Follower(path, None, lambda: 0)
    events = [*describe(), *many(2, 12)]
    for event in events[:-20]:
        recorder.emit(event)
    slow.poll()
    for event in events[-20:]:
        recorder.emit(event)
    assert part_beside(path, 2).exists()
    target = keeping.keep(path, "kept")[0] if kept else None
    if not kept:
        slow._hold_next()
    recorder.close("done")
    keeping.leave_live_folder(path, target)
    assert list(places.live_folder().iterdir()) == []
    while slow.poll():
        pass
    assert slow.ended
    assert slow.lacks_part is None
    assert [len(run.tokens) for run in slow.session.runs.values()] == [12, 12]
    slow.close()


def test_a_part_that_cannot_be_made_loses_nothing(tmp_path: Path, pipe: tuple[int, int]) -> None:
    path = tmp_path / "a.phasetop"
    part_beside(path, 2).write_text("somebody's\n")
    record(path, pipe[1], many(4, 12), Limits(part_bytes=3000)).close("done")
    session = load(path)
    assert len(session.runs) == 4
    assert session.bye is not None
    assert part_beside(path, 2).read_text() == "somebody's\n"
    assert session.goes_on is None


def test_with_a_limit_the_oldest_parts_go(tmp_path: Path, pipe: tuple[int, int], state_home: Home) -> None:
    path = places.make_private(places.live_folder()) / "0192.phasetop"
    recorder = Recorder(path, pipe[1], limits=Limits(max_bytes=9000, part_bytes=3000))
    recorder.open("0192", [], "run", HOST)
    kept, _ = keeping.keep(path, "watching")
    recorder.also_known_as(kept)
    for event in [*describe(), *many(14, 12)]:
        recorder.emit(event)
        assert sum(part.stat().st_size for part in keeping.parts_of(path)) <= 9000
    recorder.close("done")
    keeping.leave_live_folder(path, kept)
    (files,) = places.kept_files()
    assert files[0].name != "watching.phasetop"
    assert places.find_recording("watching") == files[0]
    session = load(files[0])
    assert max(session.runs) == 13
    assert len(session.runs) >= 2
    assert session.bye is not None


def test_without_parts_the_recording_ends_at_its_limit_and_says_so(tmp_path: Path, pipe: tuple[int, int]) -> None:
    path = tmp_path / "a.phasetop"
    follower = Follower(path, pipe[0], lambda: 0)
    recorder = Recorder(path, pipe[1], limits=Limits(max_bytes=5000))
    recorder.open("0192", [], "run", HOST)
    events = many(4, 12)
    for event in [*describe(), *events]:
        recorder.emit(event)
        follower.poll()
    recorder.close("done")
    follower.poll()
    assert path.stat().st_size <= 5000
    assert [n.code for n in follower.session.notices.items] == ["no-props", "not-recorded"]
    assert [len(run.tokens) for run in follower.session.runs.values()] == [12] * 4  # the viewer has all of it
    stopped = load(path)
    assert (stopped.bad_lines, stopped.bye) == (0, None)
    assert stopped.notices.items[-1].text == "recording stopped: --max-size 0.01 MB is reached; the run goes on"
    assert why_it_ended(stopped) == "recording-stopped"


@pytest.mark.parametrize("own", [True, False], ids=["a path of one's own", "a name"])
def test_a_run_with_a_limit_keeps_its_newest_parts(
    tmp_path: Path, state_home: Home, metronome: Callable[..., Metronome], own: bool
) -> None:
    """A real collector: many requests, each a part, of which the last ones stay."""
    start = Start(Target(None, metronome(rate=5000, tokens=40, prefill_ms=1).url), max_bytes=24_000, part_bytes=4_000)
    line = Lifeline(start, record=tmp_path / "mine.phasetop" if own else None, keep_as=None if own else "ring")
    try:
        for r in range(12):
            line.ask(messages=[{"role": "user", "content": "hi"}], after=r - 1 if r else None)
        session = line.follower.session
        end = time.monotonic() + 60
        while not (11 in session.runs and session.runs[11].ends.items):
            assert time.monotonic() < end
            line.follower.poll()
            time.sleep(0.005)
    finally:
        line.close()
    assert len(session.runs) == 12  # the viewer has all
    assert line.kept is not None
    assert line.not_kept is None
    files = keeping.parts_of(line.kept)
    assert line.kept == files[0]
    assert "part" in files[0].name
    assert sum(file.stat().st_size for file in files) <= 24_000
    kept = load(line.kept)
    assert kept.bye is not None
    assert max(kept.runs) == 11
    assert kept.runs[11].tokens.text == session.runs[11].tokens.text
    assert list(places.live_folder().iterdir()) == []
    assert line.kept_as == (str(files[0]) if own else "ring")
    if not own:
        assert places.find_recording("ring") == files[0]


def test_a_request_too_long_to_be_repeated_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_head, "MOST_BYTES", 10_000)
    head = PartHead()

    def take(event: ev.Event) -> int:
        line = codec.encode(event)
        head.take(event, line)
        return len(line)

    taken = 0
    for r in (0, 1):
        taken += take(ev.Request(t=1, r=r, v=0, m=0, api="raw", prompt="x"))
        taken += take(ev.State(t=2, r=r, s="sent", at=2))
    tracemalloc.start()
    try:
        taken += sum(take(ev.Tok(t=3 + i, r=0, x=" token")) for i in range(20_000))
        assert tracemalloc.get_traced_memory()[0] < 200_000
    finally:
        tracemalloc.stop()
    assert head.kept_bytes == taken > 10_000  # so that no part is begun meanwhile
    take(ev.End(t=30_000, r=0, finish="stop"))
    assert head.busy
    told = [codec.decode(line) for line in head.lines(2, 30_001)]
    assert [type(event).__name__ for event in told] == ["Request", "State", "Part"]
    assert isinstance(told[-1], ev.Part)
    assert told[-1].carried == [1]
