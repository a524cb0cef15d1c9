"""The connection itself, with a real sshd: what stands, what is refused, what is left when it ends."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import psutil
import pytest

from phasetop.backends import tunnel
from phasetop.backends.tunnel import Tunnel, TunnelError
from phasetop.ssh import parse_address

if TYPE_CHECKING:
    from tests.conftest import Spawn
    from tests.tools.sshd import FarMachine

FAR = parse_address("far")


@pytest.fixture
def echo() -> Iterator[str]:
    """A server that says hello, once a connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    one, _ = server.accept()
                except OSError:
                    return
                with one:
                    one.recv(4096)
                    one.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello")

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def holds(process: psutil.Process, path: object) -> bool:
    """Whether a process has a unix socket of this path (ssh may add to it while it binds)."""
    try:
        return any(str(path) in str(each.laddr) for each in process.net_connections("unix"))
    except psutil.Error:
        return False


def hello(tunnel: Tunnel, url: str) -> str:
    with httpx.Client(transport=httpx.HTTPTransport(uds=tunnel.mouth(url)), trust_env=False) as client:
        return client.get(url).text


def test_a_server_through_it_and_nothing_left(far: FarMachine, echo: str, free_port: int) -> None:
    heard: list[bytes] = []
    nobody = "http://127.0.0.1:1"
    tunnel = Tunnel.open(FAR, [echo, nobody], heard.append)
    try:
        assert tunnel.has_shell
        assert hello(tunnel, echo) == "hello"
        folder = Path(tunnel.mouth(echo)).parent
        assert folder.stat().st_mode & 0o777 == 0o700
        with pytest.raises(httpx.TransportError):
            hello(tunnel, nobody)
        assert b"@H " in b"".join(heard)
    finally:
        tunnel.close()
    assert tunnel.refused() == "connect failed: Connection refused"
    far.nothing_left()


def test_two_at_once_do_not_meet(far: FarMachine, echo: str) -> None:
    both = [Tunnel.open(FAR, [echo], lambda _: None) for _ in range(2)]
    assert [hello(each, echo) for each in both] == ["hello"] * 2
    for each in both:
        each.close()
    far.nothing_left()


@pytest.mark.parametrize("far_options", [["ForceCommand /bin/false"], ["ForceCommand echo no shell for you"]])
def test_an_account_that_may_only_forward(far: FarMachine, far_options: list[str], echo: str) -> None:
    tunnel = Tunnel.open(FAR, [echo], lambda _: None)
    assert not tunnel.has_shell
    assert hello(tunnel, echo) == "hello"
    tunnel.close()
    far.nothing_left()


@pytest.mark.parametrize("far_options", [["AllowTcpForwarding no"]])
def test_forwarding_that_is_not_allowed_is_said(far: FarMachine, far_options: list[str], echo: str) -> None:
    tunnel = Tunnel.open(FAR, [echo], lambda _: None)
    with pytest.raises(httpx.TransportError):
        hello(tunnel, echo)
    end = time.monotonic() + 10
    while tunnel.refused() is None and time.monotonic() < end:
        time.sleep(0.01)
    assert "administratively prohibited" in str(tunnel.refused())
    tunnel.close()


def test_the_wrong_host_key(far: FarMachine, keys: Path) -> None:
    (far.folder / "known").write_text(f"[127.0.0.1]:{far.port} {(keys / 'other.pub').read_text()}")
    with pytest.raises(TunnelError, match="another key") as refused:
        Tunnel.open(FAR, ["http://127.0.0.1:1"], lambda _: None)
    assert refused.value.failure.kind == "host-key"
    far.nothing_left()


def test_a_host_that_is_not_known_is_not_asked_about(far: FarMachine) -> None:
    (far.folder / "known").write_text("")
    with pytest.raises(TunnelError, match="`ssh far`"):
        Tunnel.open(FAR, ["http://127.0.0.1:1"], lambda _: None)
    far.nothing_left()


def test_a_key_that_does_not_fit(far: FarMachine, keys: Path) -> None:
    text = far.config.read_text().replace(str(keys / "key"), str(keys / "other"))
    far.config.write_text(text)
    with pytest.raises(TunnelError, match="ssh-copy-id"):
        Tunnel.open(FAR, ["http://127.0.0.1:1"], lambda _: None)
    far.nothing_left()


