"""Checks and sources of figures as pure functions of a session."""

from __future__ import annotations

from typing import Any

import pytest

from phasetop import events as ev
from phasetop.bandwidth_file import ReadTest
from phasetop.capabilities import (
    Check,
    Metric,
    by_section,
    checks_of,
    folded_checks,
    folded_metrics,
    metrics_of,
    section_of,
)
from phasetop.session import Session

GPM_NEEDS = "needs GPM: Hopper, or GeForce from Blackwell on"


def session(*events: ev.AnyEvent, stamps: str = "kernel", **host: Any) -> Session:
    made = Session()
    anchor = ev.Anchor(mono=0, wall=0)
    told: dict[str, Any] = {"cpu": "EPYC", "cores": 8, "ram_bytes": 16 << 30, **host}
    made.apply(
        ev.Hello(
            t=0,
            format=1,
            session="s",
            anchor=anchor,
            by="test",
            host=ev.Host(**told),
            pid=1,
            argv=[],
            stamps=stamps,
            redacted=False,
            kind="observe",
        )
    )
    for event in events:
        made.apply(event)
    return made


def check(of: Session, name: str, cursor: int = 1 << 60) -> Check:
    found = [each for each in checks_of(of, cursor) if each.id == name]
    assert len(found) == 1, name
    return found[0]


def metric(of: Session, name: str) -> Metric:
    return next(each for each in metrics_of(of) if each.name == name)


def gpu(d: int = 1, index: int = 0, **more: object) -> ev.Device:
    told = {"name": "NVIDIA H100 80GB HBM3", "mem_bytes": 80 << 30, "driver": "610.43", "uuid": f"GPU-{d}", **more}
    return ev.Device(t=1, d=d, vendor="nvidia", index=index, **told)  # type: ignore[arg-type]


def series(s: int, name: str, source: str, d: int = 1, **more: object) -> ev.Series:
    return ev.Series(t=2, s=s, d=d, name=name, source=source, **more)  # type: ignore[arg-type]


def test_a_gpu_with_gpm_is_ok() -> None:
    it = session(gpu(), series(0, "sm_percent", "GPM"), series(1, "dram_percent", "GPM"))
    found = check(it, "gpu-0")
    assert found.state == "ok"
    assert found.text == "NVIDIA H100 80GB HBM3, 80.0 GiB, driver 610.43, GPM: SM and DRAM are counted"
    assert metric(it, "gpu-0.dram_percent") == Metric("gpu-0.dram_percent", "GPM")
    assert "gpu" not in {each.id for each in checks_of(it)}


def test_a_gpu_without_gpm_is_limited_and_says_why() -> None:
    it = session(gpu(), series(0, "sm_percent", "NVML: share of time"), series(1, "dram_percent", "GPM", off=GPM_NEEDS))
    found = check(it, "gpu-0")
    assert found.state == "limited"
    assert f"DRAM bandwidth is not counted ({GPM_NEEDS})" in (found.text or "")
    assert metric(it, "gpu-0.dram_percent") == Metric("gpu-0.dram_percent", None, GPM_NEEDS)
    assert metric(it, "gpu-0.sm_percent").source == "NVML: share of time"
    assert "GPM counts busy SMs" in (metric(it, "gpu-0.sm_percent").why_not_better or "")


def test_what_the_driver_refuses_is_named_with_what_to_do() -> None:
    it = session(gpu(), series(0, "dram_percent", "GPM"), series(1, "power_w", "NVML", off="no permission"))
    found = check(it, "gpu-0")
    assert found.state == "limited"
    assert "not told: power_w" in (found.text or "")
    assert "/dev/nvidia*" in (found.todo or "")


def test_heat_that_holds_a_gpu_back_now() -> None:
    flags = {"4": "power cap", "32": "thermal (driver)"}
    hot = session(
        gpu(),
        series(0, "dram_percent", "GPM"),
        series(1, "throttle", "NVML", type="flags", flags=flags),
        ev.Smp(t=9, t0=3, v={"1": 36.0}),
    )
    assert check(hot, "gpu-0").state == "limited"
    assert "held back now: thermal (driver)" in (check(hot, "gpu-0").text or "")
    assert check(hot, "gpu-0", 8).state == "ok"  # before that reading
    capped = session(
        gpu(),
        series(0, "dram_percent", "GPM"),
        series(1, "throttle", "NVML", type="flags", flags=flags),
        ev.Smp(t=9, t0=3, v={"1": 4.0}),
    )
    assert check(capped, "gpu-0").state == "ok"


def test_slices_of_one_gpu_have_names_of_their_own() -> None:
    it = session(gpu(1, 0, uuid="MIG-1", name="H100 MIG 1g"), gpu(2, 0, uuid="MIG-2", name="H100 MIG 1g"))
    assert {each.id for each in checks_of(it) if section_of(each.id) == "GPUs"} == {"gpu-0", "gpu-1"}
    assert "a MIG slice" in (check(it, "gpu-1").text or "")


