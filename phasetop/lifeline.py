"""A collector of one's own: its process and both pipes; `session_file` has the fate of the file it writes.

The viewer (or the headless command) spawns it before it imports anything heavy. Commands go in on stdin as JSON lines;
answers come back as events of the session. The end of that pipe tells the collector that the viewer is gone, so there is no
order of deaths that leaves one behind. Nobody else on the viewer's side starts a process.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from phasetop import priority
from phasetop.codec import valid
from phasetop.faults import PhasetopError
from phasetop.follow import Follower
from phasetop.session_file import SessionFile

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

COLLECTOR: Final = "phasetop.backends.collector"
_F_SETPIPE_SZ: Final = 1031  # Linux; fcntl has the name from Python 3.10 on, macOS has none
_PIPE_BYTES: Final = 1 << 20
_PARTING_S: Final = 8.0


class Target(Struct, frozen=True):
    """Whom to talk to; what is None the collector finds (EVENTS.md: `start`).

    ``ssh``: the machine that the server is on, as `phasetop.ssh.parse_address` reads it; the url is then as that machine
    sees it.
    """

    backend: str | None = None
    url: str | None = None
    model: str | None = None
    ssh: str | None = None


class Start(Struct, frozen=True):
    """What a collector is started with. ``api_key`` travels on the pipe, never in argv or environment."""

    target: Target | None
    argv: Sequence[str] = ()
    kind: Literal["run", "bench", "observe"] = "run"
    engine: dict[str, Any] | None = None
    api_key: str | None = None
    cacert: str | None = None
    insecure: bool = False
    proxy: str | None = None
    on_gone: Literal["stop", "finish"] = "stop"
    redact: bool = False
    pull: bool = False  # let Ollama fetch a model that it lacks
    peak_bytes_per_s: float | None = None  # of what runs the model, where a person sets it
    peak_flops: float | None = None
    max_bytes: int | None = None  # of the recording
    part_bytes: int | None = None  # a further part of it is begun after so many, or after so long
    part_ns: int | None = None


class Lifeline:
    """The viewer's end of a collector.

    Args:
        start: what to run.
        record: a path of the user's own that the session is written to from the start; None: the live folder. One that
            ends in ``.gz`` is compressed at the end.
        keep_as: a name that the recording is given as soon as there is one ("": the usual one); None: it goes at the end
            unless `keep` says. One that ends in ``.gz`` is compressed at the end.

    Raises:
        PhasetopError: the given file exists or its folder does not, no process can be started, or this is Windows.
    """

    def __init__(self, start: Start, *, record: Path | None = None, keep_as: str | None = None) -> None:
        if fcntl is None:
            raise PhasetopError("sessions need Linux, macOS or another POSIX system: on Windows, run phasetop in WSL")
        self.session_id = str(uuid.uuid4())
        self._ids = itertools.count(1)
        self._closed = False
        self._rotates = start.part_bytes is not None or start.part_ns is not None
        self._file = SessionFile(self.session_id, record, keep_as)
        self._process = self._spawn(aside=start.target is None)
        self._anchor_guess = time.monotonic_ns()
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        os.set_blocking(pipe, False)
        try:
            fcntl.fcntl(pipe, _F_SETPIPE_SZ, _PIPE_BYTES)
        except OSError:
            pass
        self.follower: Follower = _Own(self.path, pipe, self.now, self._keep_when_named)
        self._send(
            op="start",
            session=self.session_id,
            path=None if self.path is None else str(self.path),
            no_file=self._file.no_file,
            argv=list(start.argv),
            target=None if start.target is None else _as_dict(start.target),
            kind=start.kind,
            engine=start.engine,
            api_key=start.api_key,
            tls={"cacert": start.cacert, "insecure": start.insecure},
            proxy=start.proxy,
            on_gone=start.on_gone,
            redact=start.redact,
            pull=start.pull,
            peaks={"bytes_per_s": start.peak_bytes_per_s, "flops": start.peak_flops},
            limits={
                "max_bytes": start.max_bytes,
                "part_bytes": start.part_bytes,
                "part_ns": start.part_ns,
                "link": None if self._file.link is None else str(self._file.link),
            },
        )

    def _spawn(self, *, aside: bool) -> subprocess.Popen[bytes]:
        """Start the collector; ``aside``: it only looks around and stamps nothing, so the first picture goes before it."""
        log: Any = subprocess.DEVNULL
        if self._file.log is not None:
            try:
                log = os.open(self._file.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            except OSError:
                self._file.log = None
        try:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", COLLECTOR],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                bufsize=0,
                # No thread runs here yet: the collector is started before anything else is loaded.
                preexec_fn=_step_aside if aside else None,
            )
        except OSError as error:
            raise PhasetopError(f"cannot start the collector: {error}") from error
        finally:
            if isinstance(log, int) and log >= 0:
                os.close(log)

    def now(self) -> int:
        """The time since the session's anchor, ns."""
        hello = self.follower.session.hello
        return time.monotonic_ns() - (hello.anchor.mono if hello else self._anchor_guess)

    @property
    def pid(self) -> int:
        """The collector's process."""
        return self._process.pid

    @property
    def path(self) -> Path | None:
        """Where the session is written now; None: nowhere."""
        return self._file.path

    @property
    def kept(self) -> Path | None:
        """The recording that stays; None while it would go at the end."""
        return self._file.kept

    @property
    def kept_as(self) -> str | None:
        """What the kept recording is called: its name, or its path where it lies outside the recordings folder."""
        return self._file.kept_as

    @property
    def not_kept(self) -> str | None:
        """Why it is not kept, where that was asked for."""
        return self._file.not_kept

    @property
    def not_zipped(self) -> str | None:
        """Why it is not compressed, where that was asked for."""
        return self._file.not_zipped

    def _send(self, **command: Any) -> int:
        """Send a command; lone surrogates in it (a prompt typed in a broken locale) become U+FFFD. Returns its id."""
        number = next(self._ids)
        line = msgspec.json.encode({"op": command.pop("op"), "id": number, **valid(command)}) + b"\n"
        stdin = self._process.stdin
        assert stdin is not None
        try:
            view = memoryview(line)
            while view:
                view = view[stdin.write(view) or 0 :]
        except (BrokenPipeError, ValueError):
            pass  # it died: the follower says so
        return number

    def ask(
        self,
        *,
        api: Literal["chat", "raw"] = "chat",
        messages: list[dict[str, Any]] | None = None,
        prompt: str | None = None,
        parent: int | None = None,
        after: int | None = None,
        tools: Any = None,
        settings: dict[str, Any] | None = None,
        labels: dict[str, Any] | None = None,
    ) -> int:
        """Send a request; returns the command's id, which the `control` answer repeats with the r it became."""
        return self._send(
            op="ask",
            parent=parent,
            api=api,
            messages=messages,
            prompt=prompt,
            tools=tools,
            settings=settings or {},
            labels=labels or {},
            after=after,
        )

    def count(self, *, api: Literal["chat", "raw"], messages: list[dict[str, Any]] | None, prompt: str | None) -> int:
        """Have a prompt's tokens counted by the server, without asking it; the answer's ``n``, where it can tell."""
        return self._send(op="count", api=api, messages=messages, prompt=prompt)

    def cancel(self, r: int) -> int:
        """End a running request; what came stays."""
        return self._send(op="cancel", r=r)

    def cancel_task(self, task: int) -> int:
        """End a task (a download)."""
        return self._send(op="cancel", task=task)

    def set(self, **values: Any) -> int:
        """Change ``api_key``, ``logprobs`` or ``sample_hz`` from here on."""
        return self._send(op="set", **values)

    def mark(self, at: int, label: str) -> int:
        """Leave a mark in the session."""
        return self._send(op="mark", at=at, label=label)

    def bench(self, **told: Any) -> int:
        """Write down what is benched (``plan``, ``swept``), or how it ended (``rounds``, ``took_ns``, ``stopped``)."""
        return self._send(op="bench", **told)

    def discover(self, *, models: bool = True, machine: bool = False) -> int:
        """Look for servers, models, devices; the answers are events.

        Args:
            models: write what was found as `server` and `model` events; else as findings alone.
            machine: look at the machine and its programs too, and wait for what its GPUs' drivers tell.
        """
        return self._send(op="discover", models=models, machine=machine)

    def get(self, model: str, backend: str | None = None) -> int:
        """Fetch a model (``backend`` "ollama": pull it there); progress comes as `task` events."""
        return self._send(op="get", model=model, backend=backend)

    def launch(self, what: str) -> int:
        """Start a server that is installed and does not run; it outlives the session."""
        return self._send(op="launch", what=what)

    def measure(self, what: str = "bandwidth") -> int:
        """Measure the memory's bandwidth; the answer comes when it is over, and a `finding` with it."""
        return self._send(op="measure", what=what)

    def stop(self) -> int:
        """End the running requests and the session; the collector leaves by itself."""
        return self._send(op="stop")

    def keep(self, name: str | None = None, model: str | None = None) -> Path:
        """Give the session a second name in the recordings folder (or, where links fail, move it there at the end).

        Raises:
            PhasetopError: there is no file, or it cannot be linked.
        """
        fresh = self.kept is None
        kept = self._file.keep(name, model)
        if fresh:
            self._tell_name()
        return kept

    def _tell_name(self) -> None:
        """Further parts get their names beside the recording's."""
        if self._rotates:
            self._send(op="set", kept=str(self.kept))

    def _keep_when_named(self) -> None:
        if not self._closed and self._file.keep_when_named(self._model()):
            self._tell_name()

    def _model(self) -> str | None:
        models = self.follower.session.models.values()
        return next((m.name for versions in models if (m := versions.at()) and m.name), None)

    def close(self) -> int | None:
        """Part from the collector: it ends what runs and leaves; returns its exit status (None: it had to be killed).

        The session file goes unless it was kept. Never hangs: a collector that stays is killed after 8 s.
        """
        if self._closed:
            return self._process.returncode
        self._closed = True
        self.stop()
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except BrokenPipeError:
                pass
        deadline = time.monotonic() + _PARTING_S
        status: int | None = None
        while (status := self._process.poll()) is None and time.monotonic() < deadline:
            self._poll()  # a full pipe must not hold it up
            try:
                self._process.wait(0.01)
            except subprocess.TimeoutExpired:
                continue
        if status is None:
            self._process.kill()
            self._process.wait()
        self._poll()
        self._poll()
        session = self.follower.session
        self.follower.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._file.settle(session, self._model())
        return status

    def _poll(self) -> None:
        """A file that cannot be read (any more) keeps nobody from parting."""
        with suppress(PhasetopError):
            self.follower.poll()
            while self.follower.behind and not self.follower.ended:
                self.follower.poll()

    def log_tail(self, limit: int = 2000) -> str:
        """The end of the collector's log, for an error message."""
        if self._file.log is None:
            return ""
        try:
            return self._file.log.read_bytes()[-limit:].decode("utf-8", "replace")
        except OSError:
            return ""


class _Own(Follower):
    """The follower of one's own collector, which tells when something came."""

    def __init__(self, path: Path | None, pipe: int, now: Callable[[], int], came: Callable[[], None]) -> None:
        super().__init__(path, pipe, now)
        self._came = came

    def poll(self) -> bool:
        """Apply what is new; True when something came."""
        came = super().poll()
        if came:
            self._came()
        return came


def _step_aside() -> None:
    """Of a process in a session of its own: Linux weighs sessions against each other before it looks at niceness in one."""
    try:  # what is raised here would end in the parent as an error that nobody expects
        os.nice(priority.LOOKING)
        with open("/proc/self/autogroup", "w", encoding="ascii") as file:
            file.write(str(priority.LOOKING))
    except OSError:
        pass  # not allowed, or no such grouping here


def _as_dict(target: Target) -> dict[str, Any]:
    return {"backend": target.backend, "url": target.url, "model": target.model, "ssh": target.ssh}
