"""The far side's script, run by this machine's sh: what it says against psutil, and that nothing of it is left."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from phasetop.backends.far_lines import About, Card, Echo, FarLines, Said, SmiEnded, Tick, User, Watched, Word
from phasetop.backends.far_script import script
from tests.backends.far.cards import CARD

if TYPE_CHECKING:
    from tests.conftest import Spawn

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


class Shell:
    """A sh with the script."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._lines = FarLines()
        self.said: list[Said] = []
        self.tell(script())

    def tell(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def until(self, what: Callable[[Said], Any], limit_s: float = 20.0) -> Any:
        """The first thing said that ``what`` takes."""
        assert self.process.stdout is not None
        pipe, end, seen = self.process.stdout.fileno(), time.monotonic() + limit_s, 0
        while time.monotonic() < end:
            for each in self.said[seen:]:
                if what(each):
                    return each
            seen = len(self.said)
            if select.select([pipe], [], [], 0.2)[0]:
                if not (data := os.read(pipe, 65536)):
                    break
                self.said += self._lines.feed(data)
        return pytest.fail(f"it was not said; said: {self.said}")


@pytest.fixture
def shell(spawn: Spawn, tmp_path: Path) -> Iterator[Callable[..., Shell]]:
    """Start the script with programs of a test's own first in the PATH: ``shell({"nvidia-smi": "…"}, sh="bash")``."""
    started: list[Shell] = []

    def start(programs: dict[str, str] | None = None, sh: str = "sh") -> Shell:
        for name, text in (programs or {}).items():
            (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
            (tmp_path / name).chmod(0o755)
        process = spawn(
            [sh],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
            start_new_session=True,
        )
        started.append(Shell(process))
        return started[-1]

    yield start
    for one in started:
        family = psutil.Process(one.process.pid).children(recursive=True) if one.process.poll() is None else []
        assert one.process.stdin is not None
        one.process.stdin.close()
        assert psutil.wait_procs(family, timeout=10)[1] == []
        one.process.wait(10)


@pytest.mark.parametrize("sh", ["sh", "bash"])
def test_this_machine_as_psutil_has_it(shell: Callable[..., Shell], sh: str) -> None:
    one = shell(sh=sh)
    tick = one.until(lambda said: isinstance(said, Tick))
    one.until(lambda said: isinstance(said, About) and "ram_bytes" in said.known)
    about = {name: value for said in one.said if isinstance(said, About) for name, value in said.known.items()}
    memory = psutil.virtual_memory()
    assert (about["system"], about["cores"], about["name"]) == ("Linux", psutil.cpu_count(), socket.gethostname())
    assert about["ram_bytes"] == memory.total
    assert tick.memory_kib[0] * 1024 == memory.total
    assert abs(tick.uptime_s - (time.time() - psutil.boot_time())) < 3
    assert tick.cpu[0] <= tick.cpu[1]
    assert tick.processes == ()
    one.tell(b"E 7\n")
    assert one.until(lambda said: isinstance(said, Echo)) == Echo(7)


def test_the_process_that_listens_and_its_children(shell: Callable[..., Shell], spawn: Spawn) -> None:
    text = (
        "import socket,subprocess,sys\ns=socket.create_server(('127.0.0.1',0)); print(s.getsockname()[1],flush=True)\n"
        "subprocess.run([sys.executable,'-c','import time; time.sleep(60)'])"
    )
    server = spawn([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    port = int(server.stdout.readline())
    one = shell()
    one.until(lambda said: isinstance(said, Tick))
    one.tell(f"W {port} none\n".encode())
    assert one.until(lambda said: isinstance(said, Watched)) == Watched(server.pid, "port")
    tick = one.until(lambda said: isinstance(said, Tick) and len(said.processes) == 2)
    child = psutil.Process(server.pid).children()[0]
    assert [each.pid for each in tick.processes] == [server.pid, child.pid]
    server.kill()
    child.kill()
    server.wait()
    one.said.clear()
    one.until(lambda said: isinstance(said, Tick) and said.processes == ())


def test_a_process_by_its_name_where_the_port_is_a_proxy_s(
    shell: Callable[..., Shell], spawn: Spawn, tmp_path: Path
) -> None:
    one = shell()
    one.until(lambda said: isinstance(said, Tick))
    named = tmp_path / "farserver"
    named.symlink_to("/bin/sleep")
    only = spawn([str(named), "60"])
    one.tell(b"W 1 farserver\n")
    assert one.until(lambda said: isinstance(said, Watched)) == Watched(only.pid, "name")
    spawn([str(named), "60"])
    one.said.clear()
    one.tell(b"W 1 farserver\n")
    assert one.until(lambda said: isinstance(said, Watched)).pid is None  # which of the two is not known


def test_nvidia_smi_and_who_computes(shell: Callable[..., Shell]) -> None:
    uuid = CARD.split(", ")[1]
    smi = f"case $1 in *compute-apps*) echo '{uuid}, 4711';; *) while :; do echo '{CARD}'; sleep 1; done;; esac"
    one = shell({"nvidia-smi": smi})
    assert one.until(lambda said: isinstance(said, Card)).uuid == uuid
    assert one.until(lambda said: isinstance(said, User)) == User(uuid, 4711)


@pytest.mark.parametrize("known", ["clocks_event_reasons", "pstate,pstate"])
def test_a_version_that_calls_the_fields_otherwise(shell: Callable[..., Shell], known: str) -> None:
    refuse = 'echo "Field \\"clocks_throttle_reasons.active\\" is not a valid field to query."; exit 2'
    one = shell({"nvidia-smi": f"case $1 in *{known}*) echo '{CARD}'; sleep 9;; *) {refuse};; esac"})
    assert one.until(lambda said: isinstance(said, Card)).values["sm_percent"] == 97


def test_a_driver_that_was_upgraded_and_not_reloaded(shell: Callable[..., Shell]) -> None:
    said = "Failed to initialize NVML: Driver/library version mismatch"
    one = shell({"nvidia-smi": f"echo '{said}'; exit 18"})
    assert one.until(lambda each: isinstance(each, Word)) == Word(said)
    assert one.until(lambda each: isinstance(each, SmiEnded)) == SmiEnded(18)


def test_no_nvidia_smi(shell: Callable[..., Shell]) -> None:
    if any(Path(folder, "nvidia-smi").exists() for folder in ("/usr/bin", "/bin", "/usr/sbin", "/usr/local/bin")):
        pytest.skip("there is one here")
    assert shell().until(lambda said: isinstance(said, SmiEnded)) == SmiEnded(None)


def test_another_system_tells_what_ps_tells(shell: Callable[..., Shell], spawn: Spawn) -> None:
    server = spawn(["sleep", "60"])
    fakes = {
        "uname": "case $1 in -s) echo Darwin;; -n) echo mac;; *) echo 24.1;; esac",
        "sysctl": "case $2 in hw.memsize) echo 34359738368;; *) echo Apple M2 Max;; esac",
        "lsof": f"echo {server.pid}",
    }
    one = shell(fakes)
    one.until(lambda said: isinstance(said, About) and said.known.get("ram_bytes") == 32 << 30)
    assert any(isinstance(said, About) and said.known.get("cpu") == "Apple M2 Max" for said in one.said)
    one.tell(b"W 11434 ollama\n")
    told = one.until(lambda said: type(said).__name__ == "Ps")
    assert told.pid == server.pid
    assert 0 < told.rss_kib * 1024 < 64 << 20
