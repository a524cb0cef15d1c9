"""The collector's side of NVML: events of a session, a child that hangs or crashes, and a whole run's JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from phasetop import events as ev
from phasetop.backends import nvml
from phasetop.backends.gpu_presence import nvidia_is_here
from phasetop.backends.nvml import NvmlSampler
from phasetop.backends.nvml_peaks import Peak, board_of, peak_of, slice_of
from phasetop.backends.nvml_quantity import age_s
from phasetop.backends.nvml_use import Place, family, in_namespace, process_of, ruled_out, visible
from phasetop.backends.recorder import Recorder
from phasetop.output import to_json
from phasetop.recording import load
from phasetop.report import request_object
from phasetop.session import Session

if TYPE_CHECKING:
    from tests.backends.gpu.conftest import FakeNvml
    from tests.conftest import Collected, Home, Metronome, Spawn

Beat = Callable[..., "Metronome"]
Collect = Callable[..., "Collected"]


class Sampled:
    """A sampler that writes a session, on the false library."""

    def __init__(self, fake: FakeNvml, folder: Path, pipe: int, **options: Any) -> None:
        self.file = folder / "s.phasetop"
        self.recorder = Recorder(self.file, pipe)
        self.recorder.open("s", [], "run", ev.Host())
        child = [sys.executable, "-P", "-m", nvml.CHILD, "--root", str(fake.root)]
        settings = [f"{name}={fake.env[name]}" for name in ("LD_LIBRARY_PATH", "FAKE_NVML", "FAKE_NVML_CALLS")]
        self.sampler = NvmlSampler(self.recorder, ["env", *settings, *child], **options)
        self.recorder.listen(self.sampler.seen)
        self.sampler.start()

    def until(self, done: Callable[[Session], object], limit_s: float = 30.0) -> Session:
        end = time.monotonic() + limit_s
        while True:
            session = load(self.file)
            if done(session):
                return session
            if time.monotonic() > end:
                pytest.fail("it did not come: " + self.file.read_text()[-2000:])
            time.sleep(0.05)

    def close(self) -> Session:
        self.sampler.stop()
        self.recorder.close("done")
        return load(self.file)


@pytest.fixture
def sampled(fake: FakeNvml, tmp_path: Path) -> Iterator[Callable[..., Sampled]]:
    made: list[Sampled] = []
    read, write = os.pipe()
    os.set_blocking(write, False)

    def make(**options: Any) -> Sampled:
        made.append(Sampled(fake, tmp_path, write, **options))
        return made[-1]

    yield make
    for one in made:
        one.sampler.stop()
    os.close(read)
    os.close(write)


def values(session: Session, name: str, d: int = 1) -> list[float]:
    samples = session.series(name, d=d)
    return [] if samples is None else list(samples.value)


def users(session: Session) -> list[list[int] | None]:
    found = [versions.at() for d, versions in sorted(session.devices.items()) if d]
    return [device.used_by for device in found if device is not None]


def codes(session: Session) -> list[str]:
    return [notice.code for notice in session.notices.items]


def test_devices_series_and_samples(fake: FakeNvml, sampled: Callable[..., Sampled]) -> None:
    fake.set({"gpus": 2, "gpm": 1, "power.mw": 300000})
    one = sampled()
    one.until(lambda session: values(session, "sm_percent", 2))
    session = one.close()
    first, second = (session.devices[d].at() for d in (1, 2))
    assert first is not None
    assert second is not None
    assert (first.vendor, first.uuid, second.uuid, first.driver) == ("nvidia", "GPU-fake-0", "GPU-fake-1", "610.43")
    assert first.peak_bytes_per_s == ev.Sourced(3.35232e12, "NVML: bus 5120 bit x 2619 MHz")
    assert set(values(session, "sm_percent", 2)) == {98.25}
    assert set(values(session, "power_w")) == {300.0}
    throttle = session.series("throttle", d=1)
    assert throttle is not None
    info = throttle.info.at()
    assert info is not None
    assert (info.type, (info.flags or {})["4"], info.source) == ("flags", "power cap", "NVML")
    lines = [json.loads(line) for line in one.file.read_text().splitlines()]
    energy = session.series("energy_uj", d=1)
    assert energy is not None
    number = next(s for s, samples in session.samples.items() if samples is energy)
    assert all(isinstance(line["v"][str(number)], int) for line in lines if str(number) in line.get("v", {}))


def test_borders_of_a_request_give_exact_means(fake: FakeNvml, sampled: Callable[..., Sampled]) -> None:
    fake.set({"gpm": 1})
    one = sampled()
    one.until(lambda session: values(session, "sm_percent"))
    recorder = one.recorder
    recorder.emit(ev.State(t=recorder.now(), s="sent", r=0))
    count = len(values(load(one.file), "sm_percent"))
    one.until(lambda session: len(values(session, "sm_percent")) > count + 2)
    recorder.emit(ev.Tok(t=recorder.now(), r=0, x="a"), ev.Tok(t=recorder.now(), r=0, x="b"))
    one.until(lambda session: any(smp.phase == "prefill" for smp in session.phase_samples.items))
    recorder.emit(ev.End(t=recorder.now(), r=0, finish="stop"))
    session = one.close()
    prefill = session.phase_samples.items[0]
    assert (prefill.r, prefill.phase) == (0, "prefill")
    assert set(prefill.v.values()) == {98.25, 61.5}


def test_a_hang_ends_only_the_child(fake: FakeNvml, sampled: Callable[..., Sampled]) -> None:
    one = sampled(silence_s=1.0, backoff_s=0.05)
    one.until(lambda session: values(session, "sm_percent"))
    fake.set({"hang.nvmlDeviceGetPowerUsage": 1, "hang.nvmlDeviceGetFieldValues": 1})
    one.until(lambda session: "gpu-silent" in codes(session))
    fake.set({"hang.nvmlDeviceGetPowerUsage": None, "hang.nvmlDeviceGetFieldValues": None, "energy.mj": -1e9})
    before = len(values(load(one.file), "sm_percent"))
    counted = len(values(load(one.file), "energy_uj"))
    one.until(lambda session: len(values(session, "sm_percent")) > before)
    one.until(lambda session: len(values(session, "energy_uj")) > counted + 1)  # the driver began to count anew
    session = one.close()
    assert set(session.devices) == {1}  # found again by its UUID
    assert len([s for s in session.samples.values() if (info := s.info.at()) and info.name == "sm_percent"]) == 1
    energy = values(session, "energy_uj")
    assert energy == sorted(energy)


def test_a_crash_of_the_library_ends_only_the_child(fake: FakeNvml, sampled: Callable[..., Sampled]) -> None:
    one = sampled(backoff_s=0.05)
    one.until(lambda session: values(session, "sm_percent"))
    fake.set({"crash.nvmlDeviceGetUtilizationRates": 1})
    session = one.until(lambda session: "gpu-sampler" in codes(session))
    text = next(notice.text for notice in session.notices.items if notice.code == "gpu-sampler")
    assert "signal 6" in text
    fake.set({"crash.nvmlDeviceGetUtilizationRates": None})
    before = len(values(load(one.file), "sm_percent"))
    one.until(lambda session: len(values(session, "sm_percent")) > before)


def test_a_crash_that_goes_on_is_told_three_times(fake: FakeNvml, sampled: Callable[..., Sampled]) -> None:
    fake.set({"crash.nvmlInitWithFlags": 1})
    one = sampled(backoff_s=0.001)
    one.until(lambda _: fake.calls().count("nvmlInitWithFlags") >= 6)
    assert codes(one.close()).count("gpu-sampler") == 3


def test_no_library_starts_no_second_child(fake: FakeNvml, sampled: Callable[..., Sampled]) -> None:
    fake.env["LD_LIBRARY_PATH"] = ""
    one = sampled(backoff_s=0.001)
    session = one.until(lambda session: session.findings.items)
    assert session.findings.items[0].state == "missing"
    one.sampler._thread.join(5)
    assert not one.sampler._thread.is_alive()
    assert codes(session) == []


def test_which_server_uses_it(fake: FakeNvml, sampled: Callable[..., Sampled]) -> None:
    fake.set({"gpus": 2, "pid.0": os.getpid()})
    one = sampled()
    one.sampler._namespace = False
    one.sampler.watch(os.getpid(), 0)
    session = one.until(lambda s: None not in users(s) and len(users(s)) == 2)
    assert users(session) == [[0], []]


def test_in_a_container_it_is_not_told_who_uses_it(fake: FakeNvml, sampled: Callable[..., Sampled]) -> None:
    fake.set({"pid": 1})
    one = sampled()
    one.sampler._namespace = True
    one.sampler.watch(os.getpid(), 0)
    one.until(lambda session: values(session, "sm_percent"))
    info = one.close().devices[1].at()
    assert info is not None
    assert info.used_by in (None, [])  # [] where it can be ruled out: no device file is open


def test_a_run_tells_its_gpu(fake: FakeNvml, collect: Collect, metronome: Beat, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.set({"gpm": 1, "power.mw": 350000, "reasons": 4})
    for name in ("LD_LIBRARY_PATH", "FAKE_NVML"):
        monkeypatch.setenv(name, fake.env[name])
    one = collect(metronome(rate=50, tokens=60, prefill_ms=900, prompt=40).url)
    one.until(lambda session: values(session, "sm_percent") and values(session, "power_w"))
    run = one.ended(one.ask())
    one.lifeline.close()
    told = json.loads(to_json(request_object(one.session, run, kept_as=None), compact=True))
    (gpu,) = told["gpus"]
    assert (gpu["index"], gpu["uuid"], gpu["name"]) == (0, "GPU-fake-0", "NVIDIA H100 80GB HBM3")
    assert gpu["memory_total_bytes"] == 85520809984
    assert gpu["memory_used_bytes"] == 5_000_000_000
    assert gpu["peak_bandwidth_bytes_per_s"] == 3.35232e12
    for name in ("prefill", "decode"):
        phase = gpu["phases"][name]
        assert (phase["sm_percent"], phase["dram_percent"], phase["sm_mhz"]) == (98.2, 61.5, 1755)
        assert phase["power_w"] == 350.0
        assert phase["throttled"] == ["power cap"]
        assert phase["temperature_c"] == 61
        # The false GPU's counter goes up by its power in W, times the time.
        assert phase["energy_j"] == pytest.approx(350 * told["phases"][f"{name}_s"], rel=0.2)
        assert phase["coverage_percent"] > 80
    assert "gpus" not in told["unknown"]
    assert told["sources"]["gpus.phases.decode.sm_percent"] == "GPM"


def test_a_phase_that_is_shorter_than_the_energy_counters_step_has_no_energy(
    fake: FakeNvml, sampled: Callable[..., Sampled]
) -> None:
    fake.set({"power.mw": 350000})
    one = sampled()
    one.until(lambda session: len(values(session, "energy_uj")) > 1)
    recorder = one.recorder
    sent = recorder.now()
    recorder.emit(
        ev.Server(t=sent, v=0, backend="llamacpp", local=True), ev.Request(t=sent, r=0, v=0, api="raw", prompt="x")
    )
    recorder.emit(ev.State(t=sent, s="sent", r=0, at=sent), ev.State(t=sent, s="headers", r=0))
    recorder.emit(ev.Tok(t=sent + 60_000_000, r=0, x="a"))  # a prefill of 60 ms, whenever it is written
    count = len(values(load(one.file), "energy_uj"))
    one.until(lambda session: len(values(session, "energy_uj")) > count + 3)
    last = recorder.now()
    recorder.emit(ev.Tok(t=last, r=0, x="b"), ev.End(t=last, r=0, finish="stop"))
    session = one.close()
    device = session.devices[1].at()
    assert device is not None
    session.apply(ev.Device(t=device.t, d=1, used_by=[0]))
    told = json.loads(to_json(request_object(session, session.runs[0], kept_as=None), compact=True))
    phases = told["gpus"][0]["phases"]
    assert told["phases"]["prefill_s"] == 0.06
    assert phases["prefill"]["energy_j"] is None
    assert told["unknown"]["gpus.phases.prefill.energy_j"] == "the phase is too short for the energy counter"
    assert told["energy"]["prefill_j"] is None
    assert told["unknown"]["energy.prefill_j"] == "the phase is too short for the energy counter"
    # The false GPU's counter goes up by its power in W, times the time.
    assert phases["decode"]["energy_j"] == pytest.approx(350 * told["phases"]["decode_s"], rel=0.3)
    assert told["energy"]["decode_j"] == phases["decode"]["energy_j"]


def test_nvidia_is_here(tmp_path: Path) -> None:
    assert not nvidia_is_here(tmp_path, {})
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/ld.so.cache").write_bytes(b"glibc-ld.so.cache1.1\0libnvidia-ml.so.1\0")
    assert nvidia_is_here(tmp_path, {})
    other = tmp_path / "other"
    other.mkdir()
    assert not nvidia_is_here(other, {"LD_LIBRARY_PATH": f"/nowhere:{other}"})
    (other / "libnvidia-ml.so.1").touch()
    assert nvidia_is_here(other, {"LD_LIBRARY_PATH": f"/nowhere:{other}"})


@pytest.mark.parametrize(
    ("name", "bits", "mhz", "gb_per_s"),
    [  # the makers' datasheets
        ("NVIDIA GeForce RTX 3090", 384, 9751, 936),
        ("NVIDIA GeForce RTX 4090", 384, 10501, 1008),
        ("NVIDIA GeForce RTX 5090", 512, 14001, 1792),
        ("NVIDIA A100-SXM4-40GB", 5120, 1215, 1555),
        ("Tesla T4", 256, 5001, 320),
        ("NVIDIA GeForce GTX 1080 Ti", 352, 5505, 484),
        ("NVIDIA H200", 6144, 3201, 4800),
        ("NVIDIA B200", 8192, 3996, 8000),
        ("NVIDIA GB10", 0, None, 273),
    ],
)
def test_peaks_are_the_datasheets(name: str, bits: int, mhz: int | None, gb_per_s: float) -> None:
    peak = peak_of(name, bits, mhz)
    assert peak.bytes_per_s == pytest.approx(gb_per_s * 1e9, rel=0.002)
    assert peak.source.startswith(("NVML: ", "assumed: "))


def test_peaks_that_are_not_told() -> None:
    assert peak_of("GRID A100", None, 1215).bytes_per_s is None
    assert peak_of("NVIDIA X", 0, 0).bytes_per_s is None
    for board, value in (("AGX Orin", 204.8e9), ("Orin NX", 102.4e9), ("Orin Nano", None), (None, None)):
        assert peak_of("Orin (nvgpu)", None, None, board).bytes_per_s == value, board
    assert peak_of("NVIDIA X", 1 << 20, 9000).bytes_per_s is None
    assert slice_of(Peak(None, "not told"), 1, 8).bytes_per_s is None
    assert slice_of(Peak(8.0, "NVML"), 19, 80) == Peak(2.0, "estimate: 2 of 8 memory slices, NVML")


def test_the_nearest_clock_is_meant() -> None:
    clocks = (1_796_000_000.0, 50_000.0, 40_000.0)  # wall, boot, monotonic
    assert age_s(1_795_999_998_000_000, clocks) == pytest.approx(2.0)
    assert age_s(49_999_000_000, clocks) == pytest.approx(1.0)
    assert age_s(39_999_500_000, clocks) == pytest.approx(0.5)
    assert age_s(0, clocks) is None
    assert age_s(900_000_000_000_000, clocks) is None


GPUS = [Place("GPU-af7b61d8-1", "0000:02:00.0", 1), Place("GPU-bb", "0000:01:00.0", 0)]
FIRST, SECOND = "GPU-bb", "GPU-af7b61d8-1"  # by PCI address


@pytest.mark.parametrize(
    ("value", "order", "want"),
    [  # CUDA C programming guide: CUDA environment variables
        (None, None, None),
        ("", None, set()),
        ("-1", None, set()),
        ("0", None, None),  # the fastest: not ours to say
        ("0", "PCI_BUS_ID", {FIRST}),
        ("1,0", "PCI_BUS_ID", {FIRST, SECOND}),
        ("1,-1,0", "PCI_BUS_ID", {SECOND}),
        ("7,0", "PCI_BUS_ID", set()),
        ("GPU-af7b61d8", None, {SECOND}),
        ("GPU-nobody", None, set()),
        ("MIG-x", None, set()),
    ],
)
def test_cuda_visible_devices(value: str | None, order: str | None, want: set[str] | None) -> None:
    assert visible(value, order, GPUS) == want


def process(root: Path, pid: int, environ: bytes, *links: str) -> None:
    folder = root / "proc" / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "environ").write_bytes(environ)
    for i, link in enumerate(links):
        (folder / "fd" / str(i)).symlink_to(link)


def test_what_can_be_ruled_out(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    process(tmp_path, 1, b"A=1\0", "/dev/nvidiactl", "/dev/nvidia0", "/dev/null")
    assert ruled_out([1], GPUS, tmp_path) == frozenset()  # a GPU without a file of its own: WSL
    for minor in (0, 1):
        (tmp_path / f"dev/nvidia{minor}").touch()
    assert ruled_out([1], GPUS, tmp_path) == {SECOND}
    process(tmp_path, 2, b"CUDA_VISIBLE_DEVICES=GPU-af7b61d8\0", "/dev/nvidia0", "/dev/nvidia1")
    assert ruled_out([2], GPUS, tmp_path) == {FIRST}
    process(tmp_path, 3, b"CUDA_VISIBLE_DEVICES=-1\0", "/dev/nvidia0", "/dev/nvidia1")
    assert ruled_out([3], GPUS, tmp_path) == {FIRST, SECOND}
    assert ruled_out([1, 2], GPUS, tmp_path) == frozenset()  # what one cannot, another can
    assert ruled_out([9], GPUS, tmp_path) == frozenset()  # not ours to look at


def test_an_id_that_is_given_again_is_another_process(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    child = spawn([sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"], stdout=subprocess.PIPE)
    process = process_of(child.pid)
    assert family(process) == {child.pid}
    assert child.pid in family(process_of(os.getpid()))
    monkeypatch.setattr(psutil.Process, "is_running", lambda self: False)  # what psutil says where the start time differs
    assert family(process) == frozenset()
    child.kill()
    child.wait()
    assert family(process_of(child.pid)) == frozenset()


def test_namespace(tmp_path: Path) -> None:
    assert in_namespace(tmp_path) is False


def test_the_library_s_folder_is_named_where_the_loader_does_not_know_it(tmp_path: Path) -> None:
    assert nvml.child_environ({"A": "b"}, tmp_path) == {"A": "b"}
    folder = tmp_path / "run/opengl-driver/lib"
    folder.mkdir(parents=True)
    (folder / "libnvidia-ml.so.1").touch()
    assert nvidia_is_here(tmp_path, {})
    assert nvml.child_environ({}, tmp_path) == {"LD_LIBRARY_PATH": str(folder)}
    assert nvml.child_environ({"LD_LIBRARY_PATH": "/x"}, tmp_path)["LD_LIBRARY_PATH"] == f"/x:{folder}"


def test_the_collector_s_death_is_the_child_s(fake: FakeNvml, spawn: Spawn, tmp_path: Path) -> None:
    script = (
        "import os, sys, time; from pathlib import Path; from phasetop import events as ev\n"
        "from phasetop.backends.nvml import NvmlSampler; from phasetop.backends.recorder import Recorder\n"
        "recorder = Recorder(Path(sys.argv[1]), 1); recorder.open('s', [], 'run', ev.Host())\n"
        "NvmlSampler(recorder).start(); time.sleep(60)"
    )
    process = spawn([sys.executable, "-P", "-c", script, str(tmp_path / "k.phasetop")], env=fake.env)
    end = time.monotonic() + 30
    while "nvmlDeviceGetUtilizationRates" not in fake.calls():
        assert time.monotonic() < end
        time.sleep(0.02)
    (child,) = psutil.Process(process.pid).children()
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs([child], timeout=10)
    assert not [each for each in alive if each.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize(
    ("values", "state", "words", "metric"),
    [
        ({"gpm": 1}, "ok", "GPM: SM and DRAM are counted", ("GPM", None)),
        ({}, "limited", "DRAM bandwidth is not counted", (None, "needs GPM: Hopper, or GeForce from Blackwell on")),
        ({"gpm": 1, "fail.nvmlGpmSampleGet": 4}, "limited", "GPM: no permission", (None, "GPM: no permission")),
    ],
)
def test_the_doctor_names_the_gpu_and_what_is_counted(
    fake: FakeNvml,
    state_home: Home,
    values: dict[str, object],
    state: str,
    words: str,
    metric: tuple[str | None, str | None],
) -> None:
    fake.set(values)
    env = {**state_home.env, **{name: fake.env[name] for name in ("LD_LIBRARY_PATH", "FAKE_NVML", "FAKE_NVML_CALLS")}}
    argv = [sys.executable, "-P", "-m", "phasetop", "doctor", "--json"]
    told = json.loads(subprocess.run(argv, env=env, capture_output=True, check=True, timeout=60).stdout)
    checks = {check["id"]: check for check in told["checks"]}
    assert (checks["gpu-0"]["state"], checks["nvml"]["state"]) == (state, "ok")
    assert checks["gpu-0"]["text"].startswith("NVIDIA H100 80GB HBM3, ")
    assert words in checks["gpu-0"]["text"]
    assert checks["nvml"]["text"] == "driver 610.43, NVML 13.610.43, 1 GPU"
    dram = next(each for each in told["metrics"] if each["name"] == "gpu-0.dram_percent")
    assert (dram["source"], dram["why_not_better"]) == metric


@pytest.mark.parametrize(
    ("code", "words"), [(9, "not loaded"), (18, "upgraded and not reloaded"), (4, "no permission"), (999, "gone or broken")]
)
def test_the_doctor_calls_a_driver_that_cannot_be_read_broken(
    fake: FakeNvml, state_home: Home, code: int, words: str
) -> None:
    fake.set({"fail.nvmlInitWithFlags": code})
    env = {**state_home.env, **{name: fake.env[name] for name in ("LD_LIBRARY_PATH", "FAKE_NVML", "FAKE_NVML_CALLS")}}
    argv = [sys.executable, "-P", "-m", "phasetop", "doctor", "--json"]
    ran = subprocess.run(argv, env=env, capture_output=True, check=False, timeout=60)
    assert ran.returncode == 1
    nvml_check = next(check for check in json.loads(ran.stdout)["checks"] if check["id"] == "nvml")
    assert nvml_check["state"] == "broken"
    assert words in nvml_check["text"]
    assert nvml_check["todo"]


def test_the_board_of_an_orin_is_its_device_trees(tmp_path: Path) -> None:
    assert board_of(tmp_path) is None
    (tmp_path / "proc/device-tree").mkdir(parents=True)
    for model, board in (
        ("NVIDIA Jetson AGX Orin Developer Kit\0", "AGX Orin"),
        ("NVIDIA Jetson Orin NX Engineering Reference Developer Kit Super\0", "Orin NX"),
        ("NVIDIA Jetson Orin Nano Developer Kit\0", "Orin Nano"),
        ("Raspberry Pi 5\0", None),
    ):
        (tmp_path / "proc/device-tree/model").write_text(model)
        assert board_of(tmp_path) == board
