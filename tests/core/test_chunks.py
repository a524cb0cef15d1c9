"""However a session's bytes come, in whatever pieces, it is the same session."""

from __future__ import annotations

import os
from array import array
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasetop import codec, follow
from phasetop import events as ev
from phasetop.follow import Follower
from phasetop.inflow import Inflow
from phasetop.live import Watched
from phasetop.recording import LineFeed
from phasetop.session import Session

HELLO = ev.Hello(t=0, format=1, session="s", anchor=ev.Anchor(mono=0, wall=0), by="phasetop test")


def told(value: Any) -> Any:
    """All that an object holds, as plain values; NaN as a word, since it is not itself."""
    if isinstance(value, float):
        return "NaN" if value != value else value
    if value is None or isinstance(value, (str, int, bytes)):
        return value
    if isinstance(value, msgspec.Raw):
        return bytes(value)
    if isinstance(value, dict):
        return {key: told(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, array)):
        return [told(each) for each in value]
    names = getattr(value, "__struct_fields__", None) or [*getattr(type(value), "__slots__", ()), *vars_of(value)]
    return {name: told(getattr(value, name)) for name in names if name != "__weakref__" and hasattr(value, name)}


def vars_of(value: Any) -> list[str]:
    return list(getattr(value, "__dict__", ()))


LINES: tuple[bytes, ...] = (
    *(
        codec.encode(event)
        for event in (
            ev.Request(t=5, r=0, v=0, api="chat", messages=[{"role": "user", "content": "hi\u2028 \u0085"}]),
            ev.Request(t=6, r=1, v=0, api="chat", labels={"cell": 1}),
            ev.Server(t=6, v=0, backend="ollama", url="http://127.0.0.1:11434"),
            ev.Series(t=6, s=0, name="cpu_percent", unit="%"),
            ev.Smp(t=9, t0=7, v={"0": 9.5, "1": None}, e={"1": "no"}),
            ev.Tok(t=10, r=0, x="a"),
            ev.Tok(t=10, r=0, x="é", p=-0.5, top=["é", -0.5, "e", -1.5]),
            ev.Tok(t=30, r=1, x=["🦙", "b"], p=[-0.1, None]),
            ev.Tok(t=40, r=0, x="", b="4pg=", c="think"),
            ev.Tok(t=90_000_000, r=0, x="!", n=None),
            ev.Timings(t=50, r=0, prompt_n=4, gen_n=3),
            ev.End(t=60, r=1, finish="stop"),
            ev.Notice(t=60, code="stall", text="it stood"),
        )
    ),
    b'{"k":"x-vendor","t":7}\n',
    b'{"t":70,"r":0,"k":"tok","x":"keys in another order"}\r\n',
    b'{"k":"tok","t":-5,"r":0}\n',
    b"no line of ours\r\xff\n",
    b"\n",
)
lines = st.lists(st.sampled_from(LINES), max_size=25)
sizes = st.lists(st.integers(1, 90), max_size=40)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    found = []
    for size in cuts:
        found.append(data[:size])
        data = data[size:]
    return [*found, data]


def at_once(data: bytes) -> Session:
    session = Session()
    LineFeed(session).feed(data)
    return session


@given(lines, sizes, st.booleans())
def test_a_feed_makes_one_session_of_any_pieces(chosen: list[bytes], cuts: list[int], torn: bool) -> None:
    data = codec.encode(HELLO) + b"".join(chosen)
    data = data[:-1] if torn else data
    session = Session()
    feed = LineFeed(session)
    for piece in pieces(data, cuts):
        feed.feed(piece)
    assert told(session) == told(at_once(data))
    assert feed.offset + feed.tail_bytes == len(data)


