"""A session in several files of which any were packed: one session for all that reads recordings."""

from __future__ import annotations

import gzip
import json
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from phasetop import keeping, places
from phasetop.alternatives import read_alternatives
from phasetop.backends.shelf import Limits
from phasetop.catalogue_index import Index
from phasetop.cli import main
from phasetop.export import Exported
from phasetop.export.as_json import write as as_json
from phasetop.follow import Follower
from phasetop.live import Watched
from phasetop.parts import part_beside
from phasetop.recording import load
from phasetop.reread import Reread
from phasetop.session import Session
from phasetop.sessions_list import listed, sessions
from tests.backends.test_shelf import many, record, same

if TYPE_CHECKING:
    from tests.conftest import Home

MIXES = [mix for mix in product(("plain", "packed", "both"), repeat=3) if set(mix) != {"plain"}]


@pytest.fixture
def whole(state_home: Home, pipe: tuple[int, int]) -> Session:
    """A kept recording called ``long``, in three parts, and what it is with none of them packed."""
    path = places.make_private(places.recordings_folder()) / "long.phasetop"
    record(path, pipe[1], many(6, 12), Limits(part_bytes=5000)).close("done")
    assert len(keeping.parts_of(path)) == 3
    return load(path)


def pack(mix: tuple[str, ...]) -> Path:
    """Pack the parts as ``mix`` says; returns the file by which the session is opened."""
    path = places.recordings_folder() / "long.phasetop"
    for part, how in enumerate(mix, 1):
        plain = part_beside(path, part)
        if how != "plain":
            plain.with_name(f"{plain.name}.gz").write_bytes(gzip.compress(plain.read_bytes()))
        if how == "packed":
            plain.unlink()
    return places.find_recording("long")


@pytest.mark.parametrize("mix", MIXES, ids="-".join)
def test_any_mix_is_one_session(whole: Session, mix: tuple[str, ...]) -> None:
    path = pack(mix)
    assert path == places.find_recording("@last") or "both" in mix
    same(load(path), whole)
    lines = Reread(path)
    for r in range(6):
        assert [one.text for one in read_alternatives(load(path), lines, r, 11)[0]] == [" w11", f" {r}"]
    one = listed(path, Index())
    (row,), bad = sessions(Index())
    assert (one.row, one.files, bad) == (row.row, row.files, [])
    assert (one.name, one.row.requests, one.row.parts, one.row.complete) == ("long", 6, 3, True)
    told = json.loads("".join(as_json(Exported(whole, path, "long"))))
    assert [event["r"] for event in told["events"] if event["k"] == "request"] == list(range(6))
    assert sum(event["k"] == "tok" for event in told["events"]) == 6 * 12
    watched = Watched(path)
    watched.catch_up()
    same(watched.session, whole)
    assert not watched.live


def test_a_packed_part_is_read_in_steps_and_the_session_goes_on_behind_it(
    whole: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phasetop.follow.MOST_BYTES", 2000)
    monkeypatch.setattr("phasetop.follow._READ_BYTES", 700)
    path = pack(("packed", "plain", "packed"))
    follower = Follower(path, None, lambda: 0)
    follower.poll()
    assert follower.behind
    assert 0 < follower.session.lines < whole.lines
    while follower.behind:
        follower.poll()
    same(follower.session, whole)
    follower.close()


@pytest.mark.parametrize("mix", [("packed", "plain", "both"), ("both", "packed", "plain")], ids="-".join)
def test_they_are_renamed_and_removed_together(whole: Session, mix: tuple[str, ...]) -> None:
    pack(mix)
    assert main(["sessions", "rename", "long", "other"]) == 0
    same(load(places.find_recording("other")), whole)
    assert len(list(places.recordings_folder().iterdir())) == 4
    assert main(["sessions", "rm", "other", "--yes"]) == 0
    assert list(places.recordings_folder().iterdir()) == []


def test_lines_are_found_where_a_part_was_packed_meanwhile(whole: Session) -> None:
    path = places.find_recording("long")
    lines = Reread(path)
    assert pack(("packed", "packed", "packed")) != path
    assert read_alternatives(whole, lines, 5, 11)[0][1].text == " 5"


def test_a_packed_part_that_is_cut_is_the_end_of_what_is_known(whole: Session) -> None:
    path = pack(("plain", "packed", "plain"))
    second = path.with_name("long.part2.phasetop.gz")
    second.write_bytes(second.read_bytes()[:300])
    session = load(path)
    lines = Reread(path)
    for r, run in session.runs.items():
        for i in range(len(run.tokens)):
            assert [one.text for one in read_alternatives(session, lines, r, i)[0]] == [f" w{i}", f" {r}"]
    watched = Watched(path)
    watched.catch_up()
    assert watched.session.runs.keys() <= whole.runs.keys()
