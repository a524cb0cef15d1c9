"""The headline's verdict: what it says, that it does not flicker, that a replay shows the same."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from phasetop import metrics
from phasetop.metrics import Measures
from phasetop.session import Run, Session
from phasetop.tui import steady
from phasetop.tui.frame import Frame, FrameMaker
from phasetop.tui.headline import words_of
from phasetop.tui.layout import layout
from phasetop.tui.view import View
from phasetop.verdict import Verdict
from tests.tui.cards import on_a_card, on_a_cpu
from tests.tui.fabricate import MS, S, Turn, ask, opening, session_of

SLOW = Turn(tokens=60, gap_ms=300)


def frame_of(session: Session, cursor: int, maker: FrameMaker | None = None) -> Frame:
    plan = layout(120, 36)
    assert plan is not None
    return (maker or FrameMaker(session)).frame(cursor, plan, View(steers=True))


def test_decode_says_what_limits_it_and_why() -> None:
    words = words_of(frame_of(session_of(on_a_cpu(SLOW)), 9 * S))
    # 4.62 GB of weights and 0.07 of cache in about 0.305 s, of 20 GB/s
    assert re.fullmatch(r"memory bandwidth: 15\.[3-5] GB/s, 77 % of peak", words.limit)
    assert "bound by memory bandwidth" in words.why


def test_without_a_peak_the_plain_facts_stand() -> None:
    frame = frame_of(session_of(on_a_cpu(SLOW, peak=None)), 9 * S)
    assert frame.measures is not None
    assert frame.measures.verdict is not None
    assert frame.measures.verdict.code == "limit-unknown"
    assert frame.verdict is None
    assert words_of(frame).limit.startswith("a token every 30")
    assert "7.80 of 8 cores busy" in words_of(frame).why


def test_at_the_end_the_summary_stands_in_its_place_and_the_reason_under_it() -> None:
    session = session_of(on_a_card(Turn(tokens=300, gap_ms=8.3)))
    words = words_of(frame_of(session, session.last_t + S))
    assert words.limit.startswith("0.42 s to the first token, 300 tokens in 2.")
    assert words.why.startswith("Decode reads 5")


class Judge:
    """In the place of the measures' verdict: by the second, as a code."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, codes: str) -> None:
        self.codes = codes

        def measured(session: Session, run: Run, cursor: int) -> Measures:
            code = codes[min(len(codes) - 1, cursor // S)]
            verdict = Verdict("limit-unknown" if code == "?" else code, code, "")
            return replace(metrics.measure(session, run, cursor), verdict=verdict)

        monkeypatch.setattr(steady, "measure", measured)


def shown(session: Session, at_ms: int, maker: FrameMaker | None = None) -> str:
    verdict = frame_of(session, at_ms * MS, maker).verdict
    return "-" if verdict is None else verdict.code


@pytest.mark.parametrize(
    ("codes", "seen"),
    [
        # second:  1234567890
        ("aaaaaaaaaaaa", "aaaaaaaaaa"),
        ("aaaaabbbbbbb", "aaaaaaabbb"),  # two seconds of the same at the beat of 8 s
        ("aaaaaabaaaaa", "aaaaaaaaaa"),  # one look is no evidence
        ("abababababab", "bbbbbbbbbb"),  # never two seconds of the same: the phase's first
        ("??????aaaaaa", "-------aaa"),
        ("aaa?????????", "aaaaa----"),
    ],
)
def test_it_changes_after_two_seconds_of_the_same(monkeypatch: pytest.MonkeyPatch, codes: str, seen: str) -> None:
    Judge(monkeypatch, codes)
    session = session_of(ask(opening(), 0, Turn(tokens=1000, gap_ms=15)).sorted())
    maker = FrameMaker(session)
    live = "".join(shown(session, 1100 + 1000 * i, maker) for i in range(len(seen)))
    afresh = "".join(shown(session, 1100 + 1000 * i) for i in range(len(seen)))
    assert live == afresh
    assert live == seen


def test_a_new_phase_has_its_own_verdict_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    Judge(monkeypatch, "aaaaabbbbb")
    turn = Turn(tokens=300, prefill_ms=4900)
    session = session_of(ask(opening(), 0, turn).sorted())
    assert shown(session, 4900) == "a"
    assert shown(session, 5600) == "b"
