"""What the far side says, and a far session through links that are cut anywhere; without ssh."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from phasetop import codec, far
from phasetop import events as ev
from phasetop.afar import GIVE_UP_S, FarSession
from phasetop.faults import FormatError, PhasetopError
from phasetop.link import Connection
from phasetop.ssh import Address, Failure
from tests.core.small_session import FILE, HELLO, LINES

FAR = Address("box", "me")
N = "phasetop-n"


def said(*chunks: bytes) -> list[far.Said]:
    reader = far.FarReader(N)
    return [one for chunk in chunks for one in reader.feed(chunk)]


ANSWER = (
    b'Welcome to box!\r\n{"k":"hello"}\nphasetop-n readiness\n\n'
    b"phasetop-n ready\nphasetop-n file  12 held 0\n/a b\n{first}\nDATA\n"
)


def test_what_a_login_prints_is_left_out_up_to_the_scripts_own_word() -> None:
    assert said(ANSWER) == [far.Ready(), far.Opened(12, "held", 0, b"/a b", b"{first}"), far.Data(b"DATA\n")]


@given(st.lists(st.integers(0, len(ANSWER)), max_size=6))
def test_it_may_be_cut_anywhere(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(ANSWER)]
    got = said(*(ANSWER[a:b] for a, b in pairwise(edges)))
    assert got[:2] == [far.Ready(), far.Opened(12, "held", 0, b"/a b", b"{first}")]
    assert b"".join(one.data for one in got[2:] if isinstance(one, far.Data)) == b"DATA\n"


def test_live_sessions_with_their_first_lines() -> None:
    text = b"phasetop-n ready\nphasetop-n session a.phasetop\n{1}\n{2\nphasetop-n session b.phasetop\n\nphasetop-n listed\n"
    assert said(text)[1] == far.Listed((("a.phasetop", b"{1}\n{2\n"), ("b.phasetop", b"\n")))


@pytest.mark.parametrize(
    "text",
    [
        b"x" * (far.JUNK_BYTES + 2),
        (b"x" * 99 + b"\n") * (far.JUNK_BYTES // 100 + 2),
        b"phasetop-n ready\nphasetop-n file many held 0\n/a\n{\n",
    ],
)
def test_what_is_none_of_it_ends_it(text: bytes) -> None:
    got = said(*(text[i : i + 65536] for i in range(0, len(text), 65536)))
    assert isinstance(got[-1], far.Broken)
    assert len(got) <= 2


def test_the_size_at_which_the_writer_let_go_is_told_after_the_scripts_own_word_only() -> None:
    assert far.freed_at(b"12\n", N) is None
    assert far.freed_at(b"12\nphasetop-n opened\ntail: x\n 345", N) is None
    assert far.freed_at(b"12\nphasetop-n opened\ntail: x\n 345\n", N) == 345


@given(st.binary(min_size=1, max_size=40).filter(lambda name: b"\0" not in name))
def test_any_name_arrives_in_the_far_shell(name: bytes) -> None:
    line = far.follow_line(0, name)
    assert re.fullmatch(rb"follow 1 [\w./@~+,:=\\-]+ \n", line)
    word = line.split()[2]
    script = 'read -r a; f=$(printf %b "$a."); printf %s "${f%.}"'
    assert subprocess.run(["sh", "-c", script], input=word + b"\n", capture_output=True, check=True).stdout == name


# ---- the script itself, in the shells that are here


@pytest.fixture(params=["sh", "bash", "dash", "busybox"])
def run_script(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Connection]]:
    """The script in a shell of this machine, as ssh would have it run."""
    shell = shutil.which(request.param)
    if shell is None:
        pytest.skip(f"{request.param}: not there")
    started: list[Connection] = []

    def start() -> Connection:
        def argv(nonce: str) -> list[str]:
            loader = [*([shell, "sh"] if request.param == "busybox" else [shell]), "-c", far.LOADER, "phasetop", nonce]
            return ["env", f"HOME={tmp_path}", f"XDG_STATE_HOME={tmp_path}", *loader]

        started.append(Connection(FAR, argv))
        return started[-1]

    yield start
    for one in started:
        one.close()


def until(connection: Connection, kind: type[far.Said], limit_s: float = 20) -> far.Said:
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        for one in connection.read():
            if isinstance(one, kind):
                return one
        assert connection.failure is None, connection.failure
        time.sleep(0.01)
    raise AssertionError(f"no {kind.__name__} came")


def test_the_script_follows_a_file_of_an_odd_name_from_an_offset(
    run_script: Callable[..., Connection], tmp_path: Path
) -> None:
    path = tmp_path / "a 'b' \"c\" $(d) `e` \\n é!.phasetop"
    path.write_bytes(FILE)
    link = run_script()
    until(link, far.Ready)
    link.send(far.follow_line(5, bytes(path)))
    opened = until(link, far.Opened)
    assert isinstance(opened, far.Opened)
    assert (opened.size, opened.held, opened.path) == (len(FILE), "free", bytes(path))
    assert opened.first == FILE.partition(b"\n")[0]


def test_the_script_finds_recordings_and_says_what_is_not_there(
    run_script: Callable[..., Connection], tmp_path: Path
) -> None:
    kept = tmp_path / "phasetop" / "recordings"
    kept.mkdir(parents=True)
    (kept / "one.phasetop").write_bytes(FILE)
    for name, session in ((b"one", None), (b"@last", None), (b"/gone", HELLO.session)):
        link = run_script()
        until(link, far.Ready)
        link.send(far.follow_line(0, name, session))
        opened = until(link, far.Opened)
        assert isinstance(opened, far.Opened)
        assert opened.path == bytes(kept / "one.phasetop")
    (kept / "one.part2.phasetop").write_bytes(FILE)
    os.utime(kept / "one.phasetop", (1, 1))
    link = run_script()
    until(link, far.Ready)
    link.send(far.follow_line(0, b"@last"))
    opened = until(link, far.Opened)
    assert isinstance(opened, far.Opened)
    assert opened.path == bytes(kept / "one.phasetop")  # the newest part is its session's
    link = run_script()
    until(link, far.Ready)
    link.send(far.list_line())
    assert until(link, far.Listed) == far.Listed(())
    link.send(far.follow_line(0, b"two"))
    assert until(link, far.Refused) == far.Refused("none")


def test_an_id_means_the_first_part_of_a_session(run_script: Callable[..., Connection], tmp_path: Path) -> None:
    live = tmp_path / "phasetop" / "live"
    live.mkdir(parents=True)
    for part in ("", ".part2", ".part10"):
        (live / f"0000cafe-1111{part}.phasetop").write_bytes(FILE)
    for name, found in ((b"0000cafe", ""), (b"0000cafe-1111", ""), (b"0000cafe-1111.part2", ".part2")):
        link = run_script()
        until(link, far.Ready)
        link.send(far.follow_line(0, name))
        opened = until(link, far.Opened)
        assert isinstance(opened, far.Opened)
        assert opened.path == bytes(live / f"0000cafe-1111{found}.phasetop")


def test_where_its_first_parts_are_gone_the_oldest_that_is_there_is_meant(
    run_script: Callable[..., Connection], tmp_path: Path
) -> None:
    live, kept = tmp_path / "phasetop" / "live", tmp_path / "phasetop" / "recordings"
    live.mkdir(parents=True)
    kept.mkdir()
    for part in (3, 10, 22):
        (live / f"0000cafe-1111.part{part}.phasetop").write_bytes(FILE)
        (kept / f"a.part2b.part{part}.phasetop").write_bytes(FILE)
    (kept / "notes.txt").write_text("the newest file there is no recording\n")
    for name, session, found in (
        (b"0000cafe", None, live / "0000cafe-1111.part3.phasetop"),
        (b"0000cafe-1111", None, live / "0000cafe-1111.part3.phasetop"),
        (b"a.part2b", None, kept / "a.part2b.part3.phasetop"),
        (b"@last", None, kept / "a.part2b.part3.phasetop"),
        (b"/gone", HELLO.session, kept / "a.part2b.part3.phasetop"),
    ):
        link = run_script()
        until(link, far.Ready)
        link.send(far.follow_line(0, name, session))
        opened = until(link, far.Opened)
        assert isinstance(opened, far.Opened)
        assert opened.path == bytes(found), name


def poll_on(source: FarSession) -> None:
    while source.live:
        source.poll()
        time.sleep(0.01)


def test_a_packed_recording_is_found_and_refused_with_what_to_do(
    run_script: Callable[..., Connection], tmp_path: Path
) -> None:
    kept = tmp_path / "phasetop" / "recordings"
    kept.mkdir(parents=True)
    (kept / "one.phasetop.gz").write_bytes(gzip.compress(FILE))
    for name in (b"one", b"@last"):
        link = run_script()
        source = FarSession(FAR, name, connect=lambda _, link=link: link)  # type: ignore[misc]
        with pytest.raises(FormatError, match=r"one\.phasetop\.gz: a packed recording is not read over ssh: copy it here"):
            poll_on(source)


# ---- a session through links that are cut


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Line:
    """A connection that serves a file of the test's, in given pieces, and is cut then."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.failure: Failure | None = None
        self.ready = False
        self._out: list[far.Said] = [far.Ready()]
        self._at = -1

    @property
    def freed_at(self) -> int | None:
        return len(self.world.file) if self.world.freed else None

    def send(self, line: bytes) -> None:
        _, offset, self.world.name, *_ = line.split()
        self._at = int(offset) - 1
        if self.world.gone:
            self._out.append(far.Refused("none"))
            return
        file = self.world.file
        self._out.append(far.Opened(len(file), "held", self.world.polls_s, b"/there", file.partition(b"\n")[0]))

    def read(self) -> list[far.Said]:
        out, self._out = self._out, []
        if self._at >= 0 and not out:
            piece = self.world.pieces.pop(0) if self.world.pieces else None
            if piece is None:
                piece = len(self.world.file)
            elif piece == 0:
                self.failure = Failure("lost", "cut")
            data = self.world.file[self._at : self._at + piece]
            self._at += len(data)
            if data:
                out.append(far.Data(data))
        return out

    def close(self) -> None:
        self.world.closed += 1


