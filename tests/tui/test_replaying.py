"""A replay as a whole, headless: each of its keys, the mouse on its bar, and that it follows what still grows."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from phasetop import events as ev
from phasetop import places
from phasetop.moments import moment_of
from phasetop.session import Session
from phasetop.tui.app import ViewApp
from phasetop.tui.footer import situation
from phasetop.tui.keys import TABLE, row_of
from phasetop.tui.player import Opening
from phasetop.tui.replaying import ReplayControls
from phasetop.tui.running import Options
from phasetop.tui.theme import Look
from tests.tui.fabricate import MS, Finished, Growing, S, Turn, Wire, ask, opening, sample, session_of
from tests.tui.test_view_app import Stage, press, run, until_shown


def events_of() -> list[ev.Event]:
    script = opening()
    ask(script, 0, Turn(tokens=200, stall_at=100, logprobs=True))
    script.add(ev.Mark(t=script.t, at=script.t - S, label="here"))
    ask(script, 1, Turn(tokens=90, gap_ms=30, cached=300, prompt=700), at_ms=9000)
    return sample(script).sorted()


class Replay(Stage):
    """The app over a recording; it stands at a moment, and its clock is the test's."""

    def __init__(self, at: str | None = "1.5", *, events: list[ev.Event] | None = None, speed: float = 1.0) -> None:
        self.source = Finished(session_of(events or events_of()))  # type: ignore[assignment]
        self.wire = Wire()
        self.seconds = [0.0]
        how = Opening(None if at is None else moment_of(at), speed)
        self.app = ViewApp(self.source, None, Options(hz=50, title="it.phasetop", replay=how), Look())
        self.controls._player._clock = lambda: self.seconds[0]
        self.controls._player._since = 0.0

    @property
    def session(self) -> Session:
        return self.source.session

    @property
    def controls(self) -> ReplayControls:
        assert isinstance(self.app.controls, ReplayControls)
        return self.app.controls

    @property
    def at(self) -> int:
        """The cursor."""
        return self.controls.cursor


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "state_folder", lambda: tmp_path)


SHOWS: dict[str, tuple[tuple[str, ...], str]] = {
    # action: the keys before and its own, and what is on the screen then
    "play": (("space",), "▶ 1.0×"),
    "step": (("right", "shift+right", "left", "shift+left"), "token 71 "),
    "band": (("full_stop", "comma"), "turn 1 of 2"),
    "next": (("n",), "a stall of"),
    "tenth": (("9",), "turn 2 of 2"),
    "speed": (("plus", "equals_sign", "minus"), "2.0× as fast, when it plays"),
    "time": (("t", *"#90", "enter"), "token 90 "),
    "end": (("l",), "DONE"),
    "turn": (("right_square_bracket",), "turn 2 of 2"),
    "follow": (("home", "f"), "token 71 "),
    "close": (("tab", "escape"), "space play"),
    "colour": (("c",), "probability  > 0.9"),
    "pane_on": (("tab",), "the trace: z gives it all the room"),
    "pane_back": (("shift+tab",), "the machine: z gives it all the room"),
    "zoom": (("z",), "esc close"),
    "figures": (("v",), "time by gap"),
    "sweep": (("w",), "the last 10 s"),
    "turns": (("T",), "cached   reply"),
    "explain": (("i",), "the token under the cursor"),
    "charts": (("p",), "KV cache over time"),
    "doctor": (("d",), "only the terminal is looked at now"),
    "roofline": (("r",), "esc back"),
    "search": (("slash",), "without a capital, case does not matter"),
    "copy": (("y",), "copied the reply"),
    "error": (("e",), ""),  # test_view_pty: only where a pane failed
    "up": (("up",), "f follows"),
    "down": (("up", "up", "down"), "token 71 "),
    "page_up": (("pageup",), "f follows"),
    "page_down": (("home", "pagedown"), "token 71 "),
    "home": (("home",), "f follows"),
    "log": (("exclamation_mark",), "nothing so far"),
    "help": (("question_mark",), "to a tenth of the session"),
    "quit": (("q",), ""),
    "interrupt": (("ctrl+c",), "ctrl-c again quits"),
    "theme": (("ctrl+t",), "theme"),
    "palette": ((), ""),  # test_start opens it
    "redraw": ((), ""),  # the pty tests: a headless app has no terminal
    "suspend": ((), ""),
}