def test_no_gpu() -> None:
    assert check(session(), "gpu").state == "missing"


@pytest.mark.parametrize(
    ("host", "state", "todo"),
    [
        ({}, "ok", None),
        ({"cpu_quota_cores": 2.5}, "limited", "give a server here -t 2"),
        ({"cpu_quota_cores": 0.5}, "limited", "give a server here -t 1"),
        ({"cpu_quota_cores": 8.0}, "ok", None),
    ],
)
def test_the_quota_against_the_cores(host: dict[str, Any], state: str, todo: str | None) -> None:
    found = check(session(**host), "cpu")
    assert (found.state, found.todo) == (state, todo)


def test_memory_that_a_cgroup_limits() -> None:
    assert check(session(), "memory") == Check("memory", "ok", "16.0 GiB")
    limited = check(session(memory_limit_bytes=2 << 30), "memory")
    assert (limited.state, limited.text) == ("limited", "2.00 GiB of the machine's 16.0 GiB, by the cgroup")


def test_stamps() -> None:
    assert check(session(), "stamps").state == "ok"
    assert metric(session(), "token_stamps").source == "client: kernel"
    read = session(stamps="read")
    assert check(read, "stamps").state == "limited"
    assert metric(read, "token_stamps").source == "client: read"
    assert metric(read, "token_stamps").why_not_better


def test_rapl_and_bandwidth_follow_from_what_was_recorded() -> None:
    host = ev.Device(t=1, d=0, vendor="host", name="EPYC", mem_bytes=16 << 30)
    closed = session(host, ev.Series(t=2, s=0, name="energy_uj", source="RAPL", off="RAPL is readable by root only"))
    assert check(closed, "rapl").state == "limited"
    assert "chmod" in (check(closed, "rapl").todo or "")
    assert check(closed, "bandwidth").state == "missing"
    assert check(closed, "bandwidth").todo == "phasetop doctor --measure-bandwidth"
    peak = ev.Sourced(40e9, "estimate: read test of 2026-11-30, 8 threads")
    measured = session(host, ev.Device(t=3, d=0, peak_bytes_per_s=peak))
    assert check(measured, "bandwidth").state == "ok"
    assert "40.0 GB/s" in (check(measured, "bandwidth").text or "")
    assert metric(measured, "host.peak_bytes_per_s").value == 40e9
    test = ReadTest("EPYC", 2, 2, 48, 4e9, 1.9e9, 1.31e9, "2026-11-30")
    busy = check(session(host, ev.Device(t=3, d=0, peak_bytes_per_s=ev.Sourced(4e9, test.source))), "bandwidth")
    assert busy.state == "limited"
    assert "4.0 GB/s, perhaps more" in (busy.text or "")
    assert "measure again when the machine rests: phasetop doctor --measure-bandwidth" in (busy.todo or "")


def test_the_newest_finding_counts_as_of_the_cursor() -> None:
    it = session(
        ev.Finding(t=5, name="nvml", state="broken", text="not loaded"),
        ev.Finding(t=9, name="nvml", state="ok", text="driver 610.43"),
    )
    assert check(it, "nvml", 6).state == "broken"
    assert check(it, "nvml", 9).state == "ok"


def test_a_server_with_its_models_and_a_shell_command_for_the_start_screens_key() -> None:
    names = ["d", "c", "b", "a", "loaded-one"]
    models = [ev.Model(t=3, m=i, v=0, name=name, loaded=name == "loaded-one") for i, name in enumerate(names)]
    it = session(
        ev.Server(t=2, v=0, backend="ollama", url="http://127.0.0.1:11434"),
        *models,
        ev.Finding(t=4, name="ollama", state="ok", text="127.0.0.1:11434, 0.32.5, 5 models, 1 loaded", v=0),
    )
    assert (check(it, "ollama").text or "").endswith("1 loaded: loaded-one, d, c, b and 1 more")
    assert metric(it, "ollama.prefill_progress").source == "server: its runner's slots"
    off = session(ev.Finding(t=4, name="ollama", state="off", text="installed but not running", todo="o starts it"))
    assert check(off, "ollama").todo == "ollama serve"


def test_sections_are_in_order_and_hold_every_check() -> None:
    it = session(gpu(), ev.Finding(t=4, name="what nobody knows", state="ok"), ev.Finding(t=4, name="ollama", state="off"))
    found = checks_of(it)
    told = [(title, [each.id for each in here]) for title, here in by_section(found)]
    assert [title for title, _ in told] == ["servers", "GPUs", "counters", "machine"]
    assert sorted(name for _, names in told for name in names) == sorted(each.id for each in found)
    assert told[-1][1][-1] == "what nobody knows"


