"""Pulls as recorded from Ollama 0.32.5: layers, bytes, ends, errors."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop.backends.ollama_pull import PullReader, why_not

if TYPE_CHECKING:
    from tests.backends.ollama.conftest import Capture, CapturesFn

MODEL_LAYER = "2df68bc8c465"


def read(capture: Capture) -> tuple[PullReader, list[int]]:
    """The reader at the end, and the bytes of the big layer as they grew."""
    reader = PullReader()
    grew = []
    for _, data in capture.reads:
        grew += [layer.done for layer in reader.feed(data) if layer.short == MODEL_LAYER]
    reader.close()
    return reader, grew


def test_a_whole_pull(captures: CapturesFn) -> None:
    reader, grew = read(captures()["pull"])
    assert reader.done
    assert reader.error is None
    assert reader.status == "success"
    big = next(layer for layer in reader.layers.values() if layer.short == MODEL_LAYER)
    assert big.total == 20_000_000
    assert grew == sorted(grew)
    assert len(grew) > 20
    assert grew[-1] == 19_840_000  # Ollama's own last line falls short
    assert reader.fetched == reader.total  # and what it goes on from says that it is whole


def test_a_pull_that_goes_on_begins_where_it_was(captures: CapturesFn) -> None:
    cancelled, before = read(captures()["pull-cancelled"])
    resumed, after = read(captures()["pull-resumed"])
    assert not cancelled.done
    assert resumed.done
    assert after[0] >= before[-1]


def test_everything_there_already(captures: CapturesFn) -> None:
    reader, _ = read(captures()["pull-cached"])
    assert reader.done
    assert all(layer.done == layer.total for layer in reader.layers.values())


def test_a_cut_of_the_registry_is_ollamas_to_mend(captures: CapturesFn) -> None:
    reader, grew = read(captures()["pull-cut"])
    assert reader.done
    assert grew == sorted(grew)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("pull-missing", "no such model"),
        ("pull-no-insecure", "--insecure"),
        ("pull-offline", "cannot reach its registry"),
        ("pull-unreachable", "cannot reach its registry"),
        ("pull-bad-name", "no name for a model"),
    ],
)
def test_errors_say_what_to_do(captures: CapturesFn, name: str, says: str) -> None:
    reader, _ = read(captures()[name])
    assert not reader.done
    assert reader.error is not None
    line = why_not("some/model", reader.error)
    assert says in line
    assert line.startswith("some/model was not pulled: ")
    assert "\n" not in line


def test_one_object_without_a_stream(captures: CapturesFn) -> None:
    reader, _ = read(captures()["pull-no-stream"])
    assert reader.done


@given(st.lists(st.binary(max_size=50), max_size=6))
def test_any_bytes_do_no_harm(reads: list[bytes]) -> None:
    reader = PullReader()
    for data in reads:
        reader.feed(data)
    reader.close()
    assert reader.fetched >= 0


@given(st.lists(st.integers(0, 3000), max_size=6))
def test_any_reads_give_the_same(captures: CapturesFn, cuts: list[int]) -> None:
    data = captures()["pull"].data
    at = sorted({0, *(cut % len(data) for cut in cuts), len(data)})
    reader = PullReader()
    for a, b in itertools.pairwise(at):
        reader.feed(data[a:b])
    assert (reader.done, reader.fetched, len(reader.layers)) == (True, 20_000_000, 1)  # the small layers have no line