def test_no_key_of_the_table_is_without_a_test() -> None:
    assert {key.does for key in TABLE["replay"]} == set(SHOWS)


@pytest.mark.parametrize("does", [name for name, (_, words) in SHOWS.items() if words])
def test_the_key_shows(does: str) -> None:
    keys, words = SHOWS[does]

    async def scene() -> None:
        stage = Replay()
        async with stage.app.run_test(size=(120, 36)):
            await until_shown(stage, "token 71 ")
            await press(stage, *keys)
            await until_shown(stage, words)
            await press(stage, "escape", "escape", "q")
        assert stage.app.status == 0

    run(scene())


def test_it_opens_at_the_start_and_plays() -> None:
    async def scene() -> None:
        stage = Replay(None)
        async with stage.app.run_test(size=(120, 36)):
            await until_shown(stage, "it.phasetop   turn 1 of 2   replay")
            await until_shown(stage, "▶ 1.0×")
            assert stage.at == stage.controls._course.begin
            for _ in range(5):
                stage.seconds[0] += 0.5
                stage.app._tick()
            assert stage.at == stage.controls._course.begin + 5 * S // 2
            await until_shown(stage, "DECODE")
            await press(stage, "space")
            await until_shown(stage, "┃┃ 1.0×")
            stage.seconds[0] += 5
            stage.app._tick()
            assert stage.at == stage.controls._course.begin + 5 * S // 2

    run(scene())


def test_it_ends_at_the_end_and_begins_again() -> None:
    async def scene() -> None:
        stage = Replay("98%", speed=100.0)
        async with stage.app.run_test(size=(120, 36)):
            await until_shown(stage, "▶ 100×")
            stage.seconds[0] += 0.5
            await until_shown(stage, "DONE")
            await until_shown(stage, "┃┃ 100×")
            assert stage.at == stage.controls._course.stop
            await press(stage, "space")
            assert stage.at == stage.controls._course.begin

    run(scene())


def test_tokens_bands_turns_and_stalls_are_gone_to() -> None:
    async def scene() -> None:
        stage = Replay()
        first, second = stage.session.runs.values()
        t, ended = first.tokens.t, first.ends.items[0].t
        async with stage.app.run_test(size=(120, 36)):
            await until_shown(stage, "token 71 ")
            assert stage.at == stage.controls._course.zero + 1500 * MS
            await press(stage, "left")
            assert stage.at == t[69]  # the one before the one under the cursor
            await press(stage, "right", "shift+right")
            assert stage.at == t[80]
            await press(stage, "comma")
            assert stage.at == t[0]
            await press(stage, "comma", "comma", "comma", "comma")
            assert stage.at == stage.controls._course.begin
            await press(stage, "n")
            assert stage.at == t[100]
            await until_shown(stage, f"a stall of {first.tokens.gap_ns[100] / 1e6:,.0f} ms   2 of 4")
            await press(stage, "n")
            assert stage.at == ended - S
            await press(stage, "n")
            assert stage.at == second.info.first_t
            await press(stage, "N", "N", "N")
            assert stage.at == first.info.first_t
            await press(stage, "N")
            await until_shown(stage, "no stall, mark or turn before this")
            await press(stage, "right_square_bracket", "right")
            assert stage.at == second.tokens.t[0]
            await press(stage, "left")
            assert stage.at == t[-1]
            await press(stage, "right", "left_square_bracket")
            assert stage.at == second.info.first_t
            await press(stage, "left_square_bracket")
            assert stage.at == stage.controls._course.begin
            await press(stage, "left")
            assert stage.at == stage.controls._course.begin
            await press(stage, "l", "full_stop", "right")
            assert stage.at == stage.controls._course.stop

    run(scene())


