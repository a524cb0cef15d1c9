"""The bands of a request: queue, load, prefill, decode, finish, and waiting for what nobody can split (DESIGN: Words).

All borders are stamps in ns or durations of the server's own clock laid against them and clamped, so that the bands are
contiguous and add up to the wall time exactly, whatever a file says.
"""

from __future__ import annotations

import math
from typing import Final, Literal

from msgspec import Struct

from phasetop import events as ev
from phasetop.columns import LIVE, TOOL
from phasetop.session import Run, Session

Phase = Literal["queue", "load", "prefill", "waiting", "decode", "finish"]

LEFT_OVER: Final = "estimate: what the server's own times leave over"
FROM_PROGRESS: Final = "estimate: until progress was first told"
_MAX_MS: Final = 1e12


class Band(Struct, frozen=True):
    """One phase's stretch [t0, t1) of a request, ns since the anchor."""

    phase: Phase
    t0: int
    t1: int


class Phases(Struct, frozen=True):
    """The bands of a request: contiguous, in time order, from the request sent to its last byte (or the cursor).

    Their lengths add up to ``wall_ns`` exactly. A band of no length is left out of ``bands``; `ns` then says 0 where the
    phase is known to have taken no time, None where nobody can tell.
    """

    start: int
    end: int
    bands: tuple[Band, ...]
    load: Literal["cold", "warm"] | None
    running: Phase | None  # what runs at the cursor; None when the request has ended
    split: bool  # False: what lies before the first token is `waiting`, or a load and `waiting`
    unknown: frozenset[Phase] = frozenset()

    @property
    def wall_ns(self) -> int:
        """From sent to the last byte (or the cursor)."""
        return self.end - self.start

    def ns(self, phase: Phase) -> int | None:
        """How long a phase took so far; None when it cannot be told apart."""
        if phase in self.unknown:
            return None
        return sum(band.t1 - band.t0 for band in self.bands if band.phase == phase)

    def band(self, phase: Phase) -> Band | None:
        """The stretch of a phase, None where it took no time (each phase has one at most)."""
        return next((band for band in self.bands if band.phase == phase), None)


class Borders(Struct, frozen=True):
    """Where the phases lie, and why what is unknown is unknown (by `run --json`'s paths)."""

    phases: Phases
    first_t: int | None  # the first token
    decode_t: int | None  # where decode begins
    last_t: int | None  # the last token
    unknown: dict[str, str]
    sources: dict[str, str]


def ms_to_ns(ms: float | None) -> int | None:
    """A server's duration in ns; None for one that cannot be."""
    if ms is None or not math.isfinite(ms) or not 0 <= ms < _MAX_MS:
        return None
    return round(ms * 1e6)


def now(session: Session, cursor: int) -> int:
    """Where a request that runs has come to: the cursor, or at the end of what is known the newest stamp."""
    last = session.last_t if cursor >= LIVE else cursor
    return min(last, session.bye.t) if session.bye is not None else last


class _Load(Struct, frozen=True):
    """A load that the request had to wait for: until ``ready`` (None: it goes on), or as long as the server says."""

    begin: int | None  # None: at sent
    ready: int | None
    known: bool  # begin and ready are stamps


