"""``run ssh://…`` end to end: real servers behind a real sshd, seen from here."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from phasetop.lifeline import Start
from phasetop.metrics import measure
from phasetop.plan import plan
from phasetop.report import request_object
from phasetop.samples import Samples
from tests.backends.far.cards import CARD

if TYPE_CHECKING:
    from tests.conftest import Collected, Home, LlamaServer, Metronome, Spawn
    from tests.tools.sshd import FarMachine

Collect = Callable[..., "Collected"]


def over(model: str, **given: Any) -> Start:
    return plan(model, {"prompt": "x", **given}).start


def run(*arguments: str, home: Home, **more: Any) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "phasetop", "run", *arguments, "--json=compact"],
        capture_output=True, text=True, check=False, timeout=100, env={**os.environ}, stdin=subprocess.DEVNULL, **more,
    )  # fmt: skip
    return done, json.loads(done.stdout) if done.stdout else {}


def test_a_llama_server_as_json(far: FarMachine, llama_server: LlamaServer, state_home: Home) -> None:
    far.nvidia_smi(CARD)
    arguments = ["-p", "Count to twenty.", "-n", "40", "--temp", "0", "--peak-bandwidth", "20GB/s", "--record=kept"]
    done, found = run(f"ssh://root@far/:{llama_server.port}", *arguments, home=state_home)
    if psutil.Process().username() != "root":
        pytest.skip("the user of the address is root here")
    assert done.returncode == 0, done.stderr
    assert found["server"]["url"] == f"ssh://far/http://127.0.0.1:{llama_server.port}"
    assert (found["server"]["local"], found["server"]["link"]) == (False, "ssh")
    assert found["tokens"]["output"] == 40
    assert found["finish"]["reason"] == "length"
    assert found["sources"]["latency.ttft_s"].startswith("client: over ssh")
    assert [notice["code"] for notice in found["notices"] if notice["code"] == "over-ssh"] == ["over-ssh"]
    assert found["host"]["name"] == os.uname().nodename  # the far machine is this one, in truth
    assert [gpu["name"] for gpu in found["gpus"]] == ["NVIDIA GeForce RTX 4090"]
    assert found["gpus"][0]["memory_used_bytes"] == 6144 << 20
    assert found["roofline"]["peak_bandwidth_bytes_per_s"] == 20e9
    recording = (state_home.state / "phasetop" / "recordings" / "kept.phasetop").read_text()
    assert "root@" not in recording
    assert "stamps-read" not in recording
    far.nothing_left()


def covered(samples: Samples, begin: int, end: int) -> float:
    """The share of a stretch that samples lie in: a figure of a phase wants most of it, and they come once a second."""
    inside = (min(t, end) - max(t0, begin) for t0, t in zip(samples.t0, samples.t, strict=True) if t > begin)
    return sum(inside) / (end - begin)


def test_what_runs_the_request_is_the_far_machine(far: FarMachine, collect: Collect, llama_server: LlamaServer) -> None:
    far.nvidia_smi(CARD)
    one = collect(over(f"ssh://far/:{llama_server.port}"))
    one.until(lambda s: s.series("server_cpu_cores", v=0, d=1))
    r = one.ask("Tell a very long story.", settings={"max_tokens": 4000, "ignore_eos": True})
    rss = one.until(lambda s: s.series("server_rss_bytes", v=0, d=1))
    assert abs(rss.value[-1] - psutil.Process(llama_server.pid).memory_info().rss) < 64 << 20
    one.until(lambda s: s.series("link_rtt_ms", d=1))
    begin = one.until(lambda s: s.runs[r].tokens.t)[0]
    card = one.until(lambda s: s.series("sm_percent", d=2))
    one.until(lambda s: s.last_t > begin + 4_000_000_000 and card.t and covered(card, begin, s.last_t) > 0.9)
    one.lifeline.cancel(r)
    done = one.ended(r)
    found = measure(one.session, done)
    decode = found.host["decode"]
    assert decode.server_cpu_percent is not None
    assert 0 < decode.server_cpu_percent < 120  # it has one thread
    assert [gpu.phases["decode"].sm_percent for gpu in found.gpus] == [97]
    assert found.gpus[0].phases["decode"].throttled == ["power cap"]
    assert found.roofline.ran.name == "NVIDIA GeForce RTX 4090"
    assert "dram_percent" not in [info.name for s in one.session.samples.values() if (info := s.info.at())]
    report = request_object(one.session, done, kept_as=None)
    assert report["sources"]["latency.ttft_s"].startswith("client: over ssh, round trip ")
    assert report["unknown"]["gpus.phases.decode.energy_j"] == "nvidia-smi does not tell it"


def test_the_link_breaks_in_the_middle_and_the_next_request_connects_again(
    far: FarMachine, collect: Collect, metronome: Callable[..., Metronome]
) -> None:
    server = metronome(rate=50, tokens=100_000)
    one = collect(over(f"ssh://far/:{server.port}"))
    r = one.ask()
    one.until(lambda s: len(s.runs[r].tokens) >= 5)
    far.cut()
    end = one.ended(r).ends.last()
    assert end is not None
    assert (end.finish, end.detail) == ("cut", "server-lost")
    assert end.error is not None
    assert "far" in str(end.error.text)
    assert len(one.session.runs[r].tokens) >= 5
    one.until(lambda s: any(state.s == "gone" for state in s.server_states.items))
    again = one.ask("again")
    one.until(lambda s: len(s.runs[again].tokens) >= 5)
    one.lifeline.cancel(again)
    last = one.ended(again).ends.last()
    assert last is not None
    assert last.finish == "cancelled"
    one.lifeline.close()
    far.nothing_left()


def test_a_link_that_does_not_come_back_is_a_clear_error(
    far: FarMachine, collect: Collect, metronome: Callable[..., Metronome]
) -> None:
    server = metronome(rate=50, tokens=100_000)
    one = collect(over(f"ssh://far/:{server.port}"))
    r = one.ask()
    one.until(lambda s: len(s.runs[r].tokens) >= 2)
    far.refuse()
    one.ended(r)
    one.until(lambda s: any(state.s == "gone" for state in s.server_states.items))
    end = one.ended(one.ask("again")).ends.last()
    assert end is not None
    assert end.error is not None
    assert (end.finish, end.error.code) == ("error", "ssh-failed")
    assert "nothing answers ssh on far" in str(end.error.text)
    far.listen_again()
    third = one.ask("and now")
    one.until(lambda s: len(s.runs[third].tokens) >= 2)
    one.lifeline.close()
    far.nothing_left()


@pytest.mark.parametrize("whom", ["viewer", "collector"])
def test_kill_9_leaves_nothing(
    far: FarMachine, spawn: Spawn, metronome: Callable[..., Metronome], state_home: Home, whom: str
) -> None:
    server = metronome(rate=50, tokens=100_000)
    argv = [sys.executable, "-m", "phasetop", "run", f"ssh://far/:{server.port}", "-p", "x"]
    viewer = spawn(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    assert viewer.stdout is not None
    assert viewer.stdout.read(20)
    (collector,) = psutil.Process(viewer.pid).children()
    if whom == "viewer":
        viewer.kill()
    else:
        os.kill(collector.pid, signal.SIGKILL)
    viewer.stdout.close()
    viewer.wait(30)
    assert psutil.wait_procs([collector], timeout=20)[1] == []
    far.nothing_left()


def test_nothing_listens_there(far: FarMachine, state_home: Home) -> None:
    done, found = run("ssh://far/:1", "-p", "x", home=state_home)
    assert done.returncode == 1
    assert found["finish"]["error"]["code"] == "connection-refused"
    assert "nothing listens at http://127.0.0.1:1 on far" in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_nothing_at_the_usual_places(far: FarMachine, state_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for port in (11434, 8080):
        with socket.socket() as here:
            if here.connect_ex(("127.0.0.1", port)) == 0:
                pytest.skip(f"something listens on {port} here")
    done, found = run("ssh://far/", "-p", "x", home=state_home)
    assert (done.returncode, found["server"]["link"], found["server"]["url"]) == (1, "ssh", "ssh://far/")
    assert "no server with a model on far (looked at 127.0.0.1:11434 or 127.0.0.1:8080)" in done.stderr


def test_a_wrong_host_key_is_one_line_with_what_to_do(far: FarMachine, state_home: Home) -> None:
    (far.folder / "known").write_text("")
    done, found = run("ssh://somebody@far/m", "-p", "x", home=state_home)
    assert (done.returncode, found["finish"]["error"]["code"]) == (1, "ssh-failed")
    assert "connect once with `ssh USER@far`" in done.stderr
    assert "somebody" not in done.stdout
    far.nothing_left()


def test_an_error_of_nvidia_smi_is_said_and_the_run_goes_on(
    far: FarMachine, metronome: Callable[..., Metronome], state_home: Home
) -> None:
    far.nvidia_smi("Failed to initialize NVML: Driver/library version mismatch", status=18)
    server = metronome(rate=50, tokens=20)
    done, found = run(f"ssh://far/:{server.port}", "-p", "x", home=state_home)
    assert done.returncode == 0, done.stderr
    assert found["gpus"] == []
    assert found["unknown"]["gpus"] == "nvidia-smi on far: Failed to initialize NVML: Driver/library version mismatch"


@pytest.mark.parametrize("far_options", [["ForceCommand /bin/false"]])
def test_without_a_shell_nothing_of_this_machine_stands_for_the_far_one(
    far: FarMachine, far_options: list[str], metronome: Callable[..., Metronome], state_home: Home
) -> None:
    server = metronome(rate=50, tokens=20)
    done, found = run(f"ssh://far/:{server.port}", "-p", "x", home=state_home)
    assert done.returncode == 0, done.stderr
    assert (found["host"]["cores"], found["host"]["phases"]["decode"]["cpu_percent"]) == (None, None)
    assert "no shell answers there" in found["unknown"]["host.phases.decode.cpu_percent"]
    assert any("no shell answers there" in notice["text"] for notice in found["notices"])
