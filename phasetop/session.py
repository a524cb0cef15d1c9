"""The Session: everything known of a recording, in columns that are only ever appended to.

A live run, a replay and a session watched from afar are all a `Session` fed by `apply`. Nothing is removed or changed by
time: whoever draws or counts does so *as of a cursor* (`events.Ns`; `LIVE` means the end), by bisecting the columns one by
one. The figures are not here: they are pure functions of (Session, cursor) in `metrics`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Final, Generic, TypeVar

import msgspec

from phasetop import events as ev
from phasetop.pace import STALL, USUAL, Pace

LIVE: Final = 2**62
"""A cursor past every event."""

CHANNELS: Final = ("answer", "think", "tool")
"""The channels, by the number that stands in `Tokens.channel`; a foreign one counts as the answer."""
ANSWER, THINK, TOOL = range(3)

NO_GAP: Final = -1
NAN: Final = float("nan")

D = TypeVar("D", bound=ev.Event)
H = TypeVar("H", bound=ev.Event)


class Versions(Generic[D]):
    """A description's versions in time: later keys replace earlier ones, top-level key by key."""

    __slots__ = ("_values", "_when")

    def __init__(self) -> None:
        self._when: array[int] = array("q")
        self._values: list[D] = []

    def add(self, event: D) -> None:
        """Merge a repeated description over what is known; keys that it leaves out keep their value."""
        if self._values:
            fresh = {
                name: value
                for name in event.__struct_fields__
                if (value := getattr(event, name)) != _defaults(type(event)).get(name, msgspec.NODEFAULT)
            }
            event = msgspec.structs.replace(self._values[-1], **fresh)
        self._when.append(event.t)
        self._values.append(event)

    def at(self, cursor: int = LIVE) -> D | None:
        """What was known at the cursor."""
        i = bisect_right(self._when, cursor)
        return self._values[i - 1] if i else None

    @property
    def first_t(self) -> int:
        """Ns of the first version."""
        return self._when[0]


class Happenings(Generic[H]):
    """Events of one kind in order of arrival."""

    __slots__ = ("items", "when")

    def __init__(self) -> None:
        self.when: array[int] = array("q")
        self.items: list[H] = []

    def add(self, event: H) -> None:
        """Append one."""
        self.when.append(event.t)
        self.items.append(event)

    def until(self, cursor: int = LIVE) -> list[H]:
        """All with t ≤ cursor."""
        if not self.when or self.when[-1] <= cursor:
            return self.items
        return self.items[: bisect_right(self.when, cursor)]

    def last(self, cursor: int = LIVE) -> H | None:
        """The newest with t ≤ cursor."""
        i = bisect_right(self.when, cursor)
        return self.items[i - 1] if i else None


