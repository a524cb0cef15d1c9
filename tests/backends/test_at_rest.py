"""A collector that runs all day: of a request that ended it keeps what was said, for who goes on from it, and no more."""

from __future__ import annotations

import gc
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from phasetop import events as ev
from phasetop.backends.collector import Collector
from phasetop.backends.recorder import Recorder

if TYPE_CHECKING:
    from tests.conftest import Home, Metronome

Beat = Callable[..., "Metronome"]
KINDS = ("phasetop.", "httpx.", "httpcore.", "h11.", "threading.", "socket.", "ssl.", "_io.", "_socket.")


def kept() -> Counter[str]:
    """Objects that a request might leave behind, by their type."""
    gc.collect()
    kinds = (type(each) for each in gc.get_objects())
    return Counter(name for kind in kinds if (name := f"{kind.__module__}.{kind.__qualname__}").startswith(KINDS))


@pytest.mark.parametrize("kind", ["llamacpp", "ollama", "openai"])
def test_a_request_leaves_nothing_behind(
    state_home: Home,
    metronome: Beat,
    tmp_path: Path,
    kind: str,
) -> None:
    beat = metronome(rate=5000, tokens=8, prefill_ms=1, no_props=kind == "openai")
    ended = threading.Semaphore(0)

    def tell(events: object) -> None:
        assert isinstance(events, list)
        for event in events:
            if isinstance(event, ev.End):
                ended.release()

    out = os.open(os.devnull, os.O_WRONLY)
    recorder = Recorder(tmp_path / "s.phasetop", out)
    recorder.open("s", [], "run", ev.Host())
    recorder.listen(tell)
    named = "llama3.1:8b" if kind == "ollama" else None
    target = {"backend": "ollama" if kind == "ollama" else None, "url": beat.url, "model": named}
    collector = Collector(recorder, {"target": target})
    assert collector.target is not None
    collector.target.resolve()
    assert collector.target.backend is not None
    assert collector.target.backend.name == kind

    def ask(first: int, last: int) -> Counter[str]:
        for r in range(first, last):
            collector.obey({"op": "ask", "id": r, "api": "chat", "messages": [{"role": "user", "content": f"{r}?"}]})
            assert ended.acquire(timeout=20)
        ours = ("request-", "prompt-", "watch-")
        for thread in threading.enumerate():  # what looks at a request from beside it ends with it
            if thread.name.startswith(ours):
                thread.join(20)
        return kept()

    before = ask(0, 12)
    descriptors = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    after = ask(12, 36)
    few = 24 // 4  # one that just ends is none that was left behind: of those there would be 24
    assert {name: n - before[name] for name, n in after.items() if n > before[name] + few} == {}
    if descriptors:
        assert len(os.listdir("/proc/self/fd")) <= descriptors + few
    assert collector.end("stopped") == "done"
    recorder.close("done")
    os.close(out)