class World:
    """The far machine."""

    def __init__(self, file: bytes = FILE, pieces: list[int] | None = None) -> None:
        self.file = file
        self.pieces = pieces if pieces is not None else []  # bytes of each read; 0: a cut
        self.freed = self.gone = False
        self.polls_s = 0
        self.name = b""
        self.closed = self.tries = 0
        self.down: Failure | None = None
        self.clock = Clock()

    def connect(self, address: Address) -> Connection:
        self.tries += 1
        line = Line(self)
        line.failure = self.down
        if self.down is not None:
            line._out = []
        return line  # type: ignore[return-value]

    def watch(self) -> FarSession:
        return FarSession(FAR, b"name", connect=self.connect, clock=self.clock)

    def run(self, source: FarSession, polls: int = 60) -> None:
        for _ in range(polls):
            source.poll()
            self.clock.now += 0.25


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setattr("phasetop.places.state_folder", lambda: folder)


@given(st.lists(st.integers(0, 90), max_size=25))
def test_nothing_is_lost_and_nothing_comes_twice_wherever_the_link_is_cut(pieces: list[int]) -> None:
    world = World(pieces=pieces)
    source = world.watch()
    world.run(source, 300)
    assert source.copied() == FILE
    assert source.session.lines == len(LINES)
    assert "".join(str(x) for x in source.session.runs[0].tokens.text) == "Über 東京😀"
    assert source.session.bad_lines == 0
    assert [n.code for n in source.session.notices.items] == []
    assert [one.text for one in source.alternatives(0, 2)[0]] == [" 東京", "é"]
    assert world.name == (b"/there" if world.tries > 1 else b"name")
    source.close()
    assert world.closed >= world.tries


