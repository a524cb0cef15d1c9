"""The columns of a Session: gaps, counts, stalls and bytes as lines come, each readable as of a cursor."""

from __future__ import annotations

import base64
import math
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from phasetop import codec
from phasetop import events as ev
from phasetop.columns import LIVE, NO_GAP, THINK, TOOL, Happenings, Tokens, Versions
from phasetop.pace import STALL, USUAL
from phasetop.session import Session

if TYPE_CHECKING:
    from tests.core.conftest import Build

MS = 1_000_000


def tokens_of(*lines: ev.Tok) -> Tokens:
    tokens = Tokens()
    for line in lines:
        tokens.append(line)
    return tokens


def test_a_gap_is_between_different_stamps() -> None:
    tokens = tokens_of(
        ev.Tok(t=10, r=0, x="a"),
        ev.Tok(t=25, r=0, x="b"),
        ev.Tok(t=25, r=0, x="c"),
        ev.Tok(t=30, r=0, x="template", n=0),
        ev.Tok(t=45, r=0, x="d"),
    )
    assert list(tokens.gap_ns) == [NO_GAP, 15, NO_GAP, NO_GAP, 20]
    assert list(tokens.count) == [1, 2, 3, 3, 4]
    assert tokens.first == 0


def test_text_before_the_first_token_is_none() -> None:
    tokens = tokens_of(ev.Tok(t=10, r=0, x="<think>", n=0), ev.Tok(t=500, r=0, x="a"), ev.Tok(t=510, r=0, x="b"))
    assert tokens.first == 1
    assert list(tokens.gap_ns) == [NO_GAP, NO_GAP, 10]


def test_counts_known_and_unknown() -> None:
    tokens = tokens_of(
        ev.Tok(t=1, r=0, x="a", n=3),
        ev.Tok(t=2, r=0, x=["b", "c"], p=[-0.5, -0.25]),
        ev.Tok(t=3, r=0, x="d", n=None),
        ev.Tok(t=4, r=0, x="", n=5),
    )
    assert list(tokens.n) == [3, 2, -1, 5]
    assert list(tokens.count) == [3, 5, 6, 11]
    assert tokens.uncounted == 2
    assert tokens.text == ["a", "bc", "d", ""]
    assert tokens.logp[1] == -0.75
    assert math.isnan(tokens.logp[0])


def test_channels_and_unknown_ones() -> None:
    tokens = tokens_of(*(ev.Tok(t=i, r=0, x="a", c=c) for i, c in enumerate(("answer", "think", "tool", "x-audio"))))
    assert list(tokens.channel) == [0, THINK, TOOL, 0]


def test_stalls_are_found_as_they_come_and_tool_calls_are_none() -> None:
    beat = [ev.Tok(t=10 * MS * i, r=0, x="a") for i in range(18)]
    late = beat[-1].t + 100 * MS
    tokens = tokens_of(*beat, ev.Tok(t=late, r=0, x="b"), ev.Tok(t=late, r=0, x="c"))
    assert list(tokens.stalls) == [18]
    assert list(tokens.step[17:]) == [USUAL, STALL, STALL]  # what came in the same read shares its step
    assert not tokens_of(*beat, ev.Tok(t=late, r=0, x="b", c="tool")).stalls


@given(st.lists(st.integers(0, 400), min_size=1, max_size=60), st.sets(st.integers(0, 60)))
def test_lines_that_come_after_the_end_are_graded_as_if_nothing_had_been_let_go(steps: list[int], rests: set[int]) -> None:
    tokens, other, t = Tokens(), Tokens(), 10
    for i, step in enumerate(steps):
        t += step * MS
        line = ev.Tok(t=t, r=0, x="a", n=i % 7)
        tokens.append(line)
        other.append(line)
        if i in rests:
            tokens.rest()
    assert (tokens.step, tokens.gap_ns, tokens.stalls) == (other.step, other.gap_ns, other.stalls)


def test_the_end_lets_go_of_what_only_further_gaps_need(session_of: Build) -> None:
    """Two heaps with every gap in them: 40 bytes a token, as much as its figures."""
    lines = [{"k": "tok", "t": 10 * MS * i, "r": 0, "x": "a"} for i in range(9)]
    running, over = session_of(*lines), session_of(*lines, {"k": "end", "t": 100 * MS, "r": 0, "finish": "stop"})
    assert running.runs[0].tokens._pace is not None
    assert over.runs[0].tokens._pace is None


