"""A connection to another machine by the system's ssh: its servers through unix sockets, and a shell that tells its vitals.

One ssh process does both, in a process group of its own. A small sh stands above it and holds our lifeline: when the
collector is gone, however it died, ssh is ended and the folder of the sockets removed. The sockets lie in a folder that only
this account can enter, so that nobody else on this machine gets through to the server, and no port can be taken by another.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from phasetop.backends.far_script import script
from phasetop.faults import PhasetopError
from phasetop.ssh import Address, Failure, command, not_installed, why_it_ended
from phasetop.visible import harmless

_ABOVE: Final = """
d=$1; shift
exec 4<&0 </dev/null
"$@" <&4 4<&- & p=$!
exec 4<&- >/dev/null 2>&1
( read -r _ <"$d/life"; kill "$p" ) & w=$!
wait "$p"; s=$?
shift; ssh -O cancel "$@"
kill "$w"
rm -rf -- "$d"
exit "$s"
"""
"""What stands above ssh: the end of the fifo ``life`` is ours, and ends ssh. Its stdin goes to ssh alone.

Where ssh went through a connection of the person's own (ControlPath), the forwards are taken back from that.
"""
_OPTIONS: Final = (
    *("-o", "ExitOnForwardFailure=no"),  # the configuration may forward ports that another ssh of the person's has already
    *("-o", "StreamLocalBindMask=0177"),
    *("-o", "LogLevel=INFO"),  # what it says of a refused forward is needed
    *("-o", "ForkAfterAuthentication=no", "-o", "IgnoreUnknown=ForkAfterAuthentication"),
)
OPENING_S: Final = 60.0
"""ssh itself gives up earlier; some ways of logging in take their time."""
SHELL_S: Final = 5.0
"""A far shell that says nothing for so long after the forwards stand is done without."""
PARTING_S: Final = 2.0
_POLL_S: Final = 0.02
_READ_BYTES: Final = 1 << 16
_LINES: Final = 40
_LONGEST_FOLDER: Final = 80  # ssh adds 17 characters of its own while it binds; macOS has room for 103


class TunnelError(PhasetopError):
    """ssh did not connect, or ended; the text is one plain line."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class Tunnel:
    """A connection that stands. `open` makes one, `close` ends it; `gone` is set when it ended.

    Attributes:
        address: the far machine.
        has_shell: whether a shell answers there (an account may be allowed to forward only).
        gone: set when ssh has ended.
    """

    def __init__(self, address: Address, urls: Sequence[str], heard: Callable[[bytes], None]) -> None:
        self.address = address
        self.has_shell = False
        self.gone = threading.Event()
        self._heard = heard
        self._said: deque[str] = deque(maxlen=_LINES)
        self._folder = _private_folder()
        self._mouths = {url: self._folder / f"{i}.sock" for i, url in enumerate(dict.fromkeys(urls))}
        self._guard = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline = -1
        self._spoke = threading.Event()  # the far shell said something
        self._heard_of_end = threading.Event()  # all that ssh said was read
        self._when_gone: Callable[[Failure], None] | None = None

    @classmethod
    def open(
        cls,
        address: Address,
        urls: Sequence[str],
        heard: Callable[[bytes], None],
        given_up: Callable[[], bool] = lambda: False,
    ) -> Tunnel:
        """Connect, and wait until it stands.

        Args:
            address: the far machine.
            urls: the servers there that may be asked, as that machine sees them.
            heard: takes what the far shell prints, on a thread; b"" never comes.
            given_up: asked meanwhile: nobody wants it any more.

        Raises:
            TunnelError: it does not stand; the text says why and what to do.
        """
        one = cls(address, urls, heard)
        try:
            if not one._start(given_up, with_shell=True):  # connected, and there is no shell for us
                one._end()
                one.gone.clear()
                if not one._start(given_up, with_shell=False):
                    raise TunnelError(one.why())
        except BaseException:
            one.close()
            raise
        return one

    def mouth(self, url: str) -> str:
        """The unix socket that leads to a server of `open`'s ``urls``."""
        return str(self._mouths[url])

    def order(self, text: str) -> None:
        """Send an order to the far shell; nothing where there is none (any more)."""
        process = self._process
        if process is None or process.stdin is None or not self.has_shell:
            return
        try:
            os.write(process.stdin.fileno(), text.encode() + b"\n")
        except (OSError, ValueError):
            pass  # full, broken or closed: its end is told otherwise

    def why(self) -> Failure:
        """Why ssh ended, in plain words."""
        process = self._process
        self._heard_of_end.wait(1.0)
        status = process.poll() if process is not None else None
        # What is said is recorded, and a recording names no user.
        unnamed = Address(self.address.host, None if self.address.user is None else "USER", self.address.port)
        return why_it_ended(unnamed, 255 if status is None else status, "\n".join(self._said).encode())

    def refused(self) -> str | None:
        """What ssh said last of a server that could not be reached from there; None: nothing."""
        for line in reversed(self._said):
            if "open failed:" in line:
                return harmless(line.rpartition("open failed:")[2].strip(), newlines=False)[:200]
        return None

    def wait_gone(self, limit_s: float) -> bool:
        """Whether it ended within this time."""
        return self.gone.wait(limit_s)

    def when_gone(self, call: Callable[[Failure], None]) -> None:
        """Have ``call`` called, on a thread, when it ends by itself."""
        self._when_gone = call

    def close(self) -> None:
        """End ssh and all that it started here."""
        self._when_gone = None
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, given_up: Callable[[], bool], *, with_shell: bool) -> bool:
        """Start ssh and wait; False: it connected, and the account has no shell that would do. Raises `TunnelError`."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._spoke.clear()
        self._heard_of_end.clear()
        forwards = [word for url, path in self._mouths.items() for word in ("-L", f"{path}:{_place(url)}")]
        if with_shell:
            argv = command(self.address, "sh", options=[*_OPTIONS, *forwards], stdin=True)
        else:
            argv = command(self.address, options=[*_OPTIONS, "-N", *forwards])
        self._spawn(argv, with_shell=with_shell)
        end = time.monotonic() + OPENING_S
        until_s: float | None = None
        while not given_up() and time.monotonic() < end:
            if with_shell and self._spoke.is_set():
                self.has_shell = True
                return True
            stands = all(path.exists() for path in self._mouths.values())
            if self.gone.is_set():
                failure = self.why()
                if with_shell and failure.kind == "far":
                    return False
                raise TunnelError(failure)
            if stands and not with_shell:
                return True
            if stands:
                until_s = until_s or time.monotonic() + SHELL_S
                if time.monotonic() > until_s:
                    return True  # a shell that says nothing, or another program instead of it
            self.gone.wait(_POLL_S)
        if given_up():
            raise TunnelError(Failure("lost", "the session ended before ssh had connected"))
        raise TunnelError(Failure("unreachable", f"ssh to {self.address.host} did not connect within {OPENING_S:.0f} s"))

    def _spawn(self, argv: Sequence[str], *, with_shell: bool) -> None:
        if shutil.which("ssh") is None:
            raise TunnelError(not_installed())
        fifo = self._folder / "life"
        os.mkfifo(fifo, 0o600)
        self._lifeline = os.open(fifo, os.O_RDWR)  # the only writer: not inherited by anything
        try:
            process = subprocess.Popen(
                ["sh", "-c", _ABOVE, "phasetop-ssh", str(self._folder), *argv],
                stdin=subprocess.PIPE if with_shell else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,  # no terminal that it could ask on, and a group to end as a whole
            )
        except OSError as error:
            raise TunnelError(Failure("missing", f"cannot start ssh: {error.strerror or error}")) from None
        self._process = process
        if process.stdin is not None:
            with suppress(BrokenPipeError):  # ssh has ended already: what it said on stderr tells why
                os.write(process.stdin.fileno(), script())  # less than a pipe holds
            os.set_blocking(process.stdin.fileno(), False)
        threading.Thread(target=self._hear, args=(process,), name="ssh-out", daemon=True).start()
        threading.Thread(target=self._listen, args=(process,), name="ssh-words", daemon=True).start()

    def _hear(self, process: subprocess.Popen[bytes]) -> None:
        """Take what the far shell prints; its end is ssh's."""
        assert process.stdout is not None
        pipe = process.stdout.fileno()
        while data := _read(pipe):
            if b"@H " in data:
                self._spoke.set()
            self._heard(data)
        process.wait()
        _end_group(process.pid)  # whatever is left of it
        if process is self._process:
            self.gone.set()
            if self._when_gone is not None:
                self._when_gone(self.why())

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """Keep the last lines that ssh says."""
        assert process.stderr is not None
        pipe, rest = process.stderr.fileno(), b""
        while data := _read(pipe):
            *lines, rest = (rest + data).split(b"\n")
            rest = rest[-_READ_BYTES:]
            self._said.extend(line[:500].decode("utf-8", "replace").strip() for line in lines)
        if rest:
            self._said.append(rest[:500].decode("utf-8", "replace").strip())
        self._heard_of_end.set()

    def _end(self) -> None:
        with self._guard:
            process, lifeline, self._lifeline = self._process, self._lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)
        if process is None:
            return
        if process.stdin is not None:
            try:
                process.stdin.close()
            except OSError:
                pass
        if not self.gone.wait(PARTING_S):
            _end_group(process.pid)
            self.gone.wait(PARTING_S)


def _private_folder() -> Path:
    """A folder that only this account can enter, with a path short enough for the address of a unix socket (sun_path)."""
    folder = tempfile.mkdtemp(prefix="phasetop-ssh-")
    if len(os.fsencode(folder)) > _LONGEST_FOLDER:
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix="phasetop-ssh-", dir="/tmp")
    return Path(folder)


def _place(url: str) -> str:
    """``HOST:PORT`` of a URL as ``-L`` takes it."""
    parts = urlsplit(url)
    host = parts.hostname or "127.0.0.1"
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _read(pipe: int) -> bytes:
    try:
        return os.read(pipe, _READ_BYTES)
    except OSError:
        return b""


def _end_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
