"""A request over ssh in the view: the far machine's lanes, rows and name, never this one's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from phasetop import codec
from phasetop.machine import link_ms, machine_of
from phasetop.metrics import measure
from phasetop.report import request_object
from phasetop.session import Session
from phasetop.summary import lines
from phasetop.tui.devices import rows_of
from phasetop.tui.facts import facts_of
from phasetop.tui.lanes import Axis
from phasetop.tui.machine import Machine, Worked

S = 1_000_000_000
Line = dict[str, Any]
HOST = {"name": "here", "cpu": "Laptop", "cores": 4, "ram_bytes": 8 << 30}
FAR = {"name": "box", "cpu": "EPYC", "cores": 64, "ram_bytes": 512 << 30}
SMI = "NVML: nvidia-smi over ssh, 1 Hz"


def series(s: int, name: str, d: int, **more: Any) -> Line:
    return {"k": "series", "t": 0, "s": s, "name": name, "d": d, "source": "psutil" if d == 0 else SMI, **more}


def session_lines(*, far: bool = True, gpu: bool = True, prefill_s: int = 4) -> list[Line]:
    """Prefill from 1 s, decode of 6 s after it; samples of both machines each second."""
    first = 1 + prefill_s
    made: list[Line] = [
        {"k": "hello", "t": 0, "format": 1, "session": "0", "anchor": {"mono": 0, "wall": 0}, "by": "x", "host": HOST},
        {"k": "device", "t": 0, "d": 0, "vendor": "host", "name": "Laptop"},
        series(0, "cpu_cores_used", 0),
        series(1, "memory_used_bytes", 0),
        {"k": "device", "t": 0, "d": 9, "vendor": "nvidia", "name": "NVIDIA Laptop Card", "index": 0},
        {"k": "server", "t": 0, "v": 0, "backend": "ollama", "url": "ssh://box/http://127.0.0.1:1", "local": False,
         "over": "ssh", **({"host": FAR} if far else {})},
    ]  # fmt: skip
    if far:
        made += [
            {"k": "device", "t": 0, "d": 1, "vendor": "host", "name": "EPYC", "v": 0, "mem_bytes": 512 << 30},
            series(2, "cpu_cores_used", 1), series(3, "memory_used_bytes", 1),
            series(4, "server_cpu_cores", 1, v=0), series(5, "server_rss_bytes", 1, v=0), series(6, "link_rtt_ms", 1, v=0),
            {"k": "smp", "t": S // 2, "t0": S // 2, "v": {"6": 31.0}},
            {"k": "smp", "t": S // 2, "t0": S // 2, "v": {"6": 23.4}},
        ]  # fmt: skip
    if far and gpu:
        made += [
            {"k": "device", "t": 0, "d": 2, "vendor": "nvidia", "name": "NVIDIA GeForce RTX 4090", "index": 0, "v": 0,
             "mem_bytes": 24564 << 20},
            series(7, "sm_percent", 2), series(8, "memory_busy_percent", 2), series(9, "power_w", 2),
            series(10, "memory_used_bytes", 2),
        ]  # fmt: skip
    made += [
        {"k": "request", "t": S, "r": 0, "v": 0},
        {"k": "state", "t": S, "r": 0, "s": "sent", "at": S},
        {"k": "prog", "t": S, "r": 0, "total": 10, "cached": 0, "done": 0},
        {"k": "prog", "t": first * S, "r": 0, "total": 10, "cached": 0, "done": 10},
    ]
    for t in range(1, 13):
        values: dict[str, float] = {"0": 3.0, "1": 4 << 30}
        if far:
            values |= {"2": 40.0, "3": 100 << 30, "4": 8.0, "5": 6 << 30}
        if far and gpu:
            values |= {"7": 90.0 if t <= first else 60.0, "8": 40.0, "9": 300.0, "10": 7 << 30}
        made.append({"k": "smp", "t": t * S, "t0": (t - 1) * S, "v": values})
    made += [{"k": "tok", "t": first * S + i * S // 10, "r": 0, "x": "a"} for i in range(61)]
    made.append({"k": "end", "t": (first + 6) * S, "r": 0, "finish": "stop"})
    return made


Build = Callable[..., Session]


@pytest.fixture
def session_of() -> Build:
    """A session of these lines, through the real decoder."""

    def build(*told: Line) -> Session:
        session = Session()
        for line in told:
            event = codec.decode_lean(msgspec.json.encode(line))
            assert event is not None
            session.apply(event)
        return session

    return build


def lanes(session: Session) -> tuple[Any, ...]:
    run = session.run(0)
    at = session.runs[0].ends.items[0].t
    return Machine().lanes(session, Axis(S, S, 10), at, at, Worked(run, measure(session, run), 0))


def test_the_lanes_and_the_rows_are_the_far_gpu_s(session_of: Build) -> None:
    session = session_of(*session_lines())
    busy, memory = lanes(session)
    assert (busy.label, busy.number, busy.note) == ("GPU busy", "60", "NVML over ssh")
    assert memory.held == "6.00 GiB"
    of = Worked(session.run(0), measure(session, session.run(0)), 0)
    (row,) = rows_of(session, of, 11 * S, 11 * S)
    assert (row.name, row.used_bytes) == ("RTX 4090", 7 << 30)
    facts = facts_of(session, session.run(0), 11 * S)
    assert (facts.server, facts.device, facts.link) == ("Ollama", "NVIDIA GeForce RTX 4090", "over ssh")


def test_without_a_gpu_they_are_the_far_cpu_s(session_of: Build) -> None:
    session = session_of(*session_lines(gpu=False))
    cpu, memory = lanes(session)
    assert (cpu.full, cpu.number, cpu.note) == ("of 64", "40.00", "server 8.00")
    assert (memory.number, memory.unit) == ("100", "GiB")
    (row,) = rows_of(session, None, 11 * S, 11 * S)
    assert (row.name, row.used_bytes, row.total_bytes) == ("RAM", 100 << 30, 512 << 30)
    assert facts_of(session, session.run(0), 11 * S).device == "CPU"


def test_nothing_known_of_it_is_a_dash_and_never_this_machine_s(session_of: Build) -> None:
    session = session_of(*session_lines(far=False))
    assert [lane.number for lane in lanes(session)] == ["—", "—"]
    assert rows_of(session, None, 11 * S, 11 * S) == ()
    assert facts_of(session, session.run(0), 11 * S).device is None
    found = request_object(session, session.run(0), kept_as=None)
    assert (found["gpus"], found["host"]["cpu"]) == ([], None)
    assert found["host"]["phases"]["decode"]["cpu_percent"] is None
    assert found["unknown"]["gpus"] == found["unknown"]["host.phases.decode.cpu_percent"]
    assert "no shell answers there" in found["unknown"]["gpus"]


def test_figures_of_its_phases(session_of: Build) -> None:
    session = session_of(*session_lines())
    run = session.run(0)
    found = measure(session, run)
    assert found.host["decode"].cpu_percent == 4000
    assert found.host["decode"].server_cpu_percent == 800
    (gpu,) = found.gpus  # not the laptop's own card
    assert (gpu.phases["prefill"].sm_percent, gpu.phases["decode"].sm_percent) == (90, 60)
    assert found.roofline.ran.name == "NVIDIA GeForce RTX 4090"
    assert found.roofline.ran.host is not None
    assert found.roofline.ran.host.name == "EPYC"
    assert found.sources["latency.ttft_s"] == "client: over ssh, round trip 23.4 ms"
    assert any("over ssh, round trip 23.4 ms" in line for line in lines(session, run, None))


def test_a_phase_shorter_than_two_samples_has_no_mean(session_of: Build) -> None:
    session = session_of(*session_lines(prefill_s=1))
    found = measure(session, session.run(0))
    assert found.gpus[0].phases["prefill"].sm_percent is None
    assert found.host["prefill"].cpu_percent is None
    assert found.host["prefill"].server_rss_bytes == 6 << 30  # a level, which one sample tells
    assert found.unknown["host.phases.prefill.cpu_percent"] == found.unknown["gpus.phases.prefill.sm_percent"]
    assert found.gpus[0].phases["decode"].sm_percent == 60


@pytest.mark.parametrize(("cursor", "ms"), [(S // 2 - 1, None), (S, 23.4)])
def test_the_link_as_of_a_cursor(session_of: Build, cursor: int, ms: float | None) -> None:
    session = session_of(*session_lines())
    server = session.servers[0].at()
    assert link_ms(session, server, cursor) == ms
    assert machine_of(session, server).host.name == "box"
    assert machine_of(session, None).host.name == "here"
