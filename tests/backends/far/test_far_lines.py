"""What the far machine prints, read: recorded lines, and any bytes at all."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasetop.backends.far_lines import (
    LONGEST_LINE,
    About,
    Card,
    Echo,
    FarLines,
    Ps,
    Said,
    SmiEnded,
    Tick,
    User,
    UsersTold,
    Watched,
    Word,
)
from phasetop.visible import harmless
from tests.backends.far.cards import CARD

STAT = "77 (a ) b) S 1 77 77 0 -1 4194560 100 200 7 0 1100 250 0 0 20 0 9 0 5500 99 1234 18446744073709551615 1 1"
LINES = f"""noise of a profile
@H Linux 16 100 4096
@N box
@K 6.1.0
@C model name\t: AMD EPYC 9354
@M 65837724
@T 5000.25
@c cpu  1000 20 300 9000 50 0 6 4 700 0
@m 65837724 33000000
@w pswpin 12
@s {STAT}
@e
@X 77 port
@G {CARD}
@A GPU-af7b61d8-1111-2222-3333-444455556666, 77
@a
@E 3
@p 400 123456 1-02:03:04.50
@g 18
""".encode()


def read(data: bytes) -> list[Said]:
    return FarLines().feed(data)


def test_each_line_is_what_it_says() -> None:
    found = read(LINES)
    about: dict[str, object] = {}
    for each in found:
        if isinstance(each, About):
            about.update(each.known)
    assert about == {
        "system": "Linux", "cores": 16, "ticks": 100, "page": 4096, "name": "box", "kernel": "6.1.0",
        "cpu": "AMD EPYC 9354", "ram_bytes": 65837724 * 1024,
    }  # fmt: skip
    (tick,) = (each for each in found if isinstance(each, Tick))
    assert (tick.uptime_s, tick.memory_kib, tick.swapped_in) == (5000.25, (65837724, 33000000), 12)
    assert tick.cpu == (1000 + 20 + 300 + 6, 1000 + 20 + 300 + 9000 + 50 + 6 + 4)  # not idle, disk, steal; guest is in user
    (process,) = tick.processes
    assert (process.pid, process.started, process.cpu_ticks, process.rss_pages, process.major_faults) == (
        77,
        5500,
        1350,
        1234,
        7,
    )
    (card,) = (each for each in found if isinstance(each, Card))
    assert (card.index, card.name, card.driver, card.mem_bytes, card.mig) == (
        *(0, "NVIDIA GeForce RTX 4090", "550.54.14"),
        *(24564 << 20, False),
    )
    assert card.values == {
        "memory_used_bytes": 6144 << 20, "sm_percent": 97, "memory_busy_percent": 41, "power_w": 350.12, "sm_mhz": 2610,
        "memory_mhz": 10501, "temperature_c": 61, "throttle": 4,
    }  # fmt: skip
    rest = [each for each in found if not isinstance(each, (About, Tick, Card))]
    assert rest == [
        Watched(77, "port"), User("GPU-af7b61d8-1111-2222-3333-444455556666", 77), UsersTold(), Echo(3),
        Ps(400, 123456, 93784.5), SmiEnded(18),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "said", ["[N/A]", "[Not Supported]", "[Unknown Error]", "[GPU is lost]", "N/A", "ERR!", "-5", "1e9"]
)
def test_a_word_instead_of_a_number_is_none_with_the_word(said: str) -> None:
    (card,) = read(f"@G {CARD.replace('97, 41, 350.12', f'{said}, {said}, {said}')}\n".encode())
    assert isinstance(card, Card)
    for name in ("sm_percent", "memory_busy_percent", "power_w"):
        assert card.values[name] is None
        assert card.why[name] == f"nvidia-smi says {said}"
    assert card.values["sm_mhz"] == 2610


def test_what_nobody_believes_is_none() -> None:
    (card,) = read(f"@G {CARD.replace('97, 41', '101, 400')}\n".encode())
    assert isinstance(card, Card)
    assert (card.values["sm_percent"], card.values["memory_busy_percent"]) == (None, None)


def test_a_name_with_a_comma_and_a_control_character() -> None:
    (card,) = read(f"@G {CARD}, 48GB \x1b[2J\n".encode())
    assert isinstance(card, Card)
    assert card.name == "NVIDIA GeForce RTX 4090, 48GB ␛[2J"


def test_what_is_no_reading_is_words() -> None:
    said = "Failed to initialize NVML: Driver/library version mismatch"
    assert read(f"@G {said}\n@g 18\n@g -\n".encode()) == [Word(said), SmiEnded(18), SmiEnded(None)]


def test_a_tick_without_its_beginning_or_its_end_counts_for_nothing() -> None:
    assert read(b"@c cpu 1 2 3 4 5 6 7 8\n@e\n@T 5.0\n@T 6.0\n@m 10 5\n@T x\n@e\n") == []


def test_a_line_too_long_goes_and_the_next_is_read() -> None:
    lines = FarLines()
    for _ in range(3):
        assert lines.feed(b"@E " + b"1" * LONGEST_LINE) == []
    assert lines.feed(b"1\n@E 5\n") == [Echo(5)]


def test_this_process_as_proc_and_as_psutil_have_it() -> None:
    own = Path("/proc/self/stat")
    if not own.exists():
        pytest.skip("no /proc here")
    me = psutil.Process()
    (tick,) = read(b"@T 1.0\n@s " + own.read_bytes().strip() + b"\n@e\n")
    assert isinstance(tick, Tick)
    (process,) = tick.processes
    assert process.pid == os.getpid()
    ticks = os.sysconf("SC_CLK_TCK")
    assert abs(process.cpu_ticks / ticks - sum(me.cpu_times()[:2])) < 1.0
    assert abs(process.rss_pages * os.sysconf("SC_PAGESIZE") - me.memory_info().rss) < 32 << 20
    assert abs(process.started / ticks + psutil.boot_time() - me.create_time()) < 2.0


@given(st.binary(max_size=400))
def test_any_bytes_are_read(data: bytes) -> None:
    read(data + b"\n")


KINDS = st.sampled_from("HNKCMTcmwseXGAagEp")
WORDS = st.one_of(
    st.integers(-(10**30), 10**30).map(str), st.text(max_size=8), st.sampled_from(["-", ",", "cpu", "port", "0x4"])
)


@given(st.lists(st.tuples(KINDS, st.lists(WORDS, max_size=30)), max_size=30), st.lists(st.integers(0, 3000), max_size=5))
def test_hostile_lines_give_bounded_readings_however_they_are_cut(
    lines: list[tuple[str, list[str]]], cuts: list[int]
) -> None:
    data = "".join(f"@{kind} {' '.join(words)}\n" for kind, words in lines).encode("utf-8", "replace")
    whole = read(data)
    parts, cut = FarLines(), sorted({0, *(min(each, len(data)) for each in cuts), len(data)})
    assert [said for a, b in itertools.pairwise(cut) for said in parts.feed(data[a:b])] == whole
    for said in whole:
        if isinstance(said, Tick):
            assert len(said.processes) <= 16
        if isinstance(said, About):
            assert all(
                isinstance(each, int) or (len(each) <= 80 and harmless(each, newlines=False) == each)
                for each in said.known.values()
            )


@given(st.integers(0, len(LINES)), st.binary(max_size=3))
def test_bytes_in_the_middle_spoil_one_line_at_most(at: int, noise: bytes) -> None:
    found = read(LINES[:at] + noise + LINES[at:])
    assert len(found) >= len(read(LINES)) - 3