def test_nobody_answers(far: FarMachine) -> None:
    far.refuse()
    with pytest.raises(TunnelError, match="nothing answers ssh on far"):
        Tunnel.open(FAR, ["http://127.0.0.1:1"], lambda _: None)
    far.nothing_left()


def test_an_ssh_that_ends_before_it_has_read_anything(far: FarMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    far.refuse()
    monkeypatch.setattr(tunnel, "script", lambda: b"#" * (1 << 20))  # more than a pipe holds: it is still being written
    with pytest.raises(TunnelError, match="nothing answers ssh on far"):
        Tunnel.open(FAR, ["http://127.0.0.1:1"], lambda _: None)
    far.nothing_left()


def test_no_ssh_here(far: FarMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(TunnelError, match="not installed here"):
        Tunnel.open(FAR, ["http://127.0.0.1:1"], lambda _: None)
    far.nothing_left()


def test_it_is_given_up_while_it_connects(far: FarMachine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never says what it is
        address = parse_address(f"far:{silent.getsockname()[1]}")
        given_up = threading.Timer(0.2, lambda: None)
        given_up.start()
        with pytest.raises(TunnelError, match="before ssh had connected"):
            Tunnel.open(address, ["http://127.0.0.1:1"], lambda _: None, given_up.finished.is_set)
    far.nothing_left()


def test_a_cut_link_is_known_and_said(far: FarMachine, echo: str) -> None:
    tunnel = Tunnel.open(FAR, [echo], lambda _: None)
    told: list[str] = []
    tunnel.when_gone(lambda failure: told.append(failure.kind))
    far.cut()
    assert tunnel.wait_gone(20)
    assert tunnel.why().kind == "lost"
    tunnel.close()
    end = time.monotonic() + 5
    while not told and time.monotonic() < end:
        time.sleep(0.01)
    assert told == ["lost"]
    far.nothing_left()


@pytest.mark.parametrize("frozen", [False, True], ids=["", "and the far side does not answer"])
def test_kill_9_of_whoever_holds_it_leaves_nothing(far: FarMachine, echo: str, spawn: Spawn, frozen: bool) -> None:
    if frozen:  # and ssh itself never finds out
        wrapper = far.folder / "here" / "ssh"
        wrapper.write_text(wrapper.read_text().replace('"$@"', '-o ServerAliveInterval=0 "$@"'))
    text = (
        "import sys,time; from phasetop.backends.tunnel import Tunnel; from phasetop.ssh import parse_address\n"
        f"t=Tunnel.open(parse_address('far'),[{echo!r}],lambda _: None); print('up',flush=True); time.sleep(60)"
    )
    holder = spawn([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "up\n"
    assert far.ours()
    stopped = far.connections() if frozen else []
    for process in stopped:
        process.suspend()
    holder.kill()
    holder.wait()
    end = time.monotonic() + 20
    while (left := far.ours()) and time.monotonic() < end:
        time.sleep(0.02)
    for process in stopped:
        if process.is_running():
            process.resume()
    assert left == []
    far.nothing_left()


def test_a_link_of_one_s_own_that_stands_already_is_used_and_stays(far: FarMachine, echo: str) -> None:
    control = far.temporary / "ctl"
    far.config.write_text(far.config.read_text() + f" ControlPath {control}\n")
    ssh = shutil.which("ssh")
    assert ssh is not None
    subprocess.run([ssh, "-M", "-N", "-f", "far"], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        tunnel = Tunnel.open(FAR, [echo], lambda _: None)
        assert hello(tunnel, echo) == "hello"
        mouth = tunnel.mouth(echo)
        assert len(os.listdir(Path(mouth).parent)) == 2
        master = next(each for each in psutil.process_iter() if each.name() == "ssh" and holds(each, control))
        assert holds(master, mouth)
        tunnel.close()
        assert not holds(master, mouth)
        assert subprocess.run([ssh, "-O", "check", "far"], capture_output=True, check=False).returncode == 0
    finally:
        subprocess.run([ssh, "-O", "exit", "far"], capture_output=True, check=False)
    far.nothing_left()
