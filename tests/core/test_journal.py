"""The writer of session files: whole lines, locked, and nothing lost when the disk is full."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from phasetop import codec
from phasetop import events as ev
from phasetop.follow import Follower
from phasetop.journal import Journal
from phasetop.places import is_live, lock
from phasetop.recording import load


def line(i: int) -> bytes:
    return codec.encode(ev.Tok(t=i, r=0, x=f" token {i}"))


HELLO = codec.encode(ev.Hello(t=0, format=1, session="s", anchor=ev.Anchor(mono=0, wall=0), by="test"))


def lost(why: str) -> bytes:
    return codec.encode(ev.Notice(t=0, code="not-recorded", level="error", text=why))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 64 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    made = mount and subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=64k", "none", str(folder)], capture_output=True, check=False
    )
    if not made or made.returncode:
        pytest.skip("a small tmpfs: only root may mount one here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_file_is_private_locked_while_open_and_free_after(tmp_path: Path, pipe: tuple[int, int]) -> None:
    path = tmp_path / "a.phasetop"
    journal = Journal(path, pipe[1], lost)
    journal.write(HELLO)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert is_live(path)
    journal.close()
    assert not is_live(path)
    assert path.read_bytes() == HELLO
    assert journal.lines == 1


def test_the_lock_outlives_a_rename_and_a_second_name(tmp_path: Path, pipe: tuple[int, int]) -> None:
    path = tmp_path / "a.phasetop"
    journal = Journal(path, pipe[1], lost)
    os.link(path, tmp_path / "kept.phasetop")
    path.rename(tmp_path / "moved.phasetop")
    assert is_live(tmp_path / "kept.phasetop")
    assert is_live(tmp_path / "moved.phasetop")
    journal.close()


def test_an_existing_file_is_never_written_to(tmp_path: Path, pipe: tuple[int, int]) -> None:
    path = tmp_path / "a.phasetop"
    path.write_bytes(b"somebody's\n")
    journal = Journal(path, pipe[1], lost)
    assert not journal.recording
    journal.write(HELLO)
    assert path.read_bytes() == b"somebody's\n"
    assert os.read(pipe[0], 1 << 16) == HELLO


def test_a_full_disk_cuts_back_to_the_last_whole_line_and_goes_on_over_the_pipe(
    small_disk: Path, pipe: tuple[int, int]
) -> None:
    path = small_disk / "a.phasetop"
    journal = Journal(path, pipe[1], lost)
    follower = Follower(path, pipe[0], lambda: 0)
    journal.write(HELLO)
    total = 2500  # about 110 KB
    for i in range(1, total + 1):
        journal.write(line(i))
        if i % 50 == 0:
            follower.poll()
    journal.close()
    follower.poll()

    on_disk = path.read_bytes()
    assert on_disk.endswith(b"\n")
    assert len(on_disk) > 60_000
    session = follower.session
    assert session.runs[0].tokens.text == [f" token {i}" for i in range(1, total + 1)]
    assert [n.code for n in session.notices.items] == ["not-recorded"]
    assert "no space" in session.notices.items[0].text
    assert session.bad_lines == 0
    assert journal.dropped == 0
    assert journal.lines == session.lines  # with the notice
    again = load(path)
    assert again.bad_lines == 0
    kept = len(again.runs[0].tokens)
    assert again.runs[0].tokens.text == session.runs[0].tokens.text[:kept]


def test_a_pipe_that_nobody_reads_drops_whole_lines_and_counts_them(pipe: tuple[int, int]) -> None:
    journal = Journal(None, pipe[1], lost)
    journal.write(HELLO)
    total = 5000
    for i in range(total):
        journal.write(line(i))
    assert journal.dropped > 0
    data = b""
    while True:
        try:
            data += os.read(pipe[0], 1 << 16)
        except BlockingIOError:
            break
    journal.write(line(total))  # finishes the line that was begun
    data += os.read(pipe[0], 1 << 16)
    assert data.count(b"\n") + journal.dropped == total + 2
    for one in data.splitlines(keepends=True):
        assert codec.decode(one) is not None


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    journal = Journal(None, writer, lost)
    journal.write(HELLO + line(1))
    assert journal.dropped == 2
    os.close(writer)


def test_a_look_whether_it_is_live_does_not_cost_a_new_session_its_file(
    tmp_path: Path, pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may hold the shared lock for a moment, just when the file appears."""
    path = tmp_path / "a.phasetop"
    looks: list[int] = []

    def lock_while_somebody_looks(fd: int) -> bool:
        if not looks:
            looks.append(os.open(path, os.O_RDONLY))
            fcntl.flock(looks[0], fcntl.LOCK_SH)
            assert not lock(fd)
            return False
        os.close(looks[0])
        return lock(fd)

    monkeypatch.setattr("phasetop.journal.lock", lock_while_somebody_looks)
    journal = Journal(path, pipe[1], lost)
    assert journal.recording
    assert is_live(path)
    journal.close()


def test_a_further_part_does_not_wait_for_the_disk(
    tmp_path: Path, pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, real = threading.Event(), os.fsync

    def fsync(fd: int) -> None:
        assert synced.wait(20)
        real(fd)

    journal = Journal(tmp_path / "a.phasetop", pipe[1], lost)
    journal.write(HELLO)
    monkeypatch.setattr(os, "fsync", fsync)
    assert journal.go_on(tmp_path / "a.part2.phasetop", HELLO, line(1))
    journal.write(line(2))
    assert (tmp_path / "a.part2.phasetop").read_bytes() == HELLO + line(2)
    assert is_live(tmp_path / "a.phasetop")
    synced.set()
    for thread in threading.enumerate():
        if thread.name == "sync":
            thread.join()
    assert not is_live(tmp_path / "a.phasetop")
    journal.close()
