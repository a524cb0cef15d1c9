"""Numbers as people read them, in one format everywhere: the view, the summary, tables.

What has several units comes as (number, unit), so that a column of numbers can be aligned and the unit stand beside it.
"""

from __future__ import annotations

from typing import Final

UNKNOWN: Final = "—"

_MIB: Final = 1 << 20
_GIB: Final = 1 << 30


def rate(per_s: float | None) -> str:
    """A rate: one decimal below 1,000, else none: ``119.8``, ``8,862``."""
    if per_s is None:
        return UNKNOWN
    return f"{per_s:.1f}" if per_s < 999.95 else f"{per_s:,.0f}"


def milliseconds(ns: float | None, *, fine: bool = False) -> str:
    """A gap or a time a token, in ms: one decimal, two where it should be ``fine``: ``8.3``, ``318.7``."""
    if ns is None:
        return UNKNOWN
    return f"{ns / 1e6:,.{2 if fine else 1}f}"


def seconds(ns: float | None) -> tuple[str, str]:
    """A duration: two decimals below 100 s (``0.28 s``), then minutes and seconds (``2:31 min``)."""
    if ns is None:
        return UNKNOWN, "s"
    if ns < 99.995e9:
        return f"{ns / 1e9:.2f}", "s"
    minutes, rest = divmod(round(ns / 1e9), 60)
    return f"{minutes}:{rest:02d}", "min"


def pause(ns: int) -> str:
    """How long nothing came: whole ms below ten seconds, then seconds: ``318 ms``, ``12.31 s``."""
    return f"{ns / 1e6:,.0f} ms" if ns < 10e9 else " ".join(seconds(ns))


def clock(ns: int) -> str:
    """A running clock: ``00:09.4``; hours go on as minutes. It counts whole tenths, never one that is not over."""
    tenths = max(ns, 0) // 100_000_000
    return f"{tenths // 600:02d}:{tenths // 10 % 60:02d}.{tenths % 10}"


def memory(size_bytes: float | None) -> tuple[str, str]:
    """What occupies memory, three digits: MiB below 1 GiB, else GiB: ``514 MiB``, ``2.12 GiB``."""
    if size_bytes is None:
        return UNKNOWN, "GiB"
    if size_bytes < 1023.5 * _MIB:
        return _three_digits(size_bytes / _MIB), "MiB"
    return _three_digits(size_bytes / _GIB), "GiB"


def size(size_bytes: float | None) -> str:
    """A file, weights, what flows: decimal, as vendors quote: ``5.09 GB``, ``611 GB``, below 0.1 GB ``92.1 MB``."""
    if size_bytes is None:
        return f"{UNKNOWN} GB"
    if size_bytes < 0.09995e9:
        return f"{_three_digits(size_bytes / 1e6)} MB"
    return f"{_three_digits(size_bytes / 1e9)} GB"


def file_size(size_bytes: int) -> str:
    """A small file's size, in kB below 0.1 MB: ``42 kB``, ``3.20 MB``."""
    return size(size_bytes) if size_bytes >= 100_000 else f"{max(1, round(size_bytes / 1000))} kB"


def _three_digits(value: float) -> str:
    if value < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"


def share(fraction: float | None) -> str:
    """A share (1.0 is all): whole percent, ``61 %``; ``< 1 %``; more than all is shown as it is."""
    if fraction is None:
        return f"{UNKNOWN} %"
    return "< 1 %" if 0 < fraction < 0.01 else f"{100 * fraction:.0f} %"


def count(n: int | None) -> str:
    """A number of things: ``4,112``."""
    return UNKNOWN if n is None else f"{n:,}"