def test_a_text_that_comes_again_is_kept_once() -> None:
    """Half of a token's memory is its text, and a session has a few thousand different ones."""
    session = Session()
    for r in range(2):
        for text in (" a word", 5):
            line = codec.decode_token(codec.encode(ev.Tok(t=1, r=r, x=text)))
            assert line is not None
            session.apply(line)
        pieces: list[str | int | dict[str, str]] = [" a word", 7, {"b": "8J8="}]
        prompt = codec.decode_lean(codec.encode(ev.Prompt(t=2, r=r, n=3, pieces=pieces, ids=[1, 2, 3], rendered="a word")))
        assert isinstance(prompt, ev.Prompt)
        session.apply(prompt)
    first, second = (session.runs[r] for r in range(2))
    assert first.tokens.text == second.tokens.text == [" a word", 5]
    assert first.tokens.text[0] is second.tokens.text[0]
    prompts = [run.prompt.at() for run in (first, second)]
    for told in prompts:
        assert told is not None
        assert told.pieces is not None
        assert (told.pieces, told.rendered, told.n) == (pieces, "a word", 3)
        assert told.pieces[0] is first.tokens.text[0]
        assert told.ids is None  # they are in the file


def test_bytes_that_are_no_whole_text_keep_their_order() -> None:
    def coded(raw: bytes) -> str:
        return base64.b64encode(raw).decode()

    euro = "€".encode()
    tokens = tokens_of(
        ev.Tok(t=1, r=0, x="", b=coded(euro[:2])),
        ev.Tok(t=2, r=0, x="", b=coded(euro[2:])),
        ev.Tok(t=3, r=0, x=["a", "", "", "z"], b=[None, coded(euro[:1]), coded(euro[1:]), None]),
        ev.Tok(t=4, r=0, x=["a", ""], b=[None, coded(euro[:1])]),
        ev.Tok(t=5, r=0, x="", b="no base64"),
    )
    assert tokens.text == ["", "", "a€z", "", ""]
    assert {i: raw for i, raw in tokens.raw_bytes.items() if i < 4} == {0: euro[:2], 1: euro[2:], 3: b"a" + euro[:1]}


def test_redacted_pieces_are_a_length() -> None:
    tokens = tokens_of(ev.Tok(t=1, r=0, x=6), ev.Tok(t=2, r=0, x=[1, 2, 2]))
    assert tokens.text == [6, 5]
    assert list(tokens.count) == [1, 4]


def test_the_place_of_a_line_is_kept_where_it_holds_more() -> None:
    tokens = Tokens()
    tokens.append(ev.Tok(t=1, r=0, x="a"), (0, 10))
    tokens.append(ev.Tok(t=2, r=0, x="b", p=-1.0, top=["b", -1.0]), (10, 20))
    tokens.append(ev.Tok(t=3, r=0, x=["c", "d"]), (30, 15))
    assert [tokens.detail.get(i) for i in range(4)] == [None, (10, 20), (30, 15), None]
    assert len(tokens.detail) == 2


def test_stamps_that_fall_back_are_clamped() -> None:
    tokens = tokens_of(ev.Tok(t=10, r=0, x="a"), ev.Tok(t=7, r=0, x="b"), ev.Tok(t=12, r=0, x="c"))
    assert list(tokens.t) == [10, 10, 12]
    assert list(tokens.gap_ns) == [NO_GAP, NO_GAP, 2]
    happened: Happenings[ev.Mark] = Happenings()
    for t in (5, 3, 9):
        happened.add(ev.Mark(t=t, at=t))
    assert list(happened.when) == [5, 5, 9]


TOKENS = st.lists(
    st.builds(
        lambda step, n, c, x: (step, n, c, x),
        st.sampled_from([0, 0, 1, 5, 5, 5, 40 * MS]),
        st.sampled_from([1, 1, 1, 0, 2, None]),
        st.sampled_from(["answer", "think", "tool"]),
        st.sampled_from(["", "a", "bc"]),
    ),
    max_size=60,
)


@given(TOKENS, st.integers(-1, 3000 * MS))
def test_the_index_of_a_cursor_and_columns_that_only_grow(
    steps: list[tuple[int, int | None, str, str]], cursor: int
) -> None:
    tokens, t, lines = Tokens(), 0, []
    for step, n, c, x in steps:
        t += step
        lines.append(ev.Tok(t=t, r=0, x=x, n=n, c=c))
        tokens.append(lines[-1])
    k = tokens.index(cursor)
    assert k == sum(line.t <= cursor for line in lines)
    assert tokens.index() == tokens.index(LIVE) == len(tokens) == len(lines)
    shorter = tokens_of(*lines[:k])
    for name in ("t", "n", "count", "channel", "gap_ns", "step", "text"):
        assert getattr(shorter, name) == getattr(tokens, name)[:k], name


