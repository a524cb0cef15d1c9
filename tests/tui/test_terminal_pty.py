"""Pitfalls of terminals, each on a real pseudo-terminal; docs/terminal.md lists them all."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.tui.ptyterm import Terminal
from tests.tui.test_view_pty import FABRICATE, environ, given_back, start

LEFTOVERS = str(Path(__file__).parent / "leftovers.py")


@pytest.mark.parametrize("late_s", [0.4, 0.8])
def test_an_answer_that_comes_late_is_neither_a_key_nor_left_for_the_shell(late_s: float) -> None:
    command = [sys.executable, LEFTOVERS, sys.executable, FABRICATE, "--finished", "--tokens", "40"]
    with Terminal(command, env=environ(), late_s=late_s) as terminal:
        terminal.until(lambda: b"\x1b[?1049h" in terminal.raw)
        terminal.send("q")
        terminal.until_shown("STATUS 0 LEFT b''")


def test_an_answer_within_the_wait_sets_the_ground() -> None:
    with start("--finished", "--tokens", "40", late_s=0.3) as view:
        view.until_shown("DONE")
        assert view.screen.buffer[13][5].bg == "default"
        view.send("q")
        assert view.wait() == 0


def test_bytes_that_are_no_text_do_not_end_the_input() -> None:
    with start("--finished", "--tokens", "40", size=(120, 36)) as view:
        view.until_shown("DONE")
        os.write(view.fd, b"\x1b[M \xa0\x82\x1b[M#\xff\xfe\xff\xfe\x1b]52;c;eA==\x07\x1bP>|term\x1b\\")
        view.send("?")
        view.until_shown("quit; a running reply ends")
        view.send("q")  # closes the page
        view.until_shown("DONE")
        view.send("q")
        assert view.wait() == 0
        assert given_back(view)


def test_stopped_and_continued_it_gives_the_terminal_back_and_paints_all_again() -> None:
    with start("--tokens", "2000") as view:
        view.until_shown("DECODE")
        view.send("\x1a")
        view.until(lambda: _state(view.pid) == "T")
        assert view.modes_left_on() == []
        assert termios.tcgetattr(view.fd) == view.before  # the shell is not raw
        view.screen.reset()
        view.signal(signal.SIGCONT)
        view.until_shown("phases")
        view.until_shown("enter send")
        view.signal(signal.SIGTERM)
        assert view.wait() == 143
        assert given_back(view)


def test_stopped_from_outside_it_goes_on_as_one_and_gives_the_terminal_back() -> None:
    def held() -> tuple[int, int]:
        return len(os.listdir(f"/proc/{view.pid}/task")), len(os.listdir(f"/proc/{view.pid}/fd"))

    with start("--finished", "--tokens", "40", size=(120, 36)) as view:
        view.until_shown("DONE")
        before = held()
        for _ in range(3):
            view.signal(signal.SIGSTOP)
            view.until(lambda: _state(view.pid) == "T")
            view.screen.reset()
            view.signal(signal.SIGCONT)
            view.until_shown("DONE")
        view.send("?")
        view.until_shown("quit; a running reply ends")
        view.until(lambda: held() == before)
        view.send("q")
        view.until_shown("DONE")
        view.send("q")
        assert view.wait() == 0
        assert given_back(view)
        assert termios.tcgetattr(view.fd) == view.before


def test_a_lost_terminal_ends_it_where_no_signal_tells() -> None:
    code = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", code, sys.executable, FABRICATE, "--tokens", "2000"]
    with Terminal(command, env=environ()) as terminal:
        terminal.until_shown("DECODE")
        os.close(terminal.fd)
        assert os.waitstatus_to_exitcode(os.waitpid(terminal.pid, 0)[1]) == 129
        terminal.status = 129


def test_a_storm_of_resizes_in_a_stream_does_no_harm() -> None:
    with start("--tokens", "3000", "--rate", "200", size=(120, 36)) as view:
        view.until_shown("DECODE")
        for _ in range(12):
            for columns, rows in ((299, 162), (2, 1), (25, 80)):
                view.resize(columns, rows)
                view.pump(0.02)
        view.resize(80, 24)
        view.screen.reset()
        view.until_shown("enter send")
        view.until(lambda: " phases " in view.text and "DECODE" in view.text)
        view.send("\x03\x03")
        assert view.wait() == 130
        assert given_back(view)


def test_the_editor_has_the_terminal_while_it_runs(tmp_path: Path) -> None:
    script = tmp_path / "editor"
    script.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, sys, termios\n"
        "cooked = bool(termios.tcgetattr(0)[3] & termios.ICANON and termios.tcgetattr(0)[3] & termios.ECHO)\n"
        "print('EDITOR', 'cooked' if cooked else 'raw', flush=True)\n"
        "input()\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "path.write_text(path.read_text() + ' written elsewhere')\n"
    )
    script.chmod(0o700)
    with start("--tokens", "4000", env=environ(EDITOR=str(script))) as view:
        view.until_shown("DECODE")
        view.send("awhy\x05")
        view.until_shown("EDITOR cooked")
        assert view.modes_left_on() == []
        shown = view.text
        view.pump(0.5)
        assert view.text == shown  # nothing is drawn over it, though tokens come
        view.send("\n")
        view.until_shown("why written elsewhere")
        view.until_shown("DECODE")
        view.signal(signal.SIGTERM)
        assert view.wait() == 143
        assert given_back(view)


def test_a_signal_is_obeyed_while_the_editor_is_open(tmp_path: Path) -> None:
    script = tmp_path / "editor"
    script.write_text(f"#!{sys.executable}\nimport os, time\nprint('EDITOR', os.getpid(), flush=True)\ntime.sleep(300)\n")
    script.chmod(0o700)
    with start("--tokens", "4000", env=environ(EDITOR=str(script))) as view:
        view.until_shown("DECODE")
        view.send("awhy\x05")
        view.until(lambda: re.search(r"EDITOR \d+", view.text) is not None)
        found = re.search(r"EDITOR (\d+)", view.text)
        assert found is not None
        view.signal(signal.SIGTERM)
        assert view.wait() == 143
        assert given_back(view)
        with pytest.raises(ProcessLookupError):
            os.kill(int(found[1]), 0)


def test_over_ssh_256_colours_half_the_frames_and_a_clock_of_seconds() -> None:
    with start("--tokens", "2000", env=environ(SSH_CONNECTION="10.0.0.1 1 10.0.0.2 22")) as view:
        view.until_shown("DECODE")
        view.pump(1.3)
        assert b"\x1b[38;2;" not in view.raw
        assert b"38;5;" in view.raw
        clocks = set(re.findall(r"00:0\d\.\d", view.raw.decode("utf-8", "replace")))
        assert clocks
        assert all(clock.endswith(".0") for clock in clocks)
        view.signal(signal.SIGTERM)
        assert view.wait() == 143


def test_without_the_mouse_nothing_of_it_is_asked_and_reports_do_no_harm() -> None:
    with start("--finished", "--tokens", "40", "--no-mouse") as view:
        view.until_shown("DONE")
        os.write(view.fd, b"\x1b[<0;10;10M\x1b[<0;10;10m\x1b[<64;10;10M\x1b[M \x21\x21")
        view.send("q")
        assert view.wait() == 0
        assert not re.search(rb"\x1b\[\?100[0236]h", view.raw)


def test_in_ascii_nothing_else_leaves() -> None:
    with start("--tokens", "300", "--ascii") as view:
        view.until_shown("DECODE")
        view.pump(1.0)
        assert view.raw.isascii()
        view.signal(signal.SIGTERM)
        assert view.wait() == 143


def test_the_screen_is_cleared_at_most_once_and_never_scrolled() -> None:
    with start("--tokens", "2000", size=(120, 36)) as view:
        view.until_shown("DECODE")
        seen = len(view.raw)
        view.pump(1.3)
        assert b"\x1b[2J" not in view.raw[seen:]
        assert not re.search(rb"\x1b\[\d*[ST]", view.raw[seen:])
        view.signal(signal.SIGTERM)
        view.wait()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize(
    ("more", "limit"), [({}, 10_000), ({"SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, 6_000)], ids=["local", "ssh"]
)
def test_the_bytes_stay_in_their_budget(more: dict[str, str], limit: int) -> None:
    """At 100 tokens a second; a busy machine draws fewer frames, so that the limit holds there, too."""
    with start("--tokens", "4000", "--rate", "100", size=(120, 36), env=environ(**more)) as view:
        view.until_shown("00:02.")
        seen, began = len(view.raw), time.monotonic()
        view.pump(2.5)
        assert (len(view.raw) - seen) / (time.monotonic() - began) <= limit
        view.signal(signal.SIGTERM)
        view.wait()


def test_what_something_else_wrote_goes_with_ctrl_l() -> None:
    with start("--finished", "--tokens", "40") as view:
        view.until_shown("q quit")
        view.screen.reset()
        view.send("\x0c")
        view.until_shown("q quit")
        view.until_shown("DONE")
        view.send("q")
        assert view.wait() == 0


def test_when_nothing_happens_nothing_is_sent() -> None:
    with start("--finished", "--tokens", "200", size=(120, 36)) as view:
        view.until_shown("q quit")
        view.pump(0.8)
        seen = len(view.raw)
        view.pump(1.2)
        assert len(view.raw) == seen
        view.send("q")
        view.wait()


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_in_tmux_detached_and_attached_at_another_size(tmp_path: Path) -> None:
    tmux = [str(shutil.which("tmux")), "-S", str(tmp_path / "socket"), "-f", "/dev/null"]
    shown = f"{sys.executable} {FABRICATE} --tokens 4000; echo STATUS $?; read line"
    env = environ(SHELL="/bin/sh")
    try:
        with Terminal([*tmux, "new-session", shown], size=(80, 25), env=env) as first:
            first.until_shown("DECODE")
            first.send("\x02d")
            assert first.wait() == 0
        with Terminal([*tmux, "attach"], size=(120, 37), env=env) as second:
            second.until_shown("first token ")
            second.until(lambda: "legend" not in second.text and "gap ms" in second.text)
            second.send("\x03")
            second.until_shown("ctrl-c again quits")
            second.send("\x03")
            second.until_shown("STATUS 130")
            second.send("\n")
            second.wait()
    finally:
        subprocess.run([*tmux, "kill-server"], check=False, capture_output=True)
