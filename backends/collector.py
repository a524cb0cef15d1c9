"""The collector: a process that talks to the server and the counters, stamps what happens, and appends it to a session file.

Started as ``python -P -m phasetop.backends.collector``. Commands come as JSON lines on stdin, the first is `start`; answers
are `control` events in the session. EOF on stdin means that the viewer is gone. Nothing here ever waits for a viewer.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

from phasetop import events as ev

if __name__ == "__main__":
    # httpx loads its own command line where rich is installed: 25 to 45 ms and 3 MB that nobody here needs.
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type]

from phasetop.backends.cgroup import container_of
from phasetop.backends.commands import Command, Commands
from phasetop.backends.peaks import peaks_of
from phasetop.backends.protocol import Ask
from phasetop.backends.recorder import Recorder, this_host
from phasetop.backends.samplers import Samplers
from phasetop.backends.shelf import Limits
from phasetop.backends.stamped import keep_stamping
from phasetop.backends.target import Target
from phasetop.backends.tasks import Tasks
from phasetop.backends.turns import Turns
from phasetop.backends.wanted import wanted_from
from phasetop.checks import check_key
from phasetop.faults import UsageError
from phasetop.priority import step_back_thread

_PARTING_S: Final = 5.0
GPUS_S: Final = 10.0
"""A driver that wakes its GPUs takes seconds to tell of them; whoever wants to know waits so long."""


class Collector:
    """One session: its target, its requests, its samplers. Commands are obeyed in order by the main thread."""

    def __init__(self, recorder: Recorder, start: Command) -> None:
        self._recorder = recorder
        self._on_gone = start.get("on_gone") or "stop"
        path = start.get("path")
        self._log_folder = Path(path).parent if path else None
        self._sampler = Samplers(recorder)
        self._given_peaks: Command = start.get("peaks") or {}
        wanted = wanted_from(start)
        self._over_ssh = wanted is not None and wanted.ssh is not None
        self.target = Target(recorder, wanted, self._live_folder()) if wanted is not None else None
        self._turns = Turns(recorder, self.target, self._sampler)
        insecure = bool((start.get("tls") or {}).get("insecure"))
        self._tasks = Tasks(recorder, self.target, start.get("api_key"), self._look_again, insecure=insecure)

    def _live_folder(self) -> Path | None:
        from phasetop.places import live_folder

        folder = live_folder()
        return folder if folder.is_dir() else self._log_folder

    def begin(self, host: ev.Host) -> None:
        """Sample, and look for the server."""
        keep_stamping()
        self._sampler.start(host, gpus=not self._over_ssh)  # those here have no part in it
        if (peaks := peaks_of(host, self._given_peaks, self._recorder.now())) is not None:
            self._recorder.emit(peaks)
        if self.target is not None:
            self._look_again()

    def _look_again(self) -> None:
        """Look for the server, on a thread of its own."""
        self._spawn(self._resolve, "target")

    def _resolve(self) -> None:
        assert self.target is not None
        self.target.resolve()
        if self.target.pid is not None and not self.target.is_ollama:  # whose runners do the work: a watch names them
            self._sampler.watch(self.target.pid, self.target.v)

    def _spawn(self, call: Callable[..., None], name: str, *args: Any) -> None:
        threading.Thread(target=call, args=args, name=name, daemon=True).start()

    def obey(self, command: Command) -> bool:
        """One command; False when it was `stop`."""
        op, number = str(command.get("op")), command.get("id")
        handler = {
            "ask": self._ask,
            "count": self._count,
            "cancel": self._cancel,
            "set": self._set,
            "mark": self._mark,
            "bench": self._bench,
            "discover": self._discover,
            "get": self._get,
            "launch": self._launch,
            "measure": self._measure,
        }.get(op)
        if op == "stop":
            self.answer(op, number)
            return False
        if handler is None:
            self.answer(op, number, why=f"no such command: {op}")
            return True
        try:
            handler(command)
        except UsageError as error:
            self.answer(op, number, why=str(error))
        except (KeyError, TypeError, ValueError) as error:
            self.answer(op, number, why=f"a {op} that makes no sense: {type(error).__name__}")
        return True

    def answer(self, op: str, number: Any, *, why: str | None = None, **more: Any) -> None:
        """Say that a command was obeyed, or why not."""
        recorder = self._recorder
        number = number if isinstance(number, int) else None
        recorder.emit(ev.Control(t=recorder.now(), op=op, id=number, ok=why is None, why=why, **more))

    def _ask(self, command: Command) -> None:
        if self.target is None:
            raise UsageError("this session has no server to ask")
        if self.target.try_again():
            self._look_again()
        self._turns.ask(command, lambda r: self.answer("ask", command.get("id"), r=r))

    def _count(self, command: Command) -> None:
        """How many tokens a prompt has, by the server, which generates nothing for it."""
        backend = self.target.backend if self.target is not None else None
        if backend is None:
            raise UsageError("no server is ready to count")
        api: Literal["chat", "raw"] = "raw" if command.get("api") == "raw" else "chat"
        ask = Ask(r=-1, api=api, messages=list(command.get("messages") or ()), prompt=command.get("prompt"))

        def count() -> None:
            pieces = None
            try:
                pieces = backend.pieces(ask)
            except Exception:  # whoever asked waits for the answer
                traceback.print_exc()
            why = "this server counts no prompts" if pieces is None else None
            self.answer("count", command.get("id"), why=why, n=None if pieces is None else len(pieces.ids))

        self._spawn(count, "count")

    def _cancel(self, command: Command) -> None:
        if command.get("task") is not None:
            number = int(command["task"])
            pulling = self.target.pulling(number) if self.target is not None else None
            if pulling is not None:
                pulling.set()
            elif not self._tasks.cancel(number):
                raise UsageError(f"there is no task {number} running")
            self.answer("cancel", command.get("id"), task=number)
            return
        turn = self._turns.running(int(command["r"]))
        if turn is None:
            raise UsageError(f"request {command['r']} does not run")
        self.answer("cancel", command.get("id"), r=turn.r)
        turn.cancel()

    def _set(self, command: Command) -> None:
        if "api_key" in command and self.target is not None:
            self.target.use_key(check_key(command["api_key"]))
        if command.get("logprobs") is not None:
            self._turns.logprobs = max(0, int(command["logprobs"])) or None
        if command.get("sample_hz") is not None:
            self._sampler.set_hz(float(command["sample_hz"]))
        if command.get("kept") is not None:
            self._recorder.also_known_as(Path(command["kept"]))
        self.answer("set", command.get("id"))

    def _mark(self, command: Command) -> None:
        recorder = self._recorder
        label = command.get("label")
        recorder.emit(ev.Mark(t=recorder.now(), at=max(0, int(command["at"])), label=None if label is None else str(label)))
        self.answer("mark", command.get("id"))

    def _bench(self, command: Command) -> None:
        """What a bench is about, or how it ended: it stands in its recording, which is all that the table is made of."""
        told = {name: command[name] for name in ("plan", "swept", "rounds", "took_ns", "stopped") if name in command}
        self._recorder.emit(ev.Bench(t=self._recorder.now(), **told))
        self.answer("bench", command.get("id"))

    def _discover(self, command: Command) -> None:
        def look() -> None:
            from phasetop.backends.discover import discover, look_at_machine

            step_back_thread()
            why: str | None = None
            try:
                discover(self._recorder, models=command.get("models") is not False)
                if command.get("machine"):
                    look_at_machine(self._recorder, container=container_of() is not None)
                    self._sampler.settle(GPUS_S)
            except Exception as error:  # whoever asked waits for the answer
                traceback.print_exc()
                why = f"phasetop's own error: {type(error).__name__}"
            self.answer("discover", command.get("id"), why=why)

        self._spawn(look, "discover")

    def _measure(self, command: Command) -> None:
        """The read test of the memory: some seconds in which the machine should rest."""
        if command.get("what") != "bandwidth":
            raise UsageError(f"there is nothing called {command.get('what')} to measure")

        def test() -> None:
            from phasetop.backends.peaks import measure_bandwidth

            why = measure_bandwidth(self._recorder)
            self.answer("measure", command.get("id"), why=why)

        self._spawn(test, "measure")

    def _launch(self, command: Command) -> None:
        from phasetop.backends.launch import launch

        what = str(command.get("what"))
        pid = launch(what)
        self._recorder.notice("launched", f"started {what} (process {pid}); it goes on when phasetop ends")
        self.answer("launch", command.get("id"))

    def _get(self, command: Command) -> None:
        self._tasks.get(
            str(command["model"]),
            command.get("backend"),
            lambda task: self.answer("get", command.get("id"), task=task),
            insecure=bool(command.get("insecure")),
        )

    def wait_requests(self, ended: Callable[[], bool]) -> None:
        """Let what runs end by itself (`on_gone` finish), or until ``ended`` says that it must end."""
        while (turns := self._turns.all_running()) and not ended():
            turns[0].done.wait(0.1)

    @property
    def on_gone(self) -> str:
        """What to do when the viewer is gone: stop or finish."""
        return str(self._on_gone)

    def end(self, reason: str) -> str:
        """End all that runs; returns the reason to write: a stop with nothing running is "done"."""
        turns = self._turns.all_running()
        for turn in turns:
            turn.cancel("signal" if reason == "signal" else None)
        deadline = time.monotonic() + _PARTING_S
        self._tasks.end()
        for turn in turns:
            turn.done.wait(max(0.0, deadline - time.monotonic()))
        if self.target is not None:
            self.target.close()
        self._sampler.stop()
        return "done" if reason == "stopped" and not turns else reason


def _limits_of(start: Command) -> Limits:
    """How large the session may become, and when it goes on in a further file."""
    asked: Command = start.get("limits") or {}
    link = asked.get("link")
    return Limits(asked.get("max_bytes"), asked.get("part_bytes"), asked.get("part_ns"), Path(link) if link else None)


def main() -> int:
    """Run a session; the exit status is 0 however it ended, 2 when the first command was no `start`."""
    sys.setswitchinterval(0.0005)  # the stamping thread should not wait long for the sampler
    os.set_blocking(1, False)
    commands = Commands(0)
    commands.catch_signals()
    start = commands.next()
    if not start or start.get("op") != "start":
        print("the first command has to be start", file=sys.stderr)
        return 2
    path = start.get("path")
    recorder = Recorder(
        Path(path) if path else None,
        1,
        redacted=bool(start.get("redact")),
        no_file=start.get("no_file"),
        limits=_limits_of(start),
    )
    host = this_host()
    recorder.open(str(start.get("session")), start.get("argv") or [], start.get("kind") or "run", host)
    collector = Collector(recorder, start)
    collector.answer("start", start.get("id"))
    collector.begin(host)
    reason = "stopped"
    while True:
        command = commands.next()
        if command is None:
            reason = commands.signalled or "viewer_gone"
            break
        if not collector.obey(command):
            break
    if reason == "viewer_gone" and collector.on_gone == "finish":
        collector.wait_requests(lambda: commands.signalled is not None)
        reason = commands.signalled or reason
    recorder.close(collector.end(reason))
    return 0


if __name__ == "__main__":
    sys.exit(main())
