"""A session that comes on a pipe: `phasetop watch -`."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from phasetop import codec
from phasetop import events as ev
from phasetop.faults import FormatError
from phasetop.piped import JUNK_BYTES, Piped
from phasetop.standing import Standing
from tests.core.small_session import FILE, HELLO, LINES

S = 1_000_000_000


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setattr("phasetop.places.state_folder", lambda: folder)


class Pipe:
    def __init__(self) -> None:
        self.out, self.into = os.pipe()
        self.clock = 0
        self.source = Piped(self.out, lambda: self.clock)

    def put(self, data: bytes) -> bool:
        os.write(self.into, data)
        return self.source.poll()

    def end(self) -> bool:
        os.close(self.into)
        self.into = -1
        return self.source.poll()

    def whole(self, data: bytes) -> None:
        for i in range(0, len(data), 50_000):
            self.put(data[i : i + 50_000])
        self.end()

    def close(self) -> None:
        for fd in (self.out, self.into):
            if fd >= 0:
                os.close(fd)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


@given(st.lists(st.integers(0, len(FILE)), max_size=8))
def test_it_may_come_in_any_pieces_after_a_banner(cuts: list[int]) -> None:
    pipe = Pipe()
    try:
        text = b'Welcome!\n{"motd": 1}\n' + FILE
        edges = [0, *sorted(cuts), len(text)]
        for a, b in zip(edges, edges[1:], strict=False):  # noqa: RUF007
            pipe.put(text[a:b]) if b > a else pipe.source.poll()
        assert pipe.source.session.lines == len(LINES)
        assert pipe.source.live
        assert [one.text for one in pipe.source.alternatives(0, 0)[0]] == ["Ü", "é"]
    finally:
        pipe.close()


def test_nothing_there_is_not_waited_for(pipe: Pipe) -> None:
    assert not pipe.source.poll()
    assert pipe.source.now() == 0


def test_now_goes_on_from_the_last_event(pipe: Pipe) -> None:
    assert pipe.put(FILE)
    pipe.clock += S
    assert pipe.source.now() == LINES[-1].t + S


def test_an_end_without_a_goodbye_cuts_what_ran(pipe: Pipe) -> None:
    pipe.put(FILE)
    assert pipe.end()
    assert not pipe.source.live
    end = pipe.source.session.runs[0].ends.last()
    assert end is not None
    assert (end.finish, end.detail) == ("cut", "stream-ended")
    assert pipe.source.now() == pipe.source.session.last_t
    assert not pipe.source.poll()


def test_a_goodbye_ends_it(pipe: Pipe) -> None:
    pipe.put(FILE + codec.encode(ev.Bye(t=99, reason="done", lines=len(LINES))))
    assert not pipe.source.live
    assert [n.code for n in pipe.source.session.notices.items] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "no phasetop session"),
        (b"hello\n", "no phasetop session"),
        (FILE[FILE.index(b"\n") + 1 :], "in the middle of a session"),
        (FILE.replace(b'"format":1', b'"format":9'), "format 9; this one reads 1"),
    ],
)
def test_what_is_no_session(pipe: Pipe, text: bytes, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        pipe.whole(text)


def test_no_end_of_junk(pipe: Pipe) -> None:
    with pytest.raises(FormatError, match="no phasetop session"):
        pipe.whole(b"x" * (JUNK_BYTES + 50_000))


def test_what_is_packed_is_told_with_what_unpacks_it(pipe: Pipe) -> None:
    packed = gzip.compress(FILE)
    assert not pipe.put(packed[:1])
    with pytest.raises(FormatError, match=r"is packed: `gzip -dc FILE \| phasetop watch -`"):
        pipe.put(packed[1:])


def test_a_session_that_goes_on_in_another_file_says_so_until_that_comes(pipe: Pipe) -> None:
    pipe.put(FILE)
    assert pipe.source.standing is None
    pipe.put(codec.encode(ev.Part(t=60, part=2, file="x.part2.phasetop")))
    assert pipe.source.standing == Standing(
        "goes on in part 2", "the session goes on in part 2, another file, which did not come by here"
    )
    head = [replace(HELLO, part=2), ev.Part(t=61, part=2)]
    pipe.put(codec.encode_all([*head, ev.Tok(t=70, r=0, x="!")]))
    assert pipe.source.standing is None
    assert pipe.source.session.runs[0].tokens.text[-1] == "!"
    pipe.put(codec.encode(ev.Part(t=80, part=3, file="x.part3.phasetop")))
    assert pipe.source.standing is not None
    pipe.end()
    assert pipe.source.standing is None
    assert pipe.source.session.notices.items[-1].code == "stream-ended"