def borders(session: Session, run: Run, cursor: int, lines: int, timings: ev.Timings | None, end: ev.End | None) -> Borders:
    """The bands of ``run`` as of ``cursor``; ``timings``, ``end`` and how many token ``lines`` there are as of it too."""
    columns = run.tokens
    first, last = columns.ends(lines)
    stop = max(end.t if end is not None else now(session, cursor), 0)
    first_t = columns.t[first] if first >= 0 else None
    last_t = columns.t[last] if first >= 0 else None
    if last_t is not None:
        stop = max(stop, last_t)

    states = run.states.until(cursor)
    sent = next((state for state in states if state.s == "sent"), None)
    asked_t = run.info.first_t if run.info.at(cursor) is not None else None
    load = _load_of(session, run, cursor, asked_t, states)
    start = _start(run, cursor, stop, asked_t, sent, load, first_t)

    unknown: dict[str, str] = {}
    sources: dict[str, str] = {}
    headers_t = next((state.t for state in reversed(states) if state.s == "headers"), None)
    if timings is not None and first_t is not None and timings.t < first_t:
        timings = None  # of the prefill, under way then
    decode_t = _decode_begin(run, first, first_t, last_t, headers_t, timings, sources)
    if decode_t is not None:
        decode_t = max(decode_t, start)
    before = _before_first_token(run, states, start, decode_t, stop, headers_t, load, timings, end)
    unknown.update(before.unknown)
    sources.update(before.sources)

    bands = list(before.bands)
    at = bands[-1].t1 if bands else start
    if last_t is not None:
        decode_end = last_t if end is not None else stop
        bands.append(Band("decode", at, decode_end))
        at = decode_end
    if end is not None:
        bands.append(Band("finish", at, stop))
    running: Phase | None = None
    if end is None:
        if last_t is not None:
            running = "decode"
        elif sent is None and states and states[-1].s == "queued":
            running = "queue"
        else:
            running = before.running
    split = before.split
    cold = load is not None
    phases = Phases(
        start=start,
        end=stop,
        bands=tuple(band for band in bands if band.t1 > band.t0),
        load="cold" if cold else "warm" if split else None,
        running=running,
        split=split,
        unknown=frozenset(name for name in ("queue", "load", "prefill") if f"phases.{name}_s" in unknown),
    )
    return Borders(phases, first_t, decode_t, last_t, unknown, sources)


def _start(
    run: Run,
    cursor: int,
    stop: int,
    asked_t: int | None,
    sent: ev.State | None,
    load: _Load | None,
    first_t: int | None,
) -> int:
    """Where the bands begin: at sent, or with a load that was waited for; never after the first token, or the end."""
    if load is not None and load.begin is not None:
        start = load.begin
    elif sent is not None:
        start = _at(sent)
    else:  # not sent (yet), or by somebody who does not say when
        columns = (run.tokens.t, run.progress.when, run.slots.when)
        seen = [column[0] for column in columns if column and column[0] <= cursor]
        start = stop if not seen else min(seen) if asked_t is None else asked_t
    return min(start, stop) if first_t is None else min(start, stop, first_t)


def _load_of(session: Session, run: Run, cursor: int, asked_t: int | None, states: list[ev.State]) -> _Load | None:
    """The load that the request waited for, if there was one.

    A server that only had to be looked at first (ready, without having been seen loading) was loaded before.
    """
    info = run.info.at(cursor)
    sent = [state for state in states if state.s == "sent"]
    if info is not None and asked_t is not None and info.v is not None:
        own = [state for state in session.server_states.until(cursor) if state.v == info.v]
        before = [state.s for state in own if state.t <= asked_t]
        after = [state for state in own if state.t > asked_t]
        if not before or before[-1] not in ("ready", "sleeping"):
            ready = next((state.t for state in after if state.s in ("ready", "sleeping")), None)
            if ready is None and sent:
                ready = _at(sent[0])
            limit = LIVE if ready is None else ready
            seen = before[-1:] + [state.s for state in after if state.t <= limit]
            if any(word in ("starting", "loading") for word in seen):
                return _Load(asked_t, ready, known=True)
    retries = [state for state in states if state.s == "retry" and "connection" not in (state.why or "")]
    if retries:
        again = next((state for state in sent if state.t > retries[-1].t), None)
        return _Load(asked_t, None if again is None else _at(again), known=True)
    if any(state.s == "loading" for state in states):
        return _Load(None, None, known=False)
    return None


def _at(state: ev.State) -> int:
    """The moment that a state means, which lies before it was written down."""
    return state.t if state.at is None else min(state.at, state.t)


def _decode_begin(
    run: Run,
    first: int,
    first_t: int | None,
    last_t: int | None,
    headers_t: int | None,
    timings: ev.Timings | None,
    sources: dict[str, str],
) -> int | None:
    """Where decode begins: at the first token, or before it where that event carries several (DESIGN: Words)."""
    if first_t is None or last_t is None:
        return None
    n = run.tokens.n[first]
    if n == 1 or (n < 0 and run.tokens.channel[first] != TOOL):
        return first_t
    for prog in reversed(run.progress.until(first_t)):
        if prog.total is not None and prog.done >= prog.total:
            return min(prog.t, first_t)
    prompt_ns = ms_to_ns(timings.prompt_ms) if timings is not None else None
    if headers_t is not None and prompt_ns is not None:
        sources["phases.decode_s"] = "estimate: from the server's own prefill time on"
        return min(headers_t + prompt_ns, first_t)
    gen_ns = ms_to_ns(timings.gen_ms) if timings is not None else None
    if gen_ns:
        sources["phases.decode_s"] = "estimate: the server's own decode time"
        return min(last_t - gen_ns, first_t)
    return first_t


