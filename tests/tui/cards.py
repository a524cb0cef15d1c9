"""Sessions made up for tests, of an 8B model whose weights and cache are known, on GPUs or on a CPU with a measured peak."""

from __future__ import annotations

from random import Random
from typing import Literal

from phasetop import events as ev
from tests.tui.fabricate import GIB, MS, S, Script, Turn, ask

Counters = Literal["GPM", "NVML"]
SLOW = (("temperature_c", "C"), ("power_w", "W"), ("memory_used_bytes", "B"))
"""What is sampled of a card once a second."""
PEAK = 1008e9
"""Bytes a second of the one GPU in these sessions."""


def with_weights(*, gpus: int = 1, counters: Counters = "NVML", peak: float | None = PEAK) -> Script:
    """Hello, the devices, their counters, an Ollama and its model. ``gpus`` 0: it runs on the CPU, whose ``peak`` it is."""
    script = Script()
    host = ev.Host(name="box", os="Linux", cpu="EPYC", cores=8, ram_bytes=64 * GIB)
    anchor = ev.Anchor(mono=1, wall=1_796_000_000_000_000_000)
    session = "0192f3c4-7a1e-7c33-9d55-2f6b1c0e8a77"
    script.add(ev.Hello(t=0, format=1, session=session, anchor=anchor, by="phasetop 0.1.0", host=host))
    options = {"context": ev.Sourced(8192, "argv")}
    url = "http://127.0.0.1:11434"
    script.add(
        ev.Server(t=20 * MS, v=0, backend="ollama", url=url, version="0.32.5", local=True, options=options),
        ev.Model(
            t=20 * MS,
            m=0,
            v=0,
            name="llama3.1:8b",
            arch="llama",
            quant="Q4_K_M",
            params=8_030_261_312,
            hparams={
                "llama.block_count": 32,
                "llama.attention.head_count": 32,
                "llama.attention.head_count_kv": 8,
                "llama.attention.key_length": 128,
                "llama.attention.value_length": 128,
                "llama.embedding_length": 4096,
                "llama.context_length": 131_072,
            },
            weights={"layers": 4_186_435_840, "head": 430_960_640},
        ),
        ev.Device(
            t=20 * MS,
            d=0,
            name="AMD EPYC 9354",
            peak_bytes_per_s=ev.Sourced(peak, "estimate: read test") if peak and not gpus else None,
        ),
    )
    series = [("cpu_cores_used", "cores", "psutil", None), ("server_rss_bytes", "B", "psutil", 0)]
    for s, (name, unit, source, v) in enumerate(series):
        script.add(ev.Series(t=20 * MS, s=s, name=name, unit=unit, source=source, v=v))
    second = "dram_percent" if counters == "GPM" else "memory_busy_percent"
    name = "NVIDIA H100 80GB HBM3" if counters == "GPM" else "NVIDIA GeForce RTX 4090"
    for d in range(1, gpus + 1):
        top = ev.Sourced(peak, "NVML: bus width × clock") if peak else None
        script.add(ev.Device(t=20 * MS, d=d, vendor="nvidia", name=name, index=d - 1, used_by=[0], peak_bytes_per_s=top))
        for s, metric in enumerate(("sm_percent", second), 10 * d):
            script.add(ev.Series(t=20 * MS, s=s, d=d, name=metric, unit="%", source=counters))
    script.add(ev.State(t=25 * MS, v=0, s="ready"))
    return script


def counted(script: Script, *, sm: float, memory: float, cores: float = 0.4, gpus: int = 1, seed: int = 3) -> Script:
    """Samples over the whole session: the same for each GPU, with a little noise."""
    rnd = Random(seed)
    t0 = 25 * MS
    while t0 < script.t:
        t = t0 + 100 * MS
        values: dict[str, float | None] = {"0": round(cores, 3), "1": 900 * 1024.0 * 1024}
        for d in range(1, gpus + 1):
            values |= {str(10 * d): round(sm + rnd.gauss(0, 0.5), 1), str(10 * d + 1): round(memory + rnd.gauss(0, 0.5), 1)}
        script.events.append(ev.Smp(t=t, t0=t0, v=values))
        t0 = t
    return script


def on_a_card(turn: Turn, *, counters: Counters = "NVML") -> list[ev.Event]:
    """One request on one GPU."""
    script = ask(with_weights(counters=counters), 0, turn)
    return counted(script, sm=96, memory=61).sorted()


def on_a_cpu(turn: Turn, *, peak: float | None = 20e9) -> list[ev.Event]:
    """One request on a CPU whose bandwidth was measured, or (``peak`` None) not."""
    return counted(ask(with_weights(gpus=0, peak=peak), 0, turn), sm=0, memory=0, cores=7.8, gpus=0).sorted()


def many_cards(gpus: int = 2, *, counters: Counters = "GPM", name: str | None = None, mem_gib: int = 80) -> Script:
    """Three turns on several GPUs that take turns: the first the hottest, the second at its power cap."""
    script = with_weights(gpus=gpus, counters=counters)
    for event in script.events:
        if isinstance(event, ev.Device) and event.d:
            event.mem_bytes = mem_gib * GIB
            event.name = name or event.name
    flags = {"4": "power cap", "32": "thermal (driver)"}
    for d in range(1, gpus + 1):
        for s, (metric, unit) in enumerate(SLOW, 1000 + 10 * d):
            script.add(ev.Series(t=20 * MS, s=s, d=d, name=metric, unit=unit, source="NVML"))
        script.add(ev.Series(t=20 * MS, s=1003 + 10 * d, d=d, name="throttle", type="flags", source="NVML", flags=flags))
    ask(script, 0, Turn(tokens=344, gap_ms=28, prompt=412, prefill_ms=300))
    ask(script, 1, Turn(tokens=452, gap_ms=28, prompt=1498, cached=1099, prefill_ms=290, seed=2))
    ask(script, 2, Turn(tokens=256, gap_ms=29, prompt=5578, cached=3918, prefill_ms=710, seed=3))
    counted(script, sm=47, memory=22.4, gpus=gpus)
    for t in range(S, script.t + S, S):
        values: dict[str, float | None] = {}
        for d in range(1, gpus + 1):
            told = (62 - d, 348 - 7 * d, (24.7 - d / 10) * GIB, 4 if d == 2 else 0)
            values |= {str(1000 + 10 * d + i): value for i, value in enumerate(told)}
        script.events.append(ev.Smp(t=t, t0=t - S, v=values))
    return script
