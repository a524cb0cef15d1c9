"""Lines of a session file and their structs: each kind both ways, keys unknown or absent, and lines that are bad."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop import codec
from phasetop import events as ev

EXAMPLES = Path(__file__).parent.parent / "data" / "events-format-1.jsonl"
LINES = EXAMPLES.read_bytes().splitlines()
GPU = "NVIDIA H100 80GB HBM3"

# What each line of the examples says, written out by hand.
DECODED: list[ev.Event] = [
    ev.Hello(
        t=0,
        format=1,
        session="0192f3c4-7a1e-7c33-9d55-2f6b1c0e8a77",
        anchor=ev.Anchor(mono=84512000123456, wall=1796000000123456789, boot=84512900123456),
        by="phasetop 0.1.0",
        host=ev.Host(name="box", os="Linux", kernel="6.18", cpu="EPYC 9354", cores=32, ram_bytes=67430000000),
        pid=4242,
        argv=["run", "llama3.1:8b"],
        stamps="kernel",
        redacted=False,
        kind="run",
    ),
    ev.Server(
        t=2104000,
        v=0,
        backend="ollama",
        url="http://127.0.0.1:11434",
        version="0.32.5",
        pid=4711,
        local=True,
        options={"context": ev.Sourced(8192, "argv"), "cache_type_k": ev.Sourced("f16", "default")},
    ),
    ev.Model(
        t=5200000,
        m=0,
        v=0,
        name="llama3.1:8b",
        arch="llama",
        params=8030261312,
        quant="Q4_K_M",
        file_bytes=4920753328,
        hparams={
            "llama.block_count": 32,
            "llama.attention.head_count_kv": 8,
            "llama.attention.key_length": 128,
            "llama.context_length": 131072,
        },
        weights={"layers": 4186435840, "head": 430960640},
        origin={"hparams": "api/show"},
    ),
    ev.Device(
        t=6000000,
        d=1,
        vendor="nvidia",
        name=GPU,
        uuid="GPU-af7b61d8",
        mem_bytes=85520809984,
        peak_bytes_per_s=ev.Sourced(3.3523e12, "NVML: bus 5120 bit x 2619 MHz"),
        driver="610.43",
    ),
    ev.Series(t=6000100, s=0, d=1, name="sm_percent", unit="%", source="GPM"),
    ev.Series(t=6000200, s=1, d=1, name="dram_percent", unit="%", source="GPM", off="NotSupported under MIG"),
    ev.Request(
        t=8000000,
        r=0,
        v=0,
        m=0,
        api="chat",
        messages=[{"role": "user", "content": "Say hello."}],
        asked={"temperature": 0.8, "logprobs": 5},
        labels={},
    ),
    ev.State(t=8400000, r=0, s="sent"),
    ev.State(t=9100000, r=0, s="loading", why="not in /api/ps"),
    ev.Prog(t=310000000, r=0, total=1962, cached=20, done=532, source="server"),
    ev.Prompt(t=640000000, r=0, n=1962, cached=20, diverge=20, source="/tokenize"),
    ev.Tok(t=680123456, r=0, x=" hello"),
    ev.Tok(t=690123456, r=0, x=" let me", c="think", n=2),
    ev.Tok(t=700123456, r=0, x=" the", p=-0.12345, i=279, top=[" the", -0.12345, " a", -2.31, "\u001b", -7.5]),
    ev.Tok(t=710123456, r=0, x=["c", "af", ""], p=[-0.1, -0.2, None], b=[None, None, "4pg="]),
    ev.Tok(t=720123456, r=0, x="?", n=None),
    ev.Smp(t=730000000, t0=620000000, v={"0": 98.2, "1": None}, e={"1": "NotSupported under MIG"}),
    ev.Slot(t=740000000, t0=739000000, r=0, past=1034, gen=60, ctx=8192),
    ev.Clock(t=10000000000, wall=1796000010123456790, boot=94512900123456),
    ev.Timings(
        t=12400000000,
        r=0,
        prompt_n=1942,
        cached_n=20,
        prompt_ms=571.2,
        gen_n=64,
        gen_ms=11719.9,
        raw={"predicted_per_second": 5.38},
    ),
    ev.End(t=12400100000, r=0, finish="stop", stop="<|eot_id|>"),
    ev.Notice(
        t=12400200000,
        code="prompt-cut",
        level="warn",
        r=0,
        text="the server cut the prompt: 8,815 tokens became 2,050",
        about={"asked": 8815, "kept": 2050},
    ),
    ev.Mark(t=12500000000, at=12400000000, label="here"),
    ev.Task(t=12600000000, task=1, title="pull llama3.1:8b", done=1200000000, total=4920753328, unit="B", state="run"),
    ev.Finding(t=12650000000, name="ollama", state="off", text="0.32.5 is installed but not running", todo="o starts it"),
    ev.Control(t=12700000000, op="cancel", id=3, ok=True),
    ev.Bye(t=12800000000, reason="done", lines=26),
]


@pytest.mark.parametrize(("line", "event"), list(zip(LINES, DECODED, strict=True)))
def test_the_examples_of_the_format(line: bytes, event: ev.Event) -> None:
    assert codec.decode(line) == event
    assert type(codec.decode(line)) is type(event)


@pytest.mark.parametrize("line", LINES)
def test_what_is_written_says_the_same(line: bytes) -> None:
    event = codec.decode(line)
    assert event is not None
    written = codec.encode(event)
    assert written.startswith(b'{"k":"')
    assert written.endswith(b"}\n")
    assert written.count(b"\n") == 1
    assert codec.decode(written) == event
    said, wrote = json.loads(line), json.loads(written)
    left_out = {key: said[key] for key in said if key not in wrote}
    assert left_out.items() <= {"redacted": False, "kind": "run", "from": "server"}.items()  # defaults
    assert all(wrote[key] == said[key] for key in wrote if key in said)


LATER = b"""\
{"k":"part","t":12900000000,"part":2,"file":"a.part2.phasetop"}
{"k":"part","t":12900000000,"part":2,"carried":[3]}
{"k":"bench","t":1000000,"plan":{"cells":[{"words":20,"output":64}],"repeats":5},"swept":{"threads":2}}
{"k":"bench","t":90000000000,"rounds":5,"took_ns":89000000000,"stopped":"narrow"}
"""
"""Kinds that came after the format was written down."""


def test_every_kind_has_an_example() -> None:
    later = [codec.decode(line) for line in LATER.splitlines()]
    assert {type(event) for event in [*DECODED, *later]} == set(ev.KINDS)
    assert codec.encode_all(event for event in later if event is not None) == LATER


# -- what a reader takes and what not ---------------------------------------------------------------------------------


def test_keys_in_any_order_unknown_keys_ignored() -> None:
    line = b'{"x":"a","later":{"deep":[1]},"r":3,"t":5,"k":"tok"}'
    assert codec.decode(line) == ev.Tok(t=5, r=3, x="a")


@pytest.mark.parametrize("line", [b'{"k":"x-mine","t":1,"anything":[1,2]}', b'{"t":1,"k":"later"}'])
def test_unknown_kinds_are_skipped(line: bytes) -> None:
    assert codec.decode(line) is None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"{",
        b"[]",
        b"null",
        b'"tok"',
        b'{"t":1}',
        b'{"k":"tok","t":1,"r":0,"x":"a"',
        b'{"k":"tok","t":-1,"r":0,"x":"a"}',
        b'{"k":"tok","t":9007199254740992,"r":0,"x":"a"}',
        b'{"k":"tok","t":1.5,"r":0,"x":"a"}',
        b'{"k":"tok","t":1,"r":-1,"x":"a"}',
        b'{"k":"tok","t":1,"r":0,"x":-3}',
        b'{"k":"tok","t":1,"r":0,"x":"a","n":-2}',
        b'{"k":"tok","t":1,"r":0,"x":"a","n":2147483648}',
        b'{"k":"tok","t":1,"r":0,"x":"a","i":123456789012345678901234567890}',
        b'{"k":"tok","t":1,"r":0,"x":"\xff"}',
        b'{"k":"timings","t":1,"r":0,"prompt_ms":1e999}',
        b'{"k":"timings","t":1,"r":0,"prompt_ms":1e300}',
        b'{"k":"smp","t":9,"t0":1,"v":{"0":1e308}}',
        b'{"k":"tok","t":1,"r":0,"x":"a","p":-1e22}',
        b'{"k":"end","t":1,"r":0}',
        b'{"k":5,"t":1}',
        b"[" * 100_000,
        b'{"k":"request","t":1,"r":0,"tools":' + b"[" * 100_000,
    ],
)
def test_bad_lines(line: bytes) -> None:
    with pytest.raises(codec.BadLine):
        codec.decode(line)


def test_an_endless_line_is_bad_without_being_read() -> None:
    with pytest.raises(codec.BadLine, match="32 MiB"):
        codec.decode(b'{"k":"tok","t":1,"r":0,"x":"' + b"a" * codec.MAX_READ_BYTES + b'"}')


def test_a_later_format_still_says_who_wrote_it() -> None:
    hello = codec.decode(
        b'{"k":"hello","format":2,"session":"s","anchor":{"mono":1,"wall":2},"by":"phasetop 2.0","t":0,"new":1}'
    )
    assert isinstance(hello, ev.Hello)
    assert (hello.format, hello.by) == (2, "phasetop 2.0")
    assert hello.format > ev.FORMAT == 1


def test_unknown_count_is_told_from_a_count_left_out() -> None:
    said = [codec.decode(b'{"k":"tok","t":1,"r":0,"x":"a"' + rest + b"}") for rest in (b"", b',"n":null', b',"n":0')]
    assert [tok.n for tok in said if isinstance(tok, ev.Tok)] == [msgspec.UNSET, None, 0]


def test_a_lean_token_is_the_same_but_for_its_alternatives() -> None:
    line = b'{"k":"tok","t":700,"r":0,"x":" the","p":-0.1,"i":279,"top":[" the",-0.1," a",-2.3]}'
    whole, lean = codec.decode(line), codec.decode_lean(line)
    assert isinstance(whole, ev.Tok)
    assert isinstance(lean, codec.LeanTok)
    assert [getattr(lean, name) for name in ev.Tok.__struct_fields__ if name != "top"] == [
        getattr(whole, name) for name in ev.Tok.__struct_fields__ if name != "top"
    ]
    assert lean.top
    assert not codec.LeanTok(t=0, r=0).top
    assert codec.decode_lean(LINES[0]) == DECODED[0]


# -- round trips ------------------------------------------------------------------------------------------------------

NS = st.integers(0, 2**53 - 1)
ID = st.integers(0, 2**31 - 1)
FINITE = st.floats(-1e20, 1e20)
PLAIN = st.text(st.characters(exclude_categories=["Cs"]))


@st.composite
def tokens(draw: st.DrawFn) -> ev.Tok:
    t, r, c = draw(NS), draw(ID), draw(st.sampled_from(["answer", "think", "tool", "x-other"]))
    n = draw(st.sampled_from([msgspec.UNSET, None, 0, 1, 5]))
    logp = st.none() | FINITE
    b = st.none() | st.binary(max_size=4).map(lambda raw: base64.b64encode(raw).decode())
    if draw(st.booleans()):
        x = draw(st.lists(PLAIN | st.integers(0, 99), min_size=1, max_size=4))
        size = len(x)
        return ev.Tok(
            t=t,
            r=r,
            x=x,
            c=c,
            n=n,
            p=draw(st.none() | st.lists(logp, min_size=size, max_size=size)),
            i=draw(st.none() | st.lists(st.none() | ID, min_size=size, max_size=size)),
            b=draw(st.none() | st.lists(b, min_size=size, max_size=size)),
        )
    top = st.lists(st.tuples(PLAIN, FINITE), max_size=3).map(lambda pairs: [part for pair in pairs for part in pair])
    tool = st.none() | st.builds(ev.Tool, index=ID, id=st.none() | PLAIN, name=st.none() | PLAIN)
    return ev.Tok(
        t=t,
        r=r,
        x=draw(PLAIN | st.integers(0, 2**40)),
        c=c,
        n=n,
        p=draw(logp),
        i=draw(st.none() | ID),
        b=draw(b),
        top=draw(st.none() | top),
        tool=draw(tool),
    )


COUNT = st.none() | NS
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | FINITE | PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PLAIN, inner, max_size=3),
    max_leaves=5,
)
MAYBE_TEXT = st.none() | PLAIN | st.integers(0, 2**40)
OTHERS: list[st.SearchStrategy[ev.Event]] = [
    st.builds(ev.State, t=NS, s=PLAIN, r=st.none() | ID, v=st.none() | ID, at=COUNT, why=st.none() | PLAIN),
    st.builds(ev.Prog, t=NS, r=ID, total=COUNT, cached=COUNT, done=NS, ms=st.none() | FINITE, source=PLAIN),
    st.builds(
        ev.Timings,
        t=NS,
        r=ID,
        prompt_n=COUNT,
        gen_n=COUNT,
        gen_ms=st.none() | FINITE,
        raw=st.none() | st.dictionaries(PLAIN, JSON),
    ),
    st.builds(
        ev.End,
        t=NS,
        r=ID,
        finish=PLAIN,
        stop=MAYBE_TEXT,
        error=st.none() | st.builds(ev.Fault, status=st.none() | ID, code=st.none() | PLAIN, text=MAYBE_TEXT),
    ),
    st.builds(ev.Slot, t=NS, t0=NS, r=ID, past=COUNT, done=COUNT, gen=COUNT, ctx=COUNT),
    st.builds(
        ev.Smp, t=NS, t0=NS, v=st.dictionaries(ID.map(str), st.none() | FINITE), r=st.none() | ID, phase=st.none() | PLAIN
    ),
    st.builds(ev.Notice, t=NS, code=PLAIN, text=PLAIN, about=st.none() | st.dictionaries(PLAIN, JSON)),
    st.builds(
        ev.Server,
        t=NS,
        v=ID,
        url=st.none() | PLAIN,
        options=st.none() | st.dictionaries(PLAIN, st.builds(ev.Sourced, value=JSON, source=PLAIN)),
    ),
    st.builds(
        ev.Model,
        t=NS,
        m=ID,
        v=ID,
        hparams=st.none() | st.dictionaries(PLAIN, JSON),
        origin=st.none() | st.dictionaries(PLAIN, PLAIN),
    ),
    st.builds(ev.Request, t=NS, r=ID, asked=st.none() | st.dictionaries(PLAIN, JSON), prompt=MAYBE_TEXT, tools=JSON),
    st.builds(ev.Prompt, t=NS, r=ID, n=COUNT, cut=st.none() | st.builds(ev.Cut, asked=ID, kept=ID)),
    st.builds(ev.Mark, t=NS, at=NS, label=st.none() | PLAIN),
    st.builds(ev.Clock, t=NS, wall=st.integers(-(2**63), 2**63 - 1)),
]


@given(st.one_of(tokens(), *OTHERS))
def test_any_event_comes_back_from_one_line(event: ev.Event) -> None:
    line = codec.encode(event)
    assert line.count(b"\n") == 1
    back = codec.decode(line)
    assert back == event
    assert codec.encode(back) == line


@given(st.lists(st.one_of(tokens(), *OTHERS), max_size=5))
def test_several_events_are_several_lines(events: list[ev.Event]) -> None:
    lines = codec.encode_all(events).split(b"\n")
    assert lines.pop() == b""
    assert [codec.decode(line) for line in lines] == events


@given(st.sampled_from(LINES), st.data())
def test_a_torn_line_is_bad_or_nothing_worse(line: bytes, data: st.DataObject) -> None:
    torn = line[: data.draw(st.integers(0, len(line) - 1))]
    with pytest.raises(codec.BadLine):
        codec.decode(torn)


@given(
    st.binary(max_size=200)
    | st.sampled_from(LINES).flatmap(lambda line: st.binary(max_size=3).map(lambda b: line[:9] + b + line[9:]))
)
def test_no_bytes_do_worse_than_a_bad_line(line: bytes) -> None:
    try:
        event = codec.decode(line)
    except codec.BadLine:
        return
    assert event is None or isinstance(event, ev.Event)


# -- text -------------------------------------------------------------------------------------------------------------


@given(st.text(st.characters() | st.sampled_from("\ud83d\ude00")))
def test_valid_text_can_be_written(text: str) -> None:
    valid = codec.valid_text(text)
    assert codec.valid_text(valid) == valid
    back = codec.decode(codec.encode(ev.Tok(t=0, r=0, x=valid)))
    assert isinstance(back, ev.Tok)
    assert back.x == valid


def test_surrogates_are_joined_or_replaced() -> None:
    assert codec.valid_text("\ud83d\ude00 \ud83d") == "😀 \N{REPLACEMENT CHARACTER}"
    nested = {"a\ud83d": [("\udc80", 1, None, True)]}
    assert codec.valid(nested) == {"a\N{REPLACEMENT CHARACTER}": [["\N{REPLACEMENT CHARACTER}", 1, None, True]]}


def test_lengths_and_shown_forms() -> None:
    assert (ev.text_bytes(None), ev.text_bytes(7), ev.text_bytes("é😀")) == (0, 7, 6)
    assert (ev.shown(None), ev.shown(3), ev.shown("a\x1b")) == ("", "···", "a\x1b")
    assert len(ev.shown(2**50)) == 10_000


def test_infinite_probabilities_are_unknown() -> None:
    assert b'"p":null' in codec.encode(ev.Tok(t=0, r=0, x="a", p=-math.inf))


def test_the_schema_knows_every_kind() -> None:
    kinds = {str(kind.__struct_config__.tag) for kind in ev.KINDS}
    assert kinds <= set(json.dumps(codec.json_schema()).replace('"', " ").split())
