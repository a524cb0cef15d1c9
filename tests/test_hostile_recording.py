"""A recording whose every text would drive a terminal: nothing of it does, whatever command or screen shows it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from phasetop import codec
from phasetop import events as ev
from phasetop.cli import main
from phasetop.live import Recorded
from phasetop.session import Session
from phasetop.tui import pages
from phasetop.tui.cells import Canvas
from phasetop.tui.frame import FrameMaker
from phasetop.tui.layout import layout
from phasetop.tui.painter import paint
from phasetop.tui.player import Opening
from phasetop.tui.replaying import ReplayControls
from phasetop.tui.theme import Look
from phasetop.tui.view import Page

if TYPE_CHECKING:
    from tests.conftest import Home

MS = 1_000_000
EVIL = "\x1b[2J\x9b31m\x07\u202e"
"""Clears the screen, colours it by a C1 character, rings, and turns the direction."""
OWN = ("\r\x1b[K", "\r")
"""What phasetop itself writes to a terminal, around what it does meanwhile."""
EVENTS: list[ev.AnyEvent] = [
    ev.Hello(
        t=0, format=1, session=EVIL, anchor=ev.Anchor(1, 1), by=EVIL, host=ev.Host(name=EVIL, cpu=EVIL, os=EVIL, kernel=EVIL)
    ),
    ev.Server(t=1, v=0, backend=EVIL, version=EVIL, url=EVIL, local=True, over=EVIL),
    ev.Model(t=2, m=0, v=0, name=EVIL, quant=EVIL, arch=EVIL),
    ev.Device(t=2, d=1, vendor=EVIL, name=EVIL, driver=EVIL, mem_bytes=10**10),
    ev.Device(t=2, d=2, vendor="host", name=EVIL, v=0),
    ev.Series(t=2, s=0, d=1, name="power_w", unit=EVIL, source=EVIL),
    ev.Series(t=2, s=1, d=1, name="throttle", unit=EVIL, source=EVIL, type="flags", flags={"8": EVIL}),
    ev.Smp(t=100 * MS, t0=0, v={"0": 5.0, "1": 8.0}),
    ev.Request(t=3, r=0, v=0, m=0, api="chat", messages=[{"role": "user", "content": EVIL}], asked={EVIL: EVIL}),
    ev.State(t=4, r=0, s="sent", at=4),
    *(ev.Tok(t=10 * MS * (i + 1), r=0, x=f"{EVIL}a", c="think" if i < 5 else "answer") for i in range(30)),
    ev.Notice(t=10 * MS, code=EVIL, level="warn", text=EVIL),
    ev.Finding(t=5, name=EVIL, state="broken", text=EVIL, todo=EVIL),
    ev.Task(t=5, task=1, title=EVIL, state="run"),
    ev.Mark(t=100 * MS, at=100 * MS, label=EVIL),
    ev.End(t=400 * MS, r=0, finish="error", detail=EVIL, error=ev.Fault(code=EVIL, text=EVIL)),
    ev.Bye(t=500 * MS, reason="done", lines=1),
]


def driving(text: str) -> list[str]:
    """The characters of a text that a terminal would obey."""
    return [char for char in text if (char < " " and char not in "\n\t") or "\x7f" <= char < "\xa0" or char == "\u202e"]


@pytest.mark.parametrize(
    "command",
    [
        *(["replay", "FILE", how] for how in ("--plain", "--json", "--screenshot=-")),
        *(["sessions", *rest] for rest in ([], ["--json"], ["show", "FILE"], ["show", "FILE", "--json"], ["totals"])),
        *(["compare", "FILE", "FILE", *rest] for rest in ([], ["--json"])),
        *(["export", "FILE", "--to", form] for form in ("csv", "md", "html", "json", "perfetto", EVIL)),
        *(["watch", "FILE", how] for how in ("--plain", "--json")),
        *([name, "FILE"] for name in ("kv", "predict")),
        *([name, EVIL] for name in ("replay", "watch", "kv", "bench", EVIL)),
        *(["sessions", name, EVIL] for name in ("rm", "show")),
        ["watch", f"a@{EVIL}"],
        ["predict", "--gpu", EVIL],
        ["run", EVIL, "-p", "x"],
    ],
    ids=lambda command: "-".join(command).encode("ascii", "replace").decode().replace("\x1b", "").replace("\x07", ""),
)
def test_a_command(
    command: list[str], state_home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = state_home.state / "phasetop" / "recordings"
    folder.mkdir(parents=True)
    file = folder / "x\x1b[2J.phasetop"
    file.write_bytes(codec.encode_all(EVENTS))
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    main([word.replace("FILE", str(file)) for word in command])
    out, err = capsys.readouterr()
    for own in OWN:
        err = err.replace(own, "")
    assert driving(out) == []
    assert driving(err) == []
    assert "phasetop's own" not in err


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
def test_a_screen(size: tuple[int, int], tmp_path: Path) -> None:
    session = Session()
    for event in EVENTS:
        session.apply(event)
    plan, maker = layout(*size, scrub=True), FrameMaker(session)
    assert plan is not None
    controls = ReplayControls(
        Recorded(session, tmp_path), None, opening=Opening(), title=EVIL, leave=lambda _: None, suspend=lambda: None
    )
    screens: tuple[Page | None, ...] = (None, "help", "log", "error", "turns", "info", "doctor", "charts", "roofline")
    for key in ("n", "n", "N", "end", "home"):
        for page in screens:
            frame = maker.frame(controls.cursor, plan, replace(controls.view(plan, failed=False), page=page))
            controls.shown = frame
            canvas = Canvas(*size, Look("dark", "truecolor", painted=True, ascii=False))
            if page is None:
                paint(canvas, frame, plan)
            else:
                pages.paint(page, canvas.area(0, 0, *size), frame, session, {}, 0)
            assert driving("".join("".join(row) for row in canvas.chars)) == [], (key, page)
        controls.press(key, None)
