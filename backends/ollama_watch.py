"""One request to Ollama, seen from beside it: cold or warm and why, the load, the prefill, the cached part, a cut prompt.

Ollama's stream is silent until the first token and tells no cached part at all. On the same machine its runner is asked a
few times a second; on another, only /api/ps is, and what nobody tells stays unknown. Polls end before a request is
cancelled: a poll of /slots keeps an abandoned prefill alive (docs/ollama.md).
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from phasetop import events as ev
from phasetop.backends.ollama_cut import PromptReader
from phasetop.backends.ollama_gpu import busy_s, claimed_percent, contradiction, gpu_busy_percent
from phasetop.backends.ollama_known import Known
from phasetop.backends.ollama_model import Loaded, OllamaModel, is_listed
from phasetop.backends.ollama_progress import Progress
from phasetop.backends.ollama_runner import Runner, RunnerClient, RunnerSlot, bytes_read, is_alive, runner_of
from phasetop.backends.ollama_slots import SlotFinder
from phasetop.backends.ollama_standing import Standing, changed, said, standing
from phasetop.backends.protocol import Scene

SEARCH_S: Final = 0.03
"""Between polls until the slot is found, in the first second; then `PREFILL_S`."""
PREFILL_S: Final = 0.1
DECODE_S: Final = 0.2
QUEUE_S: Final = 1.0
"""Between polls while the slot works for somebody else, who may cancel."""
ABANDONED_S: Final = 3.0
"""Between polls while it works on a request that was cancelled: more often would keep that one alive."""
LOAD_S: Final = 0.1
SILENT_S: Final = 1.0
"""A runner that does not answer, and of which nothing comes for so long, is lost."""
_STOP_S: Final = 0.3
_NICE: Final = 10


class OllamaWatch:
    """A `protocol.Watch` of one request.

    Args:
        known: what the session knows of this server, kept from request to request.
        model: that is asked.
        path: of the request, and ``body``: what is sent.
        applied: the settings that hold for it, by OUTPUTS' names.
        scene: where the findings go.
    """

    def __init__(
        self, known: Known, model: OllamaModel, path: str, body: Mapping[str, Any], applied: Mapping[str, Any], scene: Scene
    ) -> None:
        self._known, self._model, self._scene, self._applied = known, model, scene, applied
        self._stopping = threading.Event()
        self._kick = threading.Event()
        self._polling = threading.Lock()
        self._standing = Standing(None)
        self._near = False  # the runner processes can be seen
        self._runner: Runner | None = None
        self._gone: Runner | None = None  # the one that ended for a load with other options
        self._loaded_now = False  # by this request
        self._client: RunnerClient | None = None
        self._line: Loaded | None = None  # of /api/ps
        self._finder = SlotFinder(applied)
        self._progress = Progress(scene, None)
        self._prompt = PromptReader(known.endpoint, model, path, body, scene)
        self._queue_s = QUEUE_S
        self._load_task: int | None = None
        self._sent_s = 0.0
        self._first: tuple[float, float | None] | None = None  # the first token: when, and the runner's CPU seconds then
        self._newest_s = 0.0
        self._lost = False
        self._final: ev.Timings | None = None
        self._ended = False

    # -- before the request -------------------------------------------------------------------------------------------------

    def before(self) -> None:
        """Look whether the model is loaded as the request wants it, and whether its slot is free."""
        try:
            self._before()
        except Exception:
            traceback.print_exc()  # into the collector's log; the request itself goes on

    def _before(self) -> None:
        known, scene = self._known, self._scene
        self._finder.alone = known.begin(scene.r)
        if known.local:
            self._judge()
        alternatives = self._applied.get("logprobs")
        if alternatives is not None and known.says_logprobs():
            longer = 1.6 + 0.5 * int(alternatives)  # measured: 134 bytes a line, 211 with 0, 555 with 5, 1579 with 20
            text = f"log-probabilities: the server ranks its vocabulary at each token, and sends {longer:.0f} times as much"
            scene.emit(ev.Notice(t=scene.now(), r=scene.r, code="logprobs-cost", text=text))

    def _judge(self) -> None:
        """Cold or warm; on another machine beside the request, which should not wait for the answer."""
        known, scene = self._known, self._scene
        listed, runners = known.look()
        found = standing(self._model, self._applied, listed, runners, known.last(self._model), time.time())
        self._standing, self._line, self._near = found, found.listed, runners is not None
        self._gone = found.gone
        if found.runner is not None and found.listed is not None:
            self._attach(found.runner)  # if the request wants another one, it is seen to go
            self._look_for_others(found.runner)
        elif found.loaded is False:
            scene.emit(ev.State(t=scene.now(), s="loading", r=scene.r, why=found.why))
        if found.other is not None and known.another_reload():
            text = f"two clients ask with different options by turns ({said(found.other)}): each time the model loads again"
            scene.emit(ev.Notice(t=scene.now(), r=scene.r, code="reload-alternates", level="warn", text=text))
        if found.runner is None and found.loaded:
            self._tell_listed()

    def _attach(self, runner: Runner) -> None:
        """Take a runner for the one that works for us."""
        if self._client is not None:
            self._client.close()
        self._runner, self._client = runner, RunnerClient(runner.port)
        batch = runner.options.get("batch")
        self._progress = Progress(self._scene, batch if isinstance(batch, int) else None)
        self._progress.ctx = runner.context
        if self._known.attached(runner):
            self._scene.works(runner.pid)
            self._scene.server(options=runner.sourced())

    def _look_for_others(self, runner: Runner) -> None:
        """Whether another request is in the slot: then ours will wait."""
        slots = self._poll()
        if slots is None:
            return
        full = self._finder.before(slots)
        abandoned = self._known.abandoned(runner, busy=full)
        if not full:
            return
        why = "another request is running"
        if abandoned is not None:
            self._queue_s = ABANDONED_S
            why = f"the server still works on request {abandoned}, which was cancelled"
        self._scene.emit(ev.State(t=self._scene.now(), s="queued", r=self._scene.r, why=why))

    def _tell_listed(self) -> None:
        """What /api/ps says of a runner that nobody can ask."""
        line = self._line
        if line is not None and line.context is not None:
            self._progress.ctx = line.context
            self._scene.server(options={"context": ev.Sourced(line.context, "server: /api/ps")})

    # -- beside the request -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Follow it, at a lower priority, until `stop`."""
        _step_back()
        self._sent_s = time.monotonic()
        try:
            if not self._known.local:
                self._judge()
            while not self._stopping.is_set():
                self._kick.wait(self._step())
                self._kick.clear()
            if self._ended:
                self._known.look_when_it_unloads(self._model)
        except Exception:
            traceback.print_exc()
        finally:
            with self._polling:
                if self._client is not None:
                    self._client.close()

    def _step(self) -> float | None:
        """One look; returns how long to wait for the next (None: until something happens)."""
        if self._runner is not None:
            return self._step_slots(self._runner)
        if self._near and self._first is None:
            return self._step_load()
        if self._first is None:
            return None
        self._look_at_list()
        self._stopping.wait()
        return None

    def _look_at_list(self) -> None:
        """Once it has answered, it is loaded as it was wanted: what /api/ps says of it then."""
        line = is_listed(self._model, self._known.listed() or ())
        if line is None:
            return
        self._line = line
        if (share := claimed_percent(line)) is not None:
            self._scene.server(options={"gpu_percent": ev.Sourced(share, "server: /api/ps")})
        if self._runner is None:
            self._tell_listed()

    def _step_load(self) -> float:
        """The model loads: find the runner that does it, and say how far it is."""
        runners = [one for one in self._known.runners() or () if not is_same(self._gone, one)]
        runner = runner_of(runners, self._model.blob)
        if runner is None:
            return LOAD_S if time.monotonic() - self._sent_s < 10.0 else 5 * LOAD_S
        client = RunnerClient(runner.port)
        try:
            ready = client.health() == 200
        finally:
            client.close()
        self._say_loading(runner, ready=ready)
        if not ready:
            return LOAD_S
        self._attach(runner)
        self._loaded_now = True
        return 0.0

    def _say_loading(self, runner: Runner, *, ready: bool) -> None:
        """Progress of a load as a task: what the runner has read, or holds, of what its file has."""
        scene, total = self._scene, self._model.described.get("file_bytes")
        if self._load_task is None and not ready:
            self._load_task = scene.new_task()
        if self._load_task is None:
            return
        read = total if ready else bytes_read(runner)
        done = read if read is None or total is None else min(read, total)
        event = ev.Task(t=scene.now(), task=self._load_task, state="ok" if ready else "run", r=scene.r, done=done)
        event.title, event.total, event.unit = f"load {self._model.described.get('name')}", total, "B"
        scene.emit(event)

    def _step_slots(self, runner: Runner) -> float:
        """Ask the runner how far it is."""
        t0 = self._scene.now()
        slots = self._poll()
        if slots is None:
            return self._step_lost(runner)
        if self._standing.loaded or self._loaded_now:
            self._prompt.start(runner, self._kick.set)
        if self._first is not None and self._line is None:
            self._look_at_list()
        self._finder.kept = self._prompt.kept
        if self._progress.total is None:
            self._progress.total = self._prompt.kept
        slot = self._finder.mine(slots)
        if slot is not None:
            self._progress.saw(slot, t0, total_comes=lambda: self._prompt.reading)
            return DECODE_S if slot.decoded else PREFILL_S
        foreign = [slot for slot in slots if slot.busy and slot.task in self._finder.foreign]
        if foreign and len(foreign) == len(slots) and self._first is None:
            return self._queue_s
        return SEARCH_S if time.monotonic() - self._sent_s < 1.0 else PREFILL_S

    def _poll(self) -> list[RunnerSlot] | None:
        with self._polling:
            return None if self._client is None or self._stopping.is_set() else self._client.slots()

    def _step_lost(self, runner: Runner) -> float:
        """The runner does not answer: busy, or ended: for a load with other options, or by its death."""
        scene = self._scene
        if self._first is not None:
            silent = time.monotonic() - self._newest_s > SILENT_S  # where it only died, Ollama says so itself, sooner
            if silent and not self._lost and not self._stopping.is_set():
                self._lost = True
                how = "does not answer any more" if is_alive(runner) else "ended"
                text = f"Ollama's runner {how}, in the middle of the reply; Ollama may take half a minute to notice"
                scene.emit(ev.Notice(t=scene.now(), r=scene.r, code="runner-lost", level="warn", text=text))
            return DECODE_S if not self._lost else SILENT_S
        new = runner_of([one for one in self._known.runners() or () if one.key != runner.key], self._model.blob)
        if new is None:
            return LOAD_S
        differing = changed({**runner.options, "context": runner.context}, {**new.options, "context": new.context})
        why = self._standing.why or said(differing) or "its runner was started again"
        scene.emit(ev.State(t=scene.now(), s="loading", r=scene.r, why=why))
        self._standing, self._gone, self._runner, self._line = Standing(False, why), runner, None, None
        self._finder.foreign.clear()
        return 0.0

    # -- what the stream says -----------------------------------------------------------------------------------------------

    def take(self, events: list[ev.Event]) -> list[ev.Event]:
        """Complete the final figures: the cached part is the runner's word, and a cut prompt is told."""
        for i, event in enumerate(events):
            if isinstance(event, ev.Tok):
                self._newest_s = time.monotonic()
                if self._first is not None:
                    continue
                self._first = time.monotonic(), None if self._runner is None else busy_s(self._runner.pid)
                self._finder.first_token = True
                self._kick.set()
            elif isinstance(event, ev.Timings):
                if event.total_n is not None:
                    self._prompt.check(event.total_n, self._progress.ctx)
                events[i] = self._final = self._progress.complete(event)
            elif isinstance(event, ev.End):
                self._ended = event.finish in ("stop", "length", "tool_calls")
                if self._ended:
                    self._known.remember(self._model, self._runner)
                events[i] = self._explained(event)
                self._look_at_gpu()
        return events

    def _explained(self, end: ev.End) -> ev.End:
        """A length that is no limit of the request is the context's."""
        final, ctx = self._final, self._progress.ctx
        if end.finish != "length" or end.detail is not None or final is None or ctx is None:
            return end
        full = (final.total_n or 0) + (final.gen_n or 0) >= ctx
        return msgspec.structs.replace(end, detail="context") if full else end

    def _look_at_gpu(self) -> None:
        """Whether a model that is said to be on the GPU was computed by the CPU."""
        if self._line is None or self._first is None or self._runner is None:
            return
        first_s, before_s = self._first
        after_s, span_s = busy_s(self._runner.pid), time.monotonic() - first_s
        if before_s is None or after_s is None or span_s < 0.5:
            return
        text = contradiction(claimed_percent(self._line), gpu_busy_percent(), (after_s - before_s) / span_s)
        if text is not None:
            scene = self._scene
            scene.emit(ev.Notice(t=scene.now(), r=scene.r, code="gpu-claimed", level="warn", text=text))

    def stop(self, *, cancelled: bool = False) -> None:
        """The generation ended, or is about to be cut: no poll is under way, and none comes."""
        if not self._stopping.is_set():
            self._known.end(self._scene.r)
            self._stopping.set()
            self._kick.set()
            if not self._ended:
                self._prompt.drop()
            if cancelled and self._first is None and self._runner is not None:
                self._known.abandon(self._scene.r, self._runner)
        if self._polling.acquire(timeout=_STOP_S):
            self._polling.release()


def is_same(a: Runner | None, b: Runner) -> bool:
    """Whether two are one process."""
    return a is not None and a.key == b.key


def _step_back() -> None:
    """Lower this thread's priority, never the stamping one's."""
    if sys.platform == "linux":
        try:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        except OSError:
            pass
