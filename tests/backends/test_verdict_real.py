"""The roofline and the verdict of real runs of the embedded engine on this CPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from phasetop import bandwidth_file
from phasetop.backends.recorder import this_host
from phasetop.bandwidth_file import ReadTest
from phasetop.lifeline import Start, Target
from phasetop.metrics import Measures, measure
from phasetop.report import request_object

if TYPE_CHECKING:
    from tests.conftest import Collected


@pytest.fixture
def ran(collect: Callable[..., Collected], small_model: Path) -> Callable[..., tuple[Measures, dict[str, Any]]]:
    """Run a prompt on the small model with settings of the engine; its figures and its JSON."""
    pytest.importorskip("xllamacpp", reason="the embedded engine is not installed; make setup gets it")

    def run(settings: dict[str, Any], **start: Any) -> tuple[Measures, dict[str, Any]]:
        engine = {"file": str(small_model), "settings": {"context": 512, "batch": 512, **settings}}
        one = collect(Start(target=Target("embedded"), engine=engine, **start))
        r = one.ask("Name three rivers.", settings={"max_tokens": 64, "temperature": 0})
        request = one.ended(r)
        return measure(one.session, request), request_object(one.session, request, kept_as=None)

    return run


def test_the_model_is_held_against_the_measured_ceiling(ran: Callable[..., tuple[Measures, dict[str, Any]]]) -> None:
    host = this_host()
    test = ReadTest(host.cpu or "", host.cores or 1, host.cores or 1, 48, 20e9, 15e9, 10e9, "2026-11-30")
    bandwidth_file.keep(test)
    found, said = ran({"threads": 1})
    # 96.6 MB of weights (the tied embedding of 30.1 MB is read as the head), 23,040 B of cache a token
    weights, depth = 96_600_000, (said["tokens"]["prompt"] + said["tokens"]["output"] // 2)
    assert said["roofline"]["decode_bytes_per_token"] == pytest.approx(weights + depth * 23_040, rel=0.02)
    rate = said["rates"]["decode_tok_per_s"]
    assert said["roofline"]["mbu_percent"] == pytest.approx(
        100 * rate * said["roofline"]["decode_bytes_per_token"] / 20e9, rel=0.001
    )
    assert said["sources"]["roofline.peak_bandwidth_bytes_per_s"] == test.source
    assert found.roofline.at_least
    assert found.verdict is not None
    assert found.verdict.code != "limit-unknown"
    if found.verdict.text.startswith("Decode reads"):
        assert "of the measured ceiling" in found.verdict.text


def test_a_given_peak_is_taken(ran: Callable[..., tuple[Measures, dict[str, Any]]]) -> None:
    _, said = ran({"threads": 1}, peak_bytes_per_s=1e6, peak_flops=1e15)
    assert said["roofline"]["peak_bandwidth_bytes_per_s"] == 1e6
    assert said["roofline"]["mbu_percent"] > 100
    assert said["sources"]["roofline.mbu_percent"].startswith("estimate: above the peak")
    assert said["roofline"]["mfu_percent"] is not None
    assert said["verdict"]["code"] in ("decode-over-ceiling", "prefill-under-compute")


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="affinity: this system has none")
def test_more_threads_than_cpus_are_told(ran: Callable[..., tuple[Measures, dict[str, Any]]]) -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})  # of this thread, and of what it starts
    try:
        found, _ = ran({"threads": 8})
    finally:
        os.sched_setaffinity(0, allowed)
    assert found.verdict is not None
    assert found.verdict.code == "threads-over-quota"
    assert found.verdict.text.startswith("8 threads for 1 CPU ")
