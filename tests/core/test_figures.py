"""Numbers as people read them: where each format turns to more digits, fewer, or another unit."""

from __future__ import annotations

import pytest

from phasetop.figures import clock, count, file_size, memory, milliseconds, pause, rate, seconds, share, size

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (119.83, "119.8"),
        (8862.4, "8,862"),
        (999.94, "999.9"),
        (999.96, "1,000"),
        (0.0, "0.0"),
        (123456.7, "123,457"),
        (None, "—"),
    ],
)
def test_rate(value: float | None, text: str) -> None:
    assert rate(value) == text
    assert len(text) <= 7  # the columns that tables and panes leave for a rate


@pytest.mark.parametrize(
    ("ns", "fine", "text"),
    [(8_312_000, False, "8.3"), (318_700_000, False, "318.7"), (4_127_000, True, "4.13"), (5_234_567_890, False, "5,234.6")],
)
def test_milliseconds(ns: int, fine: bool, text: str) -> None:
    assert milliseconds(ns, fine=fine) == text


@pytest.mark.parametrize(
    ("ns", "shown"),
    [
        (280_000_000, ("0.28", "s")),
        (99_994_000_000, ("99.99", "s")),
        (99_995_000_000, ("1:40", "min")),
        (151_000_000_000, ("2:31", "min")),
        (3_599_600_000_000, ("60:00", "min")),
        (0, ("0.00", "s")),
    ],
)
def test_seconds(ns: int, shown: tuple[str, str]) -> None:
    assert seconds(ns) == shown


@pytest.mark.parametrize(("ns", "text"), [(318_400_000, "318 ms"), (9_999_400_000, "9,999 ms"), (10_000_000_000, "10.00 s")])
def test_pause(ns: int, text: str) -> None:
    assert pause(ns) == text


@pytest.mark.parametrize(("n", "text"), [(1, "1 kB"), (41_600, "42 kB"), (99_999, "100 kB"), (3_204_000, "3.20 MB")])
def test_file_size(n: int, text: str) -> None:
    assert file_size(n) == text


@pytest.mark.parametrize(
    ("ns", "text"), [(9_499_999_999, "00:09.4"), (0, "00:00.0"), (3_725_000_000_000, "62:05.0"), (-5, "00:00.0")]
)
def test_clock_counts_whole_tenths(ns: int, text: str) -> None:
    assert clock(ns) == text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (514 * MIB, ("514", "MiB")),
        (73_662_464, ("70.2", "MiB")),
        (GIB, ("1.00", "GiB")),
        (GIB - 1, ("1.00", "GiB")),
        (2.12 * GIB, ("2.12", "GiB")),
        (24 * GIB, ("24.0", "GiB")),
        (1.5 * MIB, ("1.50", "MiB")),
    ],
)
def test_memory_is_binary_with_three_digits(value: float, shown: tuple[str, str]) -> None:
    assert memory(value) == shown


@pytest.mark.parametrize(
    ("value", "text"),
    [(5.09e9, "5.09 GB"), (611.2e9, "611 GB"), (92_110_000, "92.1 MB"), (99.95e9, "100 GB"), (None, "— GB")],
)
def test_size_is_decimal(value: float | None, text: str) -> None:
    assert size(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.61, "61 %"), (0.0, "0 %"), (0.004, "< 1 %"), (1.37, "137 %"), (1.0, "100 %")]
)
def test_share(value: float, text: str) -> None:
    assert share(value) == text


def test_count_and_what_is_unknown() -> None:
    assert count(4112) == "4,112"
    assert (rate(None), milliseconds(None), seconds(None), memory(None), share(None), count(None)) == (
        *("—", "—", ("—", "s"), ("—", "GiB"), "— %", "—"),
    )