def test_a_cut_in_a_character_shows_the_link_until_it_is_back() -> None:
    at = FILE.index("東".encode()) + 1
    world = World(pieces=[at, 0])
    source = world.watch()
    world.run(source, 3)
    lines = source.session.lines
    assert source.standing is None
    world.down = Failure("unreachable", "me@box does not answer: connection timed out")
    world.run(source, 60)
    assert source.session.lines == lines
    assert source.standing is not None
    assert re.fullmatch(r"link lost 1\d s", source.standing.short)
    assert source.standing.text.endswith("trying again: me@box does not answer: connection timed out")
    assert source.live
    assert source.now() == source.session.last_t
    world.down = None
    world.run(source, 80)
    assert source.standing is None or source.standing.short.startswith("silent")
    assert source.copied() == FILE


def test_a_link_that_stays_away_ends_what_ran() -> None:
    world = World(pieces=[len(FILE), 0])
    source = world.watch()
    world.run(source, 3)
    world.down = Failure("unreachable", "no route")
    world.run(source, int(GIVE_UP_S * 4) + 200)
    assert not source.live
    assert source.lost == "no route"
    end = source.session.runs[0].ends.last()
    assert end is not None
    assert (end.finish, end.detail) == ("cut", "link-lost")
    assert source.now() == source.session.last_t
    assert world.tries < 60  # it was asked every 15 s


def test_a_refusal_is_not_tried_again() -> None:
    world = World(pieces=[len(FILE), 0])
    source = world.watch()
    world.run(source, 3)
    world.down = Failure("refused", "me@box refused")
    world.run(source, 100)
    assert (source.lost, world.tries) == ("me@box refused", 2)


