"""Readings of a far machine made events: values that were worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from phasetop.backends.far_sampler import FarSampler
from phasetop.backends.recorder import Recorder
from phasetop.recording import load
from phasetop.samples import Samples
from phasetop.session import Session
from tests.backends.far.cards import CARD

GPU = CARD.split(", ")[1]
ABOUT = b"@H Linux 16 100 4096\n@N box\n@K 6.1\n@C model name: EPYC\n@M 1000\n"


class Far:
    """A sampler whose time is set: each `tell` comes a second after the one before."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file = folder / "s.phasetop"
        self.recorder = Recorder(self.file, 1)
        self.t = 1_000_000_000
        monkeypatch.setattr(self.recorder, "at", lambda _: self.t)
        monkeypatch.setattr(self.recorder, "now", lambda: self.t)
        self.sampler = FarSampler(self.recorder, 0, "box")
        self.orders: list[str] = []
        from phasetop import events as ev

        self.recorder.open("0192", [], "run", ev.Host())
        self.sampler.connected(self.orders.append)
        self.sampler.heard(ABOUT)

    def tell(self, text: str, after_s: float = 1.0) -> None:
        self.t += int(after_s * 1e9)
        self.sampler.heard(text.encode() + b"\n")

    def session(self) -> Session:
        self.recorder.close("done")
        return load(self.file)


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Far:
    return Far(tmp_path, monkeypatch)


def stat(pid: int, ticks: int, *, started: int = 500, faults: int = 0, pages: int = 100) -> str:
    return f"@s {pid} (x) S 1 1 1 0 -1 4 1 2 {faults} 0 {ticks} 0 0 0 20 0 9 0 {started} 9 {pages} 0"


def tick(uptime: float, cpu: str = "0 0 0 0 0", *processes: str) -> str:
    return "\n".join([f"@T {uptime}", f"@c cpu {cpu}", "@m 1000 400", "@w pswpin 3", *processes, "@e"])


def series(session: Session, name: str, d: int = 1, **more: Any) -> Samples:
    found = session.series(name, d=d, **more)
    assert found is not None
    return found


def test_the_machine_is_a_device_of_the_server(box: Far) -> None:
    session = box.session()
    server, device = session.servers[0].at(), session.devices[1].at()
    assert server is not None
    assert device is not None
    assert server.host is not None
    assert (server.host.name, server.host.cores, server.host.ram_bytes) == ("box", 16, 1000 * 1024)
    assert (device.vendor, device.v, device.name) == ("host", 0, "EPYC")


def test_rates_are_by_the_far_clocks(box: Far) -> None:
    box.tell(tick(100.0, "100 0 0 1000 0", stat(7, 1000)))
    box.tell(tick(102.0, "500 0 0 2200 0", stat(7, 1300, faults=5)), after_s=1.7)  # late on its way
    session = box.session()
    assert list(series(session, "cpu_cores_used").value) == [16 * 400 / 1600]
    assert list(series(session, "server_cpu_cores", v=0).value) == [3.0 / 2]
    assert list(series(session, "server_rss_bytes", v=0).value) == [409600, 409600]
    assert list(series(session, "memory_used_bytes").value) == [600 * 1024] * 2
    assert list(series(session, "server_major_faults", v=0).value) == [5]
    used = series(session, "cpu_cores_used")
    assert (used.t0[0], used.t[0]) == (2_000_000_000, 3_700_000_000)


def test_a_child_that_is_new_counts_whole_and_one_that_was_there_before_from_now_on(box: Far) -> None:
    box.tell(tick(100.0, "0 0 0 0 0", stat(7, 1000)))
    box.tell(tick(101.0, "0 0 0 0 0", stat(7, 1000), stat(8, 50, started=10050), stat(9, 9000, started=600)))
    box.tell(tick(102.0, "0 0 0 0 0", stat(7, 1000), stat(8, 150, started=10050), stat(9, 9100, started=600)))
    assert list(series(box.session(), "server_cpu_cores", v=0).value) == [0.5, 2.0]


def test_another_process_of_the_same_number_is_another(box: Far) -> None:
    box.tell(tick(100.0, "0 0 0 0 0", stat(7, 90000)))
    box.tell(tick(101.0, "0 0 0 0 0", stat(7, 10, started=10090)))
    assert series(box.session(), "server_rss_bytes", v=0).t  # and no rate, which would be negative
    assert box.session().series("server_cpu_cores", d=1, v=0) is None


@pytest.mark.parametrize(("before", "after"), [(100.0, 100.0), (100.0, 90.0), (100.0, 900.0)])
def test_a_clock_that_stands_or_jumps_gives_no_rate(box: Far, before: float, after: float) -> None:
    box.tell(tick(before, "100 0 0 1000 0"))
    box.tell(tick(after, "500 0 0 2200 0"))
    assert box.session().series("cpu_cores_used", d=1) is None


def test_counters_go_on_over_another_connection(box: Far) -> None:
    box.tell(tick(100.0).replace("pswpin 3", "pswpin 10"))
    box.tell(tick(101.0).replace("pswpin 3", "pswpin 12"))
    box.sampler.reset()
    box.sampler.connected(box.orders.append)
    box.sampler.heard(ABOUT)
    box.tell(tick(5.0).replace("pswpin 3", "pswpin 1"))
    box.tell(tick(6.0).replace("pswpin 3", "pswpin 4"))
    assert list(series(box.session(), "swap_in_bytes").value) == [0, 2 * 4096, 2 * 4096, 5 * 4096]