def test_later_keys_of_a_description_win_as_of_the_cursor() -> None:
    versions: Versions[ev.Server] = Versions()
    versions.add(ev.Server(t=10, v=0, backend="ollama", url="http://a", options={"context": ev.Sourced(1, "default")}))
    versions.add(ev.Server(t=20, v=0, version="1", options={"batch": ev.Sourced(2, "argv")}))
    assert versions.at(9) is None
    first, second = versions.at(19), versions.at()
    assert first is not None
    assert second is not None
    assert (first.version, second.version, second.backend) == (None, "1", "ollama")
    assert second.options == {"batch": ev.Sourced(2, "argv")}  # a key is replaced whole
    assert versions.first_t == 10


def test_samples_go_to_their_series(session_of: Build) -> None:
    session = session_of(
        {"k": "series", "t": 1, "s": 0, "name": "cpu_cores_used"},
        {"k": "series", "t": 1, "s": 10, "name": "cpu_percent", "part": "core 0"},
        {"k": "smp", "t": 200, "t0": 100, "v": {"0": 1.5, "10": None, "7": 3.0, "²": 1.0, "-1": 2.0}, "e": {"10": "gone"}},
        {"k": "smp", "t": 300, "t0": 250, "v": {"0": 2.5}, "r": 0, "phase": "decode"},
    )
    used, core = session.series("cpu_cores_used"), session.series("cpu_percent", part="core 0")
    assert used is not None
    assert core is not None
    assert (list(used.t0), list(used.t), list(used.value)) == ([100], [200], [1.5])
    assert math.isnan(core.value[0])
    assert core.why == {0: "gone"}
    assert session.series("cpu_cores_used", cursor=0) is None
    assert session.series("cpu_percent") is None
    assert len(session.phase_samples.items) == 1


def test_every_kind_is_taken(session_of: Build) -> None:
    session = session_of(
        {"k": "hello", "t": 0, "format": 1, "session": "s", "anchor": {"mono": 0, "wall": 0}, "by": "phasetop 0"},
        {"k": "hello", "t": 1, "format": 1, "session": "other", "anchor": {"mono": 0, "wall": 0}, "by": "phasetop 0"},
        {"k": "server", "t": 1, "v": 0, "backend": "openai"},
        {"k": "model", "t": 1, "m": 0, "v": 0, "name": "m"},
        {"k": "device", "t": 1, "d": 1, "name": "g"},
        {"k": "request", "t": 2, "r": 0, "v": 0, "m": 0},
        {"k": "state", "t": 3, "v": 0, "s": "ready"},
        {"k": "state", "t": 3, "r": 0, "s": "sent"},
        {"k": "prompt", "t": 3, "r": 0, "n": 4},
        {"k": "prog", "t": 4, "r": 0, "done": 1},
        {"k": "timings", "t": 5, "r": 0, "gen_n": 1},
        {"k": "slot", "t": 5, "t0": 4, "r": 0},
        {"k": "end", "t": 6, "r": 0, "finish": "stop"},
        {"k": "clock", "t": 7, "wall": 1},
        {"k": "task", "t": 7, "task": 0, "state": "run"},
        {"k": "mark", "t": 7, "at": 7},
        {"k": "finding", "t": 7, "name": "n", "state": "ok"},
        {"k": "notice", "t": 7, "code": "c"},
        {"k": "control", "t": 7, "op": "cancel"},
        {"k": "bye", "t": 9, "reason": "done"},
    )
    run = session.runs[0]
    assert session.hello is not None
    assert session.hello.session == "s"
    assert session.lines == 20
    assert session.last_t == 9
    assert [len(column.items) for column in (run.states, run.progress, run.timings, run.slots, run.ends)] == [1] * 5
    kept = (session.clocks, session.tasks, session.marks, session.findings, session.notices, session.controls)
    assert [len(column.items) for column in kept] == [1] * 6
    server, model = session.server_of(run), session.model_of(run)
    assert server is not None
    assert server.backend == "openai"
    assert model is not None
    assert model.name == "m"
    assert session.last_run() is run
    assert session.last_run(1) is None
    assert session.bye is not None


def test_an_empty_session_has_nothing() -> None:
    session = Session()
    assert session.last_run() is None
    assert session.series("cpu_cores_used") is None
    run = session.run(4)
    assert session.run(4) is run
    assert session.server_of(run) is None
    assert session.model_of(run) is None
