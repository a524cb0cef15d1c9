"""How fast: first tokens, gaps, stalls, and tokens per second by DESIGN's definitions."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, Literal

from msgspec import Struct

from phasetop.columns import TOOL
from phasetop.counts import Reasons, Seen, TokenCounts
from phasetop.phases import Borders, ms_to_ns, now
from phasetop.tally import gap_percentiles

TOKEN_SHARE: Final = 0.9
"""Gaps are between tokens where at least this share of the events with text brought exactly one."""
BUFFERED_EVENTS: Final = 8
"""Fewer token events than this say nothing about buffering."""
APART_TOKENS: Final = 64
APART_SHARE: Final = 0.01
"""From so many tokens on, a decode rate that differs by more from the server's own says so in its source."""
_SECOND: Final = 1_000_000_000


class Gaps(Struct, frozen=True):
    """Statistics of the gaps between different stamps, ns; ``per``: what a gap lies between."""

    per: Literal["token", "chunk"]
    n: int
    merged: int
    mean: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    max: float | None


class Latency(Struct, frozen=True):
    """When the first tokens came (ns after sent), the gaps, the stalls."""

    ttft_ns: int | None
    first_answer_ns: int | None
    gaps: Gaps
    stalls: int
    buffered: bool


class Rates(Struct, frozen=True):
    """Tokens per second by DESIGN's definitions, and ns a token."""

    prefill_per_s: float | None
    decode_per_s: float | None
    tpot_ns: float | None
    server_prefill_per_s: float | None
    server_decode_per_s: float | None
    last_second_per_s: float | None  # the running phase's rate over the last second before the cursor (the headline)


def latency(seen: Seen, borders: Borders, tokens: TokenCounts, unknown: Reasons) -> Latency:
    """First tokens, gaps and stalls; a None is explained in ``unknown``."""
    tally, columns, start = seen.tally, seen.run.tokens, borders.phases.start
    none_came = "no token came" if seen.end is not None else "no token yet"
    ttft = None if borders.first_t is None else borders.first_t - start
    if ttft is None:
        unknown["latency.ttft_s"] = none_came
    answer = None if tally.first_answer < 0 else columns.t[tally.first_answer] - start
    if answer is None:
        had_other = tally.think or tally.tool
        unknown["latency.first_answer_s"] = (
            f"no text of an answer {'came' if seen.end is not None else 'yet'}"
            if had_other or ttft is not None
            else none_came
        )
    if not tally.gaps:
        few = "fewer than two tokens" if tally.output < 2 else "all tokens came in one read"
        unknown["latency.itl_ms"] = few if seen.end is not None or tally.output >= 2 else "fewer than two tokens yet"
    return Latency(
        ttft_ns=ttft,
        first_answer_ns=answer,
        gaps=_gaps(seen, tokens),
        stalls=bisect_left(columns.stalls, seen.lines),
        buffered=tally.events >= BUFFERED_EVENTS and not tokens.drafted and 2 * tally.crowded > tally.events,
    )


def _gaps(seen: Seen, tokens: TokenCounts) -> Gaps:
    tally, per = seen.tally, _per(seen, tokens)
    if not tally.gaps:
        return Gaps(per, 0, tally.merged, None, None, None, None, None, None)
    p50, p90, p95, p99 = gap_percentiles(seen.run.tokens, seen.lines, (0.5, 0.9, 0.95, 0.99))
    return Gaps(per, tally.gaps, tally.merged, tally.gap_sum / tally.gaps, p50, p90, p95, p99, float(tally.gap_max))


def _per(seen: Seen, tokens: TokenCounts) -> Literal["token", "chunk"]:
    tally = seen.tally
    if seen.counted:
        return "token" if tally.ones >= TOKEN_SHARE * tally.chunks else "chunk"
    if seen.end is None or tokens.output is None:
        return "chunk"  # nobody can say
    return "token" if tally.chunks + 1 >= TOKEN_SHARE * tokens.output else "chunk"


