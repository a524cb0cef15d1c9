"""`phasetop watch` on this machine: what runs here, files, stdin; with a view and without."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from phasetop import codec
from phasetop import events as ev
from phasetop.watch_command import far_name
from tests.core.small_session import FILE, HELLO, LINES
from tests.tui.ptyterm import Terminal

if TYPE_CHECKING:
    from tests.conftest import Home, Metronome, Spawn

PHASETOP = [sys.executable, "-P", "-m", "phasetop"]
SERVED = [HELLO, ev.Server(t=1, v=0, backend="ollama"), ev.Model(t=1, m=0, v=0, name="tiny"), *LINES[1:]]
END = [ev.End(t=200_000_000, r=0, finish="stop"), ev.Bye(t=210_000_000, reason="done", lines=9)]


class Writer:
    """Somebody else's run: a session file, its lock held."""

    def __init__(self, path: Path, lines: list[Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        self.write(lines)

    def write(self, lines: list[Any]) -> None:
        os.write(self._fd, codec.encode_all(lines))

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


@pytest.fixture
def writer(state_home: Home) -> Iterator[Callable[..., Writer]]:
    """Begin sessions in the live folder, by the beginning of their id."""
    begun: list[Writer] = []

    def begin(name: str, lines: list[Any] | None = None) -> Writer:
        path = state_home.state / "phasetop" / "live" / f"{name}2f3c4-7a1e-7c33-9d55-2f6b1c0e8a77.phasetop"
        begun.append(Writer(path, SERVED if lines is None else lines))
        return begun[-1]

    yield begin
    for one in begun:
        one.close()


def watch(*arguments: str, **how: Any) -> subprocess.CompletedProcess[bytes]:
    how = {"stdin": subprocess.DEVNULL, **how} if "input" not in how else how
    return subprocess.run([*PHASETOP, "watch", *arguments], capture_output=True, timeout=60, check=False, **how)


def follow(spawn: Spawn, *arguments: str) -> subprocess.Popen[bytes]:
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return spawn([*PHASETOP, "watch", *arguments], **pipes)


TEXT = "Über 東京😀".encode()


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("me@box", ("me@box", None)),
        ("me@box:", ("me@box", None)),
        ("box:", ("box", None)),
        ("box:@last", ("box", "@last")),
        ("me@box:/var/a b.phasetop", ("me@box", "/var/a b.phasetop")),
        ("me@box:~/x@y/run", ("me@box", "~/x@y/run")),
        ("me@[::1]:run", ("me@[::1]", "run")),
        ("ssh://me@box:2222", ("me@box:2222", None)),
        ("ssh://box/run.phasetop", ("box", "run.phasetop")),
        ("ssh://box//var/run.phasetop", ("box", "/var/run.phasetop")),
        ("@last", None),
        ("@2", None),
        ("./me@box", None),
        ("a/b:c", None),
        ("run.phasetop", None),
        ("0192f3c4", None),
        ("http://box:8080", None),
    ],
)
def test_what_means_another_machine(text: str, means: tuple[str, str | None] | None) -> None:
    found = far_name(text)
    assert (found and (str(found[0]), found[1])) == means


def test_a_file_that_is_here_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("box:run.phasetop").touch()
    assert far_name("box:run.phasetop") is None


def test_what_runs_here_is_followed_to_its_end(writer: Callable[..., Writer], spawn: Spawn) -> None:
    run = writer("019")
    seen = follow(spawn)
    assert seen.stdout is not None
    assert seen.stdout.read(len(TEXT)) == TEXT  # as it comes
    run.write([ev.Tok(t=180_000_000, r=0, x="!"), *END])
    assert seen.stdout.read() == b"!"
    assert seen.wait(20) == 0
    assert seen.stderr is not None
    assert b"finish   stop" in seen.stderr.read()


def test_of_several_one_is_named(writer: Callable[..., Writer]) -> None:
    writer("019")
    writer("aaa", [*SERVED, *END])
    writer("bbb", [HELLO])  # no server yet: there is nothing to watch
    done = watch()
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"2 sessions run on this machine; name one: " in done.stderr
    assert b"0192f3c4 (tiny)" in done.stderr
    done = watch("aaa2", "--json=compact")
    assert done.returncode == 0
    assert [one["text"] for one in json.loads(done.stdout)["requests"]] == [TEXT.decode()]


def test_a_session_in_parts_is_shown_from_its_first_that_is_there(writer: Callable[..., Writer], state_home: Home) -> None:
    """Without a name as by its id, from where the writer is in part 3; part 1 has gone meanwhile (--max-size)."""
    one = writer("019", [*SERVED, ev.Part(t=190_000_000, part=2, file="x")])
    one.close()
    written = [one.path]
    for part, lines in ((2, [ev.Part(t=195_000_000, part=3, file="x")]), (3, END)):
        head = [
            replace(HELLO, part=part),
            *SERVED[1:3],
            *(SERVED[3:] if part == 2 else []),
            ev.Part(t=190_000_000, part=part),
        ]
        written.append(one.path.with_name(f"{one.path.stem}.part{part}.phasetop"))
        newest = Writer(written[-1], [*head, ev.Tok(t=191_000_000 + part, r=0, x=f" in {part}"), *lines])
        if part == 2:
            newest.close()
    for expected in (TEXT + b" in 2 in 3", TEXT + b" in 2 in 3"):
        for name in ([], ["0192f3c4"]):
            done = watch("--plain", *name)
            assert (done.returncode, done.stdout) == (0, expected), done.stderr
        written.pop(0).unlink(missing_ok=True)  # the head of part 2 has what ran
    newest.close()


