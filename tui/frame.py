"""The Frame: all that the panes draw, computed from (Session, cursor, layout, view) and nothing else.

`FrameMaker` keeps what would be dear to compute again (wrapped text, dots, final columns) and gives the same Frame as one
made afresh: live and replay show the same at the same cursor. What moves slower than the frames does so at beats of the
session's own clock, so a Frame is a function of the cursor and not of when it was drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isnan
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from phasetop import events as ev
from phasetop.machine import is_gpu
from phasetop.metrics import Measures, Phases, measure
from phasetop.session import Run, Session
from phasetop.tui import devices
from phasetop.tui.facts import (
    Facts,
    Notice,
    asked_text,
    facts_of,
    loading_since,
    newest_notice,
    prompt_pieces,
    running_task,
    why_nothing,
)
from phasetop.tui.failure import Failure
from phasetop.tui.lanes import SECOND_NS, Axis
from phasetop.tui.layout import MARGIN, Layout
from phasetop.tui.machine import Lane, Worked
from phasetop.tui.pacing import AREAS_NS, MACHINE_NS, NUMBERS_NS, beat
from phasetop.tui.page import NOTHING, Page, Picked, PromptText, Reply
from phasetop.tui.search import Search
from phasetop.tui.steady import Steady
from phasetop.tui.tokenfacts import TokenFacts, token_facts
from phasetop.tui.tokentext import drawable
from phasetop.tui.tracing import Trace, Tracer, Window, window
from phasetop.tui.view import View
from phasetop.visible import harmless

if TYPE_CHECKING:
    from phasetop.verdict import Verdict

State = Literal[
    "starting", "ready", "load", "queue", "waiting", "prefill", "decode", "done", "failed", "stopped"
]  # fmt: skip
RUNNING: Final[frozenset[State]] = frozenset(("load", "queue", "waiting", "prefill", "decode"))
_SETTLE_NS: Final = SECOND_NS
PULL: Final = "pull "
"""How the title of a task begins that fetches a model."""
BESIDE: Final = 7
"""So many other requests are told of."""
BESIDE_FROM: Final = 26
"""A rail has so many rows before it has a row a slot."""
_KEPT: Final = 512
"""Figures of so many moments are kept."""
_NO_PAGE: Final = Page()
T = TypeVar("T")
D = TypeVar("D")


class Frame(Struct, frozen=True, eq=False):
    """One picture's worth of facts. Times are ns; ``failed`` says which part could not be made, and by what error."""

    cursor: int
    view: View
    facts: Facts
    turn: int  # 1 for the first; 0: none yet
    turns: int
    r: int | None
    recorded: bool
    notice: Notice | None
    task: ev.Task | None  # what is fetched or made ready meanwhile
    wide: bool  # the figures stand beside the text
    failed: Mapping[str, Failure]
    state: State = "starting"
    measures: Measures | None = None
    elapsed_ns: int = 0  # of the request, at the numbers' beat
    loading_ns: int | None = None  # how long the server has been loading
    trace: Trace | None = None
    lanes: tuple[Lane, ...] = ()
    page: Page = _NO_PAGE
    page_kind: Literal["none", "prompt", "reply"] = "none"
    error: str | None = None  # why nothing works, where no request says it
    has_probabilities: bool = False
    history: tuple[Measures, ...] = ()  # the turns that there may be room for, this one among them, where they are shown
    history_from: int = 0  # so many turns come before these
    tally: tuple[tuple[int, int], ...] = ()  # by step 1 to 7: tokens, and their time in ns
    upto: int = 0  # token lines that are shown
    token: TokenFacts | None = None  # the one under the cursor
    hits: int = 0  # of the search, in this turn
    redacted: bool = False
    ending: str | None = None  # the name of the token that ended the reply
    verdict: Verdict | None = None  # what the headline says of the limit; None: it is not known
    devices: tuple[devices.DeviceRow, ...] = ()
    cards: int = 1  # GPUs that work
    beside: tuple[tuple[int, Measures], ...] = ()  # turns that run on the same server meanwhile, where they are shown
    reply: Reply | None = None  # the text's rows, to find places in; no part of what is seen

    def __eq__(self, other: object) -> bool:
        """Whether the same is seen."""
        seen = (name for name in self.__struct_fields__ if name != "reply")
        return isinstance(other, Frame) and all(getattr(self, name) == getattr(other, name) for name in seen)

    @property
    def running(self) -> bool:
        """Whether the request that is shown still runs."""
        return self.state in RUNNING and (self.measures is None or self.measures.finish.reason is None)


