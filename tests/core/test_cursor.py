"""What holds for any session at any cursor, sensible or not: bands add up, and what is seen there is what live showed."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from phasetop import events as ev
from phasetop.columns import LIVE
from phasetop.metrics import Phase, measure
from phasetop.report import request_object
from phasetop.session import Session

NULL_BY_NATURE = {
    *("session", "file", "tools", "seed", "think", "thinking", "detail", "error", "prompt_sent"),
    *("drafted", "accepted", "cpu_quota_cores", "load"),
}
BANDS: tuple[Phase, ...] = ("queue", "load", "prefill", "waiting", "decode", "finish")
SMALL = st.none() | st.integers(0, 40)
MILLIS = st.none() | st.sampled_from([0.0, 1e-5, 2e-5, 5e-5, 3e-4, 1e9])


SAMPLES = st.builds(
    lambda value, span: ev.Smp(t=0, t0=span, v={"0": value, "1": value}),
    st.none() | st.sampled_from([0.0, 1.5, 100.0]),
    st.integers(0, 30),
)
TOKENS = st.builds(
    ev.Tok,
    t=st.just(0),
    r=st.just(0),
    x=st.sampled_from(["", "a", "bc", 3]),
    c=st.sampled_from(["answer", "answer", "think", "tool"]),
    n=st.sampled_from([1, 1, 1, 1, 0, 3, None]),
)
STATES = st.builds(
    ev.State,
    t=st.just(0),
    r=st.just(0),
    s=st.sampled_from(["sent", "sent", "headers", "queued", "loading", "retry"]),
    why=st.sampled_from([None, "503", "connection lost"]),
    at=st.none() | st.integers(0, 30),
)
ANY = st.one_of(
    TOKENS,
    TOKENS,
    TOKENS,
    STATES,
    STATES,
    st.builds(
        ev.Prog,
        t=st.just(0),
        r=st.just(0),
        total=SMALL,
        cached=SMALL,
        done=st.integers(0, 40),
        ms=MILLIS,
        source=st.sampled_from(["server", "slots"]),
    ),
    st.builds(
        ev.Timings,
        t=st.just(0),
        r=st.just(0),
        prompt_n=SMALL,
        cached_n=SMALL,
        total_n=SMALL,
        prompt_ms=MILLIS,
        gen_n=SMALL,
        think_n=SMALL,
        gen_ms=MILLIS,
        load_ms=MILLIS,
    ),
    st.sampled_from(["stop", "length", "tool_calls", "cancelled", "error", "cut", "gone"]).map(
        lambda finish: ev.End(t=0, r=0, finish=finish)
    ),
    st.builds(ev.Prompt, t=st.just(0), r=st.just(0), n=SMALL, cached=SMALL, cut=st.none() | st.just(ev.Cut(9, 4))),
    st.builds(ev.Slot, t=st.just(0), t0=st.just(3), r=st.just(0), past=SMALL, ctx=SMALL),
    st.sampled_from(["starting", "loading", "ready", "gone"]).map(lambda s: ev.State(t=0, v=0, s=s)),
    SAMPLES,
    st.just(ev.Request(t=0, r=0, v=0, m=0, api="chat", messages=[{"role": "user", "content": "x"}])),
    st.just(ev.Notice(t=0, r=0, code="no-timings", text="x")),
)
DRAWN = st.lists(st.tuples(st.sampled_from([0, 0, 1, 5, 20, 60]), st.sampled_from([0, 0, 0, 1]), ANY), max_size=25)


def recording(drawn: list[tuple[int, int, ev.Event]], context: int, ended: bool) -> list[ev.Event]:
    """Events in the order of their stamps, of two requests, after the descriptions that a session begins with."""
    options = {"context": ev.Sourced(context, "argv"), "parallel": ev.Sourced(2, "server")}
    events: list[ev.Event] = [
        ev.Hello(t=0, format=1, session="s", anchor=ev.Anchor(mono=0, wall=10**18), by="phasetop 0.1.0"),
        ev.Server(t=0, v=0, backend="llamacpp", options=options),
        ev.Model(t=0, m=0, v=0, name="m"),
        ev.Series(t=0, s=0, name="cpu_cores_used"),
        ev.Series(t=0, s=1, v=0, name="server_major_faults", type="counter"),
        ev.Request(t=5, r=0, v=0, m=0, api="chat", messages=[{"role": "user", "content": "x"}]),
    ]
    t = 5
    for step, r, event in drawn:
        t += step
        fresh: dict[str, Any] = {"t": t}
        if getattr(event, "r", None) is not None:
            fresh["r"] = r
        for name in ("at", "t0"):  # drawn as the time before t
            if getattr(event, name, None) is not None:
                fresh[name] = max(0, t - getattr(event, name))
        events.append(msgspec.structs.replace(event, **fresh))
    return [*events, ev.Bye(t=t, reason="done")] if ended else events


RECORDINGS = st.builds(recording, DRAWN, st.sampled_from([30, 8192]), st.booleans())


def session_of(events: list[ev.Event]) -> Session:
    session = Session()
    for event in events:
        session.apply(event)  # type: ignore[arg-type]
    return session


def cursors_of(events: list[ev.Event]) -> list[int]:
    stamps = {event.t for event in events}
    return [*sorted({t + d for t in stamps for d in (-1, 0, 1) if t + d >= 0}), 10**9]


@given(RECORDINGS)
def test_bands_add_up_at_every_cursor(events: list[ev.Event]) -> None:
    session = session_of(events)
    for run in session.runs.values():
        for cursor in (*cursors_of(events), LIVE):
            found = measure(session, run, cursor)
            phases = found.phases
            at = phases.start
            for band in phases.bands:
                assert band.t0 == at < band.t1
                at = band.t1
            assert at == phases.end
            assert len({band.phase for band in phases.bands}) == len(phases.bands)
            assert sum(phases.ns(name) or 0 for name in BANDS) == phases.wall_ns
            assert phases.wall_ns >= 0
            if phases.running is None:
                assert found.finish.reason is not None
            counts = found.tokens
            if counts.output is not None:
                parts = (counts.thinking, counts.answer, counts.tool)
                assert counts.output == sum(part for part in parts if part is not None)
                assert min(part for part in parts if part is not None) >= 0
            if counts.prefilled is not None:
                assert counts.prefilled >= 0
                assert counts.prompt == counts.prefilled + (counts.cached or 0)
            for rate in (found.rates.decode_per_s, found.rates.prefill_per_s, found.rates.last_second_per_s):
                assert rate is None or rate >= 0
            if found.kv.tokens is not None and found.kv.context is not None:
                assert 0 <= found.kv.tokens <= found.kv.context


@given(RECORDINGS)
def test_a_cursor_shows_what_live_showed_there(events: list[ev.Event]) -> None:
    whole = session_of(events)
    for cursor in cursors_of(events):
        then = session_of([event for event in events if event.t <= cursor])
        for r, run in then.runs.items():
            assert measure(whole, whole.runs[r], cursor) == measure(then, run, cursor)


def unexplained(value: Any, unknown: dict[str, str], path: str = "") -> list[str]:
    """Paths of nulls that neither they themselves nor what they are in explain."""
    if isinstance(value, dict):
        inner = [
            unexplained(each, unknown, f"{path}.{key}" if path else key) for key, each in value.items() if key != "unknown"
        ]
        return [each for found in inner for each in found]
    if isinstance(value, list):
        return [each for inner in value for each in unexplained(inner, unknown, path)]
    if value is not None or path.rsplit(".", 1)[-1] in NULL_BY_NATURE:
        return []
    return [] if any(path == key or path.startswith(key + ".") for key in unknown) else [path]


@given(RECORDINGS)
def test_every_null_of_the_object_is_explained_and_its_seconds_add_up(events: list[ev.Event]) -> None:
    session = session_of(events)
    for run in session.runs.values():
        for cursor in cursors_of(events)[::5]:
            said = request_object(session, run, cursor=cursor, kept_as=None)
            assert unexplained(said, said["unknown"]) == []
            phases = said["phases"]
            parts = [phases[f"{name}_s"] or 0.0 for name in BANDS]
            assert min(parts) >= 0
            assert abs(sum(parts) - phases["wall_s"]) < 5e-7
            if phases["waiting_s"] and cursor >= events[-1].t:
                assert (phases["queue_s"], phases["load_s"], phases["prefill_s"]) == (None, None, None)
