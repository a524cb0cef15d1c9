"""What happens, written down: the session's clock, its ids, and the one place where events become lines."""

from __future__ import annotations

import os
import platform
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from phasetop import __version__, codec
from phasetop import events as ev
from phasetop.backends.cgroup import container_of, limits_of
from phasetop.backends.shelf import Limits, Shelf
from phasetop.backends.stamped import SO_TIMESTAMPNS
from phasetop.journal import Journal
from phasetop.redaction import redact

BY: Final = f"phasetop {__version__}"


def boot_ns() -> int | None:
    """Time since boot with sleep counted, ns; None where the platform has no such clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return None if clock is None else time.clock_gettime_ns(clock)


class Recorder:
    """The collector's pen. Every method may be called from any thread.

    Args:
        path: the session file; None: the pipe alone.
        pipe: the collector's stdout, non-blocking.
        redacted: replace every text by its length before it is written.
        no_file: why there is no path, for the notice.
        limits: how large the session may become, and when it goes on in a further file.
    """

    def __init__(
        self,
        path: Path | None,
        pipe: int,
        *,
        redacted: bool = False,
        no_file: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.anchor = ev.Anchor(mono=time.monotonic_ns(), wall=time.time_ns(), boot=boot_ns())
        self.redacted = redacted
        self._guard = threading.Lock()
        self._last_t: dict[int | None, dict[type[ev.Event], int]] = {}  # request → kind → its newest t
        self._ids = {"s": 0, "r": 0, "m": 0, "v": 0, "task": 0, "d": 1}  # d = 0 is the host
        self._listeners: list[Callable[[Sequence[ev.Event]], None]] = []
        self._left_out: list[ev.Notice] = []  # to be told with the events that they are about
        self._journal = Journal(path, pipe, self._lost)
        self._shelf = Shelf(self._journal, limits or Limits())
        self._no_file = no_file
        self._closed = False

    def now(self) -> int:
        """The time since the anchor, ns."""
        return time.monotonic_ns() - self.anchor.mono

    def at(self, mono_ns: int) -> int:
        """A CLOCK_MONOTONIC stamp as ns since the anchor (0 for what lies before it)."""
        return max(0, mono_ns - self.anchor.mono)

    def new_id(self, kind: str) -> int:
        """The next small id of a kind: s, r, m, v, d or task."""
        with self._guard:
            number = self._ids[kind]
            self._ids[kind] = number + 1
            return number

    def open(self, session: str, argv: Sequence[str], kind: str, host: ev.Host) -> None:
        """Write the first line, and why there is no file where there is none."""
        self.emit(
            ev.Hello(
                t=0,
                format=ev.FORMAT,
                session=session,
                anchor=self.anchor,
                by=BY,
                host=host,
                pid=os.getpid(),
                argv=list(argv),
                stamps="kernel" if SO_TIMESTAMPNS else "read",
                redacted=self.redacted,
                kind=kind,
            )
        )
        if not self._journal.recording:
            why = self._journal.refused or (f"this session has no file ({self._no_file})" if self._no_file else None)
            self.notice("not-recorded", why or "this session has no file", level="warn")
        if not SO_TIMESTAMPNS:
            self.notice("stamps-read", "this system has no receive stamps: arrivals are when they were read here")

    def emit(self, *events: ev.Event) -> None:
        """Write events in one go."""
        self.emit_all(events)

    def emit_all(self, events: Iterable[ev.Event]) -> None:
        """Write events in one go; redacted where asked, times never falling per kind and request; none after `close`."""
        events = list(events)  # whoever makes them may need an id, or a clock, of ours
        with self._guard:
            written = [self._line(event) for event in events]
            if self._left_out:
                written += [self._line(notice) for notice in self._left_out]
                self._left_out.clear()
            if written and not self._closed:
                self._shelf.write(written, self.now)
        for listener in self._listeners:
            listener(events)

    def listen(self, listener: Callable[[Sequence[ev.Event]], None]) -> None:
        """Have events told after they were written, on the thread that wrote them; listeners are quick and write nothing."""
        self._listeners = [*self._listeners, listener]

    def also_known_as(self, path: Path) -> None:
        """The session's file was given a second name: further parts get theirs beside it."""
        with self._guard:
            self._shelf.kept = path

    def _line(self, event: ev.Event) -> tuple[ev.Event, bytes]:
        """An event as it is written, and its line."""
        if self.redacted:
            event = redact(event)
        kind, r = type(event), getattr(event, "r", None)
        if (newest := self._last_t.get(r)) is None:
            newest = self._last_t[r] = {}
        last = newest.get(kind, 0)
        if event.t < last:  # a clock step, or a stamp taken between two others
            event = msgspec.structs.replace(event, t=last)
        else:
            newest[kind] = event.t
        if kind is ev.End:
            del self._last_t[r]
        try:
            line = codec.encode(event)
        except UnicodeEncodeError:
            line = codec.encode(msgspec.convert(codec.valid(msgspec.to_builtins(event)), type(event)))
        if len(line) > codec.MAX_LINE_BYTES:
            if isinstance(event, ev.Request):
                text = f"the prompt is too long for a recording ({len(line):,} bytes): it stands there as its length"
                self._left_out.append(ev.Notice(t=event.t, code="prompt-left-out", level="warn", text=text, r=event.r))
            event = _shortened(event)
            line = codec.encode(event)
        return event, line

    def notice(self, code: str, text: str, *, level: str = "info", r: int | None = None, **about: object) -> None:
        """Tell something to whoever looks."""
        self.emit(ev.Notice(t=self.now(), code=code, level=level, text=text, r=r, about=dict(about) or None))

    def _lost(self, why: str) -> bytes:
        return codec.encode(ev.Notice(t=self.now(), code="not-recorded", level="error", text=why))

    def clock(self) -> None:
        """Write the clocks again."""
        self.emit(ev.Clock(t=self.now(), wall=time.time_ns(), boot=boot_ns()))

    def close(self, reason: str) -> None:
        """Write the last line and make the file last."""
        with self._guard:
            bye = ev.Bye(t=self.now(), reason=reason, lines=self._journal.lines, dropped=self._journal.dropped or None)
            self._journal.write(codec.encode(bye))
            self._closed = True  # threads that are not over yet have nothing more to tell
            self._journal.close()


