"""A real sshd on loopback as the far machine: keys, an ssh that knows it, a home and a PATH of its own on the far side."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from tests.conftest import Home, Spawn


@dataclass
class FarMachine:
    """The far machine: ``name`` is what ssh calls it; ``bin`` stands first in its PATH, ``state`` is its XDG_STATE_HOME."""

    name: str
    folder: Path
    home: Path
    state: Path
    bin: Path
    config: Path
    temporary: Path
    process: subprocess.Popen[bytes]
    port: int
    again: Callable[[], subprocess.Popen[bytes]] = field(repr=False)

    def program(self, name: str, text: str) -> None:
        """Put a program into the far PATH."""
        file = self.bin / name
        file.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        file.chmod(0o755)

    def nvidia_smi(self, *lines: str, status: int | None = None) -> None:
        """An nvidia-smi that prints these lines: every second, or once and ends with a status."""
        said = "\n".join(f"echo '{line}'" for line in lines)
        then = f"exit {status}" if status is not None else "sleep 1"
        self.program("nvidia-smi", f"case $1 in *compute-apps*) exit 0;; esac\nwhile :; do\n{said}\n{then}\ndone")

    def connections(self) -> list[psutil.Process]:
        """The processes that serve a connection, and all that they started."""
        return list(psutil.Process(self.process.pid).children(recursive=True))

    def cut(self) -> None:
        """Break the connections, as a network does."""
        for child in self.connections():
            try:
                if child.name().startswith("sshd"):
                    child.kill()
            except psutil.NoSuchProcess:
                pass

    def refuse(self) -> None:
        """Take no more connections, and break those that stand."""
        self.process.send_signal(signal.SIGSTOP)  # so that none comes between
        self.cut()
        self.process.kill()
        self.process.wait()

    def listen_again(self) -> None:
        """Take connections again."""
        self.process = self.again()

    def ours(self) -> list[str]:
        """Processes on this side that belong to a tunnel, and folders that one left."""
        held = str(self.temporary)
        found = []
        for process in psutil.process_iter(["cmdline"]):
            if any(held in word for word in process.info["cmdline"] or ()):
                found.append(f"{process.pid} {process.info['cmdline']}")
        return found + [str(path) for path in self.temporary.glob("phasetop-ssh-*")]

    def nothing_left(self, limit_s: float = 20.0) -> None:
        """Fail unless, soon, nothing of any tunnel is left on either side."""
        end = time.monotonic() + limit_s
        while (left := [*self.ours(), *(str(each) for each in self._running())]) and time.monotonic() < end:
            time.sleep(0.02)
        assert left == []

    def _running(self) -> list[psutil.Process]:
        return self.connections() if self.process.poll() is None else []


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory, sshd_binary: Path) -> Path:
    """A host's key, another host's, and a person's, who may log in."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("host", "other", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    shutil.copy(folder / "key.pub", folder / "authorized")
    (folder / "authorized").chmod(0o600)
    return folder


@pytest.fixture
def far_options() -> list[str]:
    """Further lines of sshd's configuration, for a test to replace."""
    return []


@pytest.fixture
def far(
    tmp_path: Path,
    state_home: Home,
    keys: Path,
    sshd_binary: Path,
    free_port: int,
    spawn: Spawn,
    far_options: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[FarMachine]:
    """The far machine, up; ``ssh`` of this process and of those it starts knows it as ``far``."""
    folder = tmp_path / "far"
    here, there, home = folder / "here", folder / "there", folder / "home"
    state = home / ".local" / "state"
    for each in (here, there, state):
        each.mkdir(parents=True)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    user = psutil.Process().username()
    known, config = folder / "known", folder / "ssh_config"
    known.write_text(f"[127.0.0.1]:{free_port} {(keys / 'host.pub').read_text()}")
    (folder / "sshd_config").write_text(
        "\n".join(
            [
                *far_options,
                f"Port {free_port}\nListenAddress 127.0.0.1\nHostKey {keys / 'host'}",
                f"AuthorizedKeysFile {keys / 'authorized'}\nPidFile none\nStrictModes no\nUsePAM no",
                "PermitRootLogin yes\nPasswordAuthentication no",
                f"SetEnv PATH={there}:/usr/bin:/bin HOME={home} XDG_STATE_HOME={state}\n",
            ]
        )
    )
    config.write_text(
        f"Host far\n HostName 127.0.0.1\n Port {free_port}\n User {user}\n IdentityFile {keys / 'key'}\n"
        f" IdentitiesOnly yes\n UserKnownHostsFile {known}\n GlobalKnownHostsFile /dev/null\n StrictHostKeyChecking yes\n"
    )
    wrapper = here / "ssh"
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {config} "$@"\n')
    wrapper.chmod(0o755)
    temporary = Path(tempfile.mkdtemp(prefix="far-", dir="/tmp"))  # short: sockets lie in it
    monkeypatch.setenv("PATH", f"{here}:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    def start() -> subprocess.Popen[bytes]:
        log = (folder / "sshd.log").open("ab")
        process = spawn([str(sshd_binary), "-D", "-e", "-f", str(folder / "sshd_config")], stdout=log, stderr=log)
        log.close()
        end = time.monotonic() + 20
        while process.poll() is None and time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", free_port), 1).close()
            except OSError:
                time.sleep(0.02)
                continue
            return process
        return pytest.fail(f"sshd did not start: {(folder / 'sshd.log').read_text()}")

    machine = FarMachine("far", folder, home, state, there, config, temporary, start(), free_port, start)
    try:
        yield machine
    finally:
        if machine.process.poll() is None:
            for child in machine.connections():
                try:
                    child.send_signal(signal.SIGKILL)
                except psutil.NoSuchProcess:
                    pass
        shutil.rmtree(temporary, ignore_errors=True)
