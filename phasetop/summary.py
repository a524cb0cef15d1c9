"""The summary of a request for stderr: at most 12 lines, of which those without a value are left out (OUTPUTS.md)."""

from __future__ import annotations

from math import fsum
from typing import Final

from phasetop.figures import UNKNOWN, count, memory, milliseconds, seconds
from phasetop.gpuphases import dram_bytes_per_s
from phasetop.metrics import Measures, measure
from phasetop.session import Run, Session
from phasetop.visible import harmless

_LABEL: Final = 9
_WORTH_NS: Final = 100_000_000
"""A queue shorter than this is not worth a line."""


def lines(
    session: Session, run: Run, kept_as: str | None, not_kept: str | None = None, *, watched: bool = False
) -> list[str]:
    """The lines, without newlines.

    Args:
        session: where it belongs to.
        run: the request.
        kept_as: name or path of the recording, None where it was not kept.
        not_kept: why it could not be kept although it was asked for.
        watched: it is somebody else's run, so nothing is said of keeping it.
    """
    figures = measure(session, run)
    gpu = _gpu(figures)
    rows = {
        "prompt": _first(figures),
        "cached": _cached(figures),
        "before": _before(figures),
        "ttft": _latency(figures),
        "kv": _kv(figures),
        "gpu": gpu,
        "cpu": "" if gpu else _cpu(figures),
        "verdict": _verdict(figures),
        "finish": _finish(figures, kept_as, not_kept, watched),
    }
    return [harmless(f"{label:<{_LABEL}}{text}", newlines=False) for label, text in rows.items() if text]


def _first(figures: Measures) -> str:
    """Prompt, prefill and decode; with its own fixed widths, as it is compared from run to run."""
    tokens, rates = figures.tokens, figures.rates
    prefill_ns = figures.phases.ns("prefill")
    took = UNKNOWN if prefill_ns is None else f"{prefill_ns / 1e6:.1f}"
    read = UNKNOWN if rates.prefill_per_s is None else f"{rates.prefill_per_s:.0f}"
    wrote = UNKNOWN if rates.decode_per_s is None else f"{rates.decode_per_s:.1f}"
    prompt, output = (UNKNOWN if n is None else str(n) for n in (tokens.prompt, tokens.output))
    return f"{prompt} tok · prefill {took:>7} ms ({read:>8} tok/s) · decode {output} tok at {wrote:>6} tok/s"


def _cached(figures: Measures) -> str:
    tokens = figures.tokens
    return f"{count(tokens.cached)} of {count(tokens.prompt)} tokens" if tokens.cached else ""


def _before(figures: Measures) -> str:
    """What the first token waited for besides the prefill, where that is worth a line."""
    phases = figures.phases
    queue_ns, load_ns = phases.ns("queue"), phases.ns("load")
    parts = []
    if queue_ns is not None and queue_ns >= _WORTH_NS:
        parts.append(f"queue {_moment(queue_ns)}")
    if load_ns:
        parts.append(f"load {_moment(load_ns)}{' (cold)' if phases.load == 'cold' else ''}")
    return " · ".join(parts)


def _latency(figures: Measures) -> str:
    times = figures.latency
    if times.ttft_ns is None:
        return ""
    parts = [_moment(times.ttft_ns)]
    if times.first_answer_ns is not None:
        parts.append(f"first answer {_moment(times.first_answer_ns)}")
    gaps = times.gaps
    if gaps.p50 is not None:
        what = "gaps" if gaps.per == "token" else "gaps a chunk"
        fine = gaps.p50 < 5e6
        shown = "  ".join(f"{name} {milliseconds(getattr(gaps, name), fine=fine)}" for name in ("p50", "p95", "p99"))
        parts.append(f"{what} {shown} ms")
    if times.stalls:
        parts.append(f"{count(times.stalls)} stall{'s' if times.stalls > 1 else ''}")
    link = figures.sources.get("latency.ttft_s", "").removeprefix("client: ")
    if link.startswith("over "):
        parts.append(link)
    return " · ".join(parts)


def _moment(ns: int) -> str:
    """Whole ms below ten seconds, then seconds."""
    return f"{ns / 1e6:.0f} ms" if ns < 10e9 else " ".join(seconds(ns))


def _kv(figures: Measures) -> str:
    kv = figures.kv
    if kv.tokens is None:
        return ""
    cells = f"{count(kv.tokens)} of {count(kv.context)} tokens" if kv.context is not None else f"{count(kv.tokens)} tokens"
    if kv.used_bytes is None:
        return cells
    of = f" of {' '.join(memory(kv.allocated_bytes))}" if kv.allocated_bytes is not None else ""
    return f"{cells} · {' '.join(memory(kv.used_bytes))}{of}"


def _gpu(figures: Measures) -> str:
    """The GPUs that did the work, in the longer of the two phases: how busy, what they read from memory, their power."""
    used = {device.d for device in figures.roofline.ran.gpus}
    gpus = [gpu for gpu in figures.gpus if gpu.d in used]
    name = max(figures.host, key=lambda phase: figures.phases.ns(phase) or 0)
    found = [gpu.phases[name] for gpu in gpus]
    parts = []
    busy = [phase.sm_percent for phase in found if phase.sm_percent is not None]
    if busy and len(busy) == len(found):
        parts.append(f"{' + '.join(f'{percent:.0f}' for percent in busy)} % busy")
    read = dram_bytes_per_s((gpu.peak_bandwidth_bytes_per_s, gpu.phases[name].dram_percent) for gpu in gpus)
    estimate = figures.roofline.read_bytes_per_s if name == "decode" else None
    if read is not None:
        parts.append(f"{read / 1e9:,.0f} GB/s")
    elif found and estimate is not None:
        parts.append(f"{estimate / 1e9:,.0f} GB/s est.")
    power = [phase.power_w for phase in found if phase.power_w is not None]
    if power and len(power) == len(found):
        parts.append(f"{fsum(power):.0f} W")
    return " · ".join(parts)


def _cpu(figures: Measures) -> str:
    """The server's part of the CPU where it is known, else the machine's, in the longer of the two phases."""
    parts = []
    name = max(figures.host, key=lambda phase: figures.phases.ns(phase) or 0)
    host = figures.host[name]
    percent = host.server_cpu_percent if host.server_cpu_percent is not None else host.cpu_percent
    if percent is not None:
        parts.append(f"{percent / 100:.2f} cores")
    if host.server_rss_bytes is not None:
        parts.append(f"RSS {' '.join(memory(host.server_rss_bytes))}")
    return " · ".join(parts)


def _verdict(figures: Measures) -> str:
    """The sentence as it goes on after its label."""
    text = figures.verdict.text if figures.verdict is not None else ""
    return f"{text[:1].lower()}{text[1:]}".removesuffix(".")


def _finish(figures: Measures, kept_as: str | None, not_kept: str | None, watched: bool) -> str:
    finish = figures.finish
    parts = [finish.reason or "not finished"]
    if finish.detail is not None and finish.reason != "stop":
        parts[0] += f" ({finish.detail})"
    if finish.text:
        parts[0] += f": {finish.text if finish.status is None else f'{finish.status}, {finish.text}'}"
    if kept_as is not None:
        parts.append(f"kept as {kept_as}")
    elif not watched:
        parts.append(f"not kept: {not_kept}" if not_kept else "not kept; `--record` keeps it")
    return " · ".join(parts)