def _shortened(event: ev.Event) -> ev.Event:
    """An event whose text is too long for a line, with what fits (and, where the kind can say so, how long it was)."""
    room = codec.MAX_LINE_BYTES // 8
    match event:
        case ev.Tok(x=str() as text):
            return msgspec.structs.replace(event, x=text[:room], cut=len(text.encode()), top=None)
        case ev.Tok():
            return msgspec.structs.replace(event, top=None)
        case ev.Prompt() | ev.Request():  # its lengths, which figures are made of
            short = redact(event)
            if isinstance(short, ev.Prompt):  # a length a token is not much shorter than a token
                short = msgspec.structs.replace(short, pieces=None)
            elif isinstance(event, ev.Request) and isinstance(short, ev.Request):
                short = msgspec.structs.replace(short, asked=event.asked, applied=event.applied)
            if len(codec.encode(short)) <= codec.MAX_LINE_BYTES:
                return short
            if isinstance(short, ev.Request):
                return msgspec.structs.replace(short, messages=None, tools=None)
        case ev.Timings():
            return msgspec.structs.replace(event, raw=None)
    return ev.Notice(t=event.t, code="reply-limit", level="warn", text="an event was too long to be written")


def this_host() -> ev.Host:
    """The machine, as far as it can be told cheaply."""
    import psutil

    name = None
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            name = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), None)
    except OSError:
        name = _brand() or platform.processor() or None
    limits, ram = limits_of(), int(psutil.virtual_memory().total)
    return ev.Host(
        name=socket.gethostname(),
        os=platform.system(),
        kernel=platform.release(),
        cpu=name,
        cores=psutil.cpu_count(),
        ram_bytes=ram,
        cpu_quota_cores=limits.cores,
        memory_limit_bytes=limits.memory_bytes if (limits.memory_bytes or ram) < ram else None,
        container=container_of(),
    )


def _brand() -> str | None:
    """The processor's name as macOS tells it (``Apple M2 Max``); None anywhere else."""
    if sys.platform != "darwin":
        return None
    import ctypes

    text, size = ctypes.create_string_buffer(256), ctypes.c_size_t(256)
    failed = ctypes.CDLL(None).sysctlbyname(b"machdep.cpu.brand_string", text, ctypes.byref(size), None, 0)
    return None if failed else text.value.decode("utf-8", "replace") or None
