"""What a list tells of session files without decoding each token; compared with the whole Session of the same bytes."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins
from msgspec.structs import replace

from phasetop import codec, parts, places
from phasetop import events as ev
from phasetop.catalogue import Entry, read_entry, row_of
from phasetop.catalogue_index import MEANING, Index, read_file, shape_of, whole_lines
from phasetop.faults import FormatError
from phasetop.recording import LineFeed, load
from phasetop.session import Session
from phasetop.sessions_list import sessions
from phasetop.totals import Spent, spent, sums
from phasetop.unzipped import Unzipped

if TYPE_CHECKING:
    from tests.conftest import Home

SOME = ("events-format-1.jsonl", "older-build.phasetop")
RECORDED = Path(__file__).parents[1] / "data"
HELLO = ev.Hello(
    t=0, format=1, session="0192f3c4-7a1e", anchor=ev.Anchor(mono=5, wall=1_796_000_000_000_000_000), by="phasetop 9"
)
EVENTS: list[ev.Event] = [
    HELLO,
    ev.Server(t=1, v=0, backend="ollama"),
    ev.Model(t=2, m=0, v=0, name="small"),
    ev.Model(t=3, m=1, v=0, name="large"),
    ev.Request(t=5, r=0, v=0, api="chat", messages=[{"role": "user", "content": 'x\n{"k":"request","r":77}'}]),
    ev.Request(t=6, r=0, m=1, applied={}),
    ev.Tok(t=10, r=0, x='{"k":"model",'),
    ev.End(t=40, r=0, finish="stop"),
    ev.Request(t=50, r=1, v=0, m=0, api="chat"),
    ev.Tok(t=70, r=1, x="a"),
    ev.End(t=72, r=1, finish="stop"),
    ev.Smp(t=71, t0=60, v={}),
    ev.Bye(t=72, reason="done", lines=12),
]
DATA = codec.encode_all(EVENTS)


def entry_of(data: bytes) -> Entry:
    return read_entry([data])


def test_the_lines_that_count() -> None:
    entry = entry_of(DATA)
    assert entry == Entry(
        session="0192f3c4-7a1e",
        began_ns=1_796_000_000_000_000_000,
        last_ns=72,
        requests=2,
        models=("large", "small"),
        by="phasetop 9",
        bye="done",
    )


@given(st.lists(st.integers(1, 200), max_size=30))
def test_any_blocks_of_whole_lines_tell_the_same(sizes: list[int]) -> None:
    lines = DATA.splitlines(keepends=True)

    def blocks() -> Iterator[bytes]:
        rest = list(lines)
        for size in sizes:
            taken, rest = rest[: size % 5 + 1], rest[size % 5 + 1 :]
            if taken:
                yield b"".join(taken)
        if rest:
            yield b"".join(rest)

    assert read_entry(blocks()) == entry_of(DATA)


@given(st.integers(len(codec.encode(HELLO)), len(DATA)))
def test_a_file_torn_anywhere_tells_what_its_session_has(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("torn") / "a.phasetop"
    path.write_bytes(DATA[:cut])
    entry, session = read_file(path), load(path)
    assert entry.requests == len(session.runs)
    assert entry.last_ns == session.last_t
    assert entry.bye == (None if session.bye is None else session.bye.reason)


def test_keys_in_another_order_are_read_too() -> None:
    turned = [json.dumps(dict(reversed(json.loads(line).items()))).encode() + b"\n" for line in DATA.splitlines()]
    assert not turned[0].startswith(b'{"k"')
    assert read_entry([b"".join(turned)]) == entry_of(DATA)


def test_a_damaged_line_counts_for_nothing() -> None:
    bad = b'{"k":"request","t":1,"r":"nine"}\n{"k":"request","t":1\n{"k":"model","t":1,"m":0,"name":5}\n'
    bad += b'{"k":"request","t":1,"r":9,"prompt":-5.5}\n'  # the session of these lines has no such request either
    assert entry_of(DATA[:-1] + b"\n" + bad).requests == 2


@pytest.mark.parametrize("data", [b"", b"x", b"\x7fELF\x00\x01\n", b"{}\n", b'{"k":"tok","t":1,"r":0}\n', b"\n\n"])
def test_what_is_no_recording_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match="no phasetop recording"):
        read_entry(whole_lines(open_bytes(data)))


def open_bytes(data: bytes) -> Unzipped:
    import io

    return Unzipped(io.BytesIO(gzip.compress(data)))


def test_a_newer_format_and_a_bomb_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = codec.encode(ev.Hello(t=0, format=2, session="s", anchor=ev.Anchor(0, 0), by="phasetop 2.0"))
    with pytest.raises(FormatError, match=r"written by phasetop 2\.0, format 2"):
        entry_of(newer)
    monkeypatch.setattr("phasetop.catalogue_index.MOST_BYTES", 1 << 20)
    bomb = tmp_path / "b.phasetop.gz"
    bomb.write_bytes(gzip.compress(codec.encode(HELLO) + b"x" * (9 << 20)))
    with pytest.raises(FormatError, match="more than 1 MiB"):
        read_file(bomb)


def test_a_large_recording_is_looked_through_however_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phasetop.catalogue_index.MOST_BYTES", 1 << 20)
    lines = b"".join(codec.encode(ev.Tok(t=1_000 + 7_654_321 * i, r=0, x=f" word{i % 99}")) for i in range(60_000))
    large = tmp_path / "b.phasetop.gz"
    large.write_bytes(gzip.compress(DATA[: DATA.index(b'{"k":"bye"')] + lines))
    assert len(lines) > 2 << 20
    assert read_file(large).last_ns == 1_000 + 7_654_321 * 59_999


def test_parts_are_one_session() -> None:
    first = entry_of(DATA[: DATA.index(b'{"k":"bye"')] + codec.encode(ev.Part(t=80, part=2, file="a.part2.phasetop")))
    head = [ev.Hello(**{**{f: getattr(HELLO, f) for f in HELLO.__struct_fields__}, "part": 2})]
    second = entry_of(
        codec.encode_all(
            [
                *head,
                ev.Model(t=2, m=0, v=0, name="small"),
                ev.Request(t=50, r=1, v=0, m=0, api="chat"),
                ev.Part(t=80, part=2, carried=[1]),
                ev.Request(t=90, r=2, v=0, m=0),
                ev.Bye(t=2_000_000_000, reason="stopped"),
            ]
        )
    )
    assert (first.goes_on, second.goes_on, second.part) == (True, False, 2)
    row = row_of([first, second])
    assert (row.requests, row.duration_s, row.complete, row.parts) == (3, 2.0, True, 2)
    assert row.models == ("large", "small")
    assert not row_of([first]).complete


@pytest.mark.parametrize(
    ("name", "stem", "part"),
    [
        ("a.phasetop", "a", 1),
        ("a.part2.phasetop.gz", "a", 2),
        ("llama3.2.phasetop", "llama3.2", 1),
        ("a.part1.phasetop", "a.part1", 1),
        ("a.part02.phasetop", "a.part02", 1),
        (".part3.phasetop", ".part3", 1),
        ("a.part2.part3.phasetop", "a.part2", 3),
    ],
)
def test_names_of_parts(name: str, stem: str, part: int) -> None:
    assert parts.split_stem(parts.stem_of(name)) == (stem, part)
    if part > 1:
        assert parts.part_beside(Path("/x") / name, part) == Path("/x") / f"{parts.stem_of(name)}.phasetop"


def test_the_index_is_a_cache_and_nothing_more(state_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = places.make_private(places.recordings_folder())
    (folder / "a.phasetop").write_bytes(DATA)
    (folder / "b.phasetop").write_bytes(b"no session\n")

    def listing() -> tuple[list[str], list[str]]:
        index = Index()
        found, bad = sessions(index)
        index.save()
        return [f"{one.name} {one.row.requests}" for one in found], [one.file.name for one in bad]

    assert listing() == (["a 2"], ["b.phasetop"])
    file = places.state_folder() / "sessions.index"
    assert file.stat().st_mode & 0o777 == 0o600
    with monkeypatch.context() as patch:
        patch.setattr("phasetop.catalogue_index.read_file", lambda path: pytest.fail("it was read again"))
        assert listing() == (["a 2"], ["b.phasetop"])
    (folder / "a.phasetop").write_bytes(DATA[: DATA.index(b'{"k":"request","t":50')])
    assert listing() == (["a 1"], ["b.phasetop"])
    for broken in (b"", b"\xff{", b'{"version":1}', b'{"version":"0","files":{}}'):
        file.write_bytes(broken)
        assert listing() == (["a 1"], ["b.phasetop"])
    (folder / "a.phasetop").unlink()
    assert listing() == ([], ["b.phasetop"])
    assert b"a.phasetop" not in file.read_bytes()


def test_an_index_whose_entries_mean_or_hold_something_else_counts_for_nothing(
    state_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version, other fields, another meaning: of two checkouts of one version, too."""
    folder = places.make_private(places.recordings_folder())
    (folder / "a.phasetop").write_bytes(DATA)
    index = Index()
    sessions(index)
    index.save()
    stored = (places.state_folder() / "sessions.index").read_text()
    assert '"requests":2' in stored

    class Entry2(Entry, frozen=True):
        more: int = 0

    for changed in (
        ("phasetop.__version__", "9.9"),
        ("phasetop.catalogue_index.MEANING", MEANING + 1),
        ("phasetop.catalogue_index.Entry", Entry2),
    ):
        (places.state_folder() / "sessions.index").write_text(stored.replace('"requests":2', '"requests":77'))
        ((one,), _) = sessions(Index())
        assert one.row.requests == 77  # it is believed
        with monkeypatch.context() as patch:
            patch.setattr(*changed)
            ((one,), _) = sessions(Index())
            assert one.row.requests == 2, changed[0]


