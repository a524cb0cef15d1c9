"""docs/metrics.md names every key path of `run --json`, and none that is not there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phasetop.gpuphases import Gpu, GpuPhase
from phasetop.report import SETTINGS, request_object
from phasetop.session import Session

if TYPE_CHECKING:
    from tests.docs.conftest import Real

ROOT = Path(__file__).parents[2]
FREE = ("server_timings", "sources", "unknown", "messages", "tools", "settings")
"""What is filled as a server, or whoever asks, likes."""
GROUPS = {"server", "model", "settings", "finish", "tokens", "phases", "latency", "latency.itl_ms", "rates", "gpus", "kv"}
GROUPS |= {"host", "host.phases", "host.phases.PHASE", "gpus.phases", "gpus.phases.PHASE", "roofline", "energy", "verdict"}


def named(page: str) -> set[str]:
    """What stands in the first cells of its tables."""
    rows = re.findall(r"^\|([^|]+)\|", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.M)
    return {word for row in rows for word in re.findall(r"`([^`]+)`", row)}


def paths(value: Any, path: str = "") -> Iterator[str]:
    """The key paths of an object; the elements of a list, and the phases, share theirs."""
    if isinstance(value, list):
        for each in value:
            yield from paths(each, path)
    if isinstance(value, dict) and path not in FREE:
        for key, inner in value.items():
            own = "PHASE" if key in ("prefill", "decode") and path.endswith(".phases") else key
            yield (here := f"{path}.{own}" if path else own)
            yield from paths(inner, here)


def test_every_path_is_named_and_none_that_is_not_there(real: Real) -> None:
    printed = json.loads(real.run)
    gpu = Gpu(0, 0, "", "", None, None, None, None, {"prefill": GpuPhase(), "decode": GpuPhase()})
    printed["gpus"] = [gpu.group()]
    printed["tool_calls"] = [{"index": 0, "id": None, "name": None, "arguments": ""}]
    printed["notices"] = [{"code": "x", "text": "x", "at_s": 0.0}]
    there = {*paths(printed), *(f"settings.{name}" for name in SETTINGS)} - GROUPS
    page = named("metrics.md")
    assert there - page == set()
    listed = {name for name in page if "." in name or name in printed}
    assert listed - there == set(), "named and not printed"


def test_an_empty_session_has_the_same_paths() -> None:
    session = Session()
    found = set(paths(request_object(session, session.run(0), kept_as=None))) - GROUPS
    assert found <= named("metrics.md")
