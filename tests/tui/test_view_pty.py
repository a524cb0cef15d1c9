"""The view on a real pseudo-terminal: what is sent to it, and that it is given back as it was found."""

from __future__ import annotations

import os
import signal
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tui.ptyterm import Terminal

FABRICATE = str(Path(__file__).parent / "fabricate.py")


def environ(**more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    return {**kept, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", **more}


def start(*arguments: str, size: tuple[int, int] = (80, 24), env: dict[str, str] | None = None, **how: object) -> Terminal:
    return Terminal([sys.executable, FABRICATE, *arguments], size=size, env=env or environ(), **how)  # type: ignore[arg-type]


@pytest.fixture
def view() -> Iterator[Terminal]:
    with start("--tokens", "2000") as terminal:
        terminal.until_shown("DECODE")
        yield terminal


def given_back(terminal: Terminal) -> bool:
    return terminal.modes_left_on() == [] and termios.tcgetattr(terminal.fd) == terminal.before


def test_a_recording_at_its_end_and_q() -> None:
    with start("--finished", "--tokens", "200", size=(120, 36)) as view:
        view.until_shown("q quit")
        lines = view.text.split("\n")
        assert lines[0].startswith(" SmolLM2-135M-Instruct  Q4_1  embedded  CPU, 2 threads")
        assert "fabricated.phasetop   turn 1 of 1" in lines[0]
        assert " DONE " in lines[2]
        assert lines[3].startswith("              200 tokens")
        assert lines[20].startswith(" reply   gap ms  <")
        assert lines[35].startswith(" space pause   c colour")
        assert b"\x1b]11;?\x1b\\\x1b[c" in view.raw  # the ground was asked for, is known, and is not painted
        assert view.screen.buffer[13][5].bg == "default"
        assert b";48;2;15;20;25m" not in view.raw
        view.send("q")
        assert view.wait() == 0
        assert given_back(view)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals(view: Terminal, number: int, status: int) -> None:
    view.signal(number)
    assert view.wait() == status
    assert given_back(view)


def test_ctrl_c_twice(view: Terminal) -> None:
    view.send("\x03")
    view.until_shown("ctrl-c again quits")
    view.until_shown("STOPPED")
    view.send("\x03")
    assert view.wait() == 130
    assert given_back(view)


def test_a_crash_restores_the_terminal_and_tells_no_values() -> None:
    with start("--fail", "phasetop.tui.app.tiles") as terminal:
        assert terminal.wait() == 1
        assert given_back(terminal)
        assert "made to fail" in terminal.text
        assert "locals" not in terminal.text


def test_a_pane_that_fails_does_not_end_it() -> None:
    with start("--fail", "phasetop.tui.machinepane.paint_lane") as terminal:
        terminal.until_shown("this pane failed: KeyError · e shows it")
        terminal.until_shown("DECODE")
        terminal.send("\x1b")
        terminal.until_shown("e error")
        terminal.send("e")
        terminal.until_shown("made to fail")


def test_the_terminal_goes_away() -> None:
    with start("--tokens", "2000") as terminal:
        terminal.until_shown("DECODE")
        os.close(terminal.fd)
        assert os.waitstatus_to_exitcode(os.waitpid(terminal.pid, 0)[1]) == 129
        terminal.status = 129


def test_a_terminal_that_answers_nothing_is_painted_and_not_waited_for() -> None:
    with start("--tokens", "2000", "--hostile", answers=False) as view:
        view.until_shown("00:01.")
        assert "␛]52;c;QUFB␇␛[2J" in view.text
        for sequence in (b"\x1b]52", b"\x1b[2J", b"\x9d", b"]0;title\x07", b"\x08", "\u202e".encode()):
            assert sequence not in view.raw.replace("␛".encode(), b"")
        assert view.screen.buffer[13][5].bg == "0f1419"
        view.send("\x03")
        view.until_shown("ctrl-c again quits")
        view.send("\x03")
        assert view.wait() == 130
        assert given_back(view)


def test_no_color_means_none_and_over_ssh_the_mouse_is_left_alone() -> None:
    with start(env=environ(NO_COLOR="1", SSH_CONNECTION="10.0.0.1 1 10.0.0.2 22")) as view:
        view.until_shown("█ decode ")
        cells = [cell for row in view.screen.buffer.values() for cell in row.values()]
        assert {(cell.fg, cell.bg) for cell in cells} == {("default", "default")}
        assert any(cell.bold for cell in cells)
        assert any(cell.reverse for cell in cells)
        assert b"?1000h" not in view.raw


def test_it_stops_and_goes_on(view: Terminal) -> None:
    view.send("\x1a")
    view.until(lambda: _state(view.pid) == "T")
    assert view.modes_left_on() == []
    seen = len(view.raw)
    view.signal(signal.SIGCONT)
    view.until(lambda: b"DECODE" in view.raw[seen:] or b"STOPPED" in view.raw[seen:])


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
