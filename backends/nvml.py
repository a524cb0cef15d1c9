"""NVIDIA GPUs: the collector's side. A child process asks NVML and prints lines; here they become events.

Nothing of NVML is loaded in this process. A child that is silent for two seconds, or dies, is ended and started again, later
each time; the run goes on.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import psutil

from phasetop import events as ev
from phasetop.backends import nvml_lines as lines
from phasetop.backends.gpu_presence import NVML_LIBRARY, UNKNOWN_FOLDERS, nvidia_is_here
from phasetop.backends.nvml_use import Place, family, in_namespace, process_of, ruled_out
from phasetop.backends.recorder import Recorder

CHILD: Final = "phasetop.backends.nvml_child"
SILENCE_S: Final = 2.0
OPENING_S: Final = 30.0
"""The first answer of a driver that has to wake its GPUs may take that long."""
BACKOFF_S: Final = 1.0
BACKOFF_MOST_S: Final = 60.0
PARTING_S: Final = 0.5
TODO: Final = {
    "no-nvml": "install the driver's user part (libnvidia-ml.so.1); in a container: --gpus all",
    "nvml-broken": "nvidia-smi says more; a driver that was upgraded needs a reboot",
}
_NOTICES: Final = 3  # of one kind, then it is known
_READ_BYTES: Final = 1 << 16


def child_environ(environ: Mapping[str, str], root: Path = Path("/")) -> dict[str, str]:
    """The child's environment: with folders that some systems keep the library in without the loader knowing them."""
    folders = [str(root / folder) for folder in UNKNOWN_FOLDERS if (root / folder / NVML_LIBRARY).exists()]
    own = environ.get("LD_LIBRARY_PATH")
    return {**environ, "LD_LIBRARY_PATH": ":".join([*([own] if own else []), *folders])} if folders else dict(environ)


def sampler(recorder: Recorder) -> NvmlSampler | None:
    """The vendor's entry: a sampler where an NVIDIA driver may be here."""
    return NvmlSampler(recorder) if nvidia_is_here() else None


@dataclass(slots=True)
class _Card:
    """A GPU of the session: its device id, and what the child last told."""

    d: int
    place: Place
    users: lines.Users | None = None
    used_by: list[int] | None = None


