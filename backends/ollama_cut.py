"""The prompt of one request, read beside it: its tokens, and whether Ollama cut it, which Ollama never says."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final

from phasetop import events as ev
from phasetop.backends import ollama_prompt
from phasetop.backends.endpoint import Endpoint
from phasetop.backends.ollama_model import OllamaModel
from phasetop.backends.ollama_request import has_images, prompt_bytes
from phasetop.backends.ollama_runner import Runner, RunnerClient
from phasetop.backends.protocol import Scene

_BYTES_A_TOKEN: Final = 4
"""Where a prompt has more bytes a token than this, its count is worth waiting for."""
_WAIT_S: Final = 1.0


class PromptReader:
    """Reads the prompt on a thread of its own, and judges the server's count of it.

    Attributes:
        kept: tokens that the runner gets, once they are known.
    """

    def __init__(self, endpoint: Endpoint, model: OllamaModel, path: str, body: Mapping[str, Any], scene: Scene) -> None:
        self._endpoint, self._model, self._path, self._body, self._scene = endpoint, model, path, body, scene
        self._thread: threading.Thread | None = None
        self._found: ollama_prompt.Rendered | None = None
        self._dropped = threading.Event()
        self._told: tuple[int, int | None] | None = None

    @property
    def kept(self) -> int | None:
        """Tokens that the runner gets; None while nobody knows."""
        return None if self._found is None else self._found.kept

    @property
    def reading(self) -> bool:
        """Whether its answer may still come."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, runner: Runner, ready: Callable[[], None]) -> None:
        """Begin, once; only ever beside a request that has these very options. ``ready`` is called when it is known."""
        if self._thread is None and not has_images(self._body.get("messages") or ()):
            self._thread = threading.Thread(
                target=self._read, args=(runner, ready), name=f"prompt-{self._scene.r}", daemon=True
            )
            self._thread.start()

    def drop(self) -> None:
        """The request was cancelled: ask nothing more."""
        self._dropped.set()

    def _read(self, runner: Runner, ready: Callable[[], None]) -> None:
        client = RunnerClient(runner.port)
        try:
            found = ollama_prompt.read_prompt(
                self._endpoint, client, self._model, self._path, self._body, runner.context, self._dropped.is_set
            )
            if found is None or self._dropped.is_set():
                return
            self._scene.prompt(found.whole)
            if found.kept is not None and found.kept < found.asked:
                self._tell(found.asked, found.kept)
            self._found = found
            ready()
        except Exception:
            traceback.print_exc()  # into the collector's log
        finally:
            client.close()

    def check(self, prompt: int, context: int | None) -> None:
        """Hold the server's final count of the prompt's tokens against what was sent."""
        size = prompt_bytes(self._body)
        if self._found is None and self._thread is not None and size > _BYTES_A_TOKEN * prompt:
            self._thread.join(_WAIT_S)
        found = self._found
        if found is not None:
            too_long = found.asked >= (context if context is not None else prompt)
            if too_long and prompt < found.asked:
                self._tell(found.asked, prompt)
            return
        keep = (self._body.get("options") or {}).get("num_keep", ollama_prompt.NUM_KEEP)
        if context is not None and isinstance(keep, int) and ollama_prompt.looks_cut(prompt, size, context, keep):
            self._tell(None, prompt)

    def _tell(self, asked: int | None, kept: int) -> None:
        if self._told == (kept, asked):
            return
        first, self._told = self._told is None, (kept, asked)
        scene = self._scene
        if asked is not None:
            scene.emit(ev.Prompt(t=scene.now(), r=scene.r, cut=ev.Cut(asked, kept)))
            text = f"the server cut the prompt: {asked:,} tokens became {kept:,}; a larger context (-c N) takes more"
        else:
            text = f"the server seems to have cut the prompt: {kept:,} tokens are just what Ollama keeps of a longer one"
        if first:
            about = {"asked": asked, "kept": kept} if asked is not None else {"kept": kept}
            scene.emit(ev.Notice(t=scene.now(), r=scene.r, code="prompt-cut", level="warn", text=text, about=about))