class _Before(Struct):
    """The bands before the first token."""

    bands: list[Band]
    running: Phase
    split: bool
    unknown: dict[str, str]
    sources: dict[str, str]


def _before_first_token(
    run: Run,
    states: list[ev.State],
    start: int,
    decode_t: int | None,
    stop: int,
    headers_t: int | None,
    load: _Load | None,
    timings: ev.Timings | None,
    end: ev.End | None,
) -> _Before:
    """What lies between ``start`` and the first token (or the end, or the cursor)."""
    to = stop if decode_t is None else decode_t
    bands: list[Band] = []
    at = start
    if load is not None and load.known:
        at = min(max(start, to if load.ready is None else load.ready), to)
        bands.append(Band("load", start, at))
        if load.ready is None and headers_t is None and decode_t is None:
            return _Before(bands, "load", True, {}, {})

    # The server's prefill time is whole once a token came (or the reply ended without one); before, it still grows.
    prompt_ns = ms_to_ns(timings.prompt_ms) if timings is not None else None
    if timings is None or (decode_t is None and (end is None or end.finish not in ("stop", "length", "tool_calls"))):
        prompt_ns = None
    if headers_t is not None and (decode_t is None or headers_t < to):  # else they came in one read
        begin = min(max(headers_t, at), to)
        until = to if decode_t is not None or prompt_ns is None else min(begin + prompt_ns, to)
        bands += [Band("queue", at, begin), Band("prefill", begin, until)]
        return _Before(bands, "prefill", True, {}, {})

    if prompt_ns is not None:
        begin, source = min(max(to - prompt_ns, at), to), LEFT_OVER
    else:
        progress = run.progress.until(to)
        if progress and (progress[0].t < to or decode_t is None):
            first = progress[0]
            since = ms_to_ns(first.ms) if first.source == "server" else None
            begin, source = min(max(first.t - (since or 0), at), to), FROM_PROGRESS
        elif load is not None and not load.known and decode_t is None:
            return _Before([Band("load", start, to)], "load", True, {}, {})
        elif end is None and decode_t is None and any(state.s == "queued" and state.after is None for state in states):
            return _Before([*bands, Band("queue", at, to)], "queue", True, {}, {})  # the server was seen busy with another's
        else:
            bands.append(Band("waiting", at, to))
            return _Before(bands, "waiting", False, _why_waiting(states, decode_t, end, load), {})

    unknown: dict[str, str] = {}
    sources = {"phases.prefill_s": "server" if source == LEFT_OVER else "estimate: from the first progress on"}
    if load is not None and not load.known:
        load_ns = ms_to_ns(timings.load_ms) if timings is not None else None
        loaded = begin if load_ns is None else min(at + load_ns, begin)
        sources["phases.load_s"] = source if load_ns is None else "server"
        bands.append(Band("load", at, loaded))
        if load_ns is None:
            unknown["phases.queue_s"] = "no load time from the server: what lay before the prefill is taken for the load"
        at = loaded
    if "phases.queue_s" not in unknown:
        sources["phases.queue_s"] = source
    bands += [Band("queue", at, begin), Band("prefill", begin, to)]
    return _Before(bands, "prefill", True, unknown, sources)


def _why_waiting(states: list[ev.State], decode_t: int | None, end: ev.End | None, load: _Load | None) -> dict[str, str]:
    """Why nobody can split what lies before the first token, for each phase that it may hold."""
    if decode_t is None and not any(state.s == "sent" for state in states):
        why = "the request is not sent yet" if end is None else "the request was never sent"
    elif end is None:
        why = "the server does not say when it begins; its own times come with the reply's end"
    elif end.finish == "error" and decode_t is None:
        why = "the request failed before its first token"
    elif end.finish in ("cut", "cancelled", "error", "gone"):
        why = f"the reply was {'cancelled' if end.finish == 'cancelled' else 'cut'} before the server told its times"
    else:
        why = "the server tells no times of its own"
    names = ("queue", "prefill") if load is not None and load.known else ("queue", "load", "prefill")
    return {f"phases.{name}_s": why for name in names}
