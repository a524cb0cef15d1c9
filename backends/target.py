"""Whom a session talks to: finds the server (or starts the embedded engine), and knows when it is ready.

`resolve` runs in a thread of its own, so that the session file stands and asks are taken at once; an ask that comes before
the server is ready waits in `wait_ready`, and that wait is its load.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import traceback
from collections.abc import Mapping
from importlib.metadata import version as package_version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from phasetop import events as ev
from phasetop.backends import discover
from phasetop.backends.embedded import Engine, EngineError, available, find_small_model
from phasetop.backends.endpoint import Endpoint
from phasetop.backends.identified import Identified, Refused, StillLoading
from phasetop.backends.local_model import describe, with_defaults, with_local_knowledge, with_metadata
from phasetop.backends.locality import listening_pid
from phasetop.backends.protocol import Backend
from phasetop.backends.recorder import Recorder
from phasetop.backends.registry import identify, probe_of
from phasetop.backends.server_errors import KEY_NEEDED, needs_key, own_words
from phasetop.backends.wanted import Wanted
from phasetop.faults import UsageError
from phasetop.model_names import display_name, meant_otherwise
from phasetop.ssh import Address

if TYPE_CHECKING:
    from phasetop.backends.over_ssh import OverSsh

_LOADING_POLL_S: Final = 0.1
_ENDED: Final = ev.Fault(text="the session ended before the server was ready")


class Target:
    """The server of this session.

    Attributes:
        v: the server's id; m: the model's, once it is known.
        fault: why there is no server, when `ready` came with None.
        lacks: the model that the server does not have and could pull.
    """

    def __init__(self, recorder: Recorder, wanted: Wanted, log_folder: Path | None) -> None:
        self._recorder = recorder
        self._wanted = wanted
        self._log_folder = log_folder
        self.v = recorder.new_id("v")
        self.m: int | None = None
        self.endpoint: Endpoint | None = None
        self.backend: Backend | None = None
        self.fault: ev.Fault | None = None
        self.lacks: str | None = None
        self.pid: int | None = None
        self.engine: Engine | None = None
        self._engine_log: Path | None = None
        self._over: OverSsh | None = None
        self._settled = threading.Event()
        self._closing = threading.Event()
        self._guard = threading.Lock()
        self._told = False  # an ask ended for want of it
        self._pulling: tuple[int, threading.Event] | None = None

    @property
    def is_ollama(self) -> bool:
        """Whether the server that was found is an Ollama, with the model or without it."""
        return self.lacks is not None or (self.backend is not None and self.backend.name == "ollama")

    def resolve(self) -> None:
        """Find it and wait until it is ready; never raises: `fault` says what went wrong."""
        try:
            self._resolve()
        except Refused as refused:
            self.lacks = refused.pullable
            self._fail(refused.fault)
            if refused.pullable is not None:
                self._recorder.notice(
                    "not-installed",
                    ev.shown(refused.fault.text),
                    level="warn",
                    model=refused.pullable,
                    closest=list(refused.models),
                )
        except UsageError as error:
            self._fail(ev.Fault(code="usage", text=str(error)))
        except EngineError as error:
            self._fail(ev.Fault(code=error.code, text=str(error)))
        except Exception as error:
            traceback.print_exc()  # into the collector's log
            self._fail(ev.Fault(code="internal", text=f"phasetop's own error: {type(error).__name__}"))
        finally:
            self._settled.set()

    def wait_ready(self, cancelled: threading.Event) -> ev.Fault | None:
        """Wait until it is decided; why it cannot be used (or the wait was given up), None where it can."""
        while not (cancelled.is_set() or self._closing.is_set()):
            if not self._settled.wait(0.05):
                continue
            with self._guard:
                if self._settled.is_set():  # else somebody tries again
                    self._told = self._told or self.fault is not None
                    return self.fault or (_ENDED if self.backend is None else None)
        return _ENDED

    def try_again(self, *, at_once: bool = False) -> bool:
        """Whether it has to be looked for again.

        An ask failed for want of it, and since then something may have changed; or the connection to its machine broke.
        """
        with self._guard:
            broke = self._over is not None and self._over.gone
            failed = self.fault is not None and (self._told or at_once)
            if not self._settled.is_set() or not (failed or broke):
                return False
            self.fault, self._told, self.lacks = None, False, None
            self._settled.clear()
            return True

    def use_key(self, api_key: str | None) -> None:
        """From here on, ask with this key."""
        self._wanted = dataclasses.replace(self._wanted, api_key=api_key)
        if self.endpoint is not None:
            self.endpoint.api_key = api_key

    def pulling(self, task: int) -> threading.Event | None:
        """What cancels the pull that is task ``task``; None where there is none."""
        return self._pulling[1] if self._pulling is not None and self._pulling[0] == task else None

    def close(self) -> None:
        """Let go: the embedded engine ends with the session."""
        self._closing.set()
        if self._pulling is not None:
            self._pulling[1].set()
        if self.engine is not None:
            self.engine.stop()
        if self._over is not None:
            self._over.close()
        if self._engine_log is not None:
            self._engine_log.unlink(missing_ok=True)  # what it said is in the fault, if anything went wrong

    def lost(self) -> tuple[str, str] | None:
        """Why a connection broke, where that can be known: (detail, text) if the embedded engine is gone, or ssh's link."""
        if self._over is not None and not self._closing.is_set():
            return self._over.lost()
        if self.engine is None or self._closing.is_set():
            return None
        status = self.engine.wait_gone(1.0)
        if status is None:
            return None
        return "server-lost", f"the embedded engine died ({self.engine.last_words()}); run again"

    def _resolve(self) -> None:
        wanted = self._wanted
        if wanted.ssh is not None:
            self._resolve_over_ssh(wanted.ssh)
        elif wanted.engine is not None and wanted.engine.get("file"):
            self._start_engine(Path(str(wanted.engine["file"])), wanted.engine.get("settings") or {})
        elif wanted.backend == "embedded":
            self._start_small(wanted.engine)
        elif wanted.url:
            self._connect(wanted.url, wanted.model, wanted.backend)
        else:
            self._find()

    def _resolve_over_ssh(self, address: Address) -> None:
        """On another machine: connect there, then as here. Raises `Refused`."""
        from phasetop.backends.over_ssh import OverSsh  # where nobody goes far, its modules are not loaded

        wanted = self._wanted
        if self._over is None:
            self._over = OverSsh(self._recorder, self.v, address)
        urls = [wanted.url] if wanted.url else [url for _, url in self._over.usual(wanted.backend)]
        if not urls:
            text = f"give the address that {wanted.backend} has on that machine: ssh://{self._over.shown}/:PORT"
            raise Refused(ev.Fault(code="no-server", text=text))
        self._over.connect(urls, self._closing.is_set)
        if wanted.url:
            self._connect(wanted.url, wanted.model, wanted.backend)
        else:
            self._find()

    def _addresses(self) -> list[tuple[str, str]]:
        """(kind, URL) of where to look, on the machine that is asked."""
        backend = self._wanted.backend
        if self._over is not None:
            return self._over.usual(backend)
        return discover.usual_addresses(backend)

    def _find(self) -> None:
        """Neither URL nor file: what is running here (or there, over ssh), else the embedded model."""
        wanted = self._wanted
        looked_at: list[str] = []
        lacking: list[tuple[str, discover.Found]] = []
        for kind, url in self._addresses():
            endpoint = self._open(url)
            found = discover.look(kind, endpoint, wanted.model)
            if found is not None and found.model is not None:
                self._connect(url, found.model, kind if kind == "ollama" else None)
                self._recorder.notice("found", f"took {display_name(found.model)} at {endpoint.shown}")
                return
            looked_at.append(endpoint.shown)
            if found is not None and kind == "ollama":
                lacking.append((url, found))
        if wanted.model and lacking:
            self._lacks(*lacking[0], wanted.model)
            return
        if wanted.model:
            at = " or ".join(looked_at) or "the usual addresses"
            if self._over is not None:
                text = f"no model {wanted.model!r} at {at}; another port: ssh://{self._over.shown}/:PORT, with --model"
                raise Refused(ev.Fault(code="no-such-model", text=text))
            hint = meant_otherwise(wanted.model).removeprefix("; ")
            raise Refused(
                ev.Fault(
                    code="no-such-model",
                    text=f"no model {wanted.model!r} at {at}; {hint or 'give a .gguf file or a URL, or start the server'}",
                )
            )
        if self._over is not None:
            self._nothing_there(self._over, lacking)
            return
        if wanted.backend is not None:
            probe_of(wanted.backend)
            at = " or ".join(looked_at) or "any address that is known: give its URL"
            raise Refused(ev.Fault(code="no-server", text=f"no {wanted.backend} with a model answers at {at}"))
        self._start_small(wanted.engine)
        self._recorder.notice("found", "nothing runs here: took the embedded model")

    def _nothing_there(self, over: OverSsh, idle: list[tuple[str, discover.Found]]) -> None:
        """Nothing is loaded on the far machine: the only model that an Ollama has there is taken. Raises `Refused`."""
        url, names = (idle[0][0], idle[0][1].names) if idle else (None, ())
        if url is not None and len(names) == 1:
            self._connect(url, names[0], "ollama")
            self._recorder.notice("found", f"took {display_name(names[0])}, the only model there")
            return
        if names:
            listed = ", ".join(display_name(name) for name in names[:8])
            text = f"nothing is loaded on {over.shown}; name a model, ssh://{over.shown}/NAME: {listed}"
            raise Refused(ev.Fault(code="several-models", text=text), names)
        looked = " or ".join(each.removeprefix("http://") for _, each in self._addresses())
        text = f"no server with a model on {over.shown} (looked at {looked}); another port: ssh://{over.shown}/:PORT"
        raise Refused(ev.Fault(code="no-server", text=text))

    def _open(self, url: str) -> Endpoint:
        wanted = self._wanted
        endpoint = Endpoint.open(url, wanted.api_key, wanted.cacert, insecure=wanted.insecure, proxy=wanted.proxy)
        return endpoint if self._over is None else self._over.dial(endpoint, url)

    def _lacks(self, url: str, found: discover.Found, model: str) -> None:
        """An Ollama is there and has no such model: pull it, where that is wanted. Raises `Refused`."""
        from phasetop.backends.ollama import not_installed

        self.endpoint = self._open(url)
        refused = not_installed(model, found.names, self.endpoint.shown)
        if not self._wanted.pull:
            raise refused
        self._pull(self.endpoint, model)
        self._connect(url, model, "ollama")

    def _pull(self, endpoint: Endpoint, model: str) -> None:
        """Raises `Refused` when it does not come."""
        from phasetop.backends.fetch import pull
        from phasetop.backends.ollama_pull import PullError

        self._pulling = self._recorder.new_id("task"), threading.Event()
        if self._closing.is_set():
            self._pulling[1].set()
        try:
            pull(self._recorder, self._pulling[0], endpoint, model, self._pulling[1], insecure=self._wanted.insecure)
        except PullError as error:
            raise Refused(ev.Fault(code="pull-failed", text=str(error)), pullable=model) from None
        finally:
            self._pulling = None

    def _start_small(self, engine: Mapping[str, Any] | None) -> None:
        small = find_small_model()
        if small is None:
            raise Refused(ev.Fault(code="no-model", text="no small model here: `phasetop models get smollm2` fetches it"))
        self._start_engine(small, (engine or {}).get("settings") or {})

    def _start_engine(self, file: Path, settings: Mapping[str, Any]) -> None:
        if (missing := available()) is not None:
            raise Refused(ev.Fault(code="no-engine", text=missing))
        recorder = self._recorder
        recorder.emit(ev.State(t=recorder.now(), v=self.v, s="starting"))
        log = self._engine_log = self._log_folder / f"engine-{os.getpid()}.log" if self._log_folder else None
        self.engine = Engine.start(file, dict(settings), log)
        if self._closing.is_set():
            self.engine.stop()
            return
        endpoint = self.endpoint = Endpoint(self.engine.url)
        recorder.emit(
            ev.Server(t=recorder.now(), v=self.v, backend="embedded", url=endpoint.base, pid=self.engine.pid, local=True),
            ev.State(t=recorder.now(), v=self.v, s="loading"),
        )
        self.engine.wait_ready()
        identified = identify(endpoint, None, "llamacpp")
        options = with_defaults(identified.server.get("options") or {})
        options |= {name: ev.Sourced(value, source) for name, (value, source) in self.engine.options().items()}
        server = {
            **identified.server,
            "backend": "embedded",
            "version": f"xllamacpp {package_version('xllamacpp')}",  # it says b0-unknown itself
            "options": options,
            "pid": self.engine.pid,
        }
        model = {**identified.model, "name": display_name(file.name), "file": file.name, "file_bytes": file.stat().st_size}
        if (described := describe(file, model.get("params"))) is not None:
            model = with_metadata(model, described)
        for code, text in self.engine.notices():
            recorder.notice(code, text)
        self._ready(Identified(_renamed(identified.backend), server, model), endpoint, self.engine.pid)

    def _connect(self, url: str, model: str | None, kind: str | None = None) -> None:
        wanted, recorder = self._wanted, self._recorder
        endpoint = self.endpoint = self._open(url)
        first, pulled = True, False
        while not self._closing.is_set():
            try:
                identified = identify(endpoint, model, kind)
            except StillLoading:
                if first:
                    server = ev.Server(t=recorder.now(), v=self.v, backend="llamacpp", url=endpoint.shown)
                    recorder.emit(server, ev.State(t=recorder.now(), v=self.v, s="loading", why="503 Loading model"))
                    first = False
                self._closing.wait(_LOADING_POLL_S)
                continue
            except Refused as refused:
                if refused.pullable is None or not wanted.pull or pulled:
                    if self._over is None:
                        raise
                    fault = self._over.explained(refused.fault, endpoint)
                    raise Refused(fault, refused.models, pullable=refused.pullable) from None
                self._pull(endpoint, refused.pullable)
                pulled = True
                continue
            pid = listening_pid(endpoint.base) if endpoint.local else None
            self._ready(with_local_knowledge(identified, pid), endpoint, pid)
            return

    def _ready(self, identified: Identified, endpoint: Endpoint, pid: int | None) -> None:
        recorder = self._recorder
        self.endpoint, self.backend, self.pid = endpoint, identified.backend, pid
        self.m = recorder.new_id("m")
        over = "ssh" if self._over is not None else None
        if self._over is not None:
            self._over.announce()
        server: dict[str, Any] = {"local": endpoint.local, "pid": pid, "over": over, **identified.server}
        recorder.emit(
            ev.Server(t=recorder.now(), v=self.v, **server),
            ev.Model(t=recorder.now(), m=self.m, v=self.v, **identified.model),
            ev.State(t=recorder.now(), v=self.v, s="ready"),
        )
        for code, text in identified.notices:
            recorder.notice(code, text)
        if self._over is not None:
            self._over.watch(endpoint, identified.backend.name)

    def _fail(self, fault: ev.Fault) -> None:
        self.fault = fault
        recorder = self._recorder
        words = own_words(fault, redacted=recorder.redacted)
        recorder.emit(ev.State(t=recorder.now(), v=self.v, s="gone", why=words))
        if needs_key(fault):
            recorder.notice(KEY_NEEDED, words, level="error")


def _renamed(backend: Backend) -> Backend:
    """The embedded engine is llama.cpp under its own name."""
    return dataclasses.replace(backend, name="embedded")  # type: ignore[type-var]
