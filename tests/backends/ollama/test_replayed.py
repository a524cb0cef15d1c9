"""What was on the screen while Ollama answered is what a replay shows, frame by frame."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phasetop.lifeline import Start, Target
from tests.tui.live_frames import check, watch

if TYPE_CHECKING:
    from tests.conftest import Collected


def test_a_load_and_a_reply(collect: Callable[..., Collected], ollama: Any, tmp_path: Path) -> None:
    ollama.unload()
    one = collect(Start(target=Target("ollama", ollama.url, "smollm2")))
    r = one.ask("Tell of the sea. " * 20, settings={"temperature": 0, "max_tokens": 40})
    pictures = watch(one.lifeline, r)
    assert one.lifeline.path is not None
    path = tmp_path / "then.phasetop"
    shutil.copyfile(one.lifeline.path, path)
    assert check(pictures, path).r == r
