"""Files that somebody put together in one: parts in their order are the session, all else ends it, with a word."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from phasetop import codec, keeping
from phasetop import events as ev
from phasetop.backends.shelf import Limits
from phasetop.catalogue_index import Index
from phasetop.export import Exported
from phasetop.export.as_json import write as as_json
from phasetop.inflow import Inflow
from phasetop.live import Watched
from phasetop.recording import load
from phasetop.session import Session
from phasetop.sessions_list import listed
from tests.backends.test_shelf import many, record, same

if TYPE_CHECKING:
    from tests.conftest import Home

Files = dict[str, bytes]


@pytest.fixture
def files(state_home: Home, tmp_path: Path, pipe: tuple[int, int]) -> Files:
    """The three parts of one session, and another session."""
    path = tmp_path / "parts" / "a.phasetop"
    path.parent.mkdir()
    record(path, pipe[1], many(6, 12), Limits(part_bytes=5000)).close("done")
    found = {str(i): part.read_bytes() for i, part in enumerate(keeping.parts_of(path), 1)}
    assert sorted(found) == ["1", "2", "3"]
    other = tmp_path / "parts" / "b.phasetop"
    record(other, pipe[1], many(2, 5), Limits()).close("done")
    found["b"] = other.read_bytes().replace(b"0192f3c4", b"0192f3c5")
    return found


@pytest.fixture
def joined(files: Files, tmp_path: Path) -> Callable[..., Path]:
    def put(*names: str, packed: bool = False) -> Path:
        data = b"".join(gzip.compress(files[name]) if packed else files[name] for name in names)
        path = tmp_path / f"{'-'.join(names)}.phasetop"
        path.write_bytes(data)
        return path

    return put


def codes(session: Session) -> list[str]:
    return [one.code for one in session.notices.items if one.code != "no-props"]


def requests(session: Session) -> list[int]:
    return [run.r for run in session.runs.values() if run.info.at() is not None]


def exported(path: Path, session: Session) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads("".join(as_json(Exported(session, path, "x"))))["events"]
    return found


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_parts_in_their_order_are_the_session(joined: Callable[..., Path], tmp_path: Path, packed: bool) -> None:
    path = joined("1", "2", "3", packed=packed)
    session = load(path)
    same(session, load(tmp_path / "parts" / "a.phasetop"))
    assert codes(session) == []
    assert (listed(path, Index()).row.requests, listed(path, Index()).row.complete) == (6, True)
    assert [event["k"] for event in exported(path, session)].count("tok") == 6 * 12


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (("1", "b"), "another-session"),
        (("1", "1"), "another-session"),
        (("2", "1"), "another-session"),
        (("3", "3"), "another-session"),
        (("b", "b"), "another-session"),
        (("1", "3"), "part-missing"),
    ],
)
def test_what_does_not_follow_is_left_out_and_that_is_said(
    joined: Callable[..., Path], names: tuple[str, str], code: str
) -> None:
    alone, path = load(joined(names[0])), joined(*names)
    session = load(path)
    assert requests(session) == requests(alone)
    for r in requests(alone):
        assert list(session.runs[r].tokens.t) == list(alone.runs[r].tokens.t)
    assert codes(session)[0] == code
    assert listed(path, Index()).row.requests == listed(joined(names[0]), Index()).row.requests
    toks = [event for event in exported(path, session) if event["k"] == "tok"]
    assert len(toks) == sum(len(run.tokens) for run in alone.runs.values())
    watched = Watched(path)
    watched.catch_up()
    assert requests(watched.session) == requests(alone)


def test_joined_parts_are_gone_on_with_in_the_next_file(files: Files, tmp_path: Path) -> None:
    """Somebody put the first two together and left the third where it was."""
    path = tmp_path / "parts" / "a.phasetop"
    path.write_bytes(files["1"] + files["2"])
    (tmp_path / "parts" / "a.part2.phasetop").unlink()
    session = load(path)
    assert (requests(session), codes(session)) == ([0, 1, 2, 3, 4, 5], [])
    assert [event["k"] for event in exported(path, session)].count("tok") == 6 * 12
    watched = Watched(path)
    watched.catch_up()
    same(watched.session, session)


def test_a_file_with_the_name_of_a_part_that_it_is_not(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "parts" / "a.phasetop"
    path.with_name("a.part2.phasetop").write_bytes(files["3"])
    session = load(path)
    assert codes(session) == ["part-missing"]
    assert session.notices.items[-1].text == "part 2 of this session: part 3 stands in its place"
    assert requests(session) == requests(load_alone(tmp_path, files["1"]))


def load_alone(tmp_path: Path, data: bytes) -> Session:
    path = tmp_path / "alone.phasetop"
    path.write_bytes(data)
    return load(path)


def test_a_first_line_may_be_said_again(files: Files, tmp_path: Path) -> None:
    lines = files["b"].splitlines(keepends=True)
    hello = codec.decode(lines[0])
    assert isinstance(hello, ev.Hello)
    said = [*lines[:20], codec.encode(replace(hello, t=hello.t + 5)), *lines[20:]]
    same(load_alone(tmp_path, b"".join(said)), load_alone(tmp_path, b"".join(lines)))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(st.sampled_from(["1", "2", "3", "b"]), min_size=1, max_size=5), cut=st.integers(0, 250))
def test_all_that_read_such_files_agree(files: Files, tmp_path: Path, names: list[str], cut: int) -> None:
    data = b"".join(files[name] for name in names)
    path = tmp_path / "any.phasetop"
    path.write_bytes(data[: len(data) - cut])
    session = load(path)
    events = exported(path, session)
    assert [event["k"] for event in events].count("tok") == sum(len(run.tokens) for run in session.runs.values())
    row = listed(path, Index()).row
    assert row.requests == len(requests(session)) - len(carried_into(events))
    assert row.complete == (session.bye is not None)
    inflow = Inflow()
    for at in range(0, len(data) - cut, 777):
        inflow.take(data[at : min(at + 777, len(data) - cut)])
    assert requests(inflow.session) == requests(session)


def carried_into(events: list[dict[str, object]]) -> list[object]:
    """The requests that the first part's head has of those before: the list counts them where they began."""
    return [r for event in events if event["k"] == "part" for r in event.get("carried", [])]  # type: ignore[attr-defined]


def test_every_order_of_three_parts_ends_where_it_is_none(joined: Callable[..., Path]) -> None:
    for order in permutations("123"):
        follows = 1
        while follows < 3 and int(order[follows]) == int(order[follows - 1]) + 1:
            follows += 1
        assert requests(load(joined(*order))) == requests(load(joined(*order[:follows])))