class FrameMaker:
    """Makes the Frames of one session, live or not."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tracer = Tracer()
        self._reply: tuple[tuple[int, int], Reply] | None = None
        self._prompt: tuple[tuple[object, ...], PromptText] | None = None
        self._measured: dict[tuple[int, int, int], Measures] = {}  # by request, moment, and how many ends are known
        self._newest = -1  # the latest cursor so far
        self._exact = False  # figures are of the cursor, which stands, not of the last beat
        self._failed: dict[str, Failure] = {}
        self._search: tuple[tuple[int, int, str], Search] | None = None
        self._steady = Steady()
        self._devices: tuple[tuple[int | None, int, int], tuple[devices.DeviceRow, ...]] | None = None

    def frame(self, cursor: int, layout: Layout, view: View) -> Frame:
        """The Frame as of ``cursor`` (ns since the anchor)."""
        session = self._session
        self._failed = {}
        if (earliest := session.take_earliest()) <= self._newest:  # it came late: what was computed as of then lacked it
            self._measured = {key: measures for key, measures in self._measured.items() if key[1] < earliest}
            self._steady.forget()
        self._newest = max(self._newest, cursor)
        runs = [run for run in session.runs.values() if run.info.at(cursor) is not None]
        run = next((one for one in runs if one.r == view.turn), default_turn(runs, cursor))
        self._exact = view.stands
        measures = None if run is None else self._part("figures", lambda: self._measure(run, cursor), None)
        start = measures.phases.start if measures is not None else 0
        base = Frame(
            cursor=cursor,
            view=view,
            facts=self._part("header", lambda: facts_of(session, run, cursor), Facts()),
            turn=0 if run is None else runs.index(run) + 1,
            turns=len(runs),
            r=None if run is None else run.r,
            recorded=not any(n.code == "not-recorded" for n in session.notices.until(cursor)),
            notice=self._part("notice", lambda: newest_notice(session, run if measures else None, start, cursor), None),
            task=self._part("notice", lambda: running_task(session, cursor), None),
            wide=layout.rail is not None,
            failed=self._failed,
        )
        if run is None or measures is None:
            return self._without_request(base, layout)
        return self._of_request(base, layout, runs, run, measures)

    def _without_request(self, base: Frame, layout: Layout) -> Frame:
        """Before the first request, and where its figures cannot be made: what the server and the machine do."""
        session, cursor = self._session, base.cursor
        loading = loading_since(session, cursor)
        error = why_nothing(session, cursor) if base.r is None else None
        state: State = "starting"
        if error:
            state = "failed"
        elif loading is not None or base.task is not None:
            state = "load"
        elif any(server.at(cursor) is not None for server in session.servers.values()):
            state = "ready"
        return replace(
            base,
            state=state,
            error=error,
            loading_ns=None if loading is None else max(0, beat(cursor, AREAS_NS) - loading),
            lanes=self._part("machine", lambda: self._idle_lanes(cursor, layout), ()),
            devices=self._part("devices", lambda: self._device_rows(None, None, beat(cursor, MACHINE_NS), cursor), ()),
            cards=max(1, sum(1 for known in session.devices.values() if is_gpu(known.at(cursor)))),
        )

    def _of_request(self, base: Frame, layout: Layout, runs: list[Run], run: Run, measures: Measures) -> Frame:
        """A request as of the cursor: its figures, its trace, its text."""
        session, cursor, view = self._session, base.cursor, base.view
        phases = measures.phases if self._exact else to_areas(measures.phases, cursor)
        upto = run.tokens.index(min(cursor, phases.end) if phases.running is None else cursor)
        token = view.token if view.token is not None and view.token < upto else None
        if view.token is None and view.scrub is not None and view.scrub.reads and upto:
            token = upto - 1
        shown = Window(Axis(phases.start, SECOND_NS, 0))
        trace = None
        if layout.plot is not None:
            shown = window(phases, cursor, layout.plot.width, sweep=view.sweep)
            trace = self._part("trace", lambda: self._trace(run, measures, phases, shown, upto, layout, token), None)
        lanes: tuple[Lane, ...] = ()
        rows: tuple[devices.DeviceRow, ...] = ()
        if layout.header is not None:  # its figures stand elsewhere, too
            server, areas = session.server_of(run, cursor), phases.end
            of = Worked(run, measures, server.v if server else None)
            at = areas if phases.running is None else cursor if self._exact else beat(cursor, MACHINE_NS)
            lanes = self._part("machine", lambda: self._tracer.lanes(session, shown, at, areas, of, layout.lane_pairs), ())
            rows = self._part("devices", lambda: self._device_rows(run.r, of, at, cursor), ())
        looked = replace(view, token=token) if view.token is None else view
        page = self._part("text", lambda: self._page(run, measures, upto, layout, looked), Page())
        ending = self._part("text", lambda: _ending(session, run, cursor), None)
        turns = _turns_shown(runs, run, layout, view)
        return replace(
            base,
            state="load" if _waits_for(base.task, state_of(measures)) else state_of(measures),
            measures=measures,
            elapsed_ns=measures.phases.wall_ns,
            loading_ns=phases.ns("load"),
            trace=trace,
            lanes=lanes,
            page=page,
            page_kind="reply" if upto else "prompt",
            has_probabilities=upto > 0 and not all(isnan(p) for p in run.tokens.logp[max(0, upto - 8) : upto]),
            history=self._part("turns", lambda: tuple(self._measure(one, cursor) for one in runs[turns]), ()),
            history_from=turns.start,
            tally=self._part("figures", lambda: self._tracer.tally(run, upto), ()),
            upto=upto,
            token=self._part("token", lambda: self._token(run, token, phases.start, view, ending), None),
            hits=self._hits(upto),
            redacted=upto > 0 and isinstance(run.tokens.text[0], int),
            ending=ending,
            verdict=self._part("verdict", lambda: self._steady.shown(session, run, measures, cursor), None),
            devices=rows,
            cards=_cards(measures),
            beside=self._part("figures", lambda: self._beside(runs, run, cursor, layout), ()),
            reply=self._reply[1] if upto and self._reply is not None else None,
        )

    def _part(self, name: str, make: Callable[[], T], instead: D) -> T | D:
        """One part; an error in it is kept for its pane and harms no other."""
        try:
            return make()
        except Exception as error:
            self._failed[name] = Failure.of(error)
            return instead

    def _idle_lanes(self, cursor: int, layout: Layout) -> tuple[Lane, ...]:
        """The machine's figures without a request: there is no time axis to draw on."""
        if not layout.lane_rows:
            return ()
        shown, at = Window(Axis(0, SECOND_NS, 0)), beat(cursor, MACHINE_NS)
        return self._tracer.lanes(self._session, shown, at, cursor, None, layout.lane_pairs)

    def _beside(self, runs: list[Run], run: Run, cursor: int, layout: Layout) -> tuple[tuple[int, Measures], ...]:
        """The other turns that run on this one's server, with their numbers: they share its cache, or its slots."""
        if layout.rail is None or layout.rail.height < BESIDE_FROM:
            return ()
        server = self._session.server_of(run, cursor)
        others = [
            (number, one)
            for number, one in enumerate(runs, 1)
            if one is not run and one.ends.last(cursor) is None and self._session.server_of(one, cursor) is server
        ]
        return tuple((number, self._measure(one, cursor)) for number, one in others[-BESIDE:]) if server is not None else ()

    def _device_rows(self, r: int | None, of: Worked | None, at: int, cursor: int) -> tuple[devices.DeviceRow, ...]:
        """The devices' rows, which stand from one beat to the next; a device that comes is there at once."""
        known = sum(1 for versions in self._session.devices.values() if versions.at(cursor) is not None)
        if self._devices is None or self._devices[0] != (r, at, known):
            self._devices = ((r, at, known), devices.rows_of(self._session, of, at, cursor))
        return self._devices[1]

    def _measure(self, run: Run, cursor: int) -> Measures:
        at = cursor if self._exact and run.ends.last(cursor) is None else numbers_at(run, cursor)
        key = (run.r, at, len(run.ends.items))  # an end may come with the very stamp of the last beat
        known = self._measured.get(key)
        if known is None:
            if len(self._measured) >= _KEPT:
                self._measured.clear()
            known = self._measured[key] = measure(self._session, run, at)
        return known

    def _page(self, run: Run, measures: Measures, upto: int, layout: Layout, view: View) -> Page:
        if layout.text is None:
            return Page()
        width = layout.text.width - MARGIN - layout.gutter - 1
        height = layout.text.height - layout.legend
        if not upto:
            return self._prompt_text(run, width, measures).page(measures.prefill.done, height)
        key = (run.r, width)
        if self._reply is None or self._reply[0] != key:
            self._reply = (key, Reply(run.tokens, width))
        reply = self._reply[1]
        reply.grow()
        picked = self._picked(run, reply, view)
        return reply.page(
            upto, height, measures.phases.start, view.colour, view.top, picked, over=measures.phases.running is None
        )

    def _picked(self, run: Run, reply: Reply, view: View) -> Picked:
        """The selection, and the search as far as the reply has come."""
        search = None
        if view.pattern:
            key = (run.r, reply.wrap.width, view.pattern)
            if self._search is None or self._search[0] != key:
                self._search = (key, Search(view.pattern, reply.wrap.texts))
            search = self._search[1]
            search.grow()
        else:
            self._search = None
        first, end = view.selection
        return Picked(first, end, search) if search is not None or first < end else NOTHING

    def _hits(self, upto: int) -> int:
        return 0 if self._search is None else self._search[1].count(upto)

    def _token(self, run: Run, token: int | None, start: int, view: View, ending: str | None) -> TokenFacts | None:
        if token is None:
            return None
        facts = token_facts(run, token, start, view.alternatives)
        if facts.text == "" and ending is not None and token == len(run.tokens) - 1:
            return replace(facts, text=ending)  # as the text names it: a server sends an end token without its text
        return facts

    def _trace(
        self, run: Run, measures: Measures, phases: Phases, shown: Window, upto: int, layout: Layout, token: int | None
    ) -> Trace:
        return self._tracer.trace(self._session, run, measures, phases, shown, upto, layout.gap_rows, token)

    def _prompt_text(self, run: Run, width: int, measures: Measures) -> PromptText:
        at = measures.phases.end
        prompt, info = run.prompt.at(at), run.info.at(at)
        pieces = prompt.pieces if prompt else None
        key = (run.r, width, pieces is None)
        if self._prompt is None or self._prompt[0] != key:
            if pieces is not None:
                text = PromptText(prompt_pieces(pieces), width, counted=True)
            else:
                text = PromptText([drawable(asked_text(info))], width, counted=False)
            self._prompt = (key, text)
        return self._prompt[1]


