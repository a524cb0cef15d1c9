"""Watching a session of another machine through a real ssh to a real sshd: end to end, cut and restored, refused."""

from __future__ import annotations

import fcntl
import gzip
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from phasetop.afar import FarSession
from phasetop.recording import load
from phasetop.ssh import Address
from tests.core.small_session import FILE, HELLO
from tests.tui.ptyterm import Terminal

if TYPE_CHECKING:
    from tests.conftest import Home, Spawn
    from tests.tools.sshd import FarMachine

PHASETOP = [sys.executable, "-P", "-m", "phasetop"]
FAR = Address("far")


def until(true: Callable[[], object], limit_s: float = 30.0) -> None:
    end = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


def watchers(path: Path) -> list[str]:
    """The command lines of processes that have the far file open as an argument."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(path) in words:
            found.append(b" ".join(words).decode())
    return found


@pytest.fixture
def hold() -> Iterator[Callable[[Path], None]]:
    """Hold a session file's lock, as its writer does."""
    held: list[int] = []

    def take(path: Path) -> None:
        held.append(os.open(path, os.O_RDONLY))
        fcntl.flock(held[-1], fcntl.LOCK_EX)

    yield take
    for fd in held:
        os.close(fd)


class Watched:
    """A far session that is polled as a view polls it."""

    def __init__(self, name: Path | str) -> None:
        self.source = FarSession(FAR, os.fsencode(name))

    def has(self, data: bytes) -> bool:
        self.source.poll()
        return self.source.copied() == data

    def until_has(self, data: bytes) -> None:
        until(lambda: self.has(data))


@pytest.fixture
def watch() -> Iterator[Callable[[Path | str], Watched]]:
    started: list[Watched] = []

    def start(name: Path | str) -> Watched:
        started.append(Watched(name))
        return started[-1]

    yield start
    for one in started:
        one.source.close()


def test_a_link_cut_in_a_record_and_in_a_character_loses_and_doubles_nothing(
    far: FarMachine, watch: Callable[[Path | str], Watched], hold: Callable[[Path], None]
) -> None:
    (far.home / ".bashrc").write_text('echo "Welcome, $USER"; echo \'{"k":"hello"}\'; echo oops >&2; echo 7 >&2\n')
    path = far.home / "a run.phasetop"
    in_record, in_character = FILE.index(b'"k":"state"') + 3, FILE.index("東".encode()) + 1
    path.write_bytes(FILE[:in_record])
    hold(path)
    watched = watch("a run.phasetop")  # from the home there
    watched.until_has(FILE[:in_record])
    for upto in (in_character, len(FILE)):
        lines = watched.source.session.lines
        far.cut()
        until(lambda: watched.source.poll() or watched.source.standing is not None)
        assert watched.source.session.lines == lines
        with path.open("ab") as file:
            file.write(FILE[path.stat().st_size : upto])
        watched.until_has(FILE[:upto])
    assert watched.source.session.bad_lines == 0
    assert "".join(str(x) for x in watched.source.session.runs[0].tokens.text) == "Über 東京😀"
    assert watchers(path)  # the last connection's `tail` follows it
    watched.source.close()
    until(lambda: not watchers(path))  # and nothing is left there


def test_a_run_there_is_watched_as_it_goes_and_killed(
    far: FarMachine, state_home: Home, small_model: Path, spawn: Spawn
) -> None:
    there = {**os.environ, "XDG_STATE_HOME": str(far.state)}
    nowhere = subprocess.DEVNULL
    run = [*PHASETOP, "run", "--backend", "embedded", "-t", "1", "-n", "3000", "-o", "ignore_eos=true", "--plain"]
    spawn([*run, "-p", "Tell a long story."], env=there, stdout=nowhere, stderr=nowhere)
    seen = spawn([*PHASETOP, "watch", "far:", "--plain", "--wait"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert seen.stdout is not None
    assert seen.stderr is not None
    first = seen.stdout.read(60)  # as it goes: the run is not over
    for pid in collectors(there["XDG_STATE_HOME"]):
        os.kill(pid, 9)
    assert seen.wait(30) == 1  # its lock is free: it was cut off, and the reply with it
    assert b"the reply was cut" in seen.stderr.read()
    (path,) = (far.state / "phasetop" / "live").glob("*.phasetop")
    text = "".join(str(x) for x in load(path).runs[0].tokens.text)
    assert (first + seen.stdout.read()).decode() == text


def collectors(state: str) -> list[int]:
    found = []
    for each in Path("/proc").glob("[0-9]*/environ"):
        try:
            environ, words = each.read_bytes(), (each.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if f"XDG_STATE_HOME={state}".encode() in environ.split(b"\0") and b"phasetop.backends.collector" in words:
            found.append(int(each.parent.name))
    return found


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["far:nothing"], 1, "far: there is no session 'nothing'"),
        (["far:hosts"], 1, "this is no phasetop session"),
        (
            ["far:packed"],
            1,
            "a packed recording is not read over ssh: copy it here (scp), then `phasetop replay` it",
        ),
        (["far:"], 1, "nothing is running on far (--wait waits for a run)"),
        (["nobody@far"], 1, "nobody@far refused: `ssh nobody@far` has to work without a password"),
        (["stranger@elsewhere:x"], 1, "the key of stranger@elsewhere is not known: connect once"),
        (["far:22"], 2, "a port is written in a URL: ssh://far:22"),
        (["me:secret@far"], 2, "holds no password"),
    ],
)
def test_what_is_wrong_is_one_plain_line(far: FarMachine, arguments: list[str], status: int, words: str) -> None:
    (far.home / "hosts").write_bytes(b"127.0.0.1 localhost\n")
    (far.home / "packed").write_bytes(gzip.compress(FILE))
    with far.config.open("a") as file:
        file.write(f"Host elsewhere\n HostName 127.0.0.1\n Port {far.port}\n UserKnownHostsFile /dev/null\n")
    done = subprocess.run(
        [*PHASETOP, "watch", "--plain", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (status, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert "secret" not in done.stderr


def test_the_view_shows_how_the_link_stands(far: FarMachine, state_home: Home, hold: Callable[[Path], None]) -> None:
    path = far.home / "slow.phasetop"
    path.write_bytes(FILE)
    hold(path)
    env = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    with Terminal([*PHASETOP, "watch", "far:slow.phasetop"], size=(110, 30), env=env) as view:
        view.until_shown("far:slow.phasetop", 30)
        view.until_shown("Über 東京😀")
        assert "ask" not in view.text.splitlines()[-1]
        far.refuse()  # no way back in
        view.until_shown("link lost")
        view.until_shown("trying again")
        view.send("q")
        assert view.wait() == 0
    assert not watchers(path)
    assert HELLO.session in path.read_text()
