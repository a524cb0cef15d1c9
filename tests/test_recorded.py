"""Recordings after the worst: killed in the middle, two that want one file, an older build's, damaged ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from phasetop import events as ev
from phasetop import places
from phasetop.cli import main
from phasetop.faults import FormatError
from phasetop.metrics import measure
from phasetop.recording import load, settle, why_it_ended

if TYPE_CHECKING:
    from tests.conftest import Home, Metronome, Spawn

Beat = Callable[..., "Metronome"]
OLDER = Path(__file__).parent / "data" / "older-build.phasetop"


def started(spawn: Spawn, home: Home, url: str, *more: str) -> subprocess.Popen[bytes]:
    """A headless run whose first text has come."""
    argv = [sys.executable, "-m", "phasetop", "run", url, "-p", "hi", *more]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = spawn(argv, **pipes, bufsize=0, env=home.env)  # `communicate` would not see what a buffer has taken
    assert running.stdout is not None
    assert running.stdout.read(4) == b" the"
    return running


def wait_for(what: Callable[[], bool], limit_s: float = 20) -> None:
    end = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


def test_a_killed_viewer_leaves_the_recording_under_its_name(spawn: Spawn, metronome: Beat, state_home: Home) -> None:
    running = started(spawn, state_home, metronome(rate=100, tokens=100_000, prefill_ms=1).url, "--record=early")
    file = state_home.state / "phasetop/recordings/early.phasetop"
    wait_for(file.exists)
    running.kill()
    running.wait()
    wait_for(lambda: not places.is_live(file))
    session = load(file)
    assert session.bye is not None
    assert session.bye.reason == "viewer_gone"
    assert session.bad_lines == 0
    assert session.notices.items == []


def test_a_killed_collector_loses_nothing_that_was_shown(
    spawn: Spawn, metronome: Beat, state_home: Home, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    running = started(spawn, state_home, metronome(rate=200, tokens=100_000, prefill_ms=1).url, "--record=cut")
    file = state_home.state / "phasetop/recordings/cut.phasetop"
    wait_for(file.exists)
    first = msgspec.json.decode(file.read_bytes().split(b"\n", 1)[0], type=ev.Hello)
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    out, err = running.communicate(timeout=20)
    assert running.returncode == 1
    assert b"the reply was cut" in err
    assert main(["replay", "cut", "--plain"]) == 1
    again, told = capfdbinary.readouterr()
    assert again == b" the" + out
    assert b"the collector died" in told
    assert b"finish   cut (collector-died)" in told


def test_a_second_run_cannot_have_a_file_that_is_being_written(
    spawn: Spawn, metronome: Beat, state_home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = metronome(rate=100, tokens=100_000, prefill_ms=1).url
    file = tmp_path / "mine.phasetop"
    running = started(spawn, state_home, url, f"--record={file}")
    assert main(["run", url, "-p", "hi", f"--record={file}"]) == 1
    assert "mine.phasetop exists" in capsys.readouterr().err
    assert places.is_live(file)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=20)
    session = load(file)
    assert session.bad_lines == 0
    assert len(session.runs) == 1


@pytest.mark.parametrize("part", ["mine.part2.phasetop", "mine.part13.phasetop.gz"])
def test_a_run_cannot_have_a_name_beside_whose_file_lie_parts_of_another(
    state_home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str], part: str
) -> None:
    (tmp_path / part).touch()
    (tmp_path / "mine.partly.phasetop").touch()
    file = tmp_path / "mine.phasetop"
    assert main(["run", "http://127.0.0.1:9", "-p", "hi", f"--record={file}"]) == 1
    assert f"{part} exists, a part of another session" in capsys.readouterr().err
    assert not file.exists()
    assert not list((state_home.state / "phasetop" / "live").iterdir())


def test_a_session_of_another_build_opens(capsys: pytest.CaptureFixture[str]) -> None:
    """With keys and kinds that this one does not know, and keys in another order."""
    session = load(OLDER)
    assert session.bad_lines == 0
    assert session.notices.items == []
    figures = measure(session, session.runs[0])
    assert (figures.tokens.prompt, figures.tokens.output) == (20, 4)
    assert figures.latency.ttft_ns == 300_000_000 - 8_400_000
    assert main(["replay", str(OLDER), "--json=compact"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["requests"]
    assert (told["text"], told["finish"]["reason"], told["phasetop"]) == ("Hello!", "stop", "0.0.9")
    assert main(["sessions", "show", str(OLDER), "--json=compact"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["session"]["model"], shown["session"]["requests"], shown["session"]["duration_s"]) == ("tiny", 1, 0.7)


LINES = OLDER.read_bytes().splitlines(keepends=True)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(cut=st.integers(0, len(OLDER.read_bytes())), at=st.integers(0, len(LINES)), junk=st.binary(max_size=80))
def test_no_damage_breaks_the_reading(tmp_path: Path, cut: int, at: int, junk: bytes) -> None:
    """Junk anywhere, cut anywhere: all whole lines of before are there, and the figures can be made."""
    path = tmp_path / "a.phasetop"
    junk_line = junk.replace(b"\n", b" ") + b"\n"
    path.write_bytes(b"".join([*LINES[:at], junk_line, *LINES[at:]])[: cut + len(junk_line)])
    try:
        session = load(path)
    except FormatError:
        assert at == 0 or cut < len(LINES[0])
        return
    settle(session, session.last_t, why_it_ended(session))
    for run in session.runs.values():
        measure(session, run)
        assert all(piece in ("Hel", "lo", "!") for piece in run.tokens.text)
    told = [notice.code for notice in session.notices.items]
    assert told.count("bad-lines") <= 1
    assert told.count("torn-tail") <= 1
