"""The bench at work over a lifeline that answers at once: prompts of exact lengths, what is filled when, when it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from phasetop import events as ev
from phasetop.bench_lane import Lane
from phasetop.bench_plan import BenchPlan, Cell, read_plan
from phasetop.bench_runner import Bench
from phasetop.bench_seen import Outcome, outcome_of, seen_in
from phasetop.faults import FormatError
from phasetop.lifeline import Lifeline
from phasetop.session import Session

MS = 1_000_000


def tokens_of(text: str) -> int:
    """A tokenizer of the test's own: a beginning token, and a token for every four letters of a word."""
    return 1 + sum(-(-len(word) // 4) for word in text.split())


class Follower:
    def __init__(self) -> None:
        self.session = Session()
        self.ended = False


class Instant:
    """A lifeline whose server has answered before one looks."""

    def __init__(
        self,
        *,
        counts: bool = True,
        fails: frozenset[int] = frozenset(),
        holds: int | None = None,
        takes: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.follower = Follower()
        self.asked: list[dict[str, Any]] = []
        self.cancelled: list[int] = []
        self._counts, self._fails, self._holds, self._takes = counts, fails, holds, takes
        self._t = 1
        self._id = 0
        self._apply(
            ev.Server(t=1, v=0, backend="llamacpp", local=True, options={"parallel": ev.Sourced(4, "server")}),
            ev.State(t=1, v=0, s="ready"),
        )

    def _apply(self, *events: Any) -> None:
        for event in events:
            self.follower.session.apply(event)

    def bench(self, **told: Any) -> None:
        self._apply(ev.Bench(t=self._t, **told))

    def cancel(self, r: int) -> None:
        self.cancelled.append(r)
        self._apply(ev.End(t=self._t, r=r, finish="cancelled"))

    def count(self, *, prompt: str | None, **more: Any) -> int:
        self._id += 1
        n = tokens_of(prompt or "") if self._counts else None
        self._apply(ev.Control(t=self._t, op="count", id=self._id, ok=n is not None, n=n))
        return self._id

    def ask(self, *, prompt: str, settings: dict[str, Any], labels: dict[str, Any], **more: Any) -> int:
        self._id += 1
        r, t = len(self.asked), self._t
        self._takes(prompt)
        self._t += 100 * MS
        self.asked.append({"prompt": prompt, "settings": settings, "labels": labels})
        n = tokens_of(prompt)
        self._apply(
            ev.Control(t=t, op="ask", id=self._id, ok=True, r=r),
            ev.Request(t=t, r=r, v=0, api="raw", prompt=prompt, labels=labels),
            ev.State(t=t, r=r, s="sent", at=t),
            ev.State(t=t, r=r, s="headers"),
        )
        if r in self._fails:
            self._apply(ev.End(t=t + MS, r=r, finish="error", error=ev.Fault(status=500, text="out of luck")))
            return self._id
        if r == self._holds:
            return self._id
        for i in range(settings["max_tokens"]):
            self._apply(ev.Tok(t=t + (20 + 10 * i) * MS, r=r, x="a"))
        end = t + (20 + 10 * settings["max_tokens"]) * MS
        timings = ev.Timings(t=end, r=r, prompt_n=n, cached_n=0, prompt_ms=20.0, gen_n=settings["max_tokens"], gen_ms=10.0)
        self._apply(timings, ev.End(t=end, r=r, finish="length"))
        return self._id


def worked(plan: BenchPlan, instant: Instant, clock: Any = lambda: 0.0) -> tuple[Bench, Lane]:
    lane = Lane(cast(Lifeline, instant), plan, {}, {})
    work = Bench([lane], plan, clock)
    while work.advance():
        pass
    return work, lane


def test_prompts_have_exactly_the_tokens_asked_for() -> None:
    instant = Instant()
    plan = read_plan({"prompt_tokens": "7,64,333", "repeats": 3, "precision": "none", "output_tokens": 4})
    work, lane = worked(plan, instant)
    assert work.stopped == "repeats"
    assert {one["labels"]["tokens"] for one in instant.asked} == {7, 64, 333}
    assert all(tokens_of(one["prompt"]) == one["labels"]["tokens"] for one in instant.asked)
    assert {cell.tokens: len(samples) for cell, samples in lane.samples.items()} == {7: 3, 64: 3, 333: 3}


def test_where_nobody_counts_the_replies_teach() -> None:
    """Near, not exact: the next words are others, of one to four tokens here."""
    instant = Instant(counts=False)
    worked(read_plan({"prompt_tokens": "200", "repeats": 4, "precision": "none"}), instant)
    off = [abs(tokens_of(one["prompt"]) - 200) for one in instant.asked]
    assert off[0] > 50
    assert max(off[1:]) < 25


def test_warm_ups_do_not_count_and_are_short() -> None:
    instant = Instant()
    _, lane = worked(read_plan({"prompt_words": "9", "repeats": 2, "precision": "none"}), instant)
    first, *rest = instant.asked
    assert first["labels"]["warmup"] is True
    assert first["settings"]["max_tokens"] == 8
    assert [(one["labels"].get("warmup"), one["settings"]["max_tokens"]) for one in rest] == [(None, 64)] * 2
    assert [sample.rs for sample in lane.samples[Cell(words=9)]] == [(1,), (2,)]


def test_the_cache_is_told_off_but_where_it_is_wanted() -> None:
    instant = Instant()
    worked(read_plan({"prompt_tokens": "40,50", "depth": "0,100", "repeats": 1}), instant)
    for one in instant.asked:
        wanted = "depth" in one["labels"]
        assert ("cache_prompt" in one["settings"]) != wanted
        assert ("id_slot" in one["settings"]) == wanted
    fills = [one for one in instant.asked if one["labels"].get("fill")]
    deep = [one for one in instant.asked if "depth" in one["labels"] and not one["labels"].get("fill")]
    assert [one["settings"]["max_tokens"] for one in fills] == [1]  # once for both lengths
    assert len(deep) == 2
    assert tokens_of(fills[0]["prompt"]) == 100
    assert all(one["prompt"].startswith(fills[0]["prompt"] + " ") for one in deep)
    assert [tokens_of(one["prompt"]) for one in deep] == [100 + one["labels"]["tokens"] for one in deep]


def test_failures_are_left_out_and_a_cell_that_only_fails_is_given_up() -> None:
    plan = read_plan({"prompt_words": "9", "repeats": 3, "precision": "none"})
    _, lane = worked(plan, Instant(fails=frozenset({2})))
    assert len(lane.samples[Cell(words=9)]) == 3
    assert [failure.text for failure in lane.failures] == ["out of luck"]
    work, lane = worked(plan, Instant(fails=frozenset(range(50))))
    assert work.stopped == "failed"
    assert lane.why_not(Cell(words=9)) == "out of luck"
    assert len(lane.failures) == 2


def test_it_ends_when_every_interval_is_narrow() -> None:
    """Each repeat is the same to the ns, so that two are enough."""
    work, lane = worked(read_plan({"prompt_tokens": "9", "repeats": 1, "precision": "1%"}), Instant())
    assert work.stopped == "narrow"
    assert len(lane.samples[Cell(tokens=9)]) == 2


def test_it_ends_when_the_time_is_up() -> None:
    ticks = iter(range(1000))
    plan = read_plan({"prompt_words": "9,10,11", "repeats": 50, "time": "5s"})
    work, lane = worked(plan, Instant(), lambda: float(next(ticks)))
    assert work.stopped == "time"
    assert 0 < sum(map(len, lane.samples.values())) < 20


class Clock:
    """Seconds that pass when somebody says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def tick(self, seconds: float) -> None:
        self.now += seconds


def test_what_runs_when_the_time_is_up_has_a_little_more_and_is_then_cancelled() -> None:
    """10 s, and a twentieth of it more."""
    clock, instant = Clock(), Instant(holds=2)
    plan = read_plan({"prompt_words": "9", "repeats": 50, "time": "10s"})
    lane = Lane(cast(Lifeline, instant), plan, {}, {})
    work = Bench([lane], plan, clock)
    assert work.advance()  # the warm-up, a repeat, and one that does not end
    for now in (9.9, 10.1, 10.4):
        clock.now = now
        assert work.advance()
        assert instant.cancelled == []
    clock.now = 10.6
    work.advance()
    assert instant.cancelled == [2]
    assert not work.advance()
    assert work.stopped == "time"
    assert len(lane.samples[Cell(words=9)]) == 1
    assert lane.unfinished == {Cell(words=9): 1}
    assert lane.failures == []


def test_of_several_at_once_all_are_cancelled() -> None:
    clock, instant = Clock(), Instant(holds=4)
    plan = read_plan({"prompt_words": "9", "parallel": "3", "repeats": 50, "time": "100s"})
    lane = Lane(cast(Lifeline, instant), plan, {}, {})
    work = Bench([lane], plan, clock)
    assert work.advance()
    clock.now = 101.9
    assert work.advance()
    assert instant.cancelled == []  # 2 s more at most, a twentieth would be 5
    clock.now = 102.1
    work.advance()
    assert instant.cancelled == [3, 4, 5]
    assert not work.advance()
    assert lane.unfinished == {Cell(words=9, parallel=3): 1}
    assert lane.samples == {}


def test_what_always_took_longer_than_what_is_left_is_not_begun() -> None:
    """Each request takes 4 s: after the warm-up and one repeat 8 of 11 s are gone, and the next would end at 12."""
    clock = Clock()
    instant = Instant(takes=lambda _: clock.tick(4.0))
    work, lane = worked(read_plan({"prompt_words": "9", "repeats": 50, "time": "11s"}), instant, clock)
    assert work.stopped == "time"
    assert len(instant.asked) == 2
    assert len(lane.samples[Cell(words=9)]) == 1
    assert lane.unfinished == {}


def test_a_shorter_cell_goes_on_where_a_longer_one_cannot() -> None:
    """9 words take 1 s, 90 take 10: with the warm-ups 22 s are gone after a round. 8 s fit into 30, 10 do not."""
    clock = Clock()
    instant = Instant(takes=lambda prompt: clock.tick(len(prompt.split()) // 9))
    work, lane = worked(read_plan({"prompt_words": "9,90", "repeats": 50, "time": "30s"}), instant, clock)
    assert work.stopped == "time"
    assert {cell.words: len(samples) for cell, samples in lane.samples.items()} == {9: 9, 90: 1}


def test_a_key_of_the_view_leaves_a_repeat_unfinished() -> None:
    instant = Instant(holds=1)
    plan = read_plan({"prompt_words": "9", "repeats": 2, "precision": "none"})
    lane = Lane(cast(Lifeline, instant), plan, {}, {})
    work = Bench([lane], plan, lambda: 0.0)
    assert work.advance()
    instant.cancel(1)
    assert not work.advance()
    assert work.stopped == "repeats"
    assert lane.unfinished == {Cell(words=9): 1}
    assert lane.failures == []
    assert [sample.rs for sample in lane.samples[Cell(words=9)]] == [(2,), (3,)]


def test_what_was_found_stands_in_the_session() -> None:
    """Samples, failures, what is left out and how it ended, read again from what was written."""
    plan = read_plan({"prompt_tokens": "40,50", "depth": "0,100", "cached": True, "repeats": 3, "precision": "none"})
    work, lane = worked(plan, Instant(fails=frozenset({1, 7, 12})))
    seen = seen_in(lane.session)
    assert seen is not None
    assert seen.plan == plan
    assert lane.samples
    assert seen.samples == lane.samples
    assert [(failure.cell, failure.repeat, failure.text) for failure in seen.failures] == [
        (failure.cell, failure.repeat, failure.text) for failure in lane.failures
    ]
    assert seen.left_out == lane.left_out
    assert outcome_of([lane.session]) == Outcome(work.rounds, 0.0, "repeats")


def test_requests_that_were_not_all_sent_are_no_repeat() -> None:
    _, lane = worked(read_plan({"prompt_words": "9", "parallel": "3", "repeats": 1}), Instant())
    del lane.session.runs[5]
    seen = seen_in(lane.session)
    assert seen is not None
    assert seen.samples == {}
    assert seen.failures == []


@pytest.mark.parametrize(
    "plan", [{}, {"cells": []}, {"cells": "no"}, {"cells": [{"words": "x"}]}, {"cells": [], "sweep": 3}]
)
def test_a_plan_that_is_none_is_refused(plan: dict[str, Any]) -> None:
    session = Session()
    session.apply(ev.Bench(t=1, plan=plan))
    with pytest.raises(FormatError, match="plan cannot be read"):
        seen_in(session)


def test_several_at_once_are_asked_before_one_has_ended() -> None:
    instant = Instant()
    _, lane = worked(read_plan({"prompt_words": "9", "parallel": "3", "repeats": 1}), instant)
    assert [one["labels"]["parallel"] for one in instant.asked] == [3] * 6  # the warm-up too
    (sample,) = lane.samples[Cell(words=9, parallel=3)]
    assert sample.rs == (3, 4, 5)


def test_what_does_not_fit_is_left_out() -> None:
    instant = Instant()
    instant._apply(ev.Server(t=2, v=0, options={"slot_context": ev.Sourced(512, "server")}))
    work, lane = worked(read_plan({"prompt_tokens": "16,600", "repeats": 1}), instant)
    assert work.stopped == "repeats"
    assert lane.why_not(Cell(tokens=600)) == "664 tokens do not fit in the server's context of 512"
    assert list(lane.samples) == [Cell(tokens=16)]


def test_ctrl_c_keeps_what_there_is() -> None:
    plan = read_plan({"prompt_words": "9", "repeats": 50})
    lane = Lane(cast(Lifeline, Instant(holds=3)), plan, {}, {})
    work = Bench([lane], plan, lambda: 0.0)
    assert work.advance()  # the warm-up and two repeats; the third does not end
    work.interrupt()
    assert work.stopped == "interrupted"
    assert not work.advance()
    assert [sample.rs for sample in lane.samples[Cell(words=9)]] == [(1,), (2,)]