def _waits_for(task: ev.Task | None, state: State) -> bool:
    """Whether what is fetched is what the request needs: it failed for want of it, or is not sent before it is there."""
    if task is None or state not in ("failed", "waiting", "stopped"):
        return False
    return state == "failed" or (task.title or "").startswith(PULL)


def _turns_shown(runs: list[Run], run: Run, layout: Layout, view: View) -> slice:
    """Which turns the table can show: as many as there are rows, the newest with ``run`` among them."""
    if layout.second_rail is None and view.page != "turns" and layout.alone_pane != "figures":
        return slice(0, 0)
    first = min(runs.index(run), max(0, len(runs) - layout.height))
    return slice(first, first + layout.height)


def _cards(measures: Measures) -> int:
    """How many GPUs have lanes of their own; where layers run on the CPU, too, that and all GPUs together are the story."""
    ran = measures.roofline.ran
    partly = ran.offload is not None and ran.offload.is_partial
    return 1 if partly else max(1, len(ran.gpus))


def _ending(session: Session, run: Run, cursor: int) -> str | None:
    """The name of the token that ended a reply, where it is known that one did."""
    end = run.ends.last(cursor)
    if end is None or end.finish != "stop" or end.detail not in (None, "eos"):
        return None
    model = session.model_of(run, cursor)
    name = end.stop if isinstance(end.stop, str) else model.eos if model is not None else None
    return harmless(name, newlines=False) if name else None


