"""What keys and the mouse do in a replay: the same view, whose cursor one moves. See `Controls` for what both share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from phasetop.figures import seconds
from phasetop.session import Run
from phasetop.tui.controls import Controls
from phasetop.tui.course import Course
from phasetop.tui.keys import Key, Screen, lookup
from phasetop.tui.layout import Layout
from phasetop.tui.lineedit import LineEdit
from phasetop.tui.player import SLOW, Opening, Player, times
from phasetop.tui.scrub import Bar, Scrub, bar_of
from phasetop.tui.search import Search
from phasetop.tui.tokentext import TokenTexts
from phasetop.tui.view import AskLine, View
from phasetop.tui.waypoints import neighbour

_FAR: Final = 10
"""With shift: so many tokens."""
_FORTH: Final = frozenset(("right", "shift+right", "full_stop", "plus", "equals_sign"))


def replay_controls(opening: Opening) -> Callable[..., ReplayControls]:
    """What makes the controls of a replay that is opened so."""

    def make(*args: Any, **more: Any) -> ReplayControls:
        return ReplayControls(*args, opening=opening, **more)

    return make


class ReplayControls(Controls):
    """Obeys a replay's keys. It is read-only: there is no lifeline, and no ask line."""

    home: Screen = "replay"
    scrubs = True

    def __init__(self, *args: Any, opening: Opening, **more: Any) -> None:
        super().__init__(*args, **more)
        session = self._source.session
        self._word = opening.word
        self._course = course = Course(session)
        at: int | None = None if opening.end else course.begin
        if opening.at is not None:
            at = course.moment(opening.at, None)
            self._tell_of_the_end(at)
            at = course.within(at)
        playing = opening.at is None or opening.speed != 1.0
        self._player = Player(course, at, playing=playing, speed=opening.speed, clock=self._clock)
        self._bar: tuple[tuple[int, int], Bar] = ((-1, -1), Bar())
        self._typed: LineEdit | None = None
        self._dragging = False
        self._read: tuple[int, int] | None = None  # whose alternatives are known: request and line

    # ---- the cursor

    @property
    def cursor(self) -> int:
        """The moment that is shown."""
        return self._source.now() if self._player.at is None else self._player.at

    @property
    def idle(self) -> bool:
        """Nothing moves by itself."""
        return super().idle if self._player.at is None else not self._player.playing

    def ahead(self) -> list[int]:
        """Of long replies, what makes seeking cheap."""
        return self._course.ahead()

    def tick(self) -> None:
        """Play on."""
        if self._course.renew():
            self.changed = True
        if self._player.tick(live=self._source.live):
            self.changed = True
        super().tick()

    def view(self, plan: Layout, *, failed: bool) -> View:
        """The view's state, with the scrub bar's."""
        course, player = self._course, self._player
        columns = plan.scrub.width if plan.scrub is not None else 0
        key = (course.version, columns)
        if self._bar[0] != key:
            self._bar = (key, bar_of(course, self._source.session, columns))
        bar, at = self._bar[1], self.cursor
        reads = player.at is not None and (not player.playing or player.speed <= SLOW)
        scrub = Scrub(
            playing=player.playing,
            following=player.at is None and self._source.live,
            speed=player.speed,
            at_ns=max(0, min(at, course.last) - course.zero),
            total_ns=course.last - course.zero,
            turns=len(course.spans),
            bar=bar,
            cursor=bar.column(course.way(at)) if bar.columns else 0,
            reads=reads,
            word=self._word,
        )
        self._read_alternatives(at, reads)
        self._view = replace(super().view(plan, failed=failed), scrub=scrub, time=self._time_line(plan.width - 40))
        return self._view

    def _read_alternatives(self, at: int, reads: bool) -> None:
        """What the token under the cursor could have been, read from the file when it is another."""
        if self._view.token is not None:
            self._read = None
            return
        run = self._source.session.last_run(at)
        here = (run.r, run.tokens.index(at) - 1) if reads and run is not None else None
        if here != self._read:
            told = self._source.alternatives(*here) if here is not None and here[1] >= 0 else ()
            self._read = here
            self._view = replace(self._view, alternatives=told)

    def go(self, t: int) -> None:
        """Move the cursor, and let the view show what is there."""
        self._player.seek(t)
        self._view = replace(self._view, turn=None, top=None, token=None, anchor=None)
        self._message = None
        self.changed = True

    def _tell_of_the_end(self, t: int) -> None:
        """Say where the session ends, where somebody wants to go beyond."""
        if t > self._course.stop:
            self.say(f"the session ends at {' '.join(seconds(self._course.last - self._course.zero))}")

    # ---- keys

    @property
    def screen(self) -> Screen:
        """Where keys go now."""
        if self._typed is not None and self.page is None:
            return "time"
        above = super().screen
        return "replay" if above == "live" else above

    def press(self, name: str, character: str | None) -> None:
        """Obey a key; in the line for a time it types."""
        if self.screen == "time" and self._typed is not None and lookup("time", name, frozenset({"always"})) is None:
            if not self._typed.key(name) and character:
                self._typed.insert(character)
            self.changed = True
            return
        super().press(name, character)

    def _do(self, key: Key, name: str) -> None:
        step = 1 if name in _FORTH else -1
        match key.does:
            case "step":
                self.do_step(step * (_FAR if name.startswith("shift+") else 1))
            case "band":
                self.do_band(step)
            case "tenth":
                self.do_tenth(int(name))
            case "speed":
                self.do_speed(step)
            case _:
                super()._do(key, name)

    def do_play(self) -> None:
        """Play, or pause; at the end from the start again."""
        self._player.play()
        self._message = None

    def do_step(self, step: int) -> None:
        """By tokens; those of one read come together. From a token that was pointed at, from there."""
        self._player.playing = False
        session, course, at = self._source.session, self._course, self.cursor
        shown = self.shown
        if self._view.token is not None and shown is not None and shown.r is not None:
            columns = session.runs[shown.r].tokens
            at = columns.t[min(self._view.token, len(columns) - 1)]
        run = session.last_run(at)
        if step < 0 and run is not None and (i := run.tokens.index(at)):
            at = run.tokens.t[i - 1]  # the token under the cursor, from which it goes back
        for _ in range(abs(step)):
            to = course.token_after(at) if step > 0 else course.token_before(at)
            if to is None:
                to = course.stop if step > 0 else course.begin
            at = to
        self.go(at)

    def do_band(self, step: int) -> None:
        """To where the next, or the last, phase begins."""
        at, edges = self.cursor, self._course.edges()
        found = [edge for edge in edges if (edge > at if step > 0 else edge < at)]
        if found:
            self.go(min(found) if step > 0 else max(found))
        else:
            self.go(self._course.stop if step > 0 else self._course.begin)

    def do_next(self, step: int) -> None:
        """To the next stall, mark, or beginning of a request; while one searches, to the next hit."""
        if self._view.pattern:
            self._go_to_hit(step)
            return
        points = self._course.waypoints()
        point = neighbour(points, self.cursor, step)
        if point is None:
            self.say(f"no stall, mark or turn {'after' if step > 0 else 'before'} this")
            return
        self._player.playing = False
        self.go(point.t)
        self.say(f"{point.words}   {points.index(point) + 1} of {len(points)}")

    def do_turn(self, step: int) -> None:
        """To where the next turn begins, or this one, or the one before."""
        spans = self._course.spans
        k = self._course.turn_at(self.cursor)
        if step < 0 and k >= 0 and self.cursor > spans[k].asked:
            k += 1  # the begin of this one first
        k += step
        if 0 <= k < len(spans):
            self.go(spans[k].asked)

    def do_tenth(self, tenth: int) -> None:
        """To a tenth of the session."""
        self.go(self._course.time(self._course.total * tenth // 10) if tenth else self._course.begin)

    def do_speed(self, step: int) -> None:
        """Faster or slower."""
        self._player.faster(step)
        self.changed = True
        if not self._player.playing:
            self.say(f"{times(self._player.speed)} as fast, when it plays")

    def do_end(self) -> None:
        """To the end; what still grows is followed."""
        self.go(self._course.stop)
        self._player.playing = False
        if self._source.live:
            self._player.at = None

    # ---- a time, typed

    def do_time(self) -> None:
        """Type where to go."""
        self._typed, self._message = LineEdit(), None

    def _time_line(self, width: int) -> AskLine | None:
        if self._typed is None:
            return None
        text, caret = self._typed.shown(max(1, width))
        return AskLine(text, caret, focused=True, label="go to")

    def do_untime(self) -> None:
        """Leave the line."""
        self._typed = None

    def do_go(self) -> None:
        """Go to what was typed."""
        from phasetop.moments import moment_of

        assert self._typed is not None
        text, self._typed = self._typed.text, None
        if not text.strip():
            return
        try:
            meant = moment_of(text)
        except ValueError as error:
            self.say(str(error))
            return
        t = self._course.moment(meant, self.shown.r if self.shown is not None else None)
        self.go(t)
        self._tell_of_the_end(t)

    def paste(self, text: str) -> None:
        """A paste, where one types a time."""
        if self._typed is not None:
            self._typed.insert(text.strip().splitlines()[0][:40] if text.strip() else "")
            self.changed = True
        else:
            super().paste(text)

    # ---- searching

    def _go_to_hit(self, step: int) -> None:
        """To where the next hit has come, in time: the first from here on for step 0; past the last around to the first."""
        pattern = self._view.pattern
        hits = sorted(t for run in self._source.session.runs.values() for t in _hits(run, pattern))
        if not hits:
            self.say(f"nothing like '{pattern}' in the replies")
            return
        at = self.cursor
        if step < 0:
            found = [k for k, t in enumerate(hits) if t < at]
            k = found[-1] if found else len(hits) - 1
        else:
            found = [k for k, t in enumerate(hits) if (t > at if step else t >= at)]
            k = found[0] if found else 0
        self._player.playing = False
        self.go(hits[k])
        self.say(f"hit {k + 1:,} of {len(hits):,}" + ("" if found else ", gone around"))

    # ---- the mouse

    def click(self, x: int, y: int, *, select: bool = False) -> None:
        """On the scrub bar: go there, and on with the mouse while it is dragged."""
        bar = self._plan.scrub if self._plan is not None and self.page is None else None
        if not select:
            self._dragging = bar is not None and y == bar.y and bar.x <= x < bar.right
        if self._dragging and bar is not None and self._bar[1].columns:
            column = max(0, min(x - bar.x, bar.width - 1))
            self.go(self._course.time(self._bar[1].way(column)) if column else self._course.begin)
            return
        super().click(x, y, select=select)

    def release(self) -> None:
        """The mouse was let go."""
        self._dragging = False
        super().release()


def _hits(run: Run, pattern: str) -> list[int]:
    """When each hit of a reply was there, whole."""
    texts = TokenTexts(run.tokens).new()
    search = Search(pattern, texts)
    search.grow()
    return [run.tokens.t[min(search.token_at(hit + search.length - 1), len(run.tokens) - 1)] for hit in search.hits]
