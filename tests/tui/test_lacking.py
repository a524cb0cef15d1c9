"""A model that Ollama lacks: offered, pulled by one key, and asked again when it is there."""

from __future__ import annotations

import asyncio
from typing import Any

from phasetop import events as ev
from phasetop.session import Session
from phasetop.tui.app import ViewApp
from phasetop.tui.headline import words_of
from phasetop.tui.lacking import lacking
from phasetop.tui.running import Options
from phasetop.tui.theme import Look
from tests.tui.desk import Desk
from tests.tui.fabricate import MS, Growing, S, Script, Turn, Wire, ask, opening, session_of
from tests.tui.test_view_app import Stage, press, run, until_shown

OFFER = "pull llama3.2:3b? y pulls it · closest: llama3.1:8b, llama3:8b"
TEXT = "no model 'llama3.2:3b' in the Ollama at http://127.0.0.1:11434; --pull fetches it"


def failed(about: dict[str, Any] | None = None) -> Script:
    script = ask(opening(), 0, Turn(error=TEXT))
    about = {"model": "llama3.2:3b", "closest": ["llama3.1:8b", "llama3:8b"]} if about is None else about
    script.add(ev.Notice(t=script.t + MS, code="not-installed", level="warn", text=TEXT, about=about))
    return script


def desk_of(script: Script, **more: Any) -> Desk:
    session = session_of(script.sorted())
    return Desk(session, session.last_t + 20 * S, **more)


def offered(desk: Desk) -> str | None:
    desk.draw()
    shown = desk.controls.shown
    assert shown is not None
    return shown.view.offer


def tell(desk: Desk, *events: ev.Event) -> None:
    for event in events:
        desk.controls._source.session.apply(event)  # type: ignore[arg-type]
    desk.draw()


def test_one_key_pulls_it_and_the_request_is_asked_again_when_it_is_there() -> None:
    desk = desk_of(failed())
    assert offered(desk) == OFFER
    desk.press("y")
    assert desk.wire.said == [("pull", "llama3.2:3b")]
    assert offered(desk) is None
    desk.press("y")  # it copies again, and pulls nothing twice
    t = desk.clock[0]
    tell(desk, ev.Control(t=t, op="get", ok=True, task=1), ev.Task(t=t, task=1, state="run", done=1.0, total=2.0, unit="B"))
    shown = desk.controls.shown
    assert shown is not None
    assert (shown.state, shown.running) == ("load", False)
    tell(desk, ev.Task(t=t + S, task=1, state="ok"))
    assert desk.wire.said == [("pull", "llama3.2:3b")]  # not before the server is ready with it
    tell(desk, ev.State(t=t + 2 * S, v=0, s="ready"))
    assert desk.wire.said == [("pull", "llama3.2:3b"), ("again", (0, True))]
    tell(desk)
    assert len(desk.wire.said) == 2
    assert offered(desk) is None


def test_a_pull_that_fails_says_why_and_is_offered_again() -> None:
    desk = desk_of(failed()).press("y")
    t = desk.clock[0]
    why = "pull llama3.2:3b: \x1b[31mno such model"
    tell(desk, ev.Control(t=t, op="get", ok=True, task=1), ev.Task(t=t + S, task=1, state="failed", why=why))
    assert desk.message is not None
    assert desk.message.endswith("no such model")
    assert "\x1b" not in desk.message
    assert offered(desk) == OFFER
    assert desk.press("y").wire.said == [("pull", "llama3.2:3b")] * 2


def stage_of(script: Script) -> Stage:
    """The app over a session that has come to its end."""
    stage = Stage.__new__(Stage)
    stage.clock = [script.t + 2 * MS]
    stage.source = Growing(script.sorted(), stage.clock)
    stage.source.poll()
    stage.wire = Wire(stage.source)
    stage.app = ViewApp(stage.source, stage.wire, Options(hz=50), Look())
    return stage


def test_a_command_that_is_refused_says_why() -> None:
    desk = desk_of(failed()).press("y")
    tell(desk, ev.Control(t=desk.clock[0], op="get", ok=False, why="nobody answers there"))
    assert desk.message == "nobody answers there"
    assert offered(desk) == OFFER


def test_esc_ends_the_pull_and_it_is_offered_again() -> None:
    async def scene() -> None:
        stage = stage_of(failed())
        async with stage.app.run_test(size=(120, 36)):
            await until_shown(stage, OFFER)
            await press(stage, "y")
            stage.clock[0] += 2 * S + 2 * MS
            await until_shown(stage, "esc end the pull")
            await press(stage, "escape")
            assert stage.wire.said[-1] == ("cancel_task", 1)
            await until_shown(stage, "ending: pull llama3.2:3b")
            stage.clock[0] += S
            await until_shown(stage, "was ended; what came of it is kept for the next time")
            assert "esc end the pull" not in stage.app.text
            stage.app.controls._message = None
            await until_shown(stage, OFFER)
            await press(stage, "q")

    run(scene())


