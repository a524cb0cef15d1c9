"""A replay on a real terminal, as a person starts it: it plays, obeys keys and the mouse, and follows what still grows."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from phasetop import codec
from phasetop import events as ev
from tests.conftest import Home
from tests.tui.fabricate import S, Turn, ask, opening, sample
from tests.tui.ptyterm import Terminal
from tests.tui.test_view_pty import given_back

SIZE = (120, 36)


@pytest.fixture
def lines() -> list[ev.Event]:
    script = opening()
    ask(script, 0, Turn(tokens=200, stall_at=100, logprobs=True))
    script.add(ev.Bye(t=script.t + S, reason="done"))
    return sample(script).sorted()


@pytest.fixture
def recording(tmp_path: Path, lines: list[ev.Event]) -> Path:
    path = tmp_path / "it.phasetop"
    path.write_bytes(codec.encode_all(lines))
    return path


def phasetop(home: Home, *arguments: str) -> Terminal:
    kept = {name: value for name, value in home.env.items() if name not in ("COLUMNS", "LINES")}  # xdist sets them
    env = {**kept, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
    return Terminal([sys.executable, "-m", "phasetop", *arguments], size=SIZE, env=env)


def test_it_plays_from_the_start(recording: Path, state_home: Home) -> None:
    with phasetop(state_home, "replay", str(recording), "--speed", "2") as view:
        view.until_shown("▶ 2.0×")
        view.until_shown("DECODE")
        view.until_shown("DONE", patience=30)
        view.until_shown("┃┃ 2.0×")
        view.send("q")
        assert view.wait() == 0
        assert given_back(view)


@pytest.mark.parametrize("end", ["whole", "cut off"])
def test_the_exit_status_is_the_same_with_and_without_the_view(
    recording: Path, lines: list[ev.Event], state_home: Home, end: str
) -> None:
    """OUTPUTS: 1 if the last request ended in an error or was cut, and what is printed is printed all the same."""
    if end == "cut off":
        last = next(i for i, line in enumerate(lines) if isinstance(line, ev.End))
        recording.write_bytes(codec.encode_all(lines[:last]))
    status = {"whole": 0, "cut off": 1}[end]
    with phasetop(state_home, "replay", str(recording)) as view:
        view.until_shown("▶ 1.0×")
        view.send("q")
        assert view.wait() == status
    for how in ("--plain", "--json=compact"):
        done = subprocess.run(
            [sys.executable, "-m", "phasetop", "replay", str(recording), how],
            capture_output=True,
            env=state_home.env,
            timeout=60,
            check=False,
        )
        assert (done.returncode, bool(done.stdout)) == (status, True), how


def test_a_moment_the_keys_and_the_mouse(recording: Path, state_home: Home) -> None:
    with phasetop(state_home, "replay", str(recording), "--at", "#90") as view:
        view.until_shown("token 90 ")
        view.send("\x1b[D")
        view.until_shown("token 89 ")
        view.send("\x1b[1;2C")
        view.until_shown("token 99 ")
        view.send("n")
        view.until_shown("a stall of")
        view.send("t1.5\r")
        view.until_shown("token 71 ")
        row = next(y for y, line in enumerate(view.text.split("\n")) if "┃┃ 1.0×" in line)
        view.send(f"\x1b[<0;{10 + 1 + 4};{row + 1}M\x1b[<0;{10 + 1 + 4};{row + 1}m")  # the fifth column of the bar
        view.until(lambda: "token 90 " not in view.text and "token 71 " not in view.text)
        view.send("q")
        assert view.wait() == 0
        assert given_back(view)


def test_what_still_grows_is_followed(tmp_path: Path, lines: list[ev.Event], state_home: Home) -> None:
    path = tmp_path / "growing.phasetop"
    hello = lines[0]
    assert isinstance(hello, ev.Hello)
    hello = msgspec.structs.replace(hello, anchor=msgspec.structs.replace(hello.anchor, mono=0))
    half = next(i for i, event in enumerate(lines) if isinstance(event, ev.Tok) and event.t > 2 * S)
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(fd, codec.encode_all([hello, *lines[1:half]]))
        with phasetop(state_home, "replay", str(path), "--at", "0.1") as view:
            view.until_shown("┃┃ 1.0×")
            view.send("l")
            view.until_shown("▶ live")
            os.write(fd, codec.encode_all(lines[half:]))
            view.until_shown("DONE")
            view.until_shown("┃┃ 1.0×")
            view.send("q")
            assert view.wait() == 0
    finally:
        os.close(fd)
