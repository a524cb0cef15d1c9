"""Session files read back: torn, hostile, growing, replaced, zipped."""

from __future__ import annotations

import errno
import gzip
import io
import os
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop import codec
from phasetop import events as ev
from phasetop.faults import FormatError, PhasetopError
from phasetop.follow import Follower
from phasetop.recording import LineFeed, load, settle
from phasetop.reread import Reread
from phasetop.session import Session
from phasetop.unzipped import Unzipped

HELLO = ev.Hello(t=0, format=1, session="s", anchor=ev.Anchor(mono=0, wall=0), by="phasetop test")
EVENTS: list[ev.Event] = [
    HELLO,
    ev.Request(t=5, r=0, v=0, api="chat", messages=[{"role": "user", "content": "hi\u2028there\x85"}]),
    ev.State(t=6, r=0, s="sent", at=6),
    ev.Tok(t=10, r=0, x="a\u2028b"),
    ev.Tok(t=20, r=0, x="é", p=-0.5, top=["é", -0.5, "e", -1.5]),
    ev.Tok(t=30, r=0, x="🦙"),
    ev.End(t=40, r=0, finish="stop"),
    ev.Bye(t=50, reason="done", lines=7),
]
DATA = codec.encode_all(EVENTS)


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_a_whole_file(tmp_path: Path) -> None:
    session = load(write(tmp_path / "a.phasetop", DATA))
    assert session.lines == len(EVENTS)
    assert session.runs[0].tokens.text == ["a\u2028b", "é", "🦙"]
    assert session.bye is not None
    assert session.bad_lines == 0
    assert session.notices.items == []


def test_torn_at_every_byte_of_the_last_line_keeps_the_rest(tmp_path: Path) -> None:
    whole = codec.encode_all(EVENTS[:6])
    last = codec.encode(EVENTS[5])
    for cut in range(1, len(last)):
        session = load(write(tmp_path / "a.phasetop", whole[:-cut]))
        assert session.runs[0].tokens.text == ["a\u2028b", "é"], cut
        assert [n.code for n in session.notices.items] == ["torn-tail"], cut


def test_gzip_and_broken_gzip(tmp_path: Path) -> None:
    zipped = gzip.compress(DATA)
    assert load(write(tmp_path / "a.gz", zipped)).runs[0].tokens.text[-1] == "🦙"
    with pytest.raises(FormatError, match="compression"):
        load(write(tmp_path / "b.gz", zipped[:20]))


def test_all_that_a_cut_gzip_holds_is_read(tmp_path: Path) -> None:
    packed = zlib.compressobj(wbits=31)
    head, end = DATA.splitlines(keepends=True)[:-2], DATA.splitlines(keepends=True)[-2:]
    whole = packed.compress(b"".join(head)) + packed.flush(zlib.Z_SYNC_FLUSH)
    cut = load(write(tmp_path / "a.gz", whole + (packed.compress(b"".join(end)) + packed.flush())[:3]))
    plain = load(write(tmp_path / "a.phasetop", b"".join(head)))
    assert cut.runs[0].tokens.text == plain.runs[0].tokens.text != []


@given(st.lists(st.binary(max_size=3000), min_size=1, max_size=3), st.integers(1, 5000), st.binary(max_size=5))
def test_gzip_is_unpacked_as_the_standard_library_does(members: list[bytes], size: int, after: bytes) -> None:
    packed = io.BytesIO(b"".join(map(gzip.compress, members)) + b"\0" + after)
    source = Unzipped(packed)
    assert b"".join(iter(lambda: source.read(size), b"")) == b"".join(members)


BOMBS = {
    "blank lines": b"\n",
    "no lines": b"a",
    "words": b"words\n",
    "half": b'{"k":"mark","t":5,"at":5}\n\n\n',
    "another's kinds": b'{"k":"x-a"}\n',
    "one token again and again": b'{"k":"tok","t":5,"r":0,"x":"a"}\n',
}