def default_turn(runs: Sequence[Run], cursor: int) -> Run | None:
    """The newest turn; as long as the server has not begun it, an earlier one whose reply still runs."""
    if not runs:
        return None
    newest = runs[-1]
    begun = newest.tokens.index(cursor) or newest.progress.until(cursor) or newest.ends.last(cursor) is not None
    if begun or any(state.s == "headers" for state in newest.states.until(cursor)):
        return newest
    return next((run for run in reversed(runs[:-1]) if run.ends.last(cursor) is None), newest)


def numbers_at(run: Run, cursor: int) -> int:
    """The moment that figures are of: the last beat, or what changed the phase after it; after the end, the end."""
    end = run.ends.last(cursor)
    if end is not None:
        return end.t if cursor < end.t + _SETTLE_NS else end.t + _SETTLE_NS
    tokens = run.tokens
    moments = [beat(cursor, NUMBERS_NS)]
    if tokens.first >= 0:
        moments.append(tokens.t[tokens.first])
    if run.progress.when:
        moments.append(run.progress.when[0])
    if (state := run.states.last(cursor)) is not None:
        moments.append(state.t)
    moments.append(run.info.first_t)
    return max(t for t in moments if t <= cursor)


def to_areas(phases: Phases, cursor: int) -> Phases:
    """The phases with the running one drawn on to the areas' beat."""
    end = max(phases.end, min(cursor, beat(cursor, AREAS_NS)))
    if phases.running is None or not phases.bands or end == phases.end:
        return phases
    last = replace(phases.bands[-1], t1=end)
    return replace(phases, end=end, bands=(*phases.bands[:-1], last))


def state_of(measures: Measures) -> State:
    """What the chip says."""
    match measures.finish.reason:
        case None:
            running = measures.phases.running or "waiting"
            return "decode" if running == "finish" else running
        case "stop" | "length" | "tool_calls":
            return "done"
        case "error" | "cut":
            return "failed"
        case _:
            return "stopped"
