"""Numbers as people type them: parameters, bytes a second, FLOP/s; several of them with commas between."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final, TypeVar

from phasetop.faults import UsageError

T = TypeVar("T")

_POWERS: Final = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12, "p": 1e15}
_UNITS: Final = {"": 1, "B": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY: Final = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SECONDS: Final = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
# Compiled when one is given.
_NUMBER: Final = r"\s*(\d{1,20}(?:\.\d{1,12})?(?:e[+-]?\d{1,2})?)\s*"
_PARAMETERS: Final = _NUMBER + r"([kmgbt]?)"
_BANDWIDTH: Final = _NUMBER + r"([kmgt]?)(i?)(?:b(?:ytes?)?)?(?:/s|ps|/sec)?"
_FLOPS: Final = _NUMBER + r"([kmgtp]?)(?:\s*fl?op?s?)?(?:/s)?"


def read_parameters(what: str, text: str) -> int:
    """A number of parameters: ``6607077376``, ``81.22e9``, ``8B``, ``135M``.

    Raises:
        UsageError: it is none; the text names ``what``, the option.
    """
    found = re.fullmatch(_PARAMETERS, text.replace("_", "").replace(",", ""), re.IGNORECASE)
    value = _value(found, 2) if found is not None else None
    if value is None or value < 1:
        raise UsageError(f"{_typed(what, text)}: such as 8B, 81.22e9 or 6607077376")
    return round(value)


def read_bandwidth(what: str, text: str) -> float:
    """Bytes a second: ``2.0e12``, ``2TB/s``, ``936 GB/s``, ``256G``; decimal, as vendors quote, but for ``GiB/s``.

    Raises:
        UsageError: it is none; the text names ``what``, the option.
    """
    found = re.fullmatch(_BANDWIDTH, text, re.IGNORECASE)
    value = _value(found, 2) if found is not None else None
    if value is not None and found is not None and found[3]:
        value *= (1.024 ** "kmgt".index(found[2].lower()) * 1.024) if found[2] else 1
    if value is None or value < 1e6:
        raise UsageError(f"{_typed(what, text)}: bytes a second, such as 2.0e12, 936GB/s or 2TB/s")
    return value


def read_flops(what: str, text: str) -> float:
    """FLOP/s: ``312e12``, ``312T``, ``312 TFLOPS``, ``1P``.

    Raises:
        UsageError: it is none; the text names ``what``, the option.
    """
    found = re.fullmatch(_FLOPS, text, re.IGNORECASE)
    value = _value(found, 2) if found is not None else None
    if value is None or value < 1e6:
        raise UsageError(f"{_typed(what, text)}: FLOP/s, such as 312e12, 312T or 312TFLOPS")
    return value


def read_size(what: str, text: str) -> int:
    """Bytes from ``24GiB``, ``24G`` (the same: cards are sold so), ``24GB`` (10⁹) or a number.

    Raises:
        UsageError: it is none of them; the text names ``what``.
    """
    found = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,6})?)\s*([KMGT]?)(i?)(B?)\s*", text, re.IGNORECASE)
    if found is None:
        raise UsageError(f"{_typed(what, text)}: such as 24GiB, or 24GB (decimal)")
    number, unit, binary, whole = found[1], found[2].upper(), found[3], found[4]
    factor = _BINARY[unit] if unit and (binary or not whole) else _UNITS[unit]
    return int(float(number) * factor)


def read_size_or_time(what: str, text: str) -> tuple[int | None, int | None]:
    """(bytes, None) from ``100MB`` or ``1GiB``, (None, ns) from ``90s``, ``30min``, ``1h`` or ``1d``.

    Raises:
        UsageError: it is neither; the text names ``what``.
    """
    found = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,6})?)\s*(s|min|h|d)\s*", text)
    if found is not None:
        return None, int(float(found[1]) * _SECONDS[found[2]] * 1e9)
    if re.fullmatch(r"\s*\d+\s*m\s*", text):
        raise UsageError(f"{_typed(what, text)}: {text.strip()}in, or {text.strip().upper()}B?")
    try:
        return read_size(what, text), None
    except UsageError:
        raise UsageError(f"{_typed(what, text)}: such as 100MB, 1GiB, 30min or 1h") from None


def read_count(what: str, text: str, *, least: int = 0, most: int = 100_000_000) -> int:
    """A whole number, mostly of tokens; ``8k`` is 8,192.

    Raises:
        UsageError: it is none, or not from ``least`` to ``most``; the text names ``what``, the option.
    """
    found = re.fullmatch(r"(\d{1,9})(k?)", text.strip(), re.IGNORECASE | re.ASCII)
    value = int(found[1]) * (1024 if found[2] else 1) if found is not None else None
    if value is None or value > most:
        raise UsageError(f"{_typed(what, text)}: a whole number up to {most:,}, such as 512 or 8k")
    if value < least:
        raise UsageError(f"{_typed(what, text)}: at least {least:,}")
    return value


def read_some(what: str, text: str) -> int:
    """As `read_count`, 1 at least."""
    return read_count(what, text, least=1)


def read_share(what: str, text: str, *, of: str = "a share of the peak", such_as: str = "0.7 or 70%") -> float:
    """A share: ``0.7`` or ``70%``.

    Raises:
        UsageError: it is none above 0 and up to 1; the text names ``what``, the option, and says what the share is ``of``.
    """
    found = re.fullmatch(r"\s*(\d{1,3}(?:\.\d{1,9})?)\s*(%?)\s*", text)
    value = float(found[1]) / (100 if found[2] else 1) if found is not None else 0.0
    if not 0 < value <= 1:
        raise UsageError(f"{_typed(what, text)}: {of} above 0 and up to 1, such as {such_as}")
    return value


def several(what: str, text: str, read: Callable[[str, str], T]) -> list[T]:
    """Values with commas between them, each once, in their order.

    Raises:
        UsageError: there is none, or one is no such value.
    """
    found = list(dict.fromkeys(read(what, part) for part in text.split(",") if part.strip()))
    if not found:
        raise UsageError(f"{_typed(what, text)}: at least one value is needed")
    return found


def _value(found: re.Match[str], unit: int) -> float | None:
    value = float(found[1]) * _POWERS[found[unit].lower()]
    return value if math.isfinite(value) and value < 1e18 else None


def _typed(what: str, text: str) -> str:
    """An option with its value, as it was typed; that it lacks one, where nothing stands behind its ``=``."""
    shown = text.strip()[:40]
    return f"{what} {shown}" if shown else f"{what} lacks its value"
