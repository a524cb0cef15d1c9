"""One token, read: the row under the text, and the page that `i` opens."""

from __future__ import annotations

from math import exp, isnan
from typing import Final

from msgspec import Struct

from phasetop.alternatives import Alternative
from phasetop.columns import ANSWER, CHANNELS, NO_GAP
from phasetop.events import Text
from phasetop.figures import UNKNOWN, milliseconds
from phasetop.pace import STALL
from phasetop.session import Run
from phasetop.tui.cells import Part, fit
from phasetop.tui.theme import Role
from phasetop.visible import harmless

QUOTED_COLUMNS: Final = 24
_CLOSE: Final = 1e-4
"""Log-probabilities nearer than this are the same token's."""


class TokenFacts(Struct, frozen=True):
    """What is known of one line of tokens."""

    line: int
    first: int  # number of its first token, from 1; of its last
    last: int
    counted: bool  # whether the stream says how many tokens its lines bring
    text: Text
    at_ns: int  # since the request's bands begin: sent, or the load that it waited for
    gap_ns: int | None
    stalled: bool
    logp: float | None
    token_id: int | None
    channel: str
    alternatives: tuple[tuple[Alternative, ...], ...]

    @property
    def rank(self) -> int | None:
        """Its place among the candidates by probability, from 1; None where that is not known."""
        if self.logp is None or len(self.alternatives) != 1 or not self.alternatives[0]:
            return None
        told = self.alternatives[0]
        above = sum(each.logp > self.logp + _CLOSE for each in told)
        return above + 1 if above < len(told) else None


def token_facts(run: Run, i: int, start: int, alternatives: tuple[tuple[Alternative, ...], ...]) -> TokenFacts:
    """Of line ``i`` of a request whose bands begin at ``start`` (ns since the anchor)."""
    tokens = run.tokens
    before = tokens.count[i - 1] if i else 0
    gap, logp, token_id = tokens.gap_ns[i], tokens.logp[i], tokens.ids[i]
    return TokenFacts(
        line=i,
        first=min(before + 1, tokens.count[i]),
        last=tokens.count[i],
        counted=tokens.uncounted < 0 or i < tokens.uncounted,
        text=tokens.text[i] or (tokens.raw_bytes[i].decode("utf-8", "replace") if i in tokens.raw_bytes else ""),
        at_ns=tokens.t[i] - start,
        gap_ns=None if gap == NO_GAP else gap,
        stalled=tokens.step[i] == STALL,
        logp=None if isnan(logp) else logp,
        token_id=None if token_id < 0 else token_id,
        channel="thinking" if CHANNELS[tokens.channel[i]] == "think" else CHANNELS[tokens.channel[i]],
        alternatives=alternatives,
    )


def quoted(text: Text, width: int = QUOTED_COLUMNS) -> str:
    """A token's text between quotes, blanks and line ends visible; a redacted one as its length."""
    if isinstance(text, int):
        return f"{text} bytes, left out"
    mark = '"' if "'" in text else "'"
    return mark + fit(harmless(text, newlines=False), width) + mark


def probability(logp: float) -> str:
    """``0.97``, ``0.0042``: two digits, or two figures where it is small."""
    p = exp(min(0.0, logp))
    return f"{p:.2f}" if p >= 0.0995 else f"{p:.2g}" if p >= 1e-4 else "< 0.0001"


def number_of(facts: TokenFacts) -> str:
    """Which token it is: ``899``, ``5–8`` where one event brought several."""
    if facts.first >= facts.last:
        return f"{facts.last:,}"
    return f"{facts.first:,}–{facts.last:,}"