@pytest.mark.parametrize("tenth", range(10))
def test_tenths(tenth: int) -> None:
    async def scene() -> None:
        stage = Replay()
        async with stage.app.run_test(size=(80, 24)):
            await until_shown(stage, "token 71 ")
            await press(stage, "0123456789"[tenth])
            course = stage.controls._course
            assert stage.at == (course.time(course.total * tenth // 10) if tenth else course.begin)

    run(scene())


def test_a_time_is_typed_and_what_is_none_is_said() -> None:
    async def scene() -> None:
        stage = Replay()
        zero = stage.controls._course.zero
        async with stage.app.run_test(size=(120, 36)):
            await until_shown(stage, "token 71 ")
            await press(stage, "t")
            await until_shown(stage, "a time of the session: 12.5, 1:02")
            await until_shown(stage, "enter go   esc leave")
            await press(stage, *"0:02.25", "enter")
            assert stage.at == zero + 2250 * MS
            await press(stage, "t", *"q", "enter")
            await until_shown(stage, "'q' is no moment")
            await press(stage, "t", *"99", "enter")
            await until_shown(stage, "the session ends at ")
            assert stage.at == stage.controls._course.stop
            await press(stage, "t", *"1", "escape")
            assert stage.at == stage.controls._course.stop
            await press(stage, "t", "enter")
            assert stage.at == stage.controls._course.stop
            await press(stage, "t", "ctrl+c", "t")
            stage.app.put_paste("1.25 s\nmore")
            await press(stage, "enter")
            assert stage.at == zero + 1250 * MS

    run(scene())


def test_hits_are_gone_to_in_time_over_all_turns() -> None:
    async def scene() -> None:
        stage = Replay("0")
        replies = ["".join(str(each) for each in run.tokens.text) for run in stage.session.runs.values()]
        hits = sum(reply.lower().count("bucket") for reply in replies)
        async with stage.app.run_test(size=(120, 36)):
            await until_shown(stage, "turn 1 of 2")
            await press(stage, "slash", *"bucket", "enter")
            await until_shown(stage, f"hit 1 of {hits}")
            text = "".join(str(each) for each in stage.session.runs[0].tokens.text[: stage.controls.shown.upto])  # type: ignore[union-attr]
            assert text.lower().endswith("bucket")
            await press(stage, "n")
            await until_shown(stage, f"hit 2 of {hits}")
            await press(stage, "N", "N")
            await until_shown(stage, f"hit {hits} of {hits}, gone around")
            await until_shown(stage, "turn 2 of 2")

    run(scene())


def test_the_bar_is_clicked_and_dragged() -> None:
    async def scene() -> None:
        stage = Replay()
        async with stage.app.run_test(size=(120, 36)) as pilot:
            await until_shown(stage, "token 71 ")
            course, plan = stage.controls._course, stage.controls._plan
            assert plan is not None
            assert plan.scrub is not None
            x, y, width = plan.scrub.x, plan.scrub.y, plan.scrub.width
            await pilot.mouse_down(offset=(x, y))
            assert stage.at == course.begin
            await pilot.mouse_down(offset=(x + width // 2, y))
            assert stage.controls.view(plan, failed=False).scrub.cursor == width // 2  # type: ignore[union-attr]
            stage.controls.click(x + width + 30, y - 4, select=True)  # dragged beyond its end
            assert stage.controls.view(plan, failed=False).scrub.cursor == width - 1  # type: ignore[union-attr]
            await pilot.mouse_up(offset=(x + width - 4, y))
            stage.app._draw()
            row = next(y for y, row in enumerate(stage.app.text.split("\n")) if y > 20 and len(row[:75].strip()) > 30)
            before = stage.at
            await pilot.mouse_down(offset=(20, row))  # the text is not the bar: a token is pointed at
            assert stage.at == before
            await until_shown(stage, "i explains it")
            pointed = stage.controls._view.token
            assert pointed is not None
            await press(stage, "right")  # from there
            run = stage.session.runs[stage.controls.shown.r]  # type: ignore[union-attr,index]
            assert stage.at == run.tokens.t[pointed + 1]

    run(scene())


@pytest.mark.parametrize("size", [(200, 60), (120, 36), (80, 24), (60, 40), (44, 14), (20, 5), (8, 2)])
def test_the_bar_is_there_at_any_size_but_the_smallest(size: tuple[int, int]) -> None:
    async def scene() -> None:
        stage = Replay()
        async with stage.app.run_test(size=size):
            if size[0] >= 40:
                await until_shown(stage, "┃┃ 1.0×  █")
                assert stage.app.text.count("│") >= 3 or size[1] < 24
            for key in ("z", "n", "l", "0", "t", "1", "enter", "space", "q"):
                await press(stage, key)
        assert stage.app.error is None
        assert stage.app.failures == {}

    run(scene())


def test_what_still_grows_is_followed_at_its_end() -> None:
    async def scene() -> None:
        clock = [2 * S]
        source = Growing(events_of(), clock)
        source.poll()
        app = ViewApp(source, None, Options(hz=50, title="x", replay=Opening(end=True, word="watch")), Look())
        stage = Replay()
        stage.app = app
        async with app.run_test(size=(120, 36)):
            await until_shown(stage, "▶ live")
            await until_shown(stage, "watch")
            clock[0] = 3 * S
            app._tick()
            assert stage.at == 3 * S
            await press(stage, "left")
            await until_shown(stage, "┃┃ 1.0×")
            stood = stage.at
            clock[0] = 4 * S
            app._tick()
            assert stage.at == stood
            await press(stage, "l")
            await until_shown(stage, "▶ live")
            assert stage.at == 4 * S
            clock[0] = source._events[-1].t + S
            source.poll()
            source.live = False
            await until_shown(stage, "┃┃ 1.0×")
            await until_shown(stage, "DONE")

    run(scene())


def test_read_only_keys_are_none() -> None:
    names = {name for key in TABLE["replay"] for name in key.names}
    assert not names & {"a", "R", "m", "s"}


def test_the_keys_row_is_the_designs() -> None:
    async def scene() -> None:
        stage = Replay()
        async with stage.app.run_test(size=(120, 36)):
            await until_shown(stage, "token 71 ")
            shown = stage.app.shown
            assert shown is not None
            words = [key.word for key in row_of("replay", situation(shown), 118)]
        own = ["play", "token", "phase", "stall", "tenths", "speed", "time", "turn", "end", "keys", "quit"]
        assert words == own

    run(scene())


def test_alternatives_of_the_token_under_the_cursor_are_read() -> None:
    async def scene() -> None:
        events = events_of()
        for event in events:
            if isinstance(event, ev.Tok) and event.p is not None:
                assert isinstance(event.p, float)
                event.top = [" other", event.p + 0.5, event.x, event.p]
        told: list[tuple[int, int]] = []
        growing = Growing(events, [10**12])
        stage = Replay(events=events)

        def read(r: int, i: int) -> object:
            told.append((r, i))
            return growing.alternatives(r, i)

        stage.source.alternatives = read  # type: ignore[method-assign,assignment]
        async with stage.app.run_test(size=(120, 36)):
            await until_shown(stage, "rank 2")
            assert told == [(0, 70)]
            await press(stage, "right")
            await until_shown(stage, "token 72 ")
            assert told == [(0, 70), (0, 71)]

    run(scene())


def test_a_failed_search_and_an_empty_recording() -> None:
    async def scene() -> None:
        stage = Replay(None, events=opening().sorted())
        async with stage.app.run_test(size=(120, 36)):
            await until_shown(stage, "START")
            for key in ("space", "left", "right", "n", "N", "comma", "full_stop", "left_square_bracket", "5", "l", "y"):
                await press(stage, key)
            await press(stage, "slash", *"zz", "enter")
            await until_shown(stage, "nothing like 'zz'")
            await asyncio.sleep(0)
        assert stage.app.error is None

    run(scene())