def test_a_far_file_that_is_gone_after_a_cut() -> None:
    world = World(pieces=[len(FILE), 0])
    source = world.watch()
    world.run(source, 3)
    world.gone = True
    world.run(source, 20)
    assert source.lost is not None
    assert "was not kept" in source.lost


def test_the_first_connection_tells_what_is_wrong() -> None:
    world = World()
    world.down = Failure("refused", "me@box refused")
    with pytest.raises(PhasetopError, match="me@box refused"):
        world.run(world.watch())
    world = World()
    world.gone = True
    with pytest.raises(PhasetopError, match="me@box: there is no session 'name'"):
        world.run(world.watch())
    with pytest.raises(FormatError, match=r"me@box:/there: this is no phasetop session"):
        World().run(World(b"root:x:0:0\n" * 50).watch())
    newer = FILE.replace(b'"format":1', b'"format":2')
    with pytest.raises(FormatError, match="written by p 0, format 2; this one reads 1"):
        World().run(World(newer).watch())


def test_a_writer_that_let_go_without_a_word_was_cut_off_once_all_has_come() -> None:
    world = World(FILE + b'{"k":"tok","t":99,"r":0,"x":"to', pieces=[50, 50])
    world.freed = True
    source = world.watch()
    world.run(source, 3)
    assert source.live  # 50 bytes have come of all
    world.run(source, 10)
    assert not source.live
    end = source.session.runs[0].ends.last()
    assert end is not None
    assert (end.finish, end.detail) == ("cut", "collector-died")
    assert source.lost is None


def test_a_goodbye_ends_the_link() -> None:
    world = World(FILE + codec.encode(ev.Bye(t=50, reason="done", lines=len(LINES))))
    source = world.watch()
    world.run(source, 5)
    assert not source.live
    assert world.closed
    assert source.standing is None


def test_a_session_that_goes_on_in_a_further_part_is_followed_there() -> None:
    goes_on = ev.Part(t=20, part=2, file="x.part2.phasetop")
    head = [replace(HELLO, part=2), *LINES[1:4], ev.Part(t=21, part=2)]  # a part's head says again what runs
    more = [ev.Tok(t=30, r=0, x="!"), ev.Bye(t=31, reason="done", lines=4)]
    world = World(codec.encode_all([*LINES, goes_on]), pieces=[60, 0])
    world.freed = True
    source = world.watch()
    for _ in range(80):
        source.poll()
        world.clock.now += 0.25
        if world.name == b"/there.part2.phasetop":
            world.file, world.gone = codec.encode_all([*head, *more]), False
        elif source.session.goes_on is not None:
            world.gone = True  # it is there a moment later
    assert not source.live
    assert source.lost is None
    run = source.session.runs[0]
    assert "".join(str(x) for x in run.tokens.text) == "Über 東京😀!"
    assert [one.text for one in source.alternatives(0, 2)[0]] == [" 東京", "é"]
    assert source.session.bad_lines == 0


def test_another_session_in_its_place_is_shown_from_its_beginning() -> None:
    world = World(pieces=[len(FILE), 0])
    source = world.watch()
    world.run(source, 3)
    first = source.session
    world.file = FILE.replace(HELLO.session.encode(), b"f" * 36)
    world.run(source, 30)
    assert source.session is not first
    assert source.session.lines == len(LINES) + 1
    assert [n.code for n in source.session.notices.items] == ["replaced"]
    assert source.copied() == world.file


def test_a_tail_that_begins_again_after_the_file_was_cut_back_does_not_double_it() -> None:
    torn = b'{"k":"tok","t":99,"r":0,"x":"to'
    world = World(FILE + torn + FILE, pieces=[len(FILE) + 5, 30, 9, 7, 7])  # what GNU tail sends then, in odd pieces
    source = world.watch()
    world.run(source, 3)
    rest = World(FILE + codec.encode(ev.Tok(t=100, r=0, x="!")))
    for _ in range(30):
        source.poll()
        world.clock.now += 0.25
        if source.standing is not None and source.standing.short.startswith("link lost"):
            world.file, world.pieces = rest.file, []
    assert source.copied() == rest.file
    assert source.session.bad_lines == 0
    assert source.session.lines == len(LINES) + 1


def test_a_tail_that_polls_is_named_with_its_period() -> None:
    world = World()
    world.polls_s = 1
    source = world.watch()
    world.run(source, 5)
    notice = source.session.notices.items[0]
    assert (notice.code, "once in 1 s" in notice.text) == ("far-polls", True)


def test_silence_is_said() -> None:
    world = World()
    source = world.watch()
    world.run(source, 20)
    assert source.standing is not None
    assert source.standing.short == "silent 4 s"
