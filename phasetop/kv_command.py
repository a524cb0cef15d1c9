"""`phasetop kv`: the KV cache of a model on paper, before a server is started or beside one that runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from phasetop import known_models, model_store
from phasetop.amounts import read_size
from phasetop.faults import EXIT_OK, PhasetopError, UsageError
from phasetop.kv_report import Study, kv_object, study
from phasetop.model_metadata import Metadata, from_event, from_file
from phasetop.model_names import check_no_address, check_no_path, meant_otherwise
from phasetop.output import print_json, say
from phasetop.server_options import Found, cache_options, looks_like, read_given
from phasetop.visible import harmless

if TYPE_CHECKING:
    from phasetop import events as ev
    from phasetop.session import Session

ASK_S: Final = 20.0
_POLL_S: Final = 0.02
_NVIDIA_S: Final = 2.0


def kv(
    model: str | None,
    words: Sequence[str],
    *,
    as_json: str | None = None,
    fill: int | None = None,
    largest: bool = False,
    memory: str | None = None,
    weights: str | None = None,
    with_plot: bool = True,
    api_key: str | None = None,
) -> int:
    """Print what a model's cache takes; returns the exit status.

    Args:
        model: a GGUF file, a name, or the URL of a server that runs here; None: the file of ``-m`` among the words.
        words: llama-server's options as they are typed, or pasted with variables and the program in front.
        as_json: print one object; ``compact``: on one line.
        fill: tokens of one sequence, to say what they occupy.
        largest: how much context fits into `memory`.
        memory: such as ``24GiB``; None: that of the GPU, where nvidia-smi tells it.
        weights: what the model's weights take, where that is not known otherwise.
        api_key: of the server that is asked.
        with_plot: a plot under the table.

    Raises:
        UsageError: the model is not there, or llama-server would not take the options.
        PhasetopError: the file cannot be read, or does not tell enough.
    """
    given = read_given(words, os.environ)
    for word in words:
        if (meant := looks_like(word)) is not None:
            say(f"{word} is passed over: is {meant} meant?")
    memory_bytes = read_size("--memory", memory) if memory is not None else None
    if memory_bytes is None and (largest or as_json is None):
        memory_bytes = gpu_memory_bytes()
    if largest and memory_bytes is None:
        raise UsageError("--max-context needs --memory, such as --memory 24GiB: no GPU tells its own here")
    metadata, running = describe(model, given, api_key)
    options = given.options() if running is None else cache_options(running.values, running.sources)
    metadata = replace(metadata, hparams={**metadata.hparams, **given.overrides})
    if weights is not None:
        told = {**metadata.origin, "tensor_bytes": "given"}
        metadata = replace(metadata, tensor_bytes=read_size("--weights", weights), origin=told)
    done = study(metadata, options, n_past=fill, memory_bytes=memory_bytes, largest=largest)
    if as_json is not None:
        print_json(kv_object(done), as_json)
        return EXIT_OK
    _print(done, with_plot=with_plot)
    return EXIT_OK


def _print(done: Study, *, with_plot: bool) -> None:
    from phasetop.kv_text import lines, plot

    width = max(40, shutil.get_terminal_size((80, 24)).columns)
    for line in lines(done, width):
        print(harmless(line, newlines=False))
    if with_plot:
        drawn = plot(done, width, colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ)
        if drawn:
            print(f"\n{drawn}")


def describe(model: str | None, given: Found, api_key: str | None = None) -> tuple[Metadata, Found | None]:
    """The model that is meant, and the options of the server where it runs (with those given on top).

    Raises:
        UsageError: there is no such model.
        GgufError: its file cannot be read.
    """
    name = model if model is not None else given.model
    if name is None:
        listed = ", ".join(known_models.KNOWN)
        raise UsageError(f"which model? Give a .gguf file, a server's URL, or one of {listed}")
    if "://" in name:
        return _running(name, None, given, api_key)
    path = Path(name).expanduser()
    if name.lower().endswith(".gguf") or path.is_file():
        return from_file(path), None
    if (known := known_models.find(name)) is not None:
        return known.metadata(), None
    if (file := model_store.find(name)) is not None:
        return from_file(file), None
    check_no_path(name)
    check_no_address(name)
    try:
        return _running(None, name, given, api_key)
    except UsageError as error:
        close = get_close_matches(name.lower(), known_models.KNOWN, 2, 0.5)
        if not close and meant_otherwise(name):
            raise
        close = close or list(known_models.KNOWN)[:1]
        raise UsageError(f"{error}; well-known names need neither ({', '.join(close)} …)") from None


def _running(url: str | None, name: str | None, given: Found, api_key: str | None) -> tuple[Metadata, Found]:
    """A model that a server has: the collector asks it."""
    from phasetop.lifeline import Lifeline, Start, Target

    lifeline = Lifeline(Start(target=Target(None, url, name), argv=["kv"], api_key=api_key))
    follower = lifeline.follower
    end = time.monotonic() + ASK_S
    try:
        while time.monotonic() < end and not follower.ended:
            follower.poll()
            if any(state.s in ("ready", "gone") for state in follower.session.server_states.items):
                break
            time.sleep(_POLL_S)
        return _of_session(follower.session, name or url or "the server", given)
    finally:
        lifeline.close()


def _of_session(session: Session, what: str, given: Found) -> tuple[Metadata, Found]:
    gone = next((state.why for state in session.server_states.items if state.s == "gone"), None)
    model = next((found for versions in session.models.values() if (found := versions.at()) is not None), None)
    if gone is not None or model is None:
        raise UsageError(gone or f"{what} did not answer in time")
    if not model.arch or not model.hparams:
        raise PhasetopError(
            f"{what} does not tell the architecture of its model: give the .gguf file, and the server's options after --"
        )
    server = session.servers[model.v].at() if model.v in session.servers else None
    return from_event(model), _options_of(server.options or {} if server is not None else {}, given)


def _options_of(options: Mapping[str, ev.Sourced], given: Found) -> Found:
    """A running server's options, with those that somebody gave on top."""
    values: dict[str, Any] = {name: option.value for name, option in options.items() if option.value is not None}
    sources = {name: options[name].source for name in values}
    return Found(values={**values, **given.values}, sources={**sources, **given.sources})


def gpu_memory_bytes() -> int | None:
    """The memory of the largest GPU, as nvidia-smi tells it; None where there is none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, timeout=_NVIDIA_S, check=False, text=True)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = [int(line) for line in answer.stdout.split() if line.isdigit()]
    return max(found) * 2**20 if found and answer.returncode == 0 else None
