"""What is loaded when the first picture stands: what it needs, nothing that can wait. Times: benchmarks/first_paint.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from phasetop import codec
from phasetop import events as ev
from tests.conftest import Home
from tests.tui.fabricate import S, Turn, ask, opening, sample
from tests.tui.ptyterm import Terminal

SHOWN = """
import sys
from phasetop import cli, live

def options_of(*args, **more):
    from phasetop.tui.driver import TerminalDriver
    write = TerminalDriver.write

    def writes(self, data):
        write(self, data)
        if {words!r} in data:
            TerminalDriver.write = write
            with open({out!r}, "x") as file:
                file.write(" ".join(sys.modules))

    TerminalDriver.write = writes
    return made(*args, **more)

made, live.options_of = live.options_of, options_of
sys.argv = ["phasetop", *{arguments!r}]
cli.main()
"""
NEVER = {
    *("ssl", "json", "shlex", "gzip", "tomllib", "importlib.metadata", "httpx", "psutil", "plotext"),
    *("textual.command", "rich.table", "textual.widgets._input"),
    *(
        "phasetop.backends",
        "phasetop.headless",
        "phasetop.summary",
        "phasetop.report",
        "phasetop.moments",
        "phasetop.editor",
    ),
}
OF_THE_VIEW = {"phasetop.metrics", "phasetop.phases", "phasetop.kv", "phasetop.verdict", "phasetop.tui.frame"}
OF_A_RUN = {"phasetop.run", "phasetop.plan", "phasetop.lifeline", "phasetop.keeper", "phasetop.ssh", "phasetop.amounts"}


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    script = opening()
    ask(script, 0, Turn(tokens=20))
    script.add(ev.Bye(t=script.t + S, reason="done"))
    path = tmp_path / "it.phasetop"
    path.write_bytes(codec.encode_all(sample(script).sorted()))
    return path


def loaded(home: Home, out: Path, words: str, *arguments: str) -> set[str]:
    """The modules at the write that has these words."""
    kept = {name: value for name, value in home.env.items() if name not in ("COLUMNS", "LINES")}  # xdist sets them
    env = {**kept, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
    script = SHOWN.format(words=words, out=str(out), arguments=arguments)
    with Terminal([sys.executable, "-P", "-c", script], size=(120, 36), env=env) as view:
        view.until(lambda: out.exists() and out.read_text() != "")
        view.send("q")
        assert view.wait() == 0
    return set(out.read_text().split())


def test_the_start_screen_loads_nothing_of_the_view(state_home: Home, tmp_path: Path) -> None:
    found = loaded(state_home, tmp_path / "loaded", "looked at")
    assert found & (NEVER | OF_THE_VIEW) == set()
    assert {"phasetop.lifeline", "phasetop.tui.startapp"} <= found


def test_a_replay_loads_nothing_of_a_run(recording: Path, state_home: Home, tmp_path: Path) -> None:
    found = loaded(state_home, tmp_path / "loaded", "quit", "replay", str(recording))
    assert found & (NEVER | OF_A_RUN) == set()
    assert found >= OF_THE_VIEW
