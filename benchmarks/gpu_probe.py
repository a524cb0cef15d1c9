"""What a machine's NVIDIA driver really tells: each metric's source or why it is off, its values, and what reading costs.

``python benchmarks/gpu_probe.py [SECONDS]`` on a machine with a GPU, best while a model generates. It also gives two
borders, half the time apart, so that GPM's exact mean over a "phase" can be held against the mean of its samples.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

CHILD = [sys.executable, "-P", "-m", "phasetop.backends.nvml_child"]


def main() -> None:
    """Run the child, print a table."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    child = subprocess.Popen(CHILD, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    for pause, order in (
        (seconds / 4, {"op": "border", "r": 0, "phase": "decode"}),
        (seconds / 2, {"op": "border", "r": 0, "phase": ""}),
        (seconds / 4, {"op": "stop"}),
    ):
        time.sleep(pause)
        child.stdin.write(json.dumps(order).encode() + b"\n")
        child.stdin.flush()
    out, _ = child.communicate()
    told: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    for line in told:
        if line["k"] in ("gpu", "word", "users") or "core_percent" in line or "phase" in line:
            print(json.dumps(line))
    for metric in {line["m"]: line for line in told if line["k"] == "metric"}.values():
        key = str(metric["m"])
        rows = [(line, line["v"][key]) for line in told if line["k"] == "smp" and "phase" not in line and key in line["v"]]
        values = [value for _, value in rows if value is not None]
        gaps = sorted({line["e"][key] for line, value in rows if value is None and key in line.get("e", {})})
        shown = f"{len(values)} values, {min(values):g} to {max(values):g}" if values else "no value"
        if values and metric.get("type", "gauge") == "gauge":
            shown += f", mean {sum(values) / len(values):.4g}"
        print(f"{metric['g']} {metric['name']:<20} {metric.get('off') or metric.get('source')}: {shown} {gaps or ''}")
    print(f"{len(out) / seconds:.0f} bytes a second")


if __name__ == "__main__":
    main()