def reading(facts: TokenFacts, width: int, *, alternatives: bool) -> list[Part]:
    """The row that reads the token under the cursor: as much as fits, most important first."""
    name = "token " if facts.counted else "chunk "
    parts: list[list[Part]] = [
        [(name, "faint"), (number_of(facts), "ink", "b"), ("   " + quoted(facts.text), "ink")],
        [("at ", "faint"), (f"{facts.at_ns / 1e9:.3f} s", "ink")],
        [("gap ", "faint"), ("—" if facts.gap_ns is None else f"{milliseconds(facts.gap_ns)} ms", _gap_role(facts))],
    ]
    if facts.logp is not None:
        parts.append([("p ", "faint"), (probability(facts.logp), "ink")])
        if facts.rank is not None:
            parts.append([("rank ", "faint"), (str(facts.rank), "ink")])
        if alternatives:
            others = _others(facts)
            parts += [[(quoted(each.text or "", 12) + " ", "soft"), (probability(each.logp), "faint")] for each in others]
    else:
        parts.append([("p ", "faint"), ("—", "ink"), (" not asked for", "faint")])
    if facts.channel != CHANNELS[ANSWER]:
        parts.insert(3, [(facts.channel, "soft")])
    parts.append([("i explains it", "faint")])
    made: list[Part] = []
    used = 0
    for group in parts:
        room = sum(len(part if isinstance(part, str) else part[0]) for part in group) + (3 if made else 0)
        if used + room > width:
            break
        made += [("   ", "faint"), *group] if made else group
        used += room
    return made


def _gap_role(facts: TokenFacts) -> Role:
    return "stall" if facts.stalled else "ink"


def _others(facts: TokenFacts) -> list[Alternative]:
    """The candidates beside the token that was taken."""
    if len(facts.alternatives) != 1:
        return []
    return [each for each in facts.alternatives[0] if each.text != facts.text]


def _why_no_rank(facts: TokenFacts) -> str:
    if not facts.alternatives:
        return "no alternatives were told"
    return "several tokens in one event" if len(facts.alternatives) > 1 else "beyond the alternatives told"


def token_lines(facts: TokenFacts, median_ns: float | None) -> list[tuple[Part, ...]]:
    """Everything known of the token, a line each; then what it could have been."""

    def line(name: str, value: str, note: str = "") -> tuple[Part, ...]:
        return ((f"{name:<14}", "soft"), (f"{value:<18}", "ink"), (note, "faint"))

    several = "" if facts.first >= facts.last else "one event brought several"
    made = [
        line("token" if facts.counted else "chunk", number_of(facts), several),
        line("text", quoted(facts.text, 60)),
        line("channel", facts.channel),
        line(
            "id",
            UNKNOWN if facts.token_id is None else f"{facts.token_id}",
            "" if facts.token_id is not None else "not told",
        ),
        line("came at", f"{facts.at_ns / 1e9:.4f} s", "after the turn began, by our clock"),
    ]
    if facts.gap_ns is None:
        made.append(line("gap", UNKNOWN, "the first one, or in one read with the last"))
    else:
        times = f"{facts.gap_ns / median_ns:.2f} × the turn's median" if median_ns else ""
        made.append(
            line("gap", f"{milliseconds(facts.gap_ns, fine=True)} ms", times + (", a stall" if facts.stalled else ""))
        )
    if facts.logp is None:
        made.append(line("probability", UNKNOWN, "not asked for; the probability colours (c) ask"))
        return made
    made.append(line("probability", probability(facts.logp), f"log {facts.logp:.4f}"))
    rank = facts.rank
    made.append(line("rank", UNKNOWN if rank is None else str(rank), "" if rank else _why_no_rank(facts)))
    for told in facts.alternatives:
        made.append((("", "faint"),))
        for each in told:
            bar = "█" * round(exp(min(0.0, each.logp)) * 24)
            mine = each.text is not None and each.text == facts.text
            name = "…" if each.text is None else quoted(each.text)
            made.append(
                ((f"{name:<28}", "ink" if mine else "soft"), (f"{probability(each.logp):>8}  ", "ink"), (bar, "decode_area"))
            )
    return made
