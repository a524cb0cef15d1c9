"""What the NVML child prints, one JSON object a line, and what it is told: the protocol between it and the collector.

Times are CLOCK_MONOTONIC, ns. Metrics have small numbers of the child's own, given out by `Metric` lines; a number is never
used twice in one life of the child.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec


class Line(msgspec.Struct, tag_field="k", omit_defaults=True):
    """Any line; ``k`` is its kind."""


class Opening(Line, tag="opening"):
    """The driver is being asked for the first time, which may take seconds."""


class Gpu(Line, tag="gpu", kw_only=True):
    """A GPU, or a MIG slice of one, that is there: number ``g``, as `phasetop.events.Device` has it."""

    g: int
    uuid: str
    name: str | None = None
    index: int | None = None
    pci: str | None = None
    minor: int | None = None  # of /dev/nvidia*
    mem_bytes: int | None = None
    peak_bytes_per_s: float | None = None
    peak_source: str | None = None
    driver: str | None = None


class Metric(Line, tag="metric", kw_only=True):
    """A metric ``m`` of GPU ``g`` that gives values from now on; or gives none (any more), and why (``off``)."""

    m: int
    g: int
    name: str
    unit: str | None = None
    source: str | None = None
    type: str = "gauge"
    flags: dict[str, str] | None = None
    off: str | None = None


class Sample(Line, tag="smp", kw_only=True):
    """Values over [t0, t] by metric; with ``r`` and ``phase`` the exact mean of that phase."""

    t0: int
    t: int
    v: dict[str, float | int | None]
    e: dict[str, str] | None = None
    r: int | None = None
    phase: str | None = None


class Users(Line, tag="users", kw_only=True):
    """The processes that use a GPU, by the driver's own process ids; None: it does not tell, and ``why``."""

    g: int
    pids: list[int] | None = None
    why: str | None = None


class Word(Line, tag="word", kw_only=True):
    """How it goes: ``state`` as a finding has it; ``last``: the child ends now, and is not to be started again."""

    code: str
    state: Literal["ok", "off", "limited", "missing", "broken"]
    text: str
    last: bool = False


class Beat(Line, tag="beat", kw_only=True):
    """A sign of life, and what sampling costs: time of a tick (lower quartile), share of one core, time between ticks."""

    tick_ms: float | None = None
    core_percent: float | None = None
    period_ms: float | None = None


AnyLine: TypeAlias = Opening | Gpu | Metric | Sample | Users | Word | Beat


class Order(msgspec.Struct, omit_defaults=True):
    """What the child is told.

    ``border``: a phase of request ``r`` begins (prefill, decode, or "" at its end). ``focus``: only these GPUs are in use,
    so the others are read once a second (none named: all again). ``stop``: read once more and end.
    """

    op: Literal["border", "focus", "stop"]
    r: int = 0
    phase: str = ""
    uuids: list[str] = []


READY: Final = "nvml"
"""The code of the word that all was announced; it is no notice."""
THROTTLES: Final = {
    "4": "power cap",
    "8": "hardware slowdown",
    "32": "thermal (driver)",
    "64": "thermal (hardware)",
    "128": "power brake",
}
"""Bits of NVML's clock event reasons that are throttling. Not among them: 1 idle, 2 application clocks, 16 sync boost,
256 display clocks, which are settings or rest (nvml.h, nvmlClocksEventReason*)."""
IDLE_BIT: Final = 1

_encoder = msgspec.json.Encoder()
_lines = msgspec.json.Decoder(AnyLine)
_orders = msgspec.json.Decoder(Order)


def encode(line: Line | Order) -> bytes:
    """One line with its newline."""
    return _encoder.encode(line) + b"\n"


def decode(line: bytes) -> AnyLine:
    """The line's object. Raises `msgspec.DecodeError` for what is none."""
    return _lines.decode(line)


def decode_order(line: bytes) -> Order:
    """The order's object. Raises `msgspec.DecodeError` for what is none."""
    return _orders.decode(line)
