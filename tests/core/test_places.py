"""Names and folders of recordings."""

from __future__ import annotations

import os
import stat
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from phasetop import places

if TYPE_CHECKING:
    from tests.conftest import Home


def test_the_usual_name_is_date_and_model() -> None:
    day = datetime(2026, 11, 30)
    assert places.recording_stem("llama3.1:8b", day) == "2026-11-30-llama3.1-8b"
    assert places.recording_stem("hf.co/org/Model_X:Q4_K_M", day) == "2026-11-30-hf.co-org-Model-X-Q4-K-M"
    assert places.recording_stem(None, day) == "2026-11-30"


@pytest.mark.parametrize(
    ("typed", "stem"),
    [
        ("../../etc/passwd", "etc-passwd"),
        ("a b", "a-b"),
        ("-rf", "rf"),
        ("...", "session"),
        ("x.phasetop", "x"),
        ("né", "né"),
    ],
)
def test_a_name_is_a_file_name_and_nothing_more(typed: str, stem: str) -> None:
    assert places.safe_stem(typed) == stem


@pytest.mark.parametrize(
    ("name", "path"), [("morning", False), ("a.b", False), ("./x", True), ("x.phasetop", True), ("/tmp/x", True)]
)
def test_what_is_a_path_of_the_users_own(name: str, path: bool) -> None:
    assert places.is_path(name) is path


def test_numbers_follow_a_name_that_is_taken(tmp_path: Path) -> None:
    names = places.numbered(tmp_path, "a")
    assert [next(names).name for _ in range(3)] == ["a.phasetop", "a-2.phasetop", "a-3.phasetop"]


def test_recordings_are_found_by_path_name_and_age(state_home: Home) -> None:
    folder = places.make_private(places.recordings_folder())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for age, name in enumerate(["new", "old"]):
        file = folder / f"{name}.phasetop"
        file.touch()
        os.utime(file, (time.time() - age * 100,) * 2)
    assert places.find_recording("@last").name == "new.phasetop"
    assert places.find_recording("@2").name == "old.phasetop"
    assert places.find_recording("old").name == "old.phasetop"
    assert places.find_recording(str(folder / "new.phasetop")).name == "new.phasetop"
    with pytest.raises(FileNotFoundError, match="there are 2"):
        places.find_recording("@3")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        places.find_recording("nowhere")


def test_nothing_waits_for_a_pipe_or_reads_a_device(state_home: Home) -> None:
    for folder in (places.make_private(places.live_folder()), places.make_private(places.recordings_folder())):
        fifo = folder / "00000000.phasetop"
        os.mkfifo(fifo)
        (folder / "zero.phasetop").symlink_to("/dev/zero")
        assert not places.is_live(fifo)
        with pytest.raises(FileNotFoundError, match="is a pipe or a device"):
            places.find_recording(str(fifo))
    assert places.live_files() == places.kept_files() == []
    with pytest.raises(FileNotFoundError, match="is a pipe or a device"):
        places.find_recording("/dev/zero")


def test_unfinished_files_go_after_a_week_and_live_ones_never(state_home: Home) -> None:
    folder = places.make_private(places.live_folder())
    week = 8 * 86_400
    old, fresh, held = (folder / f"{name}.phasetop" for name in ("old", "fresh", "held"))
    for file in (old, fresh, held):
        file.touch()
    kept = places.make_private(places.recordings_folder())
    packing, own = kept / ".a.phasetop.4242", kept / ".mine.phasetop"  # what a killed run was packing; somebody's
    for file in (packing, own, kept / "a.phasetop"):
        file.touch()
    for file in (old, held, packing, own, kept / "a.phasetop"):
        os.utime(file, (time.time() - week,) * 2)
    fd = os.open(held, os.O_WRONLY)
    assert places.lock(fd)
    assert places.sweep_unfinished() == [old, packing]
    assert sorted(path.name for path in kept.iterdir()) == [".mine.phasetop", "a.phasetop"]
    assert sorted(path.name for path in folder.iterdir()) == ["fresh.phasetop", "held.phasetop"]
    os.close(fd)


def test_of_a_session_that_runs_for_weeks_nothing_is_swept(state_home: Home) -> None:
    folder = places.make_private(places.live_folder())
    first, second, log, other = (folder / name for name in ("a.phasetop", "a.part2.phasetop", "a.log", "b.log"))
    for path in (first, second, log, other):
        path.touch()
    later = time.time() + 8 * 86_400
    with second.open("ab") as writer:
        assert places.lock(writer.fileno())
        assert places.sweep_unfinished(later) == [other]
    assert sorted(places.sweep_unfinished(later)) == sorted([first, second, log])
