"""The cache's bytes of a request to Ollama against what its runner logged and holds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from phasetop.lifeline import Start, Target
from phasetop.metrics import measure

if TYPE_CHECKING:
    from tests.backends.ollama.conftest import RealOllama
    from tests.conftest import Collected

Collect = Callable[..., "Collected"]
LOGGED = re.compile(r"llama_kv_cache: size = +([\d.]+) MiB \( *(\d+) cells, +(\d+) layers, +(\d+)/(\d+) seqs\)")


def test_a_request_to_ollama(collect: Collect, ollama: RealOllama) -> None:
    one = collect(Start(target=Target("ollama", f"http://127.0.0.1:{ollama.port}", "smollm2")))
    settings = {"max_tokens": 8, "temperature": 0, "context": 2048}
    run = one.ended(one.ask("Name three rivers.", settings=settings))
    found = measure(one.session, run)
    kv = found.kv
    size, cells, _, _, streams = LOGGED.findall(ollama.log.read_text(errors="replace"))[-1]
    assert (kv.caches[0].cells, kv.caches[0].streams) == (int(cells), int(streams))
    assert kv.allocated_bytes is not None
    assert kv.allocated_bytes / 2**20 == pytest.approx(float(size), abs=0.005)
    assert kv.bytes_per_token == 23_040
    assert kv.used_bytes == (kv.tokens or 0) * 23_040
    assert found.sources["kv.allocated_bytes"] == "argv: the runner's"
