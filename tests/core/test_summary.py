"""The lines on stderr after a run, word for word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from phasetop.summary import lines

if TYPE_CHECKING:
    from tests.core.conftest import Build

MS = 1_000_000
Line = dict[str, Any]


def at(k: str, t: float, **keys: Any) -> Line:
    return {"k": k, "t": round(t * MS), "r": 0, **keys}


BEGUN = (at("request", 90, v=0), at("state", 100, s="sent"), at("state", 100, s="headers"))
LAB: tuple[Line, ...] = (
    {"k": "server", "t": 1, "v": 0, "options": {"slot_context": {"value": 8192, "from": "server"}}},
    *BEGUN,
    *(at("tok", 380 + 745 / 63 * i, x="a" if i < 63 else "") for i in range(64)),
    at("timings", 1125, prompt_n=499, cached_n=0, gen_n=64),
    at("end", 1129, finish="stop", detail="eos"),
)


def test_the_summary_of_a_run(session_of: Build) -> None:
    session = session_of(*LAB)
    assert lines(session, session.runs[0], "2026-11-30-llama3.1-8b") == [
        "prompt   499 tok · prefill   280.0 ms (    1782 tok/s) · decode 64 tok at   84.6 tok/s",
        "ttft     280 ms · first answer 280 ms · gaps p50 11.8  p95 11.8  p99 11.8 ms",
        "kv       562 of 8,192 tokens",
        "verdict  limit unknown: no model is described",
        "finish   stop · kept as 2026-11-30-llama3.1-8b",
    ]


def test_a_cached_part_the_cpu_and_a_recording_that_was_not_kept(session_of: Build) -> None:
    session = session_of(
        *(
            {"k": "series", "t": 1, "s": 0, "v": 0, "name": "server_cpu_cores"},
            {"k": "series", "t": 1, "s": 1, "v": 0, "name": "server_rss_bytes"},
        ),
        *BEGUN,
        at("tok", 380, x="a"),
        {"k": "smp", "t0": 380 * MS, "t": 1000 * MS, "v": {"0": 1.96, "1": 262144000}},
        at("timings", 1125, prompt_n=37, cached_n=462, gen_n=1),
        at("tok", 1125, x="b"),
        at("end", 1129, finish="length", detail="max-tokens"),
    )
    found = lines(session, session.runs[0], None)
    assert found[1] == "cached   462 of 499 tokens"
    assert found[4:] == [
        "cpu      1.96 cores · RSS 250 MiB",
        "verdict  limit unknown: no model is described",
        "finish   length (max-tokens) · not kept; `--record` keeps it",
    ]


def test_what_is_unknown_is_a_dash_or_no_line(session_of: Build) -> None:
    session = session_of(*BEGUN[:2], at("end", 200, finish="error", error={"status": 400, "text": "too\x1b[2J long"}))
    assert lines(session, session.runs[0], None) == [
        "prompt   — tok · prefill       — ms (       — tok/s) · decode 0 tok at      — tok/s",
        "finish   error: 400, too␛[2J long · not kept; `--record` keeps it",
    ]


def test_chunks_stalls_and_long_waits_are_named(session_of: Build) -> None:
    steady = [at("tok", 30_100 + 4 * i, x="ab", n=2) for i in range(20)]
    session = session_of(*BEGUN, *steady, at("tok", 31_000, x="c", n=2), at("end", 31_001, finish="stop"))
    found = lines(session, session.runs[0], None)
    # Twenty gaps: nineteen of 4 ms, one of 824 ms: p95 at place 18.05, p99 at 18.81 of the twenty.
    assert found[1] == "ttft     30.00 s · first answer 30.00 s · gaps a chunk p50 4.00  p95 45.00  p99 668.20 ms · 1 stall"
    assert len(found) <= 12