def test_gpus_of_one_kind_share_a_line() -> None:
    cards = [gpu(d, d - 1, uuid=f"GPU-{d}") for d in range(1, 9)]
    counted = [series(10 * d, "dram_percent", "GPM", d) for d in range(1, 9)]
    hot = series(99, "power_w", "NVML", 8, off="no permission")
    it = session(*cards, *counted, *(series(10 * d + 1, "power_w", "NVML", d) for d in range(1, 8)), hot)
    checks = folded_checks([each for each in checks_of(it) if each.id.startswith("gpu-")])
    assert [each.id for each in checks] == ["gpu-0…6", "gpu-7"]
    names = [each.name for each in folded_metrics(metrics_of(it))]
    assert "gpu-*.dram_percent" in names
    assert "gpu-7.power_w" in names
    assert "gpu-*.power_w" not in names
    one = session(gpu(), series(0, "dram_percent", "GPM"))
    assert "gpu-0.dram_percent" in [each.name for each in folded_metrics(metrics_of(one))]


def test_a_clock_that_stepped_in_this_session() -> None:
    steps = [ev.Notice(t=5 + n, code="clock-step", level="warn", text="the clock moved") for n in range(2)]
    it = session(ev.Finding(t=4, name="clock", state="ok", text="source tsc"), *steps)
    assert check(it, "clock", 4).state == "ok"
    assert check(it, "clock").text == "source tsc; the wall clock was set, or the machine slept, 2 times in this session"


def elsewhere(backend: str = "llamacpp", **more: Any) -> Session:
    """A session whose server is on another machine, and this machine's own counters."""
    it = session(
        ev.Server(t=1, v=0, backend=backend, url="http://box:8080", version="b1", local=False, **more),
        ev.Model(t=1, m=0, v=0, name="tiny", hparams={"llama.block_count": 1}),
        ev.State(t=2, v=0, s="ready"),
        ev.Device(t=1, d=0, name="EPYC", peak_bytes_per_s=ev.Sourced(20e9, "estimate: read test")),
        gpu(),
        series(0, "cpu_cores_used", "psutil", d=0),
        series(1, "power_w", "NVML"),
    )
    assert it.hello is not None
    it.hello.kind = "observe"
    return it


def test_of_a_server_elsewhere_it_is_told_what_cannot_be_measured() -> None:
    it = elsewhere()
    assert check(it, "server") == Check("server", "ok", "llamacpp b1 at http://box:8080, on another machine: tiny")
    told = {each.name: each for each in metrics_of(it)}
    assert told["token_stamps"].source == "client: kernel"
    assert "the way to the server is in them" in (told["token_stamps"].why_not_better or "")
    for name in ("cpu_cores_used", "gpu-0.power_w", "host.peak_bytes_per_s"):
        assert told[name].source is not None
        assert told[name].why_not_better == "of this machine, not of the server's"
    for name in ("server_cpu_cores", "server.peak_bytes_per_s", "server.peak_flops"):
        assert told[name].source is None
        assert "ssh://" in (told[name].why_not_better or "")
    assert told["llamacpp.prefill_progress"].source is not None  # its stream tells it anywhere
    assert len({each.name for each in metrics_of(it)}) == len(metrics_of(it))


def test_an_ollama_elsewhere_hides_its_runner() -> None:
    told = {each.name: each for each in metrics_of(elsewhere("ollama"))}
    for name in ("prefill_progress", "cached_tokens"):
        assert told[f"ollama.{name}"].source is None
        assert "its runner" in (told[f"ollama.{name}"].why_not_better or "")
    assert told["ollama.kv_tokens"].source == "server: the counts of its last line"


def test_over_ssh_nothing_is_said_of_this_machine() -> None:
    it = elsewhere(over="ssh")
    assert check(it, "server").text == "llamacpp b1 at http://box:8080, over ssh: tiny"
    assert metric(it, "cpu_cores_used").why_not_better is None
    assert "server.peak_flops" not in {each.name for each in metrics_of(it)}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (ev.State(t=2, v=0, s="gone", why="nothing listens there"), Check("server", "broken", "nothing listens there")),
        (ev.State(t=2, v=0, s="loading"), Check("server", "limited", "it is loading its model")),
    ],
)
def test_a_server_that_is_not_reached_yet(state: ev.State, expected: Check) -> None:
    assert check(session(state), "server") == expected


def test_a_cache_of_an_unknown_architecture_has_no_bytes() -> None:
    it = elsewhere()
    it.models.clear()
    it.apply(ev.Model(t=3, m=0, v=0, name="tiny"))
    assert metric(it, "llamacpp.kv_bytes").source is None
    assert "server" not in {each.id for each in checks_of(session())}