@settings(max_examples=50)
@given(chosen=lines, more=lines, cuts=sizes, read=st.integers(1, 70), most=st.integers(1, 200))
def test_a_file_that_is_read_in_steps_is_the_same_session(
    tmp_path_factory: pytest.TempPathFactory, chosen: list[bytes], more: list[bytes], cuts: list[int], read: int, most: int
) -> None:
    """In two parts, each of which grows while it is read, so much a poll as it may."""
    first = codec.encode(HELLO) + b"".join(chosen)
    first += codec.encode(ev.Part(t=100, part=2, file="a.part2.phasetop"))
    head = codec.encode(msgspec.structs.replace(HELLO, part=2)) + codec.encode(ev.Part(t=100, part=2))
    second = head + b"".join(more)
    folder = tmp_path_factory.mktemp("steps")
    path, part = folder / "a.phasetop", folder / "a.part2.phasetop"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(follow, "_READ_BYTES", read)
        patch.setattr(follow, "MOST_BYTES", most)
        follower = Follower(path, None, lambda: 0)
        for file, data in ((path, first), (part, second)):
            with file.open("ab", buffering=0) as out:
                for piece in pieces(data, cuts):
                    out.write(piece)
                    follower.poll()
        while follower.poll() or follower.behind:
            pass
    follower.close()
    whole = Session()
    LineFeed(whole).feed(first)
    LineFeed(whole, after=len(first)).feed(second)
    assert told(follower.session) == told(whole)


@given(lines, sizes)
def test_what_comes_through_a_link_is_the_same_session(chosen: list[bytes], cuts: list[int]) -> None:
    data = codec.encode(HELLO) + b"".join(chosen)
    inflow = Inflow()
    for piece in pieces(data, cuts):
        inflow.take(piece)
    assert told(inflow.session) == told(at_once(data))


def long_file(path: Path, tokens: int) -> Path:
    toks = (ev.Tok(t=10 + 1000 * i, r=0, x=f" word{i}") for i in range(tokens))
    path.write_bytes(codec.encode_all([HELLO, ev.Request(t=5, r=0, api="chat"), *toks]))
    return path


def test_a_poll_takes_no_more_than_it_may_and_says_that_there_is_more(tmp_path: Path) -> None:
    path = long_file(tmp_path / "a.phasetop", 120_000)
    follower = Follower(path, None, lambda: 0)
    polls = 0
    while not polls or follower.behind:
        before = follower.session.lines
        assert follower.poll()
        polls += 1
        assert 0 < (follower.session.lines - before) * 38 <= follow.MOST_BYTES
        assert follower.share == pytest.approx(min(1.0, polls * follow.MOST_BYTES / path.stat().st_size))
    assert polls == -(-path.stat().st_size // follow.MOST_BYTES)
    assert len(follower.session.runs[0].tokens.text) == 120_000
    assert not follower.poll()
    follower.close()


def test_what_came_through_the_pipe_waits_until_the_file_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = long_file(tmp_path / "a.phasetop", 60)
    monkeypatch.setattr(follow, "MOST_BYTES", 1000)
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    follower = Follower(path, reader, lambda: 10**9)
    os.write(writer, codec.encode(ev.Tok(t=10**8, r=0, x="by the pipe")))
    os.close(writer)
    follower.poll()
    assert follower.behind
    assert not follower.ended
    assert not follower.session.runs[0].ends.items
    while not follower.ended:
        follower.poll()
    assert follower.session.runs[0].tokens.text == [*(f" word{i}" for i in range(60)), "by the pipe"]
    end = follower.session.runs[0].ends.last()
    assert end is not None
    assert (end.finish, end.detail) == ("cut", "collector-died")
    os.close(reader)
    follower.close()


def test_a_watcher_ends_what_a_killed_writer_left_only_when_all_of_it_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = long_file(tmp_path / "a.phasetop", 60)
    monkeypatch.setattr(follow, "MOST_BYTES", 1000)
    now = [10**12]
    watched = Watched(path, lambda: now[0])
    watched.poll()
    assert watched.live
    standing = watched.standing
    assert standing is not None
    assert standing.short == f"reading {100 * 1000 / path.stat().st_size:.0f} %"
    assert not watched.session.runs[0].ends.items
    watched.catch_up()
    now[0] += 2 * 10**9
    watched.poll()
    assert (watched.live, watched.standing) == (False, None)
    assert len(watched.session.runs[0].tokens.text) == 60
    assert watched.session.runs[0].ends.last() is not None