class Tokens:
    """The columns of one request's `tok` lines, one entry a line.

    ``gap_ns`` is the time since the last different stamp of a token line, `NO_GAP` where there is none: the first, those
    that came in the same read as the one before, and text that is no token (n = 0). ``count`` is the running number of
    tokens, this line's included, where a line of unknown n counts one until the final count corrects it.
    """

    __slots__ = (
        *("channel", "count", "counted", "detail", "first", "gap_ns", "ids", "logp", "n", "raw_bytes"),
        *("stalls", "step", "t", "text", "tool", "_last_t", "_pace"),
    )

    def __init__(self) -> None:
        self.t: array[int] = array("q")
        self.n: array[int] = array("i")  # -1: not known
        self.count: array[int] = array("q")
        self.channel: array[int] = array("b")
        self.gap_ns: array[int] = array("q")
        self.step: array[int] = array("b")
        self.logp: array[float] = array("d")  # of a list: their sum; NaN: not known
        self.ids: array[int] = array("q")  # -1: not known, or several
        self.text: list[ev.Text] = []
        self.raw_bytes: dict[int, str] = {}  # line → base64 of bytes that are no whole UTF-8
        self.detail: dict[int, tuple[int, int]] = {}  # line → (offset, length) in the file: lists, alternatives
        self.tool: dict[int, ev.Tool] = {}
        self.stalls: array[int] = array("q")  # the lines that ended a stall
        self.counted = True  # no line of unknown n
        self.first = -1  # the first line that is a token
        self._last_t = -1
        self._pace = Pace()

    def __len__(self) -> int:
        return len(self.t)

    def index(self, cursor: int = LIVE) -> int:
        """How many lines lie at or before the cursor."""
        if not self.t or self.t[-1] <= cursor:
            return len(self.t)
        return bisect_right(self.t, cursor)

    def append(self, tok: ev.Tok, where: tuple[int, int] | None = None) -> None:
        """Take one line; ``where`` is its (offset, length) in the file, kept when it holds more than the columns do."""
        i, t, x = len(self.t), tok.t, tok.x
        plain = not isinstance(x, list)
        n = tok.n
        if n is msgspec.UNSET:
            n = 1 if plain else len(x)  # type: ignore[arg-type]
        if n is None:
            self.counted = False
        channel = CHANNELS.index(tok.c) if tok.c in CHANNELS else ANSWER
        gap, step = NO_GAP, USUAL
        if n != 0:
            if self.first < 0:
                self.first = i
            elif t == self._last_t:
                step = self.step[-1]
            else:
                gap = t - self._last_t
                step = self._pace.grade(gap, tool=channel == TOOL)
                if step == STALL:
                    self.stalls.append(i)
            self._last_t = t
        self.t.append(t)
        self.n.append(-1 if n is None else n)
        self.count.append((self.count[-1] if i else 0) + (1 if n is None else n))
        self.channel.append(channel)
        self.gap_ns.append(gap)
        self.step.append(step)
        if plain:
            self.text.append(x)  # type: ignore[arg-type]
            self.logp.append(tok.p if isinstance(tok.p, (int, float)) else NAN)
            self.ids.append(tok.i if isinstance(tok.i, int) else -1)
            if isinstance(tok.b, str):
                self.raw_bytes[i] = tok.b
        else:
            self._append_pieces(i, tok)
        if where is not None and (not plain or tok.top is not None):
            self.detail[i] = where
        if tok.tool is not None:
            self.tool[i] = tok.tool

    def _append_pieces(self, i: int, tok: ev.Tok) -> None:
        """Several tokens in one line: one text, the sum of what probabilities are known."""
        pieces = tok.x if isinstance(tok.x, list) else [tok.x]
        if any(isinstance(piece, int) for piece in pieces):
            self.text.append(sum(piece if isinstance(piece, int) else ev.text_bytes(piece) for piece in pieces))
        else:
            self.text.append("".join(str(piece) for piece in pieces))
        known = [p for p in tok.p if p is not None] if isinstance(tok.p, list) else []
        self.logp.append(sum(known) if known and len(known) == len(pieces) else NAN)
        self.ids.append(-1)
        if isinstance(tok.b, list) and any(tok.b):
            self.raw_bytes[i] = ",".join(part or "" for part in tok.b)


class Run:
    """One request: its descriptions and the columns of what happened to it."""

    __slots__ = ("ends", "info", "progress", "prompt", "r", "slots", "states", "timings", "tokens")

    def __init__(self, r: int) -> None:
        self.r = r
        self.info: Versions[ev.Request] = Versions()
        self.prompt: Versions[ev.Prompt] = Versions()
        self.states: Happenings[ev.State] = Happenings()
        self.progress: Happenings[ev.Prog] = Happenings()
        self.timings: Happenings[ev.Timings] = Happenings()
        self.slots: Happenings[ev.Slot] = Happenings()
        self.ends: Happenings[ev.End] = Happenings()
        self.tokens = Tokens()


class Samples:
    """One series' samples: value (NaN: none) over the interval [t0, t]; ``why`` holds the reason of a null."""

    __slots__ = ("info", "t", "t0", "value", "why")

    def __init__(self, info: Versions[ev.Series]) -> None:
        self.info = info
        self.t0: array[int] = array("q")
        self.t: array[int] = array("q")
        self.value: array[float] = array("d")
        self.why: dict[int, str] = {}


