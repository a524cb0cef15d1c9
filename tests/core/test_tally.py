"""Sums over token lines: what their words say, whatever was asked before."""

from __future__ import annotations

import statistics
from array import array
from itertools import groupby, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop import events as ev
from phasetop import gaporder
from phasetop import tally as sums
from phasetop.columns import Happenings, Tokens
from phasetop.gaporder import GapOrder
from phasetop.tally import gap_percentiles, tally, timings_at

LINES = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 1, 7, 7, 12]),  # ns since the line before
        st.sampled_from([1, 1, 1, 0, 2, None]),
        st.sampled_from(["answer", "think", "tool"]),
        st.sampled_from(["", "a", "bc"]),
    ),
    max_size=80,
)
Line = tuple[int, int | None, str, str]


def columns(lines: list[Line]) -> Tokens:
    tokens, t = Tokens(), 100
    for step, n, c, x in lines:
        t += step
        tokens.append(ev.Tok(t=t, r=0, x=x, n=n, c=c))
    return tokens


def by_definition(lines: list[Line]) -> dict[str, object]:
    """The sums again, the slow way: from lists, each by its own words."""
    t, rows = 100, []
    for step, n, c, x in lines:
        t += step
        rows.append((t, n, c, x))
    events = [(i, t, 1 if n is None else n, c, x) for i, (t, n, c, x) in enumerate(rows) if n != 0]
    first = events[0][0] if events else len(rows)
    reads = [list(group) for _, group in groupby(events, key=lambda event: event[1])]
    stamps = [read[0][1] for read in reads]
    gaps = [b - a for a, b in pairwise(stamps)]
    answers = [i for i, _, _, c, x in events if c == "answer" and x]
    return {
        "think": sum(n for _, _, n, c, _ in events if c == "think"),
        "answer": sum(n for _, _, n, c, _ in events if c == "answer"),
        "tool": sum(n for _, _, n, c, _ in events if c == "tool"),
        "chunks": sum(1 for i, (_, _, _, x) in enumerate(rows) if x and i >= first),
        "ones": sum(1 for _, n, _, x in rows if x and n == 1),
        "unknown": sum(1 for _, n, _, _ in rows if n is None),
        "events": len(events),
        "merged": sum(n for read in reads if len(read) > 1 for _, _, n, _, _ in read),
        "crowded": sum(len(read) for read in reads if len(read) >= 4),
        "first": events[0][0] if events else -1,
        "last": events[-1][0] if events else -1,
        "first_answer": answers[0] if answers else -1,
        "gaps": len(gaps),
        "gap_sum": sum(gaps),
        "gap_max": max(gaps, default=0),
    }


@given(LINES)
def test_sums_are_what_their_words_say(lines: list[Line]) -> None:
    found = tally(columns(lines), len(lines))._asdict()
    assert {name: found[name] for name in by_definition(lines)} == by_definition(lines)


@given(LINES)
def test_the_first_and_the_last_token_of_so_many_lines(lines: list[Line]) -> None:
    tokens = columns(lines)
    for k in range(len(lines) + 1):
        those = [i for i, (_, n, _, _) in enumerate(lines[:k]) if n != 0]
        assert tokens.ends(k) == ((those[0], those[-1]) if those else (-1, -1))


SHARES = (0.5, 0.9, 0.95, 0.99)


def quantiles(values: list[int]) -> list[float]:
    """What `SHARES` should be: statistics' "inclusive" method is numpy's default (R's type 7)."""
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return [cuts[round(share * 100) - 1] for share in SHARES]


@given(LINES, st.lists(st.integers(0, 80), max_size=8))
def test_asking_in_any_order_changes_nothing(lines: list[Line], asked: list[int]) -> None:
    tokens = columns(lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "CHECKPOINT_LINES", 8)
        patch.setattr(gaporder, "BLOCK_LINES", 4)
        patch.setattr(gaporder, "_INSERT_AT_MOST", 3)
        for k in (min(k, len(lines)) for k in asked):
            fresh = columns(lines[:k])
            gaps = [gap for gap in fresh.gap_ns if gap >= 0]
            assert tally(tokens, k) == tally(fresh, k)
            if len(gaps) > 1:
                assert gap_percentiles(tokens, k, SHARES) == pytest.approx(quantiles(gaps), rel=1e-12)