def test_what_is_watched_is_told_again_after_a_new_connection(box: Far) -> None:
    box.sampler.watch(11434, "ollama")
    box.sampler.reset()
    box.sampler.connected(box.orders.append)
    assert [order for order in box.orders if order.startswith("W")] == ["W 11434 ollama"] * 2


def test_a_flood_is_not_taken(box: Far) -> None:
    for i in range(200):
        told = f"@G {CARD}\n@M {i + 1}\n@X - port\n@g -\n@A {GPU}, {i % 2 * 7}\n@a\n@K {i}"
        box.tell(tick(100.0 + i / 100, "0 0 0 0 0", stat(7, i)) + f"\n{told}", after_s=0.01)
    session = box.session()
    assert session.lines < 150
    assert len(series(session, "memory_used_bytes").t) < 10
    assert len(series(session, "sm_percent", d=2).t) < 10


def test_gpus_with_their_sources_and_a_peak_by_table(box: Far) -> None:
    box.tell(f"@G {CARD}")
    box.tell(f"@G {CARD.replace('97, 41', '50, [Unknown Error]')}")
    session = box.session()
    device = session.devices[2].at()
    assert device is not None
    assert (device.name, device.v, device.mem_bytes) == ("NVIDIA GeForce RTX 4090", 0, 24564 << 20)
    assert device.peak_bytes_per_s is not None
    assert (device.peak_bytes_per_s.value, device.peak_bytes_per_s.source) == (1008e9, "assumed: RTX 4090 table")
    busy, control = series(session, "sm_percent", d=2), series(session, "memory_busy_percent", d=2)
    assert (list(busy.value), list(busy.t0)) == ([97, 50], [1_000_000_000, 2_000_000_000])
    assert control.value[0] == 41
    assert control.why == {1: "nvidia-smi says [Unknown Error]"}
    sources = [samples.info.at().source for samples in (busy, control)]  # type: ignore[union-attr]
    assert sources == ["NVML: nvidia-smi over ssh, 1 Hz", "mem-ctrl: nvidia-smi over ssh, 1 Hz"]


def test_what_is_not_told_at_first_is_given_up_and_what_was_told_is_a_gap(box: Far) -> None:
    box.tell(f"@G {CARD.replace('350.12', '[N/A]')}")
    box.tell(f"@G {CARD.replace('2610', '[N/A]')}")
    session = box.session()
    power, clock = series(session, "power_w", d=2), series(session, "sm_mhz", d=2)
    told = power.info.at()
    assert told is not None
    assert (told.off, list(power.value)) == ("nvidia-smi says [N/A]", [])
    assert (clock.value[0], clock.why) == (2610, {1: "nvidia-smi says [N/A]"})


@pytest.mark.parametrize(
    ("name", "mig", "why"),
    [
        ("NVIDIA GB10", "[N/A]", "273"),
        ("NVIDIA H100 80GB HBM3", "Enabled", "MIG"),
        ("NVIDIA Unheard Of", "Disabled", "in no table"),
    ],
)
def test_gpus_whose_figures_are_not_what_they_seem(box: Far, name: str, mig: str, why: str) -> None:
    box.tell(f"@G {CARD.replace('NVIDIA GeForce RTX 4090', name).replace('[N/A]', mig)}")
    session = box.session()
    device, control = session.devices[2].at(), series(session, "memory_busy_percent", d=2).info.at()
    assert device is not None
    assert control is not None
    peak = device.peak_bytes_per_s
    assert peak is not None
    assert why in f"{peak.value} {peak.source}"
    assert (control.off is not None) == (name == "NVIDIA GB10")  # its driver says 0 whatever happens


def test_which_gpus_the_server_uses(box: Far) -> None:
    other = CARD.replace("0, GPU-af7b61d8", "1, GPU-bbbbbbbb")
    box.tell(tick(100.0, "0 0 0 0 0", stat(7, 1), stat(8, 1)) + f"\n@G {CARD}\n@G {other}\n@A {GPU}, 999\n@a")
    assert box.recorder is not None
    box.tell(tick(101.0, "0 0 0 0 0", stat(7, 1), stat(8, 1)) + f"\n@A {GPU}, 8\n@a")
    session = box.session()
    before = [session.devices[d].at(2_000_000_000) for d in (2, 3)]
    after = [session.devices[d].at() for d in (2, 3)]
    assert [each.used_by for each in before if each is not None] == [None, None]  # others' processes prove nothing
    assert [each.used_by for each in after if each is not None] == [[0], []]


def test_the_link_is_measured_by_echoes_one_after_the_other(box: Far) -> None:
    box.tell("@E 999")  # what was not asked
    answered = 0
    while answered < len(box.orders):
        answered += 1
        box.tell(f"@E {answered}", after_s=0.01)
    assert box.orders == [f"E {i}" for i in range(1, 6)]
    assert box.sampler.link_ms(0) is not None
    assert len(series(box.session(), "link_rtt_ms").t) == 5


def test_what_comes_before_the_connection_stands_asks_nothing(box: Far) -> None:
    box.sampler.reset()
    box.orders.clear()
    box.tell(tick(100.0))
    box.sampler.connected(box.orders.append)
    assert box.orders == ["E 1"]


def test_words_of_nvidia_smi_are_said_three_times_at_most(box: Far) -> None:
    for i in range(9):
        box.tell(f"@G Unable to determine the device handle {i}\n@g 15")
    session = box.session()
    assert [notice.code for notice in session.notices.items] == ["far-gpu"] * 3
    assert session.notices.items[0].text == "nvidia-smi on box: Unable to determine the device handle 0"
