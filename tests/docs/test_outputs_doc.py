"""The objects in docs/outputs.md have the keys that are printed, and its exit statuses are the program's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from phasetop import faults
from phasetop.gpuphases import Gpu, GpuPhase

if TYPE_CHECKING:
    from tests.docs.conftest import Real

PAGE = (Path(__file__).parents[2] / "docs" / "outputs.md").read_text(encoding="utf-8")
OBJECTS = [json.loads(text) for text in re.findall(r"^```json\n(.*?)^```", PAGE, re.M | re.S)]
FREE = {
    "server_timings",
    "sources",
    "unknown",
    "messages",
    "settings",
    "weights",
    "tensor_bytes_by_type",
    "missing",
    "sweep",
}
"""What is filled as a server, a file or whoever asks likes."""
KV = ["kv", "llama3.1-8b", "--fill", "300", "--max-context", "--memory", "24GiB", "--json", "--", "-c", "4096"]
BENCH = ["-G", "2", "-r", "1", "--precision", "none", "-t", "1", "-c", "256", "-b", "64"]
PRINTED = {
    "models": ["models", "--json"],
    "unreadable": ["sessions", "--json"],
    "by": ["sessions", "totals", "--json"],
    "memory_kind": KV,
    "prefill_intensity_flops_per_byte": ["predict", "llama3.1-8b", "--gpu", "4090", "--json"],
    "differences": ["compare", "first", "first", "--json"],
    "fit": ["bench", "model.gguf", "-P", "8,16", "--parallel", "1,2", *BENCH, "--json"],
    "checks": ["doctor", "--json"],
}
"""A key that only this object has → the command that prints it."""


def paths(value: Any, path: str = "") -> Iterator[str]:
    """The key paths of an object; the elements of a list share theirs."""
    if isinstance(value, list):
        for each in value:
            yield from paths(each, path)
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (here := f"{path}.{key}" if path else key)
            if key not in FREE:
                yield from paths(inner, here)


def example(key: str) -> dict[str, Any]:
    """The one object of the page that has a key at its top."""
    (found,) = [each for each in OBJECTS if key in each]
    return dict(found)


def test_run(real: Real) -> None:
    printed = json.loads(real.run)
    gpu = Gpu(0, 0, "", "", None, None, None, None, {"prefill": GpuPhase(), "decode": GpuPhase()})
    printed["gpus"], printed["notices"] = [gpu.group()], [{"code": "x", "text": "x", "at_s": 0.0}]
    shown = example("verdict")
    assert list(dict.fromkeys(paths(shown))) == list(dict.fromkeys(paths(printed)))
    assert set(shown["settings"]) <= set(printed["settings"])


@pytest.mark.parametrize("key", PRINTED)
def test_the_others(key: str, real: Real) -> None:
    argv = [sys.executable, "-m", "phasetop", *PRINTED[key]]
    done = subprocess.run(argv, env=real.env, cwd=real.folder, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    shown, printed = set(paths(example(key))), set(paths(json.loads(done.stdout)))
    some = ("differences.", "unreadable.", "unreachable.", "notices.")
    optional = {path for path in shown if path.startswith(some)} | {"metrics.why"}
    assert shown - optional == printed - optional


def test_no_object_is_without_a_test() -> None:
    assert len(OBJECTS) == len(PRINTED) + 1


def test_every_exit_status_is_named() -> None:
    statuses = {value for name, value in vars(faults).items() if name.startswith("EXIT_")}
    table = PAGE.partition("**Exit status**")[2].partition("##")[0]
    assert statuses <= {int(number) for row in re.findall(r"^\| ([\d, ]+) \|", table, re.M) for number in row.split(",")}
