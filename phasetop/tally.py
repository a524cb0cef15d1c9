"""Sums over a request's token lines as of a line, kept so that asking again costs only what is new.

A live view asks ten times a second while lines are appended, a replay jumps about: sums go on from the last answer, or from
a checkpoint. To the outside each function is pure in (columns, how many lines).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from msgspec import Struct, field

from phasetop import events as ev
from phasetop.columns import ANSWER, Happenings, Tokens
from phasetop.gaporder import GapOrder
from phasetop.lately import lately

CHECKPOINT_LINES: Final = 512
"""A jump sums at most so many lines again."""
CHECKPOINT_TIMINGS: Final = 32
"""Likewise so many timings."""
REQUESTS_KEPT: Final = 16
"""What was summed and sorted of so many requests is kept: it takes as much memory as their columns, and one looks at few."""
CROWDED_EVENTS: Final = 4
"""A read with this many token events is one that somebody buffered."""


class Tally(NamedTuple):
    """Sums over the first lines of a request.

    A token event is a line that brought tokens (n ≠ 0); a line of unknown n counts one. A read is a run of token events with
    one stamp.
    """

    think: int = 0  # tokens by channel
    answer: int = 0
    tool: int = 0
    chunks: int = 0  # lines with text, from the first token on
    ones: int = 0  # of these, with exactly one token by the stream's own count
    unknown: int = 0  # lines of unknown n
    events: int = 0  # token events
    merged: int = 0  # tokens in reads of several token events
    crowded: int = 0  # token events in reads of `CROWDED_EVENTS` or more
    first: int = -1  # the first and the last token line, and the first of the answer with text
    last: int = -1
    first_answer: int = -1
    gaps: int = 0  # gaps between different stamps: how many, their sum and the longest, ns
    gap_sum: int = 0
    gap_max: int = 0
    read_t: int = -1  # the newest read: its stamp, token events and tokens
    read_events: int = 0
    read_tokens: int = 0

    @property
    def output(self) -> int:
        """All tokens."""
        return self.think + self.answer + self.tool


class _Memo(Struct):
    """What was summed of one request's columns."""

    at: int = 0
    tally: Tally = Tally()
    lines: list[int] = field(default_factory=lambda: [0])
    checkpoints: list[Tally] = field(default_factory=lambda: [Tally()])
    order: GapOrder | None = None


class _Merged(Struct):
    """What was merged of one request's timings: the first ``n``, and as it was after each `CHECKPOINT_TIMINGS`."""

    n: int = 0
    newest: ev.Timings | None = None
    checkpoints: list[ev.Timings | None] = field(default_factory=lambda: [None])


_memos: WeakKeyDictionary[Tokens, _Memo] = WeakKeyDictionary()
_merged: WeakKeyDictionary[Happenings[ev.Timings], _Merged] = WeakKeyDictionary()


def tally(tokens: Tokens, lines: int) -> Tally:
    """The sums over the first ``lines`` lines."""
    memo = lately(_memos, tokens, _Memo, REQUESTS_KEPT)
    k = bisect_right(memo.lines, lines) - 1
    if not memo.lines[k] <= memo.at <= lines:
        memo.at, memo.tally = memo.lines[k], memo.checkpoints[k]
    while memo.at < lines:
        to = min(lines, (memo.at // CHECKPOINT_LINES + 1) * CHECKPOINT_LINES)
        memo.tally = _further(tokens, memo.tally, memo.at, to)
        memo.at = to
        if to % CHECKPOINT_LINES == 0 and to > memo.lines[-1]:
            memo.lines.append(to)
            memo.checkpoints.append(memo.tally)
    return memo.tally


def _further(tokens: Tokens, known: Tally, begin: int, to: int) -> Tally:
    """``known``, which is the sums of the first ``begin`` lines, gone on to the first ``to``."""
    channels = [known.answer, known.think, known.tool]
    chunks, ones, unknown, events, merged, crowded = known[3:9]
    first, last, first_answer, gaps, gap_sum, gap_max, read_t, read_events, read_tokens = known[9:]
    raw = tokens.raw_bytes
    columns = zip(
        range(begin, to),
        *(tokens.t[begin:to], tokens.n[begin:to], tokens.channel[begin:to], tokens.gap_ns[begin:to], tokens.text[begin:to]),
        strict=True,
    )
    for i, t, n, channel, gap, text in columns:
        with_text = bool(text) or i in raw
        if n == 0:
            chunks += with_text and first >= 0  # before the first token it is the template's own text
            continue
        if n == 1:
            ones += with_text
        elif n < 0:
            unknown += 1
            n = 1
        chunks += with_text
        channels[channel] += n
        events += 1
        if first < 0:
            first = i
        last = i
        if first_answer < 0 and channel == ANSWER and with_text:
            first_answer = i
        if gap >= 0:
            gaps += 1
            gap_sum += gap
            if gap > gap_max:
                gap_max = gap
        if t != read_t:
            read_t, read_events, read_tokens = t, 1, n
            continue
        read_events += 1
        merged += n if read_events > 2 else n + read_tokens
        read_tokens += n
        if read_events >= CROWDED_EVENTS:
            crowded += 1 if read_events > CROWDED_EVENTS else CROWDED_EVENTS
    answer, think, tool = channels
    return Tally(
        *(think, answer, tool, chunks, ones, unknown, events, merged, crowded, first, last, first_answer),
        *(gaps, gap_sum, gap_max, read_t, read_events, read_tokens),
    )


def gap_percentiles(tokens: Tokens, lines: int, shares: Sequence[float]) -> list[float]:
    """Percentiles of the gaps of the first ``lines`` lines, ns; there must be one. ``shares`` in [0, 1]."""
    memo = lately(_memos, tokens, _Memo, REQUESTS_KEPT)
    if memo.order is None:
        memo.order = GapOrder(tokens.gap_ns)
    return memo.order.percentiles(lines, shares)


def timings_at(timings: Happenings[ev.Timings], cursor: int) -> ev.Timings | None:
    """The server's figures as of the cursor: the newest value of each key, since a later line may say less."""
    k = bisect_right(timings.when, cursor)
    if not k:
        return None
    merged = lately(_merged, timings, _Merged, REQUESTS_KEPT)
    if merged.n > k:
        at = k // CHECKPOINT_TIMINGS
        merged.n, merged.newest = at * CHECKPOINT_TIMINGS, merged.checkpoints[at]
    for event in timings.items[merged.n : k]:
        merged.n, merged.newest = merged.n + 1, _over(merged.newest, event)
        if merged.n == len(merged.checkpoints) * CHECKPOINT_TIMINGS:
            merged.checkpoints.append(merged.newest)
    return merged.newest


def _over(before: ev.Timings | None, event: ev.Timings) -> ev.Timings:
    """What an event says, and for the keys that it does not have what was known before."""
    if before is None:
        return event
    whole = {name: value for name in _TIMINGS_KEYS if (value := getattr(event, name)) is not None}
    return ev.Timings(**{**{name: getattr(before, name) for name in _TIMINGS_KEYS}, **whole})


_TIMINGS_KEYS: Final = ev.Timings.__struct_fields__