@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=200), st.sampled_from([3, 1024]))
def test_percentiles_interpolate_as_numpy_does(values: list[int], block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gaporder, "BLOCK_LINES", block)
        found = GapOrder(array("q", values)).percentiles(len(values), SHARES)
    assert found == pytest.approx(quantiles(values), rel=1e-12)


def test_percentiles_by_hand() -> None:
    def of(values: list[int], share: float) -> float:
        return GapOrder(array("q", values)).percentiles(len(values), [share])[0]

    assert of([7], 0.99) == 7.0
    assert of([20, -1, 10], 0.5) == 15.0
    assert of([4, 2, 3, 1], 0.9) == pytest.approx(3.7)  # 0.9 × 3 = place 2.7
    assert of([1, 2, 3], 1.0) == 3.0


def test_the_newest_value_of_each_key_of_the_timings() -> None:
    timings: Happenings[ev.Timings] = Happenings()
    assert timings_at(timings, 10) is None
    timings.add(ev.Timings(t=10, r=0, prompt_n=5, prompt_ms=1.0, gen_n=1))
    timings.add(ev.Timings(t=20, r=0, gen_n=9, raw={"a": 1}))
    assert timings_at(timings, 9) is None
    assert timings_at(timings, 10) == ev.Timings(t=10, r=0, prompt_n=5, prompt_ms=1.0, gen_n=1)
    assert timings_at(timings, 25) == ev.Timings(t=20, r=0, prompt_n=5, prompt_ms=1.0, gen_n=9, raw={"a": 1})
    assert timings_at(timings, 15) == ev.Timings(t=10, r=0, prompt_n=5, prompt_ms=1.0, gen_n=1)
    timings.add(ev.Timings(t=30, r=0, prompt_ms=2.0))
    assert timings_at(timings, 30) == ev.Timings(t=30, r=0, prompt_n=5, prompt_ms=2.0, gen_n=9, raw={"a": 1})


KEYS = ("prompt_n", "gen_n", "prompt_ms")


@given(
    st.lists(st.tuples(st.integers(0, 3), st.dictionaries(st.sampled_from(KEYS), st.integers(1, 9))), max_size=30),
    st.lists(st.integers(0, 40), max_size=8),
)
def test_timings_in_any_order_of_asking(lines: list[tuple[int, dict[str, int]]], asked: list[int]) -> None:
    timings: Happenings[ev.Timings] = Happenings()
    t, told = 0, []
    for step, keys in lines:
        t += step
        told.append((t, keys))
        timings.add(ev.Timings(t=t, r=0, **dict[str, Any](keys)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "CHECKPOINT_TIMINGS", 4)
        for cursor in asked:
            known = [(t, keys) for t, keys in told if t <= cursor]
            whole = {name: value for _, keys in known for name, value in keys.items()}
            assert timings_at(timings, cursor) == (
                ev.Timings(t=known[-1][0], r=0, **dict[str, Any](whole)) if known else None
            )


def test_of_many_requests_what_was_asked_for_lately_is_kept() -> None:
    """What is summed and sorted may go at any time: asked again it is the same."""
    many = [columns([(7, 1, "answer", "a"), (n + 1, 1, "answer", "b"), (3, 1, "think", "c")]) for n in range(40)]
    timings: list[Happenings[ev.Timings]] = [Happenings() for _ in many]
    for n, each in enumerate(timings):
        each.add(ev.Timings(t=n, r=n, gen_n=n))
    for _ in range(2):
        for n, (tokens, told) in enumerate(zip(many, timings, strict=True)):
            assert tally(tokens, 3).gap_sum == n + 4
            assert gap_percentiles(tokens, 3, [1.0]) == [max(n + 1, 3)]
            assert timings_at(told, 100) == ev.Timings(t=n, r=n, gen_n=n)
        assert len(sums._memos) <= sums.REQUESTS_KEPT
        assert len(sums._merged) <= sums.REQUESTS_KEPT
    assert all(tokens in sums._memos for tokens in many[-sums.REQUESTS_KEPT :])