def test_esc_ends_the_whole_pull_and_not_a_layer_and_what_ended_is_not_shown_on() -> None:
    desk = desk_of(failed()).press("y")
    t = desk.clock[0]
    whole, layer = "pull llama3.2:3b", "pull llama3.2:3b: 2df68bc8"
    tell(desk, ev.Control(t=t, op="get", ok=True, task=1), ev.Task(t=t, task=1, state="run", title=whole))
    tell(desk, ev.Task(t=t + MS, task=2, state="run", title=layer, done=1.0, total=2.0, unit="B"))
    assert desk.press("escape").wire.said[-1] == ("cancel_task", 1)
    desk.clock[0] = t + 3 * MS
    tell(desk, ev.Task(t=t + 2 * MS, task=1, state="cancelled", title=whole))
    shown = desk.controls.shown
    assert shown is not None
    assert (shown.task, shown.state) == (None, "failed")


def test_a_request_that_waits_for_its_model_shows_the_pull() -> None:
    """`run --pull`: the request is there, and is sent when the model is."""
    script = opening()
    t = script.t
    script.add(ev.Request(t=t + MS, r=0, v=0, m=0, api="chat", messages=[{"role": "user", "content": "hi"}]))
    script.add(ev.Task(t=t + 2 * MS, task=1, state="run", title="pull llama3.2:3b", done=1.2e9, total=4.8e9, unit="B"))
    desk = desk_of(script)
    shown = desk.controls.shown
    assert shown is not None
    assert shown.state == "load"
    assert words_of(shown).why.startswith("1.20 GB of 4.80 GB")
    desk = desk_of(script).press("escape")  # first what was asked, then the pull
    assert desk.wire.said == [("cancel", 0)]
    tell(desk, ev.End(t=desk.clock[0], r=0, finish="cancelled"))
    assert desk.press("escape").wire.said == [("cancel", 0), ("cancel_task", 1)]


def test_who_only_watches_ends_no_pull() -> None:
    desk = desk_of(failed(), steers=False)
    tell(desk, ev.Task(t=desk.clock[0], task=1, state="run", title="pull x"))
    assert desk.press("escape").wire.said == []


def test_without_a_request_it_is_only_pulled() -> None:
    script = opening()
    about = {"model": "llama3.2:3b", "closest": []}
    script.add(ev.Notice(t=script.t + MS, code="not-installed", level="warn", text=TEXT, about=about))
    desk = desk_of(script)
    assert offered(desk) == "pull llama3.2:3b? y pulls it"
    desk.press("y")
    tell(desk, ev.State(t=desk.clock[0] + S, v=0, s="ready"))
    assert desk.wire.said == [("pull", "llama3.2:3b")]
    assert desk.message == "llama3.2:3b is there"


def test_an_empty_ask_line_gives_way_and_one_with_text_does_not() -> None:
    desk = desk_of(failed(), asking=True)
    assert offered(desk) == OFFER
    assert desk.press("y").wire.said == [("pull", "llama3.2:3b")]
    desk = desk_of(opening(), asking=True).press("h", "i")
    tell(desk, *failed().sorted())
    assert offered(desk) == OFFER.replace("y pulls", "esc, then y pulls")
    assert desk.press("y").wire.said == []
    assert desk.controls.line.text == "hiy"
    assert offered(desk.press("escape")) == OFFER
    assert desk.press("y").wire.said == [("pull", "llama3.2:3b")]
    assert desk.press("a").controls.asking  # it takes the keys only once


def test_who_only_watches_is_offered_nothing() -> None:
    desk = desk_of(failed(), steers=False)
    assert offered(desk) is None
    assert desk.press("y").wire.said == []


def test_what_does_not_say_which_model_is_no_offer() -> None:
    for about in ({}, {"model": 12}, {"model": ""}):
        assert lacking(session_of(failed(about).sorted())) is None
    assert lacking(Session()) is None


def test_a_name_is_data() -> None:
    session = session_of(failed({"model": "a\x1b]0;x\x07\nb", "closest": ["\x9b2J", 3]}).sorted())
    offer = offered(Desk(session, session.last_t + S))
    assert offer is not None
    assert offer.isprintable()


def test_in_the_app() -> None:
    async def scene() -> None:
        stage = stage_of(failed())
        async with stage.app.run_test(size=(120, 36)):
            await until_shown(stage, OFFER)
            await until_shown(stage, "y pull   ")
            await until_shown(stage, "y pulls it, and asks again when it is there.")
            await press(stage, "y")
            stage.clock[0] += 2 * S + 2 * MS
            await until_shown(stage, "2.40 GB of 4.80 GB.")
            await until_shown(stage, "━")
            stage.clock[0] += 3 * S
            for _ in range(500):
                if ("again", (0, True)) in stage.wire.said:
                    break
                await asyncio.sleep(0.01)
            stage.clock[0] += S
            await until_shown(stage, "DECODE")
            assert stage.wire.said == [("pull", "llama3.2:3b"), ("again", (0, True))]
            await press(stage, "q")

    run(scene())
