"""A collector of one's own: its process, both pipes, and the fate of the file it writes.

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
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from phasetop import keeping, places
from phasetop.events import valid
from phasetop.faults import PhasetopError
from phasetop.follow import Follower
from phasetop.parts import SUFFIX, ZIPPED

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
        self.kept: Path | None = None
        self.not_kept: str | None = None  # why, where keeping was asked for
        self.not_zipped: str | None = None  # why, where .gz was asked for
        self._zip = any(str(name).endswith(ZIPPED) for name in (record, keep_as) if name is not None)
        self._keep_as = None if keep_as is None else keep_as.removesuffix(ZIPPED)
        if record is not None and self._zip:
            record = record.with_name(record.name.removesuffix(ZIPPED))
        self._ids = itertools.count(1)
        self._path: Path | None = places.live_path(self.session_id)
        self._log: Path | None = self._path.with_suffix(".log")
        self._link: Path | None = None
        self._closed = False
        self._rotates = start.part_bytes is not None or start.part_ns is not None
        self._no_file: str | None = None
        self._prepare(record)
        self._process = self._spawn()
        self._anchor_guess = time.monotonic_ns()
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        os.set_blocking(pipe, False)
        try:
            fcntl.fcntl(pipe, _F_SETPIPE_SZ, _PIPE_BYTES)
        except OSError:
            pass
        self.follower: Follower = _Own(self._path, pipe, self.now, self._keep_when_named)
        self._send(
            op="start",
            session=self.session_id,
            path=None if self._path is None else str(self._path),
            no_file=self._no_file,
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
                "link": None if self._link is None else str(self._link),
            },
        )

    def _prepare(self, record: Path | None) -> None:
        """Make the folders; without a state folder the session lives in the pipe alone, and says so."""
        assert self._path is not None
        try:
            places.make_private(self._path.parent)
        except OSError as error:
            self._log = None
            self._no_file = f"{self._path.parent}: {(error.strerror or str(error)).lower()}"
            if record is None:
                self._path = None
        if record is None:
            return
        record = record.expanduser().absolute()
        try:
            zipped = record.with_name(f"{record.name}{ZIPPED}")
            taken = _is_taken(record) or (self._zip and _is_taken(zipped))
            has_folder = record.parent.is_dir()
        except OSError as error:  # a name that no file can have
            raise PhasetopError(f"cannot write {record}: {(error.strerror or str(error)).lower()}") from None
        if taken:
            raise PhasetopError(f"{record} exists: choose another name, or remove it")
        if not has_folder:
            raise PhasetopError(f"{record.parent} is no folder: make it first")
        self._link, self._path, self.kept = self._path, record, record
        try:
            if self._link is not None:
                self._link.symlink_to(record)
        except OSError:
            self._link = None

    def _spawn(self) -> subprocess.Popen[bytes]:
        log: Any = subprocess.DEVNULL
        if self._log is not None:
            try:
                log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            except OSError:
                self._log = None
        try:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", COLLECTOR],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                bufsize=0,
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
        return self._path

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
        if self.kept is not None:
            return self.kept
        if self._path is None or not self._has_lines():
            raise PhasetopError(f"this session has no file ({self._no_file or 'it could not be written'})")
        stem = places.safe_stem(name) if name else places.recording_stem(model)
        try:
            self.kept, self._path = keeping.keep(self._path, stem)
        except OSError as error:
            raise PhasetopError(f"cannot keep the session: {error.strerror or error}") from error
        if self._rotates:
            self._send(op="set", kept=str(self.kept))  # further parts get their names beside it
        return self.kept

    def _keep_when_named(self) -> None:
        """Keep a session that is to be kept as soon as its name is known: then even a kill leaves it kept."""
        if self._keep_as is None or self.kept is not None or self._closed:
            return
        model = self._model()
        if not (self._keep_as or model) or not self._has_lines():
            return
        try:
            self.keep(self._keep_as or None, model)
        except PhasetopError:
            return  # at the end once more, which says why

    def _model(self) -> str | None:
        models = self.follower.session.models.values()
        return next((m.name for versions in models if (m := versions.at()) and m.name), None)

    @property
    def kept_as(self) -> str | None:
        """What the kept recording is called: its name, or its path where it lies outside the recordings folder."""
        if self.kept is None:
            return None
        return places.kept_name(self.kept)

    def _has_lines(self) -> bool:
        """Whether there is a file worth a name; one that a full disk cut short is."""
        try:
            return self._path is not None and any(part.stat().st_size for part in keeping.parts_of(self._path))
        except OSError:
            return False

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
            self.follower.poll()  # a full pipe must not hold it up
            try:
                self._process.wait(0.01)
            except subprocess.TimeoutExpired:
                continue
        if status is None:
            self._process.kill()
            self._process.wait()
        self.follower.poll()
        self.follower.poll()
        self._dispose()
        return status

    def _dispose(self) -> None:
        session = self.follower.session
        if self._keep_as is not None and self.kept is None:
            try:
                self.keep(self._keep_as or None, self._model())
            except PhasetopError as error:
                self.not_kept = str(error)
        elif self.kept is not None and not self._has_lines():
            told = (notice.text for notice in session.notices.items if notice.code == "not-recorded")
            self.kept, self.not_kept = None, next(told, "it could not be written")
        if self.kept is not None:
            self.kept = keeping.first_of(self.kept)
        self.follower.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        complete = session.bye is not None and session.bye.reason in ("done", "stopped")
        if self._link is not None:
            for path in [self._link, *self._link.parent.glob(f"{self.session_id}.part*{SUFFIX}")]:
                path.unlink(missing_ok=True)
        elif self._path is not None and self._path != self.kept and (complete or self.kept is not None):
            try:
                keeping.leave_live_folder(self._path, self.kept)
            except OSError as error:
                self.not_kept = f"part of it stays in {self._path.parent}: {(error.strerror or str(error)).lower()}"
        if self.kept is not None and self._zip:
            try:
                self.kept = keeping.compress_parts(self.kept)
            except OSError as error:
                self.not_zipped = f"the recording is not compressed: {(error.strerror or str(error)).lower()}"
        if self._log is not None and complete:
            self._log.unlink(missing_ok=True)

    def log_tail(self, limit: int = 2000) -> str:
        """The end of the collector's log, for an error message."""
        if self._log is None:
            return ""
        try:
            return self._log.read_bytes()[-limit:].decode("utf-8", "replace")
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


def _is_taken(path: Path) -> bool:
    """Whether something has that name. Raises `OSError` for one that no file can have: later Pythons' `exists` does not."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _as_dict(target: Target) -> dict[str, Any]:
    return {"backend": target.backend, "url": target.url, "model": target.model, "ssh": target.ssh}