def test_sums_are_kept_with_what_their_rows_hold(state_home: Home) -> None:
    folder = places.make_private(places.recordings_folder())
    (folder / "a.phasetop").write_bytes(DATA)
    index, files = Index(), [folder / "a.phasetop"]
    sessions(index)
    index.keep_totals(files, [[1]], shape_of(Spent))
    assert index.totals(files, shape_of(Spent)) == [[1]]
    assert index.totals(files, shape_of(Entry)) is None


def test_what_files_tell_is_what_the_index_was_made_for() -> None:
    """Where this fails, the same files tell something else than before: raise `MEANING`, and put the new sum here."""
    known = [DATA, codec.encode_all(EVENTS[:-1]), *((RECORDED / name).read_bytes() for name in SOME)]
    told = []
    for data in known:
        session = Session()
        LineFeed(session).feed(data)
        rows = [replace(row, day=None) for row in spent(session)]  # of this machine's time zone
        told.append((to_builtins(read_entry([data])), to_builtins(rows)))
    assert len(told) == 4
    assert (MEANING, zlib.crc32(json.dumps(told).encode())) == (1, 2334972744)


def test_sums_say_what_is_missing() -> None:
    requests = [
        Spent("m", "2026-11-30", 10, 0, 5, None, 1.5),
        Spent("m", "2026-11-29", 20, None, 6, 2.0, 2.0),
        Spent(None, None, None, None, 7, 1.0, 0.25),
    ]
    model, none = sums(requests, "model")
    assert (model.key, model.requests, model.prompt_tokens, model.cached_tokens, model.output_tokens) == ("m", 2, 30, 0, 11)
    assert (model.energy_j, model.wall_s, model.missing) == (2.0, 3.5, {"cached_tokens": 1, "energy_j": 1})
    assert (none.key, none.prompt_tokens, none.missing["prompt_tokens"]) == (None, None, 1)
    assert [row.key for row in sums(requests, "day")] == ["2026-11-30", "2026-11-29", None]
