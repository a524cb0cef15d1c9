"""The app as a whole, headless: keys, sizes, states, and that it ends as it should."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Coroutine
from typing import Any

import pytest

from phasetop.faults import PhasetopError
from phasetop.tui.app import ViewApp
from phasetop.tui.running import Options
from phasetop.tui.theme import Look
from tests.tui.fabricate import Growing, S, Turn, Wire, scripted


class Stage:
    """The app over a session whose clock the test moves."""

    def __init__(self, state: str = "run", at: int = 2 * S, *, options: Options | None = None, steers: bool = True) -> None:
        self.clock = [at]
        self.source = Growing(scripted(state, Turn(tokens=300)), self.clock)
        self.source.poll()
        self.wire = Wire(self.source)
        self.app = ViewApp(self.source, self.wire if steers else None, options or Options(hz=50), Look())


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


async def press(stage: Stage, *keys: str) -> None:
    """Type, and wait until all of it is obeyed."""
    for key in keys:
        stage.app.simulate_key(key)
    done = asyncio.Event()
    stage.app.call_later(done.set)
    await done.wait()


async def until_shown(stage: Stage, words: str) -> None:
    """Wait for the frame that shows it."""
    for _ in range(500):
        if words in stage.app.text:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{words!r} is not on the screen:\n{stage.app.text}")


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (200, 60), (60, 40), (20, 5), (8, 2), (3, 1)])
def test_it_shows_a_running_request_at_any_size(size: tuple[int, int]) -> None:
    async def scene() -> None:
        stage = Stage()
        async with stage.app.run_test(size=size):
            if size[0] >= 10:
                await until_shown(stage, "DECODE")
            await press(stage, "q")
        assert stage.app.status == 0
        assert stage.app.error is None

    run(scene())


def test_another_session_in_the_files_place_is_taken_up() -> None:
    """A source begins another Session when the watched file was replaced."""

    async def scene() -> None:
        stage = Stage(steers=False)
        async with stage.app.run_test(size=(120, 36)):
            await until_shown(stage, "DECODE")
            other = Growing(scripted("run", Turn(tokens=300, texts=["zebra "] * 300)), [2 * S])
            other.poll()
            stage.source.session = other.session
            stage.source.forget_the_rest()
            await until_shown(stage, "zebra zebra")
            await press(stage, "q")
        assert stage.app.error is None

    run(scene())


def test_it_follows_what_comes_and_stands_still_when_frozen() -> None:
    async def scene() -> None:
        stage = Stage(at=2 * S)
        async with stage.app.run_test(size=(120, 36)):
            await until_shown(stage, "00:01.8")
            stage.clock[0] = 3 * S
            await until_shown(stage, "00:02.8")
            await press(stage, "space")
            await until_shown(stage, "paused")
            stage.clock[0] = 4 * S
            stage.app._draw()
            assert "00:02.8" in stage.app.text
            await press(stage, "space")
            await until_shown(stage, "00:03.8")

    run(scene())


def test_a_prompt_is_typed_and_its_turn_is_shown() -> None:
    async def scene() -> None:
        stage = Stage("empty", at=S)
        async with stage.app.run_test(size=(120, 36)):
            await until_shown(stage, "type a prompt; enter sends it")
            await press(stage, *"why q", "enter")
            assert stage.wire.said == [("ask", "why q")]
            stage.clock[0] = 2 * S
            await until_shown(stage, "turn 1")
            await until_shown(stage, "DECODE")

    run(scene())


def test_escape_ends_the_reply_and_the_chip_says_so() -> None:
    async def scene() -> None:
        stage = Stage()
        async with stage.app.run_test(size=(80, 24)):
            await until_shown(stage, "DECODE")
            await press(stage, "escape")
            assert stage.wire.said == [("cancel", 0)]
            stage.clock[0] += S
            await until_shown(stage, "STOPPED")
            await press(stage, "q")
        assert stage.app.status == 0

    run(scene())


def test_pages() -> None:
    async def scene() -> None:
        stage = Stage()
        async with stage.app.run_test(size=(80, 24)):
            await until_shown(stage, "DECODE")
            await press(stage, "question_mark")
            await until_shown(stage, "pause the view, or go on")
            await press(stage, "escape", "exclamation_mark")
            await until_shown(stage, "nothing so far")
            await press(stage, "escape")
            await until_shown(stage, "DECODE")

    run(scene())


def test_it_may_be_resized_at_any_time() -> None:
    async def scene() -> None:
        stage = Stage(options=Options(hz=5))
        async with stage.app.run_test(size=(120, 36)) as pilot:
            await until_shown(stage, "first token")
            for size in ((80, 24), (10, 3), (200, 60), (1, 1), (60, 40), (120, 36)):
                await pilot.resize_terminal(*size)
                stage.clock[0] += S // 4
                stage.app._tick()
            await until_shown(stage, "first token")

    run(scene())


def test_every_tile_draws_what_is_on_the_canvas() -> None:
    async def scene() -> None:
        stage = Stage(options=Options(hz=5))
        async with stage.app.run_test(size=(120, 36)) as pilot:
            await until_shown(stage, "DECODE")
            for _ in range(5):
                stage.clock[0] += S // 3
                stage.app._tick()
                await pilot.pause()
            canvas = stage.app.text.split("\n")
            strips = stage.app.screen._compositor.render_strips()
            assert ["".join(segment.text for segment in strip).rstrip() for strip in strips] == canvas[:-1]

    run(scene())


def test_a_source_that_cannot_be_read_on_ends_the_view() -> None:
    async def scene() -> None:
        stage = Stage()

        def broken() -> bool:
            raise PhasetopError("written by phasetop 2.0, format 2; this one reads 1")

        stage.source.poll = broken  # type: ignore[method-assign]
        async with stage.app.run_test(size=(80, 24)):
            for _ in range(500):
                if stage.app.error is not None:
                    break
                await asyncio.sleep(0.01)
        assert isinstance(stage.app.error, PhasetopError)
        assert stage.app.status == 1

    run(scene())


def test_the_exit_status_of_a_failed_request() -> None:
    async def scene() -> None:
        stage = Stage("error", at=5 * S)
        async with stage.app.run_test(size=(80, 24)):
            await until_shown(stage, "FAILED")
            await press(stage, "q")
        assert stage.app.status == 1

    run(scene())


def test_the_view_loads_no_http_no_plots_and_no_collector() -> None:
    code = (
        "import sys, phasetop.tui.app; "
        "names = ('httpx', 'httpcore', 'plotext', 'pynvml', 'phasetop.backends', 'textual.command'); "
        "print([m for m in names if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
