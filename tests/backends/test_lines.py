"""Lines out of bytes: LF, CRLF and CR end one, nothing else does, whatever the reads were."""

from __future__ import annotations

import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop.backends.lines import LineSplitter


def split(reads: list[bytes], max_bytes: int = 1 << 20) -> tuple[list[bytes], bytes, bool]:
    splitter = LineSplitter(max_bytes)
    lines = [line for data in reads for line in splitter.feed(data)]
    return lines, splitter.close(), splitter.overlong


@pytest.mark.parametrize(
    ("reads", "lines", "rest"),
    [
        ([b"a\nb\n"], [b"a", b"b"], b""),
        ([b"a\r\nb\rc\n"], [b"a", b"b", b"c"], b""),
        ([b"a\r", b"\nb\n"], [b"a", b"b"], b""),  # one CRLF over two reads
        ([b"a\r", b"", b"\n", b"\n"], [b"a", b""], b""),
        ([b"a\r", b"b\n"], [b"a", b"b"], b""),  # a lone CR ends a line at once
        ([b"\r\n\r\n"], [b"", b""], b""),
        ([b"a\n\rb"], [b"a", b""], b"b"),
        ([b"ab", b"", b"cd", b"e\nf"], [b"abcde"], b"f"),
        ([b""], [], b""),
    ],
)
def test_line_ends(reads: list[bytes], lines: list[bytes], rest: bytes) -> None:
    assert split(reads) == (lines, rest, False)


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"])
def test_separators_that_are_text(separator: str) -> None:
    raw = f"a{separator}b".encode()
    assert len(f"a{separator}b".splitlines()) == 2  # what a text splitter would do
    assert split([raw + b"\n"])[0] == [raw]
    for cut in range(1, len(raw)):
        assert split([raw[:cut], raw[cut:] + b"\n"])[0] == [raw]


@given(st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"\x00", b"\r").replace(b"\x01", b"\n")), max_size=12))
def test_any_reads_give_the_same_lines(reads: list[bytes]) -> None:
    *lines, rest = re.split(rb"\r\n|\r|\n", b"".join(reads))
    assert split(reads) == (lines, rest, False)


@given(st.lists(st.sampled_from([b"a", b"\n", b"\r", b"bb", b"ccccc", b"\r\n"]), max_size=30), st.data())
def test_overlong_lines_end_it_at_the_same_place(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    reads = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    *lines, rest = re.split(rb"\r\n|\r|\n", whole)
    too_long = next((at for at, line in enumerate([*lines, rest]) if len(line) > 6), None)
    if too_long is None:
        assert split(reads, 6) == (lines, rest, False)
    else:
        assert split(reads, 6) == (lines[:too_long], b"", True)


def test_an_endless_line_does_not_fill_the_memory() -> None:
    splitter = LineSplitter(1 << 20)
    block = b"x" * 65536
    tracemalloc.start()
    for _ in range(400):  # 25 MiB
        assert splitter.feed(block) == []
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert splitter.overlong
    assert peak < 4 << 20
    assert held < 1 << 16
    assert splitter.feed(b"\nmore\n") == []


def test_small_pieces_of_a_long_line_are_joined_once() -> None:
    lines, rest, overlong = split([b"x"] * 100_000 + [b"\n"])
    assert (len(lines), len(lines[0]), rest, overlong) == (1, 100_000, b"", False)
