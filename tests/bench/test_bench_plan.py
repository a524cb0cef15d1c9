"""What `bench` was asked for: cells, times, sweeps, and the order in which they are measured."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from phasetop.bench_plan import Cell, order, read_plan, read_time
from phasetop.faults import UsageError


def test_the_labs_prompts_are_the_default() -> None:
    plan = read_plan({})
    assert [cell.words for cell in plan.cells] == [20, 400, 1600]
    assert {(cell.tokens, cell.output, cell.depth, cell.parallel, cell.cached) for cell in plan.cells} == {
        (None, 64, 0, 1, False)
    }
    assert (plan.repeats, plan.precision, plan.time_s) == (5, 0.05, None)


def test_every_combination_is_a_cell() -> None:
    plan = read_plan({"prompt_tokens": "128,2k", "depth": "0,4096", "parallel": "1,4", "output_tokens": 16, "cached": True})
    assert [cell.name for cell in plan.cells] == [
        *("128", "2048", "128x4", "2048x4", "128@4096", "2048@4096", "128@4096x4", "2048@4096x4"),
        *("128cached", "2048cached"),
    ]
    assert plan.most_parallel == 4
    assert plan.most_tokens == 4096 + 2048 + 16 + 1


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("2m", 120), ("2min", 120), ("1m30s", 90), ("1h", 3600), ("0.5s", 0.5)]
)
def test_times(text: str, seconds: float) -> None:
    assert read_time("--time", text) == seconds


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"prompt_words": "20", "prompt_tokens": "20"}, "exclude"),
        ({"prompt_tokens": "3"}, "at least 4"),
        ({"prompt_tokens": "many"}, "a whole number"),
        ({"prompt_words": ""}, "at least one"),
        ({"output_tokens": 1}, "at least 2"),
        ({"parallel": "0"}, "at least 1"),
        ({"parallel": "1000"}, "at most 64"),
        ({"repeats": 0}, "from 1"),
        ({"repeats": 1000}, "to 100"),
        ({"precision": "much"}, "--precision"),
        ({"time": "soon"}, "--time"),
        ({"time": "0"}, "above 0"),
        ({"cached": True, "prompt_words": "8"}, "--cached"),
        ({"sweep": "threads"}, "NAME=VALUE"),
        ({"sweep": "temperature=1,2"}, "threads"),
        ({"sweep": "threads=2"}, "two values"),
        ({"sweep": "threads=0,2"}, "at least 1"),
        ({"prompt_words": ",".join(str(n) for n in range(1, 300))}, "too many"),
    ],
)
def test_what_makes_no_sense_is_said(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        read_plan(given)


def test_no_precision_is_wanted_where_one_run_is() -> None:
    assert read_plan({"repeats": 1}).precision is None
    assert read_plan({"precision": "none"}).precision is None
    assert read_plan({"repeats": 1, "precision": "2%"}).precision == 0.02


def test_a_sweep_reads_numbers_and_words() -> None:
    sweep = read_plan({"sweep": "threads=1,2,8"}).sweep
    assert sweep is not None
    assert (sweep.name, sweep.values) == ("threads", (1, 2, 8))
    sweep = read_plan({"sweep": "cache-type-k=f16,q8_0"}).sweep
    assert sweep is not None
    assert (sweep.name, sweep.values) == ("cache_type_k", ("f16", "q8_0"))


def test_a_round_has_everything_once_in_an_order_of_its_own() -> None:
    cells = read_plan({"prompt_tokens": "16,32,64", "depth": "0,512,1024"}).cells
    rounds = [list(order(cells, 2, seed=7, number=n)) for n in range(1, 6)]
    everything = Counter((lane, cell) for lane in range(2) for cell in cells)
    assert all(Counter(one) == everything for one in rounds)
    assert len({tuple(one) for one in rounds}) == 5
    assert list(order(cells, 2, seed=7, number=1)) == rounds[0]
    assert list(order(cells, 2, seed=8, number=1)) != rounds[0]


def test_cells_of_a_depth_follow_each_other_so_that_it_is_filled_once() -> None:
    cells = read_plan({"prompt_tokens": "16,32,64", "depth": "0,512,1024"}).cells
    for number in range(1, 9):
        depths = [cell.depth for _, cell in order(cells, 1, seed=1, number=number)]
        for depth in (512, 1024):
            first = depths.index(depth)
            assert depths[first : first + 3] == [depth] * 3
    plain = [cell.tokens for number in range(1, 9) for _, cell in order(cells[:3], 1, seed=1, number=number)]
    assert len({tuple(plain[i : i + 3]) for i in range(0, 24, 3)}) > 2  # but those without one are mixed


def test_names() -> None:
    assert Cell(words=400).name == "400w"
    assert Cell(tokens=512, depth=4096, parallel=4).name == "512@4096x4"
