"""What the way through ssh costs: TTFT, gaps and lateness of `run ssh://…` beside `run http://…`, on loopback.

A metronome sends tokens on an exact beat; an sshd of the script's own stands on loopback. Both ways take turns. Lateness is
arrival (as recorded) minus sending, over all tokens; the tunnel's arrivals are stamped after the read, the direct ones by
the kernel. ``--uds`` leaves phasetop out and compares a forwarded port with a forwarded unix socket, both by bare readers.

    benchmarks/over_ssh.py [--rate 100] [--tokens 400] [--pairs 3] [--uds]
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from phasetop.metrics import measure
from phasetop.recording import load

METRONOME = Path(__file__).resolve().parent.parent / "tests" / "tools" / "metronome.py"


@contextmanager
def far_machine(folder: Path) -> Iterator[dict[str, str]]:
    """An sshd on loopback that ssh knows as ``far``; gives the environment for it."""
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    ssh = shutil.which("ssh")
    if sshd is None or ssh is None:
        raise SystemExit("needs ssh and sshd: apt-get install openssh-client openssh-server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for name in ("key", "host"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/key.pub\nPidFile none\n"
        "StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n"
    )
    (folder / "config").write_text(
        f"Host far\n HostName 127.0.0.1\n Port {port}\n User {getpass.getuser()}\n IdentityFile {folder}/key\n"
        f" IdentitiesOnly yes\n UserKnownHostsFile {folder}/known\n StrictHostKeyChecking accept-new\n"
    )
    wrapper = folder / "ssh"
    wrapper.write_text(f'#!/bin/sh\nexec {ssh} -F {folder}/config "$@"\n')
    wrapper.chmod(0o755)
    server = subprocess.Popen([sshd, "-D", "-f", str(folder / "sshd_config")], stderr=subprocess.DEVNULL)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    try:
        while subprocess.run([str(wrapper), "far", "true"], capture_output=True, check=False).returncode:
            time.sleep(0.1)
        yield env
    finally:
        server.terminate()
        server.wait()


def sent_times(log: Path) -> list[int]:
    """When each token of the last reply was sent."""
    for _ in range(500):
        if log.exists() and (text := log.read_text()).endswith("\n"):
            return [json.loads(line)["t"] for line in text.splitlines()]
        time.sleep(0.01)
    raise SystemExit("the metronome wrote no log")


def by_phasetop(target: str, log: Path, folder: Path, env: dict[str, str]) -> tuple[float, float, float, float, float]:
    """(TTFT ms, gap p50 ms, p99 ms, lateness p50 ms, p99 ms) of one run."""
    kept = folder / "run.phasetop"
    for file in (kept, log):
        file.unlink(missing_ok=True)
    argv = [sys.executable, "-m", "phasetop", "run", target, "-p", "x", "--json=compact", f"--record={kept}"]
    subprocess.run(argv, check=True, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    session = load(kept)
    run, sent = session.run(0), sent_times(log)
    assert session.hello is not None
    arrived = [t + session.hello.anchor.mono for t, n in zip(run.tokens.t, run.tokens.n, strict=True) if n == 1]
    late = [(b - a) / 1e6 for a, b in zip(sent, arrived, strict=False)]
    found = measure(session, run)
    gaps = found.latency.gaps
    return ((found.latency.ttft_ns or 0) / 1e6, (gaps.p50 or 0) / 1e6, (gaps.p99 or 0) / 1e6, *_percentiles(late))


def by_bare_readers(port: int, log: Path, folder: Path, env: dict[str, str]) -> Iterator[tuple[str, float, float]]:
    """(way, lateness p50 ms, p99 ms) of one reply each, through a forwarded port and through a forwarded unix socket."""
    from phasetop.backends.stamped import Wire, keep_stamping, stamped_client

    keep_stamping()
    sys.setswitchinterval(0.0005)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        mouth = free.getsockname()[1]
    path = str(folder / "mouth")
    forwards = ["-L", f"127.0.0.1:{mouth}:127.0.0.1:{port}", "-L", f"{path}:127.0.0.1:{port}"]
    ssh = subprocess.Popen([str(folder / "ssh"), "-N", *forwards, "far"], env=env)
    try:
        while not Path(path).exists():
            time.sleep(0.05)
        ways = (("direct", port, None), ("a port, kernel stamps", mouth, None), ("a unix socket, read stamps", port, path))
        for way, at, uds in ways:
            log.unlink(missing_ok=True)
            wire, stamps = Wire(), []
            body = {"messages": [], "stream": True}
            url = f"http://127.0.0.1:{at}/v1/chat/completions"
            with stamped_client(wire, None, uds=uds) as client, client.stream("POST", url, json=body) as response:
                for data in response.iter_raw():
                    stamps += [wire.t_ns] * data.count(b'"content": " ')
            yield way, *_percentiles([(b - a) / 1e6 for a, b in zip(sent_times(log), stamps, strict=False)])
    finally:
        ssh.terminate()
        ssh.wait()


def _percentiles(values: list[float]) -> tuple[float, float]:
    ordered = sorted(values)
    return median(ordered), ordered[int(len(ordered) * 0.99)]


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--uds", action="store_true", help="only a forwarded port against a forwarded unix socket")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/tmp") as name, far_machine(Path(name)) as env:
        folder, log = Path(name), Path(name) / "sent.jsonl"
        argv = [sys.executable, str(METRONOME), "--port", "0", "--log", str(log), "--prefill-ms", "200"]
        argv += ["--rate", str(options.rate), "--tokens", str(options.tokens)]
        metronome = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert metronome.stdout is not None
        port = int(metronome.stdout.readline().rpartition(":")[2])
        try:
            for _ in range(options.pairs):
                if options.uds:
                    for way, p50, p99 in by_bare_readers(port, log, folder, env):
                        print(f"{way:<28} late p50 {p50:6.3f}  p99 {p99:6.3f} ms")
                    (folder / "mouth").unlink(missing_ok=True)
                    continue
                direct = by_phasetop(f"http://127.0.0.1:{port}", log, folder, env)
                far = by_phasetop(f"ssh://far/:{port}", log, folder, env)
                for way, found in (("direct", direct), ("ssh", far)):
                    ttft, p50, p99, late, late_p99 = found
                    print(
                        f"{way:<7} ttft {ttft:7.1f} ms   gap p50 {p50:6.2f}  p99 {p99:6.2f} ms   "
                        f"late p50 {late:6.3f}  p99 {late_p99:6.3f} ms"
                    )
                ttft, p50, p99 = (there / here for here, there in zip(direct[:3], far[:3], strict=True))
                print(f"ratio   ttft {ttft:7.3f}      gap p50 {p50:6.3f}  p99 {p99:6.3f}")
        finally:
            metronome.kill()


if __name__ == "__main__":
    main()
