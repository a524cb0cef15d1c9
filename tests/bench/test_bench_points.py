"""What is made of repeats: figures as `metrics` has them, points, and the sentences that say what to notice."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from phasetop import codec
from phasetop.bench_plan import Cell
from phasetop.bench_points import ttft_line, words_about
from phasetop.bench_samples import Failure, Sample, sample_of
from phasetop.bench_text import lab_line
from phasetop.session import Session
from tests.bench.shown import point
from tests.core.roofline_sessions import CARD, MS, session

CELL = Cell(tokens=499)
PEAK = {"peak_bytes_per_s": {"value": 1.008e12, "from": "given"}}


def session_of(*lines: dict[str, Any]) -> Session:
    found = Session()
    for line in lines:
        event = codec.decode_lean(msgspec.json.encode(line))
        assert event is not None, line
        found.apply(event)
    return found


def good(cell: Cell = CELL, **more: Any) -> Sample:
    found = session(session_of, {**CARD, **PEAK}, **more)
    sample = sample_of(found, [found.runs[0]], cell, 1)
    assert isinstance(sample, Sample)
    return sample


def test_a_sample_has_the_figures_of_its_request() -> None:
    """499 tokens in 280 ms, 63 steps of 11.82 ms; 4,617,396,480 B of weights and the cache in the middle of the reply."""
    sample = good()
    assert (sample.prompt, sample.cached, sample.output) == (499, 0, 64)
    assert sample.prefill_per_s == pytest.approx(499 / 0.28, rel=1e-3)
    assert sample.decode_per_s == pytest.approx(1000 / 11.82)
    assert sample.ttft_s == pytest.approx(0.28)
    assert sample.aggregate_decode_per_s == pytest.approx(sample.decode_per_s)
    assert sample.aggregate_prefill_per_s == pytest.approx(499 / 0.28, rel=1e-3)
    cache = (499 + 32) * 131_072
    assert sample.mbu == pytest.approx((4_617_396_480 + cache) / 0.01182 / 1.008e12, rel=1e-3)
    assert sample.complete
    assert sample.rs == (0,)


def test_a_reply_that_is_too_short_is_not_complete() -> None:
    assert not good(Cell(tokens=499, output=65)).complete


@pytest.mark.parametrize(
    ("end", "says"),
    [
        ({"finish": "error", "error": {"status": 500, "text": "out of luck"}}, "out of luck"),
        ({"finish": "cut"}, "cut"),
        ({"finish": "cancelled"}, "cancelled"),
        ({"finish": "tool_calls"}, "tool_calls"),
    ],
)
def test_what_failed_is_no_sample(end: dict[str, Any], says: str) -> None:
    found = session_of(
        {"k": "request", "t": 2, "r": 0, "api": "raw", "prompt": "x"},
        {"k": "state", "t": 100, "r": 0, "s": "sent"},
        {"k": "tok", "t": 100 * MS, "r": 0, "x": "a"},
        {"k": "end", "t": 110 * MS, "r": 0, **end},
    )
    failure = sample_of(found, [found.runs[0]], CELL, 3)
    assert isinstance(failure, Failure)
    assert says in failure.text
    assert failure.repeat == 3


def test_requests_at_once_are_one_sample() -> None:
    """Two of 9 tokens, 10 ms apart: 8 steps of 20 ms each; together 16 tokens from 100 to 270 ms."""
    lines: list[dict[str, Any]] = [{"k": "server", "t": 1, "v": 0, "backend": "llamacpp", "local": True}]
    for r, begin in ((0, 100), (1, 110)):
        lines += [
            {"k": "request", "t": 2, "r": r, "v": 0, "api": "raw", "prompt": "x"},
            {"k": "state", "t": 10 * MS, "r": r, "s": "sent", "at": 10 * MS},
            {"k": "state", "t": 10 * MS, "r": r, "s": "headers"},
            *({"k": "tok", "t": (begin + 20 * n) * MS, "r": r, "x": "a"} for n in range(9)),
            {"k": "timings", "t": (begin + 160) * MS, "r": r, "prompt_n": 45, "cached_n": 0, "prompt_ms": 90, "gen_n": 9},
            {"k": "end", "t": (begin + 161) * MS, "r": r, "finish": "length"},
        ]
    found = session_of(*lines)
    sample = sample_of(found, [found.runs[0], found.runs[1]], Cell(tokens=45, output=9, parallel=2), 1)
    assert isinstance(sample, Sample)
    assert sample.decode_per_s == pytest.approx(50)
    assert sample.aggregate_decode_per_s == pytest.approx(16 / 0.170)
    assert sample.ttft_s == pytest.approx(0.095)
    assert sample.aggregate_prefill_per_s == pytest.approx(90 / 0.100)
    assert sample.mbu is None  # a step makes tokens of both


def test_the_labs_own_line() -> None:
    """The first line of OUTPUTS' example, to the character."""
    shown = point(Cell(tokens=499), 1782.14, 84.6, 0.28)
    assert lab_line(shown) == "499 tok · prefill   280.0 ms (    1782 tok/s) · decode 64 tok at   84.6 tok/s"