def test_nothing_runs(state_home: Home) -> None:
    done = watch()
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"phasetop: nothing is running on this machine (--wait waits for a run)\n"


def test_a_run_is_waited_for_and_ctrl_c_ends_watching(writer: Callable[..., Writer], spawn: Spawn) -> None:
    seen = follow(spawn, "--wait", "--json=compact")
    assert seen.stderr is not None
    assert seen.stdout is not None
    assert b"waiting for a run" in seen.stderr.readline()
    writer("019")
    assert seen.stderr.read(len(TEXT)) == TEXT
    seen.send_signal(signal.SIGINT)
    assert seen.wait(20) == 130
    assert json.loads(seen.stdout.read())["requests"][0]["finish"]["reason"] is None


def test_a_run_is_not_disturbed_by_watchers_that_stand_or_go(
    metronome: Callable[..., Metronome], spawn: Spawn, tmp_path: Path, state_home: Home
) -> None:
    server, file = metronome(rate=100, tokens=9000), tmp_path / "run.phasetop"
    run = spawn([*PHASETOP, "run", server.url, "-p", "hi", "--plain", f"--record={file}"], stdout=subprocess.DEVNULL)
    while not file.exists() or b'"k":"tok"' not in file.read_bytes():
        assert run.poll() is None
    stands, goes = follow(spawn, str(file)), follow(spawn, str(file))
    assert stands.stdout is not None
    assert goes.stdout is not None
    first = stands.stdout.read(1)
    stands.send_signal(signal.SIGSTOP)
    goes.stdout.read(1)
    goes.stdout.close()  # nobody reads it any more
    assert goes.wait(20) == 141
    assert run.poll() is None
    run.send_signal(signal.SIGINT)
    assert run.wait(30) == 130
    stands.send_signal(signal.SIGCONT)
    text = first + stands.stdout.read()
    assert stands.wait(20) == 0
    whole = json.loads(subprocess.run([*PHASETOP, "replay", "--json", str(file)], capture_output=True, check=True).stdout)
    assert text.decode() == whole["requests"][0]["text"]
    assert whole["requests"][0]["finish"]["reason"] == "cancelled"


def test_a_file_without_a_line_is_no_session(state_home: Home, tmp_path: Path) -> None:
    (tmp_path / "empty.phasetop").touch()
    done = subprocess.run(
        [*PHASETOP, "watch", "empty.phasetop", "--plain"],
        capture_output=True,
        text=True,
        env=state_home.env,
        cwd=tmp_path,
        check=False,
    )
    assert (done.returncode, done.stderr) == (
        1,
        "phasetop: empty.phasetop: this is no phasetop recording: it has no whole line\n",
    )


def test_what_comes_on_stdin(state_home: Home) -> None:
    done = watch("-", input=b"Last login: now\n" + FILE + codec.encode_all(END))
    assert (done.returncode, done.stdout) == (0, TEXT)
    done = watch("-", input=FILE)
    assert (done.returncode, done.stdout) == (1, TEXT)
    assert b"the reply was cut" in done.stderr
    done = watch("-", input=b"hello\n")
    assert (done.returncode, done.stdout) == (1, b"")


def test_the_view_of_stdin_has_its_keys_from_the_terminal(state_home: Home, tmp_path: Path) -> None:
    (tmp_path / "a.phasetop").write_bytes(FILE + codec.encode_all(END))
    command = f"cat {tmp_path}/a.phasetop | {shlex.join(PHASETOP)} watch -"
    env = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    with Terminal(["/bin/sh", "-c", command], size=(110, 30), env=env) as view:
        view.until_shown("stdin   turn 1 of 1   watch", 30)
        view.until_shown("Über 東京😀")
        view.until_shown("space play")
        keys = view.text.splitlines()[-1]
        assert "ask" not in keys
        assert "keep" not in keys
        view.send("?")
        view.until_shown("find a key by what it does")
        view.send("q")
        view.until_shown("DONE")
        view.send("q")
        assert view.wait() == 0


def test_at_a_terminal_one_is_chosen_by_its_number(writer: Callable[..., Writer]) -> None:
    writer("019")
    writer("aaa", [*SERVED[:-1], *END])
    env = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    with Terminal([*PHASETOP, "watch"], size=(110, 30), env=env) as view:
        view.until_shown("which one? [1]", 30)
        rows = view.text.splitlines()
        assert rows[0] == "2 sessions run on this machine:"
        number = 1 if "0192f3c4" in rows[1] else 2
        view.send("7\n")
        view.send(f"{number}\n")
        view.until_shown("0192f3c4   turn 1 of 1   watch", 30)
        view.until_shown("Über 東京😀")
        view.send("q")
        assert view.wait() == 0
