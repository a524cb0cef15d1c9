"""The session file's lines as typed structs: format 1, one JSON object a line, ``k`` its kind.

Descriptions (`Hello` … `Prompt`) carry an id and may be repeated, later keys winning; happenings (all others) are never
changed by a later line. ``t`` is ns since the anchor in `Hello`. Absent or ``None`` means unknown, never 0. Wherever a
recording may be redacted, text is an ``int``: its length in UTF-8 bytes (`Text`). To add a kind: one struct here, a row
in `KINDS`, and what reads it; adding keys or kinds keeps the format, changing a meaning raises `FORMAT`.

No annotation is a string here (no ``from __future__ import annotations``): msgspec would compile each of them at the start.
"""

from typing import Annotated, Any, Final, TypeAlias

import msgspec

FORMAT: Final = 1
"""The format that this version writes and the highest it reads."""

Text: TypeAlias = str | Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
"""A text, or the length in UTF-8 bytes of one that redaction left out."""
Ns: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
"""ns of CLOCK_MONOTONIC since the session's anchor."""
Id: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
"""A small id: request, model, server, device or series, in order of appearance."""
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
Real: TypeAlias = Annotated[float, msgspec.Meta(gt=-1e21, lt=1e21)]
"""A measured or computed number: sums, products and squares of what is larger would be no numbers any more."""
Few: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
"""Tokens in a line, or a token's id."""


class Event(msgspec.Struct, tag_field="k", omit_defaults=True, gc=False):
    """What every line has: its kind (the tag) and ``t``."""

    t: Ns


class Anchor(msgspec.Struct, omit_defaults=True):
    """The clocks at the session's t = 0, ns: monotonic, wall (Unix), and since boot with sleep (where there is one)."""

    mono: int
    wall: int
    boot: int | None = None