class Session:
    """A recording in memory; `apply` is the only way in."""

    def __init__(self) -> None:
        self.hello: ev.Hello | None = None
        self.bye: ev.Bye | None = None
        self.last_t = 0
        self.lines = 0
        self.bad_lines = 0
        self.servers: dict[int, Versions[ev.Server]] = {}
        self.models: dict[int, Versions[ev.Model]] = {}
        self.devices: dict[int, Versions[ev.Device]] = {}
        self.samples: dict[int, Samples] = {}
        self.phase_samples: Happenings[ev.Smp] = Happenings()
        self.runs: dict[int, Run] = {}
        self.server_states: Happenings[ev.State] = Happenings()
        self.notices: Happenings[ev.Notice] = Happenings()
        self.marks: Happenings[ev.Mark] = Happenings()
        self.clocks: Happenings[ev.Clock] = Happenings()
        self.tasks: Happenings[ev.Task] = Happenings()
        self.findings: Happenings[ev.Finding] = Happenings()
        self.controls: Happenings[ev.Control] = Happenings()

    def run(self, r: int) -> Run:
        """The request ``r``, made at its first mention."""
        run = self.runs.get(r)
        if run is None:
            run = self.runs[r] = Run(r)
        return run

    def apply(self, event: ev.AnyEvent, where: tuple[int, int] | None = None) -> None:
        """Take one event; ``where`` is its line's (offset, length) in the file, where there is one."""
        self.lines += 1
        if event.t > self.last_t:
            self.last_t = event.t
        if type(event) is ev.Tok:
            self.run(event.r).tokens.append(event, where)
            return
        match event:
            case ev.Smp():
                self._take_samples(event)
            case ev.Prog():
                self.run(event.r).progress.add(event)
            case ev.Timings():
                self.run(event.r).timings.add(event)
            case ev.State():
                (self.server_states if event.r is None else self.run(event.r).states).add(event)
            case ev.Request():
                self.run(event.r).info.add(event)
            case ev.Prompt():
                self.run(event.r).prompt.add(event)
            case ev.End():
                self.run(event.r).ends.add(event)
            case ev.Slot():
                self.run(event.r).slots.add(event)
            case ev.Hello():
                self.hello = self.hello or event
            case ev.Bye():
                self.bye = event
            case ev.Server():
                self.servers.setdefault(event.v, Versions()).add(event)
            case ev.Model():
                self.models.setdefault(event.m, Versions()).add(event)
            case ev.Device():
                self.devices.setdefault(event.d, Versions()).add(event)
            case ev.Series():
                if event.s not in self.samples:
                    self.samples[event.s] = Samples(Versions())
                self.samples[event.s].info.add(event)
            case ev.Notice():
                self.notices.add(event)
            case ev.Mark():
                self.marks.add(event)
            case ev.Clock():
                self.clocks.add(event)
            case ev.Task():
                self.tasks.add(event)
            case ev.Finding():
                self.findings.add(event)
            case ev.Control():
                self.controls.add(event)

    def _take_samples(self, event: ev.Smp) -> None:
        if event.phase is not None:
            self.phase_samples.add(event)
            return
        for key, value in event.v.items():
            series = self.samples.get(int(key)) if key.isdigit() else None
            if series is None:
                continue
            if value is None and event.e and key in event.e:
                series.why[len(series.t)] = event.e[key]
            series.t0.append(min(event.t0, event.t))
            series.t.append(event.t)
            series.value.append(NAN if value is None else value)

    def series(self, name: str, *, v: int | None = None, part: str | None = None, d: int = 0) -> Samples | None:
        """The samples called ``name`` of a device, or of a server's process."""
        for samples in self.samples.values():
            info = samples.info.at()
            if info and info.name == name and info.d == d and info.part == part and (v is None or info.v == v):
                return samples
        return None

    def last_run(self, cursor: int = LIVE) -> Run | None:
        """The newest request that had begun at the cursor."""
        begun = [run for run in self.runs.values() if run.info.at(cursor) is not None]
        return begun[-1] if begun else None

    def server_of(self, run: Run, cursor: int = LIVE) -> ev.Server | None:
        """The server that a request went to."""
        info = run.info.at(cursor) or run.info.at()
        return self.servers[info.v].at(cursor) if info and info.v is not None and info.v in self.servers else None

    def model_of(self, run: Run, cursor: int = LIVE) -> ev.Model | None:
        """The model that a request ran on."""
        info = run.info.at(cursor) or run.info.at()
        return self.models[info.m].at(cursor) if info and info.m is not None and info.m in self.models else None


_known_defaults: dict[type, dict[str, object]] = {}


def _defaults(kind: type[ev.Event]) -> dict[str, object]:
    """Field → default of an event kind: a key with its default was left out of the line."""
    found = _known_defaults.get(kind)
    if found is None:
        found = _known_defaults[kind] = {
            field.name: field.default for field in msgspec.structs.fields(kind) if field.default is not msgspec.NODEFAULT
        }
    return found
