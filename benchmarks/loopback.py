"""A far machine for benchmarks: this one, behind a real sshd of its own on loopback, which the name ``far`` leads to."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def far_machine(folder: Path) -> Iterator[dict[str, str]]:
    """Start it in ``folder``; what the environment needs so that plain ``ssh far`` reaches it."""
    ssh = shutil.which("ssh")
    sshd = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if ssh is None or sshd is None:
        raise SystemExit("no ssh and sshd here: make servers gets them")
    for key in ("key", "host"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = int(s.getsockname()[1])
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/key.pub\nPidFile none\n"
        f"StrictModes no\nUsePAM no\nPermitRootLogin yes\nSetEnv XDG_STATE_HOME={folder}/state\n"
    )
    (folder / "ssh_config").write_text(
        f"Host far\n HostName 127.0.0.1\n Port {port}\n User {getpass.getuser()}\n IdentityFile {folder}/key\n"
        f" IdentitiesOnly yes\n UserKnownHostsFile {folder}/known\n StrictHostKeyChecking accept-new\n"
    )
    wrapper = folder / "bin" / "ssh"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec {ssh} -F {folder}/ssh_config "$@"\n')
    wrapper.chmod(0o755)
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    log = (folder / "log").open("wb")
    server = subprocess.Popen([sshd, "-D", "-e", "-f", folder / "sshd_config"], stderr=log)
    path = f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}"
    try:
        for _ in range(200):
            if subprocess.run(["ssh", "far", "true"], env={**os.environ, "PATH": path}, capture_output=True).returncode == 0:
                break
            time.sleep(0.05)
        yield {"PATH": path}
    finally:
        server.terminate()
        server.wait()
        log.close()
