"""What was on the screen during a real run is what its replay shows, frame by frame."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from phasetop.lifeline import Start, Target
from tests.tui.live_frames import check, watch

if TYPE_CHECKING:
    from tests.conftest import Collected, LlamaServer, Metronome

Collect = Callable[..., "Collected"]


def shown_and_replayed(one: Collected, r: int, tmp_path: Path) -> None:
    """Draw request ``r`` as it goes, then compare."""
    pictures = watch(one.lifeline, r)
    assert one.lifeline.path is not None
    path = tmp_path / "then.phasetop"
    shutil.copyfile(one.lifeline.path, path)
    run = check(pictures, path)
    assert run.r == r


@pytest.mark.parametrize("burst", [1, 5])
def test_on_the_beat(burst: int, collect: Collect, metronome: Callable[..., Metronome], tmp_path: Path) -> None:
    server = metronome(rate=150 / burst, tokens=180, burst=burst, prefill_ms=300)
    one = collect(server.url)
    shown_and_replayed(one, one.ask("hi"), tmp_path)


def test_the_embedded_engine(collect: Collect, small_model: Path, tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="the embedded engine is not installed; make setup gets it")
    settings = {"context": 2048, "batch": 64, "threads": 1}
    one = collect(Start(target=Target("embedded"), engine={"file": str(small_model), "settings": settings}))
    text = "Tell of the sea. " * 20
    shown_and_replayed(one, one.ask(text, settings={"temperature": 0, "max_tokens": 40, "logprobs": 3}), tmp_path)


def test_a_llama_server(collect: Collect, llama_server: LlamaServer, tmp_path: Path) -> None:
    one = collect(llama_server.url)
    text = "Tell of the mountains. " * 20
    shown_and_replayed(one, one.ask(text, settings={"temperature": 0, "max_tokens": 40, "cache_prompt": False}), tmp_path)
