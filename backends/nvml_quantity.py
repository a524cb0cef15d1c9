"""A metric of a GPU: its state, the ways to read it, and how old the driver's stamps are."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from phasetop.backends.nvml_errors import words_for


class Off(Exception):
    """A way that will never give the metric; the text says why."""


class Gap(Exception):
    """There is no value now; the text says why, "" where the next reading will have one."""


class Lost(Exception):
    """The GPU, or the driver, is gone; ``code`` is NVML's."""

    def __init__(self, code: int) -> None:
        super().__init__(words_for(code))
        self.code = code


Value = float | int
Way = tuple[str, Callable[[], Value]]
"""A source in OUTPUTS' words, and the call."""


@dataclass(slots=True)
class Quantity:
    """A metric's state. ``told``: whether its present state was announced."""

    name: str
    unit: str | None
    ways: list[Way]
    group: str
    kind: str = "gauge"
    flags: Mapping[str, str] | None = None
    off: str | None = None
    ever: bool = False
    unknown: int = 0
    told: bool = False
    number: int = -1

    @property
    def source(self) -> str | None:
        """The source of the way that is used."""
        return self.ways[0][0] if self.ways else None


@dataclass(slots=True)
class Read:
    """What one reading gave, by name."""

    values: dict[str, Value | None] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)


def age_s(timestamp_us: int, clocks: tuple[float, ...] | None = None) -> float | None:
    """How old a stamp of NVML is, seconds; None for a stamp of 0, and for one near no clock (over an hour off).

    Older drivers stamp by the wall clock, newer ones by the time since boot or the monotonic clock: the nearest is meant.

    Args:
        timestamp_us: the stamp, microseconds.
        clocks: the three clocks now, seconds; None: read them.

    """
    if timestamp_us <= 0:
        return None
    if clocks is None:
        boot = getattr(time, "CLOCK_BOOTTIME", None)
        clocks = (time.time(), time.clock_gettime(boot) if boot is not None else time.monotonic(), time.monotonic())
    age = min((now - timestamp_us / 1e6 for now in clocks), key=abs)
    return age if abs(age) < 3600 else None
