"""What the view remembers, and the theme."""

from __future__ import annotations

import asyncio
from typing import Any

from phasetop.tui.app import ViewApp
from phasetop.tui.remembering import remembered_theme
from phasetop.tui.running import Options
from phasetop.tui.theme import Look
from tests.tui.fabricate import Finished, Turn, scripted, session_of


class Notes(dict[str, Any]):
    """A memory in memory."""

    def put(self, name: str, value: Any) -> None:
        if value is None:
            self.pop(name, None)
        else:
            self[name] = value


def left_after(memory: Notes, *keys: str) -> ViewApp:
    app = ViewApp(Finished(session_of(scripted("run", Turn(tokens=40)))), None, Options(hz=50, memory=memory), Look())

    async def scene() -> None:
        async with app.run_test(size=(120, 36)) as pilot:
            await pilot.press(*keys, "q")

    asyncio.run(scene())
    app.ended()
    return app


def test_colours_and_arrangement_are_there_next_time() -> None:
    memory = Notes()
    left_after(memory, "c", "c", "z", "w")
    assert memory == {"colour": "channel", "zoom": "text", "sweep": True}
    app = left_after(memory)
    assert app.controls.zoomed
    left_after(memory, "c", "c", "z", "w")
    assert memory == {}


def test_the_theme_turns_with_everything_on_the_screen_and_is_remembered() -> None:
    memory = Notes()
    app = left_after(memory, "ctrl+t")
    assert memory == {"theme": "light"}
    assert (app._look.theme, app._look.painted) == ("light", True)  # the terminal's ground is dark
    assert remembered_theme(memory) == "light"
    left_after(memory, "ctrl+t", "ctrl+t")
    assert memory == {"theme": "dark"}


def test_what_makes_no_sense_is_not_taken_over() -> None:
    memory = Notes(colour=["x"], zoom=7, theme="purple", sweep="yes")
    app = left_after(memory)
    assert not app.controls.zoomed
    assert remembered_theme(memory) is None
