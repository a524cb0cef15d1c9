"""The page of what is measured: `d` lays it over the view, and a live session's collector looks around again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from phasetop import places
from phasetop.capabilities import Check
from phasetop.tui.app import ViewApp
from phasetop.tui.running import Options, Terms
from phasetop.tui.terminal import Answer, Facts, parse_sync
from phasetop.tui.terminalchecks import checks
from phasetop.tui.theme import Look
from tests.tui.fabricate import S
from tests.tui.ptyterm import Terminal
from tests.tui.test_view_app import Stage, press, run, until_shown
from tests.tui.test_view_pty import environ

DARK = (0.0, 0.0, 0.0)


def facts(columns: int = 120, rows: int = 36, told: Answer | None = None, look: Look | None = None, **environ: str) -> Facts:
    environ.setdefault("TERM", "xterm-256color")
    told = told or Answer(ground=DARK, answers=True, sync=True)
    return Facts(columns, rows, told, look or Look("dark", "256"), "SSH_TTY" not in environ, environ)


def by_id(found: tuple[Check, ...]) -> dict[str, Check]:
    assert len({check.id for check in found}) == len(found)
    return {check.id: check for check in found}


def test_d_shows_checks_and_sources_and_asks_the_collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "state_folder", lambda: tmp_path)

    async def scene() -> None:
        stage = Stage(at=4 * S)
        terms = Terms(facts=facts())
        stage.app = ViewApp(stage.source, stage.wire, Options(hz=50), Look(), terms)
        async with stage.app.run_test(size=(100, 40)):
            await until_shown(stage, "DECODE")
            await press(stage, "d")
            stage.clock[0] += S // 2
            await until_shown(stage, "1.2 GB lie in swap")
            assert ("discover", None) in stage.wire.said
            for words in ("→ more RAM", "token_stamps", "xterm-256color, 100×40", "embedded.prefill_progress"):
                await until_shown(stage, words)
            await press(stage, "d")
            await until_shown(stage, "DECODE")
            assert stage.app.controls.page is None
            await press(stage, "q")

    run(scene())


def test_a_replay_tells_what_its_session_found_and_asks_nobody() -> None:
    async def scene() -> None:
        stage = Stage(at=4 * S, steers=False)
        async with stage.app.run_test(size=(80, 24)):
            await until_shown(stage, "DECODE")
            await press(stage, "d")
            await until_shown(stage, "only the terminal is looked at now")
            assert stage.wire.said == []
            await press(stage, "q", "q")

    run(scene())


def test_a_page_scrolled_past_its_end_stands_at_it_and_comes_back_at_once() -> None:
    async def scene() -> None:
        stage = Stage(at=4 * S, steers=False)
        async with stage.app.run_test(size=(80, 24)):
            await until_shown(stage, "DECODE")
            await press(stage, "d")
            await until_shown(stage, "more below")
            await press(stage, *["down"] * 40)
            await until_shown(stage, "embedded.kv_bytes")
            assert "more below" not in stage.app.text
            await press(stage, *["up"] * 8)
            await until_shown(stage, "only the terminal is looked at now")
            await press(stage, "q", "q")

    run(scene())


def test_a_good_terminal() -> None:
    found = by_id(checks(facts(COLORTERM="truecolor", look=Look("dark", "truecolor"))))
    assert {check.state for check in found.values()} == {"ok"}
    assert "link" not in found


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (facts(told=Answer()), {"ground": "limited"}),
        (facts(told=Answer(answers=True, sync=False)), {"ground": "limited", "sync": "off"}),
        (facts(look=Look("dark", "16"), TERM="xterm"), {"colours": "limited"}),
        (facts(look=Look("dark", "none"), NO_COLOR="1"), {"colours": "ok"}),
        (facts(look=Look("dark", "256", ascii=True)), {"locale": "limited"}),
        (facts(60, 20), {"terminal": "limited"}),
        (facts(6, 2), {"terminal": "limited"}),
        (facts(SSH_TTY="/dev/pts/1"), {"link": "limited", "mouse": "off"}),
        (facts(TMUX="/tmp/tmux-1000/default,1,0"), {"link": "limited"}),
    ],
)
def test_states_of_a_terminal(made: Facts, wanted: dict[str, str]) -> None:
    found = by_id(checks(made))
    assert {name: found[name].state for name in wanted} == wanted
    told = " ".join(f"{check.text} {check.todo}" for check in found.values())
    assert "/tmp/tmux" not in told  # values of the environment are nobody's business
    assert "/dev/pts" not in told


@pytest.mark.parametrize(
    ("answer", "has"),
    [(b"\x1b[?2026;2$y\x1b[?62c", True), (b"\x1b[?2026;1$y", True), (b"\x1b[?2026;0$y", False), (b"\x1b[?62c", False)],
)
def test_synchronized_output(answer: bytes, has: bool) -> None:
    assert parse_sync(answer) is has


DOCTOR = [sys.executable, "-P", "-m", "phasetop", "doctor"]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"sync": True}, ["frames are shown whole", "dark; its own is kept"]),
        ({"ground": None}, ["no synchronized output", "does not tell its ground"]),
        ({"answers": False}, ["answers no questions"]),
    ],
)
def test_at_a_terminal_it_is_asked_and_nothing_is_left_for_the_shell(
    tmp_path: Path, how: dict[str, Any], words: list[str]
) -> None:
    env = environ(XDG_STATE_HOME=str(tmp_path), OLLAMA_HOST="http://127.0.0.1:9")
    command = [sys.executable, str(Path(__file__).parent / "leftovers.py"), *DOCTOR]
    with Terminal(command, size=(100, 80), env=env, **how) as terminal:
        terminal.until_shown("STATUS 0 LEFT b''", 30)
        text = " ".join(terminal.text.split())
        assert "xterm-256color, 100×80" in text
        for each in words:
            assert each in text, each