class Host(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The machine the collector runs on; ``container`` is its runtime's name."""

    name: str | None = None
    os: str | None = None
    kernel: str | None = None
    cpu: str | None = None
    cores: int | None = None
    ram_bytes: int | None = None
    cpu_quota_cores: Real | None = None
    memory_limit_bytes: int | None = None
    container: str | None = None


class Sourced(msgspec.Struct, omit_defaults=True):
    """A value and where it is from, in OUTPUTS' words (``server``, ``argv``, ``given``, ``default``, ``assumed`` …)."""

    value: Any
    source: str = msgspec.field(name="from")


class Hello(Event, tag="hello", kw_only=True):
    """The first line: who writes, where, and the clocks. ``part``: which of its session's files this is, from 1."""

    format: int
    session: str
    anchor: Anchor
    by: str
    host: Host = msgspec.field(default_factory=Host)
    pid: int | None = None
    argv: list[str] = []
    stamps: str = "read"
    redacted: bool = False
    kind: str = "run"
    part: Id = 1


class Server(Event, tag="server", kw_only=True):
    """A server, id ``v``. ``url`` has no userinfo and no query; ``options`` are allow-listed, by OUTPUTS' names.

    ``over``: how it is reached where that is no plain connection (``ssh``); ``host``: its machine, where that is another one
    and is known.
    """

    v: Id
    backend: str | None = None
    url: str | None = None
    version: str | None = None
    pid: int | None = None
    local: bool | None = None
    over: str | None = None
    host: Host | None = None
    options: dict[str, Sourced] | None = None
    endpoints: list[str] | None = None


class Model(Event, tag="model", kw_only=True):
    """A model on server ``v``, id ``m``. ``name`` is never a path; ``origin`` (the file's ``from``) says key → source."""

    m: Id
    v: Id
    name: str | None = None
    file: str | None = None
    arch: str | None = None
    params: int | None = None
    active_params: int | None = None
    quant: str | None = None
    file_bytes: int | None = None
    tensor_bytes: int | None = None
    context_trained: int | None = None
    eos: str | None = None
    hparams: dict[str, Any] | None = None
    weights: dict[str, int] | None = None
    placed: dict[str, int] | None = None
    loaded: bool | None = None
    template: str | None = None
    origin: dict[str, str] | None = msgspec.field(default=None, name="from")


class Device(Event, tag="device", kw_only=True):
    """A device, id ``d``; 0 is the host. ``v``: the server whose machine it is in, where that is another one."""

    d: Id
    vendor: str | None = None
    name: str | None = None
    index: int | None = None
    uuid: str | None = None
    pci: str | None = None
    v: Id | None = None
    used_by: list[int] | None = None
    mem_bytes: int | None = None
    peak_bytes_per_s: Sourced | None = None
    peak_flops: dict[str, Sourced] | None = None
    driver: str | None = None


class Series(Event, tag="series", kw_only=True):
    """A measured quantity, id ``s``, of device ``d`` (and, where ``v`` stands, of that server's process)."""

    s: Id
    d: Id = 0
    name: str = ""
    unit: str | None = None
    source: str | None = None
    type: str = "gauge"
    flags: dict[str, str] | None = None
    v: Id | None = None
    part: str | None = None
    off: str | None = None


class Request(Event, tag="request", kw_only=True):
    """A request, id ``r``: what was sent. ``parent`` makes the chat's chain, ``messages`` are the new ones only."""

    r: Id
    v: Id | None = None
    m: Id | None = None
    parent: Id | None = None
    api: str | None = None
    messages: list[dict[str, Any]] | None = None
    prompt: Text | None = None
    tools: Any = None
    asked: dict[str, Any] | None = None
    applied: dict[str, Any] | None = None
    labels: dict[str, Any] | None = None
    post: bool | None = None
    seen: dict[str, int] | None = None


class Cut(msgspec.Struct):
    """The server cut the prompt: tokens asked for, tokens kept."""

    asked: int
    kept: int


class Prompt(Event, tag="prompt", kw_only=True):
    """The prompt as the model sees it: rendered text, its pieces (bytes that are no whole UTF-8 as base64 in a dict)."""

    r: Id
    rendered: Text | None = None
    pieces: list[str | int | dict[str, str]] | None = None
    ids: list[int] | int | None = None
    source: str | None = msgspec.field(default=None, name="from")
    n: Count | None = None
    cached: Count | None = None
    diverge: Count | None = None
    cut: Cut | None = None


class State(Event, tag="state", kw_only=True):
    """A step of request ``r`` (sent, headers, queued, loading, retry) or of server ``v`` (starting … ready, gone)."""

    s: str
    r: Id | None = None
    v: Id | None = None
    at: Ns | None = None
    why: str | None = None
    after: Id | None = None


class Prog(Event, tag="prog", kw_only=True):
    """Prefill progress in tokens; ``done`` includes the cached ones; ``ms`` is the server's own clock."""

    r: Id
    total: Count | None = None
    cached: Count | None = None
    done: Count = 0
    ms: Real | None = None
    source: str = msgspec.field(default="server", name="from")


class Tool(msgspec.Struct, omit_defaults=True):
    """A tool call's place and, with its first piece, its id and name."""

    index: int = 0
    id: str | None = None
    name: str | None = None


class Tok(Event, tag="tok", kw_only=True):
    """One server event that carries text or tokens.

    ``x``: a string, or a list of pieces; then ``p i b top`` are lists of the same length. ``c``: channel, absent =
    answer. ``n``: tokens in the line; absent = number of pieces, ``None`` = not known. ``p``: log-probability; ``i``:
    token id; ``b``: base64 of bytes that are not whole UTF-8; ``top``: flat [text, logp, …] (redacted: [logp, …]).
    """

    r: Id
    x: Text | list[Text] = ""
    c: str = "answer"
    n: Few | msgspec.UnsetType | None = msgspec.UNSET
    p: Real | list[Real | None] | None = None
    i: Few | list[Few | None] | None = None
    b: str | list[str | None] | None = None
    top: list[Any] | None = None
    tool: Tool | None = None
    cut: int | None = None


class Timings(Event, tag="timings", kw_only=True):
    """The server's own counts and times (its clock); while it streams at most ten a second. ``raw``: as it came.

    ``prompt_n`` was computed, ``cached_n`` reused; ``total_n`` is their sum where the server tells only that.
    """

    r: Id
    prompt_n: Count | None = None
    cached_n: Count | None = None
    total_n: Count | None = None
    prompt_ms: Real | None = None
    gen_n: Count | None = None
    think_n: Count | None = None
    gen_ms: Real | None = None
    load_ms: Real | None = None
    total_ms: Real | None = None
    draft_n: Count | None = None
    accepted_n: Count | None = None
    raw: dict[str, Any] | None = None


class Fault(msgspec.Struct, omit_defaults=True):
    """A server's error: HTTP status, its own code, its text."""

    status: int | None = None
    code: str | None = None
    text: Text | None = None


class End(Event, tag="end", kw_only=True):
    """The end of a request; ``finish`` is one of stop, length, tool_calls, cancelled, error, cut, gone."""

    r: Id
    finish: str
    detail: str | None = None
    stop: Text | None = None
    error: Fault | None = None


class Slot(Event, tag="slot", kw_only=True):
    """One poll (begun at ``t0``) of the server's slot of request ``r``."""

    t0: Ns
    r: Id
    past: Count | None = None
    done: Count | None = None
    cached: Count | None = None
    gen: Count | None = None
    ctx: Count | None = None


class Smp(Event, tag="smp", kw_only=True):
    """Samples over [t0, t], by series id; ``e`` says why one is null. With ``r`` and ``phase``: an exact phase mean."""

    t0: Ns
    v: dict[str, Real | None]
    e: dict[str, str] | None = None
    r: Id | None = None
    phase: str | None = None


class Clock(Event, tag="clock", kw_only=True):
    """The clocks again: every 10 s, and at once when they drifted apart by more than 50 ms."""

    wall: int
    boot: int | None = None


class Task(Event, tag="task", kw_only=True):
    """A task that is no generation (pull, download, warm-up), id ``task``; state run, ok, failed or cancelled."""

    task: Id
    state: str
    r: Id | None = None
    v: Id | None = None
    title: str | None = None
    done: Real | None = None
    total: Real | None = None
    unit: str | None = None
    why: str | None = None


class Mark(Event, tag="mark", kw_only=True):
    """A mark that somebody set, at ``at``."""

    at: Ns
    label: str | None = None


class Finding(Event, tag="finding", kw_only=True):
    """What discovery or the doctor found; state ok, off, limited, missing or broken."""

    name: str
    state: str
    text: str | None = None
    todo: str | None = None
    url: str | None = None
    v: Id | None = None


class Notice(Event, tag="notice", kw_only=True):
    """Something to tell: a kebab-case code, a level (info, warn, error) and a text for people."""

    code: str
    level: str = "info"
    text: str = ""
    r: Id | None = None
    about: dict[str, Any] | None = None


class Control(Event, tag="control", kw_only=True):
    """The answer to a command ``op`` with ``id``: obeyed, or why not; an ask's request is ``r``, a count's tokens ``n``."""

    op: str
    id: int | None = None
    ok: bool = False
    why: str | None = None
    r: Id | None = None
    path: str | None = None
    task: Id | None = None
    n: int | None = None


class Bench(Event, tag="bench", kw_only=True):
    """What a bench measures (`bench_plan.BenchPlan`), on which of several engines, and, when it is over, how it ended."""

    plan: dict[str, Any] | None = None
    swept: dict[str, Any] | None = None
    rounds: int | None = None
    took_ns: Ns | None = None
    stopped: str | None = None


class Part(Event, tag="part", kw_only=True):
    """A session in several files. With ``file``: the last line of one, it goes on there as part ``part``.

    Without: the end of a part's head, in which descriptions and the lines of the requests that ran then (``carried``)
    stand again as the parts before have them.
    """

    part: Id
    file: str | None = None
    carried: list[Id] = []


class Bye(Event, tag="bye", kw_only=True):
    """The last line: why it ended and how many lines came before. done and stopped are complete sessions."""

    reason: str
    lines: int = 0
    dropped: int | None = None


KINDS: Final[tuple[type[Event], ...]] = (
    *(Hello, Bench, Server, Model, Device, Series, Request, Prompt),
    *(State, Prog, Tok, Timings, End, Slot, Smp, Clock, Task, Mark, Finding, Notice, Control, Part, Bye),
)
"""Every kind of format 1; descriptions first."""

AnyEvent: TypeAlias = (
    Hello | Bench | Server | Model | Device | Series | Request | Prompt
    | State | Prog | Tok | Timings | End | Slot | Smp | Clock | Task | Mark | Finding | Notice | Control | Part | Bye
)  # fmt: skip


def text_bytes(text: Text | None) -> int:
    """The length of a text in UTF-8 bytes, redacted or not; 0 for none."""
    if text is None:
        return 0
    return text if isinstance(text, int) else len(text.encode("utf-8"))


def shown(text: Text | None) -> str:
    """A text as a view may draw it: a redacted one as that many ``·`` (at most 10,000)."""
    if text is None:
        return ""
    return "·" * min(text, 10_000) if isinstance(text, int) else text