def rates(seen: Seen, borders: Borders, tokens: TokenCounts, unknown: Reasons, sources: Reasons) -> Rates:
    """Tokens per second; a None is explained in ``unknown``."""
    prefill = _prefill_rate(seen, borders, tokens, unknown)
    decode = _decode_rate(seen, tokens, unknown, sources)
    if decode is None:
        unknown["rates.tpot_ms"] = unknown["rates.decode_tok_per_s"]

    timings = seen.timings
    server_prefill = server_decode = None
    if timings is not None and timings.prompt_n is not None and (ns := ms_to_ns(timings.prompt_ms)):
        server_prefill = timings.prompt_n / ns * 1e9
    if timings is not None and timings.gen_n is not None and timings.gen_n >= 2 and (ns := ms_to_ns(timings.gen_ms)):
        server_decode = (timings.gen_n - 1) / ns * 1e9
    if decode is not None and server_decode is not None and seen.whole and (tokens.output or 0) >= APART_TOKENS:
        apart = decode / server_decode - 1
        if abs(apart) > APART_SHARE:
            sources["rates.decode_tok_per_s"] = f"client: {100 * apart:+.1f} % against the server's own clock"
    late = "" if seen.end is not None else " yet"
    if server_prefill is None:
        unknown["rates.server_prefill_tok_per_s"] = f"the server does not tell its prefill's tokens and time{late}"
    if server_decode is None:
        one = timings is not None and timings.gen_n == 1
        why = "fewer than two tokens" if one else f"the server does not tell its decode's tokens and time{late}"
        unknown["rates.server_decode_tok_per_s"] = why
    return Rates(
        prefill_per_s=prefill,
        decode_per_s=decode,
        tpot_ns=None if decode is None else 1e9 / decode,
        server_prefill_per_s=server_prefill,
        server_decode_per_s=server_decode,
        last_second_per_s=_last_second(seen, borders, tokens),
    )


def _prefill_rate(seen: Seen, borders: Borders, tokens: TokenCounts, unknown: Reasons) -> float | None:
    """(prompt − cached) / prefill time; while it runs, what progress says of it so far."""
    phases, path = borders.phases, "rates.prefill_tok_per_s"
    if not seen.prefilled:
        if phases.running == "prefill" and (rate := _progress_rate(seen, borders, tokens, None)) is not None:
            return rate
        unknown[path] = "the prefill did not end" if seen.end is not None else "the prefill has not ended"
        return None
    ns = phases.ns("prefill")
    if ns is None:
        unknown[path] = unknown.get("phases.prefill_s", "the prefill is not told apart")
    elif tokens.prefilled is None:
        unknown[path] = f"the tokens that it read are unknown: {unknown['tokens.prefilled']}"
    elif not ns:
        unknown[path] = "the prefill took no time that could be measured"
    else:
        return tokens.prefilled / ns * 1e9
    return None


def _decode_rate(seen: Seen, tokens: TokenCounts, unknown: Reasons, sources: Reasons) -> float | None:
    """Tokens counted between the first and the last token event ÷ the time between them."""
    tally, columns, path = seen.tally, seen.run.tokens, "rates.decode_tok_per_s"
    if tally.first < 0:
        unknown[path] = "no token came" if seen.end is not None else "not begun"
        return None
    if tokens.output is None:
        unknown[path] = unknown["tokens.output"]
        return None
    if tokens.output < 2:
        unknown[path] = "fewer than two tokens"
        return None
    if columns.n[tally.first] < 0 and columns.channel[tally.first] == TOOL:
        unknown[path] = "the reply began with a whole tool call: nobody saw its tokens come"
        return None
    if not seen.counted and seen.end is None:
        sources["rates.decode_tok_per_s"] = "estimate: one token a line, until the final count corrects it"
    last_t = columns.t[tally.last]
    if tokens.output > tally.output and seen.end is not None:
        last_t = max(last_t, seen.end.t)  # the final count has more, which no line told of: they were there at the end
    span = last_t - columns.t[tally.first]
    after = tokens.output - columns.count[tally.first]
    if span <= 0 or after <= 0:
        unknown[path] = "all tokens came in one read"
        return None
    return after / span * 1e9


def _last_second(seen: Seen, borders: Borders, tokens: TokenCounts) -> float | None:
    """The rate of what runs, over the last second before the cursor; None for what has no rate."""
    phases = borders.phases
    if phases.running == "prefill":
        return _progress_rate(seen, borders, tokens, _SECOND)
    if phases.running != "decode" or borders.first_t is None:
        return None
    columns, to = seen.run.tokens, now(seen.session, seen.cursor)
    begin = max(borders.first_t, to - _SECOND)
    before = columns.index(begin)
    came = columns.count[seen.lines - 1] - (columns.count[before - 1] if before else 0)
    if to <= begin or (not came and begin == borders.first_t):
        return None
    return came / (to - begin) * 1e9


def _progress_rate(seen: Seen, borders: Borders, tokens: TokenCounts, window: int | None) -> float | None:
    """New prompt tokens per second up to the newest progress, over ``window`` ns before it or all of the prefill."""
    progress = seen.run.progress.until(seen.cursor)
    if not progress:
        return None
    newest, band = progress[-1], borders.phases.band("prefill")
    points = [(prog.t, prog.done) for prog in progress]
    if band is not None and tokens.cached is not None and band.t0 <= points[0][0]:
        points.insert(0, (band.t0, tokens.cached))
    base = points[0]
    if window is not None:
        base = next((point for point in reversed(points) if point[0] <= newest.t - window), base)
    if newest.t <= base[0] or newest.done <= base[1]:
        return None
    return (newest.done - base[1]) / (newest.t - base[0]) * 1e9