@pytest.mark.parametrize("piece", BOMBS.values(), ids=BOMBS)
def test_a_small_file_that_unpacks_to_much_is_refused_early(piece: bytes) -> None:
    """Each would unpack to 1 GiB, and take minutes."""
    data = gzip.compress(codec.encode(HELLO)) + 1024 * gzip.compress(piece * ((1 << 20) // len(piece)), 9)
    source, feed, taken = Unzipped(io.BytesIO(data)), LineFeed(Session()), list[int]()

    def read() -> None:
        while chunk := source.read(1 << 20):
            taken.append(len(chunk))
            feed.feed(chunk)

    with pytest.raises(FormatError, match="no phasetop recording"):
        read()
    assert sum(taken) < 180 << 20


def test_lines_that_cannot_be_read_are_refused_early_in_a_plain_file_too() -> None:
    feed = LineFeed(Session())
    feed.feed(DATA)
    with pytest.raises(FormatError, match="most of what follows its first line cannot be read"):
        feed.feed(b"\n" * 20_000)


def test_damage_is_passed_over_where_there_is_more_that_can_be_read() -> None:
    feed = LineFeed(Session())
    feed.feed(codec.encode(HELLO))
    for i in range(12_000):
        feed.feed(codec.encode(ev.Tok(t=i, r=0, x="a")) + b"damaged\n")
    assert feed.session.bad_lines == 12_000
    assert len(feed.session.runs[0].tokens.text) == 12_000


def test_the_smallest_that_recordings_pack_to_is_unpacked() -> None:
    """Redacted, one length, an exact beat: nothing that happens packs better, by far."""
    lines = b"".join(b'{"k":"tok","t":%d,"r":0,"x":6}\n' % (8_000_000 * i) for i in range(400_000))
    source = Unzipped(io.BytesIO(gzip.compress(lines, 9)))
    assert sum(map(len, iter(lambda: source.read(1 << 20), b""))) == len(lines)


def test_what_a_gateway_held_back_and_sent_at_once_is_unpacked() -> None:
    """One token, 1,100 of them with one stamp: as many as a read of 64 KiB brings."""
    lines = b"".join(b'{"k":"tok","t":%d,"r":0,"x":" a"}\n' % (10**9 + i // 1100 * 91_234) for i in range(1_200_000))
    packed = gzip.compress(lines)
    assert 1_200_000 / len(packed) > 4
    source = Unzipped(io.BytesIO(packed))
    assert sum(map(len, iter(lambda: source.read(1 << 20), b""))) == len(lines)


def test_a_first_line_that_is_none_is_refused_before_it_ends() -> None:
    with pytest.raises(FormatError, match="its first line is no session's"):
        LineFeed(Session()).feed(b"\x00" * 4096)
    begun = LineFeed(Session())
    begun.feed(b" ")
    begun.feed(codec.encode(HELLO)[:40])
    begun.feed(codec.encode(HELLO)[40:])
    assert begun.session.hello == HELLO


@pytest.mark.parametrize("data", [b"", b"x", b"\x7fELF\x00\x01\n", b"{}\n", b'{"k":"tok","t":1,"r":0}\n', b"\n\n"])
def test_what_is_no_recording_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(FormatError, match="no phasetop recording"):
        load(write(tmp_path / "a.phasetop", data))


def test_a_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    newer = codec.encode(ev.Hello(t=0, format=2, session="s", anchor=ev.Anchor(0, 0), by="phasetop 2.0"))
    with pytest.raises(FormatError, match=r"written by phasetop 2\.0, format 2; this one reads 1"):
        load(write(tmp_path / "a.phasetop", newer))


def test_bad_and_foreign_lines_are_counted_skipped_and_told_once(tmp_path: Path) -> None:
    lines = DATA.splitlines(keepends=True)
    lines[3:3] = [
        b'{"k":"x-vendor","t":7,"what":1}\n',  # a foreign kind is no bad line
        b'{"k":"tok","t":-5,"r":0,"x":"no"}\n',
        b'{"k":"tok","t":99999999999999999999,"r":0,"x":"no"}\n',
        b"garbage\xff\n",
        b'{"k":"smp","t":8}\n',
        b'{"unknown":"kind"}\n',
    ]
    session = load(write(tmp_path / "a.phasetop", b"".join(lines)))
    assert session.bad_lines == 5
    assert session.runs[0].tokens.text == ["a\u2028b", "é", "🦙"]
    assert [(n.code, n.text) for n in session.notices.items] == [("bad-lines", "5 lines could not be read and were skipped")]


def test_an_endless_line_does_not_fill_the_memory() -> None:
    session = Session()
    feed = LineFeed(session)
    feed.feed(codec.encode(HELLO))
    block = b"x" * (8 << 20)
    for _ in range(9):  # 72 MiB
        feed.feed(block)
        assert feed.tail_bytes <= codec.MAX_READ_BYTES + len(block)
    feed.feed(b"\n" + codec.encode(EVENTS[3]))
    assert session.bad_lines == 1
    assert session.runs[0].tokens.text == ["a\u2028b"]
    assert feed.offset == len(codec.encode(HELLO)) + 9 * len(block) + 1 + len(codec.encode(EVENTS[3]))


def test_whole_lines_before_an_endless_one_are_taken() -> None:
    session = Session()
    feed = LineFeed(session)
    feed.feed(codec.encode(HELLO) + codec.encode(EVENTS[3]) + b"x" * (codec.MAX_READ_BYTES + 1))
    assert session.runs[0].tokens.text == ["a\u2028b"]
    feed.feed(b"\n" + codec.encode(EVENTS[3]))
    assert session.runs[0].tokens.text == ["a\u2028b"] * 2
    assert session.bad_lines == 1


@given(st.lists(st.integers(1, 40), max_size=60))
def test_any_split_gives_the_same_session(sizes: list[int]) -> None:
    session = Session()
    feed = LineFeed(session)
    rest = DATA
    for size in sizes:
        feed.feed(rest[:size])
        rest = rest[size:]
    feed.feed(rest)
    assert session.runs[0].tokens.text == ["a\u2028b", "é", "🦙"]
    assert list(session.runs[0].tokens.t) == [10, 20, 30]
    assert feed.offset == len(DATA)
    assert feed.tail_bytes == 0


@given(st.binary(max_size=300))
def test_random_bytes_never_break_a_session(data: bytes) -> None:
    session = Session()
    feed = LineFeed(session)
    feed.feed(codec.encode(HELLO))
    feed.feed(data + b"\n" + codec.encode(EVENTS[3]))
    assert session.runs[0].tokens.text[-1] == "a\u2028b"


def test_a_lines_place_reads_it_again(tmp_path: Path) -> None:
    path = write(tmp_path / "a.phasetop", DATA)
    tokens = load(path).runs[0].tokens
    where = tokens.detail.get(1)
    assert where is not None
    again = Reread(path).line(where)
    assert isinstance(again, ev.Tok)
    assert again.top == ["é", -0.5, "e", -1.5]
    assert tokens.detail.get(0) is None


def test_a_growing_file_is_followed_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "a.phasetop"
    follower = Follower(path, None, lambda: 0)
    assert not follower.poll()
    with path.open("ab", buffering=0) as out:
        out.write(DATA[:90])
        follower.poll()
        for i in range(90, len(DATA), 7):
            out.write(DATA[i : i + 7])
            follower.poll()
    assert follower.session.runs[0].tokens.text == ["a\u2028b", "é", "🦙"]
    assert follower.ended
    follower.close()


def test_a_file_cut_back_to_whole_lines_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.phasetop"
    follower = Follower(path, None, lambda: 0)
    whole = codec.encode_all(EVENTS[:4])
    path.write_bytes(whole + b'{"k":"smp","t":9')  # not how the next line begins
    follower.poll()
    os.truncate(path, len(whole))
    follower.poll()
    with path.open("ab") as out:
        out.write(codec.encode(EVENTS[4]))
    follower.poll()
    assert follower.session.runs[0].tokens.text == ["a\u2028b", "é"]
    assert follower.session.notices.items == []
    follower.close()


OTHER: list[ev.Event] = [
    ev.Hello(t=0, format=1, session="another", anchor=ev.Anchor(mono=0, wall=0), by="phasetop test"),
    ev.Request(t=3, r=0, api="chat"),
    ev.Tok(t=4, r=0, x="fresh"),
]


def texts(follower: Follower) -> list[ev.Text]:
    return follower.session.runs[0].tokens.text


@pytest.mark.parametrize("longer", [False, True], ids=["shorter", "longer"])
@pytest.mark.parametrize("how", ["in its place", "over its name"])
def test_a_file_that_was_replaced_is_read_from_its_beginning(tmp_path: Path, how: str, longer: bool) -> None:
    path = tmp_path / "a.phasetop"
    path.write_bytes(codec.encode_all(EVENTS[:5]))
    follower = Follower(path, None, lambda: 0)
    follower.poll()
    before = follower.session
    fresh = codec.encode_all([*OTHER, *(ev.Tok(t=5, r=0, x="more") for _ in range(40 if longer else 0))])
    assert (len(fresh) > path.stat().st_size) is longer
    if how == "in its place":
        path.write_bytes(fresh[:30])
        follower.poll()
        assert follower.session is before  # until the other one has its first line
        path.write_bytes(fresh)
    else:
        (tmp_path / "b").write_bytes(fresh)
        (tmp_path / "b").rename(path)
    for _ in range(3):
        follower.poll()
    assert follower.session is not before
    assert before.runs[0].tokens.text == ["a\u2028b", "é"]
    assert texts(follower)[0] == "fresh"
    assert [n.code for n in follower.session.notices.items] == ["replaced"]
    with path.open("ab") as out:
        out.write(codec.encode(ev.Tok(t=9, r=0, x="on")))
    follower.poll()
    assert texts(follower)[-1] == "on"
    follower.close()


def test_a_copy_that_has_more_of_the_same_session_is_gone_on_with(tmp_path: Path) -> None:
    """As rsync puts it there: another file, the same beginning."""
    path = tmp_path / "a.phasetop"
    path.write_bytes(codec.encode_all(EVENTS[:4]))
    follower = Follower(path, None, lambda: 0)
    follower.poll()
    before = follower.session
    (tmp_path / "b").write_bytes(DATA)
    (tmp_path / "b").rename(path)
    follower.poll()
    assert follower.session is before
    assert texts(follower) == ["a\u2028b", "é", "🦙"]
    assert follower.ended
    assert before.notices.items == []
    follower.close()


def test_a_file_whose_name_is_gone_is_followed_on(tmp_path: Path) -> None:
    path = tmp_path / "a.phasetop"
    path.write_bytes(codec.encode_all(EVENTS[:4]))
    follower = Follower(path, None, lambda: 0)
    with path.open("ab") as out:
        follower.poll()
        path.unlink()
        follower.poll()
        out.write(codec.encode(EVENTS[4]))
    follower.poll()
    assert texts(follower) == ["a\u2028b", "é"]
    follower.close()


def test_whoever_has_the_writers_pipe_says_replaced_once_and_reads_on(tmp_path: Path) -> None:
    path = tmp_path / "a.phasetop"
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    follower = Follower(path, reader, lambda: 0)
    path.write_bytes(codec.encode_all(EVENTS[:4]))
    follower.poll()
    os.truncate(path, len(codec.encode_all(EVENTS[:2])))
    follower.poll()
    follower.poll()
    with path.open("ab") as out:
        out.write(codec.encode(EVENTS[4]))
    follower.poll()
    assert texts(follower) == ["a\u2028b", "é"]
    assert [n.code for n in follower.session.notices.items] == ["replaced"]
    os.close(writer)
    os.close(reader)
    follower.close()


def test_what_cannot_be_read_is_one_line_and_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Follower(tmp_path, None, lambda: 0)
    with pytest.raises(PhasetopError, match=r"cannot read .*: is a directory"):
        folder.poll()
    assert folder.ended
    assert not folder.poll()
    folder.close()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    waits = Follower(fifo, None, lambda: 0)
    with pytest.raises(PhasetopError, match="cannot read"):
        waits.poll()
    waits.close()

    def refused(*_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))  # root is refused nothing

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(PhasetopError, match=r"cannot read .*: permission denied"):
        Follower(tmp_path / "a.phasetop", None, lambda: 0).poll()


def test_lines_of_the_pipe_come_after_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.phasetop"
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    follower = Follower(path, reader, lambda: 60)
    os.write(writer, codec.encode_all(EVENTS[5:]))
    path.write_bytes(codec.encode_all(EVENTS[:5]))
    follower.poll()
    assert follower.session.runs[0].tokens.text == ["a\u2028b", "é", "🦙"]
    assert follower.ended
    os.close(writer)
    os.close(reader)
    follower.close()


def test_a_collector_that_dies_leaves_a_cut_request(tmp_path: Path) -> None:
    path = tmp_path / "a.phasetop"
    path.write_bytes(codec.encode_all(EVENTS[:5]))
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    follower = Follower(path, reader, lambda: 77)
    follower.poll()
    assert not follower.ended
    os.close(writer)
    follower.poll()
    assert follower.ended
    end = follower.session.runs[0].ends.last()
    assert end is not None
    assert (end.finish, end.detail, end.t) == ("cut", "collector-died", 77)
    assert [n.code for n in follower.session.notices.items] == ["collector-died"]
    os.close(reader)
    follower.close()


def test_settle_ends_only_what_runs() -> None:
    session = Session()
    feed = LineFeed(session)
    feed.feed(codec.encode_all(EVENTS[:-1]))
    feed.feed(codec.encode(ev.Request(t=45, r=1)))
    settle(session, 48, "collector-died")
    assert [end.finish for end in session.runs[0].ends.items] == ["stop"]
    assert [end.finish for end in session.runs[1].ends.items] == ["cut"]
