"""Server-sent events out of bytes, and what is none."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop.backends.sse import SseEvent, SseReader


def read(reads: list[bytes], max_bytes: int = 1 << 20) -> tuple[list[SseEvent], SseReader]:
    reader = SseReader(max_bytes)
    events = [event for data in reads for event in reader.feed(data)]
    return events + reader.close(), reader


def data(*values: bytes, whole: bool = True) -> list[SseEvent]:
    return [SseEvent(value, False, whole) for value in values]


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b"data: a\n\ndata: b\n\n", data(b"a", b"b")),
        (b"data:a\n\n", data(b"a")),
        (b"data:  a\n\n", data(b" a")),  # one space belongs to the field, no more
        (b"data: a\ndata:b\ndata\n\n", data(b"a\nb\n")),
        (b"data: {..}\r\n\r\ndata:[DONE]\r\n\r\n", data(b"{..}", b"[DONE]")),
        (b"data: a\r\rdata: b\r\r", data(b"a", b"b")),
        (b":\n\n: ping\n\ndata: a\n\n", data(b"a")),
        (b"event: message\nid: 4\nretry: 3000\ndata: a\n\n", data(b"a")),
        (b"\xef\xbb\xbfdata: a\n\n", data(b"a")),
        (b"data: a", data(b"a", whole=False)),
        (b"data: a\n", data(b"a", whole=False)),
        (b"event: x\n\n", []),
        (b"", []),
        (b'error: {"code":400}\n\n', [SseEvent(b'{"code":400}', True, True)]),
        (b"event: error\ndata: oh\n\ndata: a\n\n", [SseEvent(b"oh", True, True), *data(b"a")]),
        (b"event: error\nevent: message\ndata: a\n\n", data(b"a")),
    ],
)
def test_events(body: bytes, events: list[SseEvent]) -> None:
    for reads in ([body], [body[i : i + 1] for i in range(len(body))]):
        found, reader = read(reads)
        assert found == events
        assert not reader.stray


@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"data: a\n\n",
        b"data: a",
        b"data: a\n\ndata: b",
        b"data: a\n",
        b"data: a\n\r",
        b"data: a\r\n\r",
        b"event: error\n",
        b"event: err",
        b"\n",
        b": x\n",
    ],
)
@pytest.mark.parametrize("after", [b"data: y\n\n", b"\ndata: y\n\n", b"data: y\n\nz\n", b"\xef\xbb\xbfdata: y\n\n"])
def test_a_read_of_one_event_is_as_its_bytes_one_by_one(before: bytes, after: bytes) -> None:
    """Such a read is not split into lines: what stands before it may not be forgotten, nor taken for a part of it."""
    reads = [before, b"data: x\n\n", after]
    found, reader = read(reads)
    expected, other = read([bytes([byte]) for byte in b"".join(reads)])
    assert (found, reader.stray, reader.pings) == (expected, other.stray, other.pings)


def test_a_read_of_one_event_that_is_too_long_ends_the_reading() -> None:
    found, reader = read([b"data: a\n\n", b"data: " + b"x" * 40 + b"\n\n", b"data: b\n\n"], max_bytes=20)
    assert (found, reader.overlong) == (data(b"a"), True)


def test_comments_are_counted() -> None:
    assert read([b":\n\n:\n\n: keep-alive\n\ndata: a\n\n"])[1].pings == 3


@pytest.mark.parametrize(
    ("body", "stray"),
    [
        (b"data: a\n\nproxy error: Failed to read connection", b"proxy error: Failed to read connection\n"),
        (b"<html>\n<body>502</body>\n</html>\n", b"<html>\n<body>502</body>\n</html>\n"),
        (b'{"error":\n {"message":"no"}}', b'{"error":\n {"message":"no"}}\n'),
        (b"upstream timeout\n", b"upstream timeout\n"),
    ],
)
def test_what_is_no_sse_is_kept(body: bytes, stray: bytes) -> None:
    for reads in ([body], [body[i : i + 1] for i in range(len(body))]):
        assert read(reads)[1].stray == stray


@pytest.mark.parametrize("torn", [b"d", b"dat", b"data", b"e", b"err", b"event", b"i", b"re", b":"])
def test_a_torn_field_name_is_nothing(torn: bytes) -> None:
    found, reader = read([b"data: a\n\n" + torn])
    assert found == data(b"a")
    assert not reader.stray


@given(
    st.lists(
        st.sampled_from([b"data: a", b"data:b", b"\n", b"\r", b"\r\n", b":", b"oops", b"error: x", b"event: error"]),
        max_size=25,
    ),
    st.data(),
)
def test_any_reads_give_the_same_events(parts: list[bytes], draw: st.DataObject) -> None:
    whole = b"".join(parts)
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    reads = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    events, reader = read(reads)
    once, at_once = read([whole])
    assert events == once
    assert (reader.stray, reader.pings) == (at_once.stray, at_once.pings)


@pytest.mark.parametrize("block", [b"data: " + b"x" * 4090 + b"\n", b"oops" * 1000 + b"\n", b"data:\n" * 1000, b"y" * 4096])
def test_endless_events_do_not_fill_the_memory(block: bytes) -> None:
    reader = SseReader(1 << 20)
    tracemalloc.start()
    for _ in range((1 << 23) // len(block) + 1):
        reader.feed(block)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 << 20
    assert held < 3 << 20
    if b"data:\n" not in block:  # empty lines of one event: one byte each
        assert reader.overlong
        assert reader.feed(b"data: a\n\n") == []