def test_words_about_the_two_phases_and_the_first_token() -> None:
    """TTFT 10 ms + 0.5 ms a token exactly; decode 1 / (10 ms + 1 ms a thousand)."""
    cells = [(n, 0.010 + 0.0005 * n) for n in (100, 500, 900)]
    points = [point(Cell(tokens=n, output=2), 2000.0, 100.0, ttft, 0.0) for n, ttft in cells]
    line = ttft_line(points)
    assert line is not None
    assert line.slope == pytest.approx(0.0005)
    assert line.intercept == pytest.approx(0.010)
    assert line.r2 == pytest.approx(1)
    first, second, third = words_about(points)
    assert first.startswith("Prefill reads 20.0 times as many tokens a second as decode writes (2,000 against 100 tok/s)")
    assert second == "Each token of the prompt puts the first token off by 0.5 ms, from 10 ms on (r² 1.000)."
    assert third.startswith("Decode is as fast with 101 as with 901 tokens in the cache")


def test_words_about_depth() -> None:
    """10 ms at 1,000 tokens, 14 ms at 5,000: 1 ms more for each 1,000."""
    points = [
        point(Cell(tokens=10, depth=depth, output=2), 500.0, rate, 0.1, 0.001)
        for depth, rate in ((989, 100.0), (4989, 1000 / 14))
    ]
    said = next(words for words in words_about(points) if "falls" in words)
    assert said.startswith("Decode falls from 100 to 71.4 tok/s between 1,000 and 5,000 tokens in the cache")
    assert said.endswith("each 1,000 tokens more cost 1 ms a token.")


def test_nothing_is_said_of_depth_in_the_noise() -> None:
    points = [point(Cell(tokens=10, depth=depth), 500.0, rate, 0.1, 0.4) for depth, rate in ((0, 100.0), (4000, 80.0))]
    assert not [words for words in words_about(points) if "cache" in words]


def test_words_about_the_cache() -> None:
    points = [
        point(Cell(tokens=400), 1000.0, 50.0, 0.4),
        point(Cell(tokens=400, cached=True), 800.0, 50.0, 0.02, cached=384),
    ]
    said = next(words for words in words_about(points) if "sooner" in words)
    assert said == (
        "A prompt of 400 tokens with all but 16 tokens of it in the cache: 20 ms instead of 400 ms to the first token, "
        "20.0 times sooner."
    )


def test_words_about_several_at_once() -> None:
    rates = ((1, 100.0), (2, 95.0), (4, 60.0), (8, 31.0))  # together 100, 190, 240, 248
    points = [point(Cell(tokens=100, parallel=n), 500.0, rate, 0.2) for n, rate in rates]
    said = next(words for words in words_about(points) if "together" in words)
    assert said.startswith("100 tokens of prompt: 4 at once decode 240 tok/s together, 2.4 times what 1 does (60 each)")
    assert said.endswith("; more at once gain little.")
    flat = [point(Cell(tokens=100, parallel=n), 500.0, 100.0 / n, 0.2) for n in (1, 2)]
    assert any("more than 1 at once decode no faster together" in words for words in words_about(flat))


def test_words_about_a_sweep() -> None:
    points = [
        point(Cell(tokens=100), prefill, decode, 0.2, swept={"threads": n})
        for n, prefill, decode in ((1, 100.0, 50.0), (2, 200.0, 80.0), (4, 390.0, 81.6), (8, 200.0, 41.0))
    ]
    decode, prefill = words_about(points)
    assert decode == (
        "Decode is at its best, or within 5 % of it, from threads 2 on: "
        "1 to 2 +60 %, 2 to 4 +2 % (within the noise), 4 to 8 -50 %."
    )
    assert prefill == (
        "Prefill is at its best, or within 5 % of it, from threads 4 on: 1 to 2 +100 %, 2 to 4 +95 %, 4 to 8 -49 %."
    )


def test_a_sweep_in_the_noise_is_told_to_be_none() -> None:
    points = [point(Cell(tokens=100), 100.0 + n, 50.0 + n, 0.2, 0.3, swept={"ubatch": 64 * n}) for n in (1, 2)]
    assert words_about(points) == [
        "Decode: ubatch makes no difference beyond the noise.",
        "Prefill: ubatch makes no difference beyond the noise.",
    ]