class NvmlSampler:
    """A `gpu_vendors.GpuSampler`; ``check``: what the doctor calls its driver.

    Args:
        recorder: where the events go.
        command: how the child is started; None: as a module of this Python.
        silence_s: a child that says nothing for so long is ended.
        backoff_s: the pause before the first new start.

    """

    check: Final = "nvml"

    def __init__(
        self,
        recorder: Recorder,
        command: Sequence[str] | None = None,
        silence_s: float = SILENCE_S,
        backoff_s: float = BACKOFF_S,
    ) -> None:
        self._recorder = recorder
        self._command = list(command) if command is not None else [sys.executable, "-P", "-m", CHILD]
        self._silence_s = silence_s
        self._backoff_s = backoff_s
        self._stopping = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nvml", daemon=True)
        self._guard = threading.Lock()
        self._orders = -1  # the child's stdin
        self._prefilling: set[int] = set()
        self._cards: dict[str, _Card] = {}
        self._by_number: dict[int, _Card] = {}
        self._series: dict[tuple[int, str], int] = {}
        self._metrics: dict[str, tuple[int, bool]] = {}  # the child's number → series, whether it counts
        self._counted: dict[int, tuple[int, int]] = {}  # series → last raw value, what lies before it
        self._cost: int | None = None
        self._cost_t = 0
        self._process: tuple[psutil.Process | None, int] | None = None
        self._told: dict[str, int] = {}
        self._namespace = in_namespace()
        self.settled = threading.Event()  # what there is was told, or why there is nothing

    def start(self) -> None:
        """Start the child and read it, on a thread."""
        self._thread.start()

    def watch(self, pid: int, v: int) -> None:
        """Tell from now on which GPUs the process ``pid`` of server ``v`` uses."""
        self._process = (process_of(pid), v)
        for card in list(self._cards.values()):
            self._judge(card)

    def seen(self, events: Sequence[ev.Event]) -> None:
        """Tell the child where phases begin and end."""
        for event in events:
            kind = type(event)
            if kind is ev.Tok:
                if self._prefilling and event.r in self._prefilling and event.n != 0:  # type: ignore[attr-defined]
                    self._prefilling.discard(event.r)  # type: ignore[attr-defined]
                    self._order(lines.Order(op="border", r=event.r, phase="decode"))  # type: ignore[attr-defined]
            elif isinstance(event, ev.State):
                if event.r is not None and event.s in ("sent", "headers"):
                    self._prefilling.add(event.r)
                    self._order(lines.Order(op="border", r=event.r, phase="prefill"))
            elif isinstance(event, ev.End):
                self._prefilling.discard(event.r)
                self._order(lines.Order(op="border", r=event.r))

    def stop(self) -> None:
        """Let the child read once more, then end it."""
        self._stopping.set()
        self._order(lines.Order(op="stop"))
        if self._thread.is_alive() and not self._over.wait(PARTING_S):
            with self._guard:
                self._drop_orders()  # the thread ends what is left
            self._over.wait(PARTING_S)

    def _order(self, order: lines.Order) -> None:
        with self._guard:
            if self._orders >= 0:
                try:
                    os.write(self._orders, lines.encode(order))
                except OSError:
                    pass  # full or broken: it hangs or is dead, and the reader notices

    def _drop_orders(self) -> None:
        if self._orders >= 0:
            os.close(self._orders)
            self._orders = -1

    def _run(self) -> None:
        pause_s = self._backoff_s
        try:
            while True:
                began = time.monotonic()
                again = self._live()
                if not again or self._stopping.is_set():
                    return
                if time.monotonic() - began > BACKOFF_MOST_S:
                    pause_s = self._backoff_s
                if self._stopping.wait(pause_s):
                    return
                pause_s = min(pause_s * 2, BACKOFF_MOST_S)
        finally:
            self._over.set()
            self.settled.set()

    def _live(self) -> bool:
        """One child from its start to its end; False where it need not be started again."""
        try:
            child = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                env=child_environ(os.environ),
            )
        except OSError as error:
            self._notice("gpu-sampler", f"GPUs are not sampled: {error.strerror}")
            return False
        assert child.stdin is not None
        assert child.stdout is not None
        with self._guard:
            self._orders = os.dup(child.stdin.fileno())
            os.set_blocking(self._orders, False)
        child.stdin.close()
        if self._stopping.is_set():
            self._order(lines.Order(op="stop"))
        try:
            ended = self._read(child.stdout.fileno())
        finally:
            with self._guard:
                self._drop_orders()
            child.stdout.close()
            child.kill()
            try:
                status: int | None = child.wait(0.2)
            except subprocess.TimeoutExpired:
                status = None  # in a call of the kernel's that cannot be interrupted: init will reap it
        if ended == "last" or self._stopping.is_set():
            return False
        if ended == "silent":
            code, text = "gpu-silent", f"the GPU's driver said nothing for {self._silence_s:g} s: sampling is started again"
        else:
            how = f"signal {-status}" if status is not None and status < 0 else f"status {status}"
            code, text = "gpu-sampler", f"the process that reads the GPU ended ({how}): it is started again"
        self._notice(code, text)
        self._recorder.emit(
            ev.Finding(t=self._recorder.now(), name="nvml", state="broken", text=text, todo=TODO["nvml-broken"])
        )
        self.settled.set()
        return True

    def _read(self, pipe: int) -> str:
        """Take lines until the child is silent ("silent"), ends ("ended"), or said that there is nothing ("last")."""
        rest = b""
        patience_s, last = OPENING_S, False
        while True:
            readable, _, _ = select.select([pipe], [], [], patience_s)
            if not readable:
                return "silent"
            data = os.read(pipe, _READ_BYTES)
            if not data:
                return "last" if last else "ended"
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                try:
                    told = lines.decode(line)
                except msgspec.DecodeError:
                    continue  # a library that prints
                patience_s = OPENING_S if isinstance(told, lines.Opening) else self._silence_s
                last = last or (isinstance(told, lines.Word) and told.last)
                self._take(told)

    def _take(self, told: lines.AnyLine) -> None:
        match told:
            case lines.Sample():
                self._sample(told)
            case lines.Metric():
                self._metric(told)
            case lines.Gpu():
                self._gpu(told)
            case lines.Users():
                card = self._by_number.get(told.g)
                if card is not None:
                    card.users = told
                    self._judge(card)
                    if told.g == len(self._cards) - 1:  # a child that was started again does not know it yet
                        self._tell_focus()
            case lines.Word():
                self._word(told)
            case lines.Beat():
                self._beat(told)

    def _gpu(self, told: lines.Gpu) -> None:
        place = Place(told.uuid, told.pci, told.minor)
        card = self._cards.get(told.uuid)
        if card is None:
            card = self._cards[told.uuid] = _Card(self._recorder.new_id("d"), place)
        card.place = place
        self._by_number[told.g] = card
        peak = None
        if told.peak_source is not None:
            peak = ev.Sourced(value=told.peak_bytes_per_s, source=told.peak_source)
        self._recorder.emit(
            ev.Device(
                t=self._recorder.now(),
                d=card.d,
                vendor="nvidia",
                name=told.name,
                index=told.index,
                uuid=told.uuid,
                pci=told.pci,
                mem_bytes=told.mem_bytes,
                peak_bytes_per_s=peak,
                driver=told.driver,
            )
        )

    def _metric(self, told: lines.Metric) -> None:
        card = self._by_number.get(told.g)
        if card is None:
            return
        key = (card.d, told.name)
        if key not in self._series:
            self._series[key] = self._recorder.new_id("s")
        s = self._series[key]
        self._metrics[str(told.m)] = (s, told.type == "counter")
        self._recorder.emit(
            ev.Series(
                t=self._recorder.now(),
                s=s,
                d=card.d,
                name=told.name,
                unit=told.unit,
                source=told.source,
                type=told.type,
                flags=told.flags,
                off=told.off,
            )
        )

    def _sample(self, told: lines.Sample) -> None:
        values: dict[str, float | None] = {}
        reasons: dict[str, str] = {}
        for m, value in told.v.items():
            if m not in self._metrics:
                continue
            s, counts = self._metrics[m]
            values[str(s)] = self._on_from(s, value) if counts and value is not None else value
            if told.e and m in told.e:
                reasons[str(s)] = told.e[m]
        if values:
            t0, t = self._recorder.at(told.t0), self._recorder.at(told.t)
            self._recorder.emit(ev.Smp(t=t, t0=t0, v=values, e=reasons or None, r=told.r, phase=told.phase))

    def _on_from(self, s: int, value: float) -> int:
        """A counter that never falls, also where the child, or the driver, began anew."""
        raw = int(value)
        last, before = self._counted.get(s, (raw, 0))
        if raw < last:
            before += last - raw
        self._counted[s] = (raw, before)
        return raw + before

    def _judge(self, card: _Card) -> None:
        """Write which server uses a GPU, where that changed."""
        users, process = card.users, self._process
        if process is None:
            return
        pids = family(process[0])
        used: list[int] | None = None
        if pids and users is not None and users.pids is not None and not self._namespace:
            used = [process[1]] if pids & set(users.pids) else []
        elif pids and sys.platform == "linux":
            places = [each.place for each in self._cards.values()]
            used = [] if card.place.uuid in ruled_out(pids, places) else None
        if used is not None and used != card.used_by:
            card.used_by = used
            self._recorder.emit(ev.Device(t=self._recorder.now(), d=card.d, used_by=used))
            self._tell_focus()

    def _tell_focus(self) -> None:
        """Have only those GPUs read often that are in use, where that is known of all."""
        cards = list(self._cards.values())
        used = [card.place.uuid for card in cards if card.used_by]
        if used and all(card.used_by is not None for card in cards):
            self._order(lines.Order(op="focus", uuids=used))

    def _word(self, told: lines.Word) -> None:
        recorder = self._recorder
        if told.code in ("gpu-lost", "gpu-slow", "nvml-broken"):
            self._notice(told.code, told.text, level="info" if told.code == "gpu-slow" else "warn")
        recorder.emit(ev.Finding(t=recorder.now(), name="nvml", state=told.state, text=told.text, todo=TODO.get(told.code)))
        self.settled.set()

    def _beat(self, told: lines.Beat) -> None:
        if told.core_percent is None:
            return
        recorder = self._recorder
        t = recorder.now()
        if self._cost is None:
            self._cost, self._cost_t = recorder.new_id("s"), t
            recorder.emit(ev.Series(t=t, s=self._cost, name="gpu_sampling_percent", unit="%", source="client"))
        recorder.emit(ev.Smp(t=t, t0=self._cost_t, v={str(self._cost): told.core_percent}))
        self._cost_t = t

    def _notice(self, code: str, text: str, level: str = "warn") -> None:
        if self._told.get(code, 0) < _NOTICES:
            self._told[code] = self._told.get(code, 0) + 1
            self._recorder.notice(code, text, level=level)
