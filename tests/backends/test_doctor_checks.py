"""What the doctor looks at: the machine and its programs over false roots, servers that want a key or load."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from phasetop import events as ev
from phasetop import places
from phasetop.backends import discover, gpu_checks, machine_checks, software_checks
from phasetop.backends.cgroup import container_of
from phasetop.backends.recorder import Recorder
from phasetop.backends.samplers import Samplers
from phasetop.capabilities import checks_of
from phasetop.display import Display
from phasetop.keeper import Keeper
from phasetop.lifeline import Start
from phasetop.plan import Plan
from phasetop.recording import load

if TYPE_CHECKING:
    from tests.conftest import Collected, Home

CLOCK = "sys/devices/system/clocksource/clocksource0"


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def ticking(step_ns: int) -> Callable[[], int]:
    now = [0]

    def read() -> int:
        now[0] += step_ns
        return now[0]

    return read


@pytest.mark.parametrize(
    ("source", "step_ns", "state"),
    [
        ("tsc", 40, "ok"),
        ("kvm-clock", 60, "ok"),
        ("hpet", 40, "limited"),
        ("tsc", 1500, "limited"),
        ("acpi_pm", 900, "limited"),
    ],
)
def test_the_clock(tmp_path: Path, source: str, step_ns: int, state: str) -> None:
    write(tmp_path, {f"{CLOCK}/current_clocksource": source, f"{CLOCK}/available_clocksource": "hpet tsc acpi_pm"})
    found = machine_checks.clock(tmp_path, ticking(step_ns))
    assert found.state == state
    assert f"source {source}" in (found.text or "")
    assert (found.todo is not None) == (state == "limited" and source != "tsc")


def test_this_machines_clock_steps_in_less_than_a_millisecond() -> None:
    assert machine_checks.clock().text


@pytest.mark.parametrize(
    ("used", "total", "state"),
    [(0, 0, "ok"), (0, 8 << 30, "ok"), (1 << 20, 8 << 30, "ok"), (2 << 30, 8 << 30, "limited")],
)
def test_swap(used: int, total: int, state: str) -> None:
    assert machine_checks.swap(used, total).state == state


@pytest.mark.parametrize(
    ("cores", "allowed", "quota", "todo"),
    [(8, 8, None, None), (8, 2, None, "give a server here -t 2"), (8, 4, 2.0, None), (8, 2, 4.0, "give a server here -t 2")],
)
def test_the_affinity(cores: int, allowed: int, quota: float | None, todo: str | None) -> None:
    found = machine_checks.affinity(cores, allowed, quota)
    assert (found.todo if found is not None else None) == todo


def test_ssh() -> None:
    assert machine_checks.ssh("/usr/bin/ssh").state == "ok"
    assert machine_checks.ssh(None).state == "missing"


@pytest.mark.parametrize(("ms", "state"), [(None, None), ("0", "ok"), ("999", "ok"), ("60000", "limited")])
def test_heat(tmp_path: Path, ms: str | None, state: str | None) -> None:
    if ms is not None:
        write(tmp_path, {"sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_total_time_ms": ms})
    found = machine_checks.heat(tmp_path)
    assert (found.state if found is not None else None) == state


@pytest.mark.parametrize(
    ("options", "state"),
    [("rw,nosuid", "ok"), ("rw,hidepid=0", "ok"), ("rw,hidepid=2,gid=4", "limited"), ("rw,hidepid=invisible", "limited")],
)
def test_hidden_processes(tmp_path: Path, options: str, state: str) -> None:
    write(tmp_path, {"proc/self/mounts": f"sysfs /sys sysfs rw 0 0\nproc /proc proc {options} 0 0\n"})
    found = machine_checks.processes(tmp_path)
    assert found is not None
    assert found.state == state


def test_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "state"
    assert machine_checks.disk(folder).state == "ok"
    assert list(folder.iterdir()) == []  # the trial file went
    monkeypatch.setattr(places, "lock", lambda fd: True)
    assert "without locks" in (machine_checks.disk(folder).text or "")
    monkeypatch.undo()
    monkeypatch.setattr(machine_checks, "FULL_BYTES", 1 << 60)
    assert machine_checks.disk(folder).state == "limited"
    (tmp_path / "file").write_text("")
    assert machine_checks.disk(tmp_path / "file" / "state").state == "broken"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_state_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert machine_checks.disk(tmp_path / "state").state == "broken"


# ---- programs


def versions(**other: str | None) -> Callable[[str], str | None]:
    good = {"textual": "8.2.8", "httpx": "0.28.1", "httpcore": "1.0.9", "msgspec": "0.20", "psutil": "7.0"}
    found = {**good, "nvidia-ml-py": "13.580.65", "plotext": "6.1.0", **other}
    return found.get


@pytest.mark.parametrize(
    ("other", "state", "words"),
    [
        ({}, "ok", "httpx 0.28.1"),
        ({"xllamacpp": "2026.10"}, "ok", "xllamacpp 2026.10"),
        ({"plotext": None}, "broken", "missing: plotext"),
        ({"httpx": "0.29.0"}, "limited", "made for 0.28"),
        ({"httpx": "0.280.1"}, "limited", "made for 0.28"),
        ({"nvidia-ml-py": "12.535.161"}, "limited", "older than 12.560"),
    ],
)
def test_libraries(other: dict[str, str | None], state: str, words: str) -> None:
    found = software_checks.libraries(versions(**other))
    assert found.state == state
    assert words in (found.text or "")


def test_those_that_are_installed_here_are_fine() -> None:
    assert software_checks.libraries().state == "ok"
    assert software_checks.pynvml(nvidia=lambda: True) is None
    assert software_checks.python().state == "ok"


@pytest.mark.parametrize(
    ("version", "file", "nvidia", "state"),
    [
        (None, "/site/pynvml.py", True, None),  # nvidia-ml-py's own
        ("11.5.3", "/site/pynvml/__init__.py", True, "broken"),
        ("11.5.3", "/site/pynvml/__init__.py", False, "limited"),  # no GPU here: nothing is lost
        (None, "/site/pynvml/__init__.py", True, "broken"),
        ("13.0.1", "/site/pynvml.py", True, "limited"),  # only warns
    ],
)
def test_two_packages_called_pynvml(version: str | None, file: str, nvidia: bool, state: str | None) -> None:
    found = software_checks.pynvml(lambda name: version, lambda name: file, lambda: nvidia)
    assert (found.state if found is not None else None) == state
    assert found is None or "pip uninstall pynvml" in (found.todo or "")


# ---- GPUs that nothing reads


def test_a_container_without_its_gpu(tmp_path: Path) -> None:
    assert gpu_checks.unread(tmp_path) is None
    text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 07:00:00 UTC 2025\n"
    write(tmp_path, {"proc/driver/nvidia/version": text})
    found = gpu_checks.unread(tmp_path, container=True)
    assert found is not None
    assert (found.id, found.state) == ("nvml", "missing")
    assert "580.65.06" in (found.text or "")
    assert "--gpus" in (found.todo or "")
    assert "--gpus" not in (getattr(gpu_checks.unread(tmp_path), "todo", None) or "")
    write(tmp_path, {"dev/nvidiactl": ""})
    assert gpu_checks.unread(tmp_path) is None  # its sampler has the word


def test_a_card_without_a_driver_and_an_intel_one(tmp_path: Path) -> None:
    nvidia = write(
        tmp_path / "a",
        {"sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de", "sys/bus/pci/devices/0000:01:00.0/class": "0x030200"},
    )
    found = gpu_checks.unread(nvidia)
    assert found is not None
    assert "no driver is loaded" in (found.text or "")
    intel = write(tmp_path / "b", {"sys/class/drm/card0/device/vendor": "0x8086\n"})
    other = gpu_checks.other_vendors(intel)
    assert other is not None
    assert (other.id, other.state) == ("gpu", "limited")
    write(intel, {"sys/class/drm/card1/device/vendor": "0x1002\n"})
    assert gpu_checks.other_vendors(intel) is None


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({}, None),
        ({".dockerenv": ""}, "docker"),
        ({"run/.containerenv": ""}, "podman"),
        ({"run/systemd/container": "systemd-nspawn\n"}, "systemd-nspawn"),
        ({"run/systemd/container": "\x1b[2J\n"}, None),
        ({".dockerenv": "", "var/run/secrets/kubernetes.io/serviceaccount/token": ""}, "kubernetes"),
    ],
)
def test_containers(tmp_path: Path, files: dict[str, str], name: str | None) -> None:
    assert container_of(write(tmp_path, files)) == name


# ---- servers

Answers = dict[str, tuple[int, Any]]


@pytest.fixture
def serve() -> Iterator[Callable[[Answers], str]]:
    """A server that answers as told; returns its address."""
    running: list[ThreadingHTTPServer] = []

    def start(answers: Answers) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, value = answers.get(self.path, (404, {}))
                body = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        running.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


MODELS = {"data": [{"id": "m.gguf", "meta": {"size": 5, "n_ctx_train": 2048}}]}


@pytest.mark.parametrize(
    ("answers", "state", "words", "models"),
    [
        (
            {"/health": (200, {}), "/v1/models": (200, MODELS), "/props": (200, {"build_info": "b10434-0abc"})},
            *("ok", "b10434-0abc, 1 model, 1 loaded", 1),
        ),
        ({"/health": (200, {}), "/v1/models": (200, MODELS), "/props": (401, {})}, "limited", "it wants a key", 1),
        ({"/health": (200, {}), "/v1/models": (401, {})}, "limited", "its models are not told; it wants a key", 0),
        ({"/health": (503, {})}, "limited", "it is loading its model", 0),
        ({"/v1/models": (404, {})}, "limited", "it is no llama-server", 0),
    ],
)
def test_a_llama_server(
    serve: Callable[[Answers], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answers: Answers,
    state: str,
    words: str,
    models: int,
) -> None:
    url = serve(answers)
    monkeypatch.setattr(discover, "LLAMA_SERVER", url)
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")
    found = [session_of(tmp_path / name, models=told) for name, told in (("a", True), ("b", False))]
    for session in found:
        finding = next(each for each in session.findings.items if each.name == "llama-server")
        assert finding.state == state
        assert words in (finding.text or "")
    assert len(found[0].models) == models
    assert (len(found[1].models), len(found[1].servers)) == (0, 0)  # a session of one's own is told of no other servers


def session_of(folder: Path, *, models: bool) -> Any:
    folder.mkdir()
    read, pipe = os.pipe()
    recorder = Recorder(folder / "s.phasetop", pipe)
    recorder.open("s", [], "observe", ev.Host())
    discover.discover(recorder, models=models)
    recorder.close("done")
    os.close(read)
    os.close(pipe)
    return load(folder / "s.phasetop")


def test_a_live_sessions_collector_looks_without_other_servers_models(
    collect: Callable[..., Collected], state_home: Home
) -> None:
    assert state_home.state.is_dir()
    one = collect(None)
    command = one.lifeline.discover(models=False, machine=True)
    one.until(lambda s: next((c for c in s.controls.items if c.id == command and c.ok), None))
    names = {finding.name for finding in one.session.findings.items}
    assert {"ollama", "llama-server", "embedded", "clock", "swap", "disk", "python", "libraries"} <= names
    assert one.session.models == {}


def test_a_view_asks_once_at_a_time(collect: Callable[..., Collected], state_home: Home) -> None:
    assert state_home.state.is_dir()
    one = collect(None)
    keeper = Keeper(one.lifeline, Plan(start=Start(target=None), api="chat", display=Display()))
    keeper.discover()
    keeper.discover()
    one.until(lambda s: [c for c in s.controls.items if c.op == "discover"])
    keeper.discover()
    one.until(lambda s: len([c for c in s.controls.items if c.op == "discover"]) == 2)
    assert one.session.models == {}


class Silent:
    """A sampler whose driver hangs."""

    check = "nvml"

    def __init__(self) -> None:
        self.settled = threading.Event()


def test_a_driver_that_does_not_answer_is_broken_and_nobody_waits_for_ever(tmp_path: Path) -> None:
    read, pipe = os.pipe()
    recorder = Recorder(tmp_path / "s.phasetop", pipe)
    recorder.open("s", [], "observe", ev.Host())
    samplers = Samplers(recorder)
    samplers._gpus = [Silent(), object()]  # type: ignore[list-item]
    samplers.settle(0.01)
    recorder.close("done")
    os.close(read)
    os.close(pipe)
    checks = {check.id: check for check in checks_of(load(tmp_path / "s.phasetop"))}
    assert checks["nvml"].state == "broken"
    assert "has not answered within 0.01 s" in (checks["nvml"].text or "")
    assert "gpu" not in checks  # there is one, whatever ails it
