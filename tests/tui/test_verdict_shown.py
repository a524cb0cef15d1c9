"""The headline's verdict: what it says, that it does not flicker, that a replay shows the same."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from phasetop import metrics, verdict
from phasetop.figures import share, size
from phasetop.metrics import Measures
from phasetop.session import Run, Session
from phasetop.tui import frame, steady
from phasetop.tui.frame import Frame, FrameMaker
from phasetop.tui.headline import words_of
from phasetop.tui.layout import layout
from phasetop.tui.view import View
from phasetop.verdict import Verdict
from phasetop.verdict_evidence import Evidence
from tests.tui.cards import on_a_card, on_a_cpu
from tests.tui.fabricate import MS, S, Turn, ask, opening, session_of

SLOW = Turn(tokens=60, gap_ms=300)


def frame_of(session: Session, cursor: int, maker: FrameMaker | None = None) -> Frame:
    plan = layout(120, 36)
    assert plan is not None
    return (maker or FrameMaker(session)).frame(cursor, plan, View(steers=True))


def test_decode_says_what_limits_it_and_why() -> None:
    words = words_of(frame_of(session_of(on_a_cpu(SLOW)), 9 * S))
    # 4.62 GB of weights and 0.07 of cache in 0.299 s (the mean of 28 gaps), of 20 GB/s
    assert re.fullmatch(r"memory bandwidth: 15\.7 GB/s, 78 % of peak", words.limit)
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
    """In the place of the measures' verdict: by the second, as a code, which ``holds`` of later evidence too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, codes: str, *, holds: bool = True) -> None:
        self.codes = codes

        def measured(session: Session, run: Run, cursor: int) -> Measures:
            code = codes[min(len(codes) - 1, cursor // S)]
            said = Verdict("limit-unknown" if code == "?" else code, code, "")
            return replace(metrics.measure(session, run, cursor), verdict=said)

        def again(code: str, evidence: Evidence) -> Verdict | None:
            assert evidence.judged
            return Verdict(code, code, "") if holds else None

        monkeypatch.setattr(steady, "measure", measured)
        monkeypatch.setattr(frame, "measure", measured)
        monkeypatch.setattr(verdict, "again", again)


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


@pytest.mark.parametrize(
    ("codes", "seen"),
    [
        ("aaaaabbbbbbb", "aaaabbbbbb"),  # what the first said is not so any more
        ("aaaaaabaaaaa", "aaaaabaaaa"),
        ("??????aaaaaa", "-------aaa"),  # what was not known waits for its two seconds
        ("aaa?????????", "aa-------"),
    ],
)
def test_one_that_no_longer_holds_gives_way_at_once(monkeypatch: pytest.MonkeyPatch, codes: str, seen: str) -> None:
    Judge(monkeypatch, codes, holds=False)
    session = session_of(ask(opening(), 0, Turn(tokens=1000, gap_ms=15)).sorted())
    assert "".join(shown(session, 1600 + 1000 * i) for i in range(len(seen))) == seen


def test_the_headline_has_the_figures_of_the_rest_of_the_screen() -> None:
    # 4.69 GB a token of 20 GB/s: 0.32 s a token is 73 % of the peak, until one takes 2.3 s
    session = session_of(on_a_cpu(Turn(tokens=14, gap_ms=320, stall_at=5, stall_ms=2000)))
    codes = []
    for at_ms in range(1200, 6200, 100):
        shown_now = frame_of(session, at_ms * MS)
        said, measures = shown_now.verdict, shown_now.measures
        if said is None or measures is None or shown_now.state != "decode":
            continue
        roofline = measures.roofline
        assert roofline.read_bytes_per_s is not None
        assert f"{size(roofline.read_bytes_per_s)}/s, {share(roofline.mbu)} of peak" in said.limit
        assert ("near what real kernels reach" in said.text) == (roofline.mbu is not None and roofline.mbu > 0.6)
        codes.append(said.code)
    assert list(dict.fromkeys(codes)) == ["decode-at-bandwidth", "decode-under-bandwidth"]
    assert codes.count("decode-under-bandwidth") > 10


def test_a_new_phase_has_its_own_verdict_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    Judge(monkeypatch, "aaaaabbbbb")
    turn = Turn(tokens=300, prefill_ms=4900)
    session = session_of(ask(opening(), 0, turn).sorted())
    assert shown(session, 4900) == "a"
    assert shown(session, 5600) == "b"
