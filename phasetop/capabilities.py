"""What can be reached and measured from here, and what to do about the rest: pure functions of a Session.

A check is what discovery found (`finding` events), or what follows from the machine, its devices and their series as they
were recorded. So a replay can tell what its machine could measure. docs/doctor.md lists the checks by id.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phasetop import events as ev
from phasetop.bandwidth_file import AGAIN, was_disturbed
from phasetop.columns import LIVE
from phasetop.figures import memory
from phasetop.machine import is_host
from phasetop.offers import PLACES
from phasetop.run_devices import bandwidth_of, flops_of
from phasetop.server_checks import (
    AWAY,
    HERE_ALONE,
    LINKED,
    OLLAMA_AWAY,
    PEAKS_AWAY,
    is_away,
    lacks_architecture,
    target_of,
    told_of_server,
)
from phasetop.session import Session

STATES: Final = ("ok", "off", "limited", "missing", "broken")
SECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "servers": ("server", *PLACES),
    "GPUs": ("nvml", "gpu", "far-gpu"),
    "counters": ("stamps", "clock", "rapl", "bandwidth", "heat", "processes"),
    "machine": ("cpu", "memory", "swap", "disk"),
    "software": ("python", "libraries", "pynvml", "ssh"),
    "terminal": ("terminal", "colours", "ground", "sync", "mouse", "locale", "link"),
}
"""The checks by section, in the order in which they are told; ``gpu-0`` and so on belong to ``gpu``."""
_KEYS: Final = {"ollama": "ollama serve"}
"""What a shell does where the start screen has a key."""
_MOST_NAMES: Final = 4


class Check(Struct, frozen=True):
    """One thing that was looked at.

    Attributes:
        id: what; docs/doctor.md has them all.
        state: ok, off (there, not running), limited, missing or broken.
        text: what was found.
        todo: what helps; None: nothing has to be done.

    """

    id: str
    state: str
    text: str | None = None
    todo: str | None = None


class Metric(Struct, frozen=True):
    """One figure: where it is from (None: it is not measured), and why from nothing better."""

    name: str
    source: str | None
    why_not_better: str | None = None
    value: float | None = None


FAR: Final = "far"
"""Before the name of what is measured of a machine that is reached over ssh."""
NO_GPU: Final = Check("gpu", "missing", "none that can be measured: models run on the CPU")


def section_of(check_id: str) -> str:
    """The section of a check; one that nobody knows belongs to the machine."""
    name = "gpu" if check_id.startswith("gpu-") else check_id
    return next((title for title, ids in SECTIONS.items() if name in ids), "machine")


def by_section(checks: tuple[Check, ...]) -> Iterator[tuple[str, list[Check]]]:
    """The checks in the order of `SECTIONS`, section by section; empty ones are left out."""
    for title, ids in SECTIONS.items():
        here = [check for check in checks if section_of(check.id) == title]
        if here:
            order = {name: i for i, name in enumerate(ids)}
            yield title, sorted(here, key=lambda check: order.get(check.id, len(order)))


def checks_of(session: Session, cursor: int = LIVE) -> tuple[Check, ...]:
    """What is known at the cursor, the newest word on each thing."""
    found = {check.id: check for check in _derived(session, cursor)}
    for finding in session.findings.until(cursor):
        found[finding.name] = _said(session, finding, cursor)
    if "nvml" in found and found.get("gpu") == NO_GPU:  # there is one, or its driver: its own word counts
        del found["gpu"]
    steps = sum(notice.code == "clock-step" for notice in session.notices.until(cursor))
    if steps:
        before = found.get("clock")
        text = f"the wall clock was set, or the machine slept, {steps} time{'s' if steps > 1 else ''} in this session"
        found["clock"] = Check("clock", "limited", f"{before.text}; {text}" if before is not None else text)
    return tuple(found.values())


def _said(session: Session, finding: ev.Finding, cursor: int) -> Check:
    todo = finding.todo
    if todo is not None and len(todo.partition(" ")[0]) == 1:  # a key of the start screen
        todo = _KEYS.get(finding.name)
    text = finding.text
    if finding.v is not None and (names := _models(session, finding.v, cursor)):
        text = f"{text}: {names}"
    return Check(finding.name, finding.state, text, todo)


def _models(session: Session, v: int, cursor: int) -> str:
    """The names of a server's models, those that are loaded first."""
    there = [model for versions in session.models.values() if (model := versions.at(cursor)) and model.v == v and model.name]
    there.sort(key=lambda model: not model.loaded)
    names = [model.name or "" for model in there]
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _derived(session: Session, cursor: int) -> Iterator[Check]:
    """What the session tells without anybody having looked for it."""
    hello = session.hello
    if hello is not None:
        yield _stamps(hello)
        yield from _machine(hello.host)
    target = target_of(session, cursor)
    models = _models(session, target[0].v or 0, cursor) if target is not None else ""
    if (told := told_of_server(session, models, cursor)) is not None:
        yield Check("server", told.state, told.text)
    devices = devices_of(session, cursor)
    gpus = [device for device in devices if not is_host(device)]
    for name, device in zip(gpu_names(gpus), gpus, strict=True):
        yield _gpu(session, name, device, cursor)
    if not gpus:
        yield NO_GPU
    host = next((device for device in devices if device.d == 0), None)
    if host is not None:
        ceiling = bandwidth_of(host, None)
        if ceiling.value is not None and was_disturbed(ceiling.source):
            text = f"the memory reads {ceiling.value / 1e9:,.1f} GB/s, perhaps more ({ceiling.source})"
            yield Check("bandwidth", "limited", text, f"{AGAIN}: phasetop doctor --measure-bandwidth")
        elif ceiling.value is not None:
            yield Check("bandwidth", "ok", f"the memory reads {ceiling.value / 1e9:,.1f} GB/s at most ({ceiling.source})")
        else:
            text = "not measured what the memory reads: decode has no ceiling on this CPU"
            yield Check("bandwidth", "missing", text, "phasetop doctor --measure-bandwidth")
    energy = session.series("energy_uj", cursor=cursor)
    info = energy.info.at(cursor) if energy is not None else None
    if info is not None and info.off is None:
        yield Check("rapl", "ok", "the CPU packages' energy is counted")
    elif info is not None:
        closed = "root" in (info.off or "")
        todo = "sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj (until the next start)" if closed else None
        yield Check("rapl", "limited" if closed else "missing", info.off, todo)


def _stamps(hello: ev.Hello) -> Check:
    if hello.stamps == "kernel":
        return Check("stamps", "ok", "tokens are stamped by the kernel, as their bytes arrive")
    text = "tokens are stamped when they are read: this system's sockets have no receive stamps"
    return Check("stamps", "limited", text, "record on Linux where gaps under 1 ms matter")


def _machine(host: ev.Host) -> Iterator[Check]:
    """Processors and memory, and what a container or a cgroup leaves of them."""
    where = f", in {host.container}" if host.container else ""
    cores, quota = host.cores, host.cpu_quota_cores
    many = f"{cores} CPU{'s' if cores != 1 else ''}" if cores else "an unknown number of CPUs"
    name = f"{host.cpu}: " if host.cpu else ""
    if quota is not None and (not cores or quota < cores):
        fit = max(1, int(quota))
        text = f"{name}{many}, of which a quota leaves {quota:g}{where}: more threads than that wait for each other"
        yield Check("cpu", "limited", text, f"give a server here -t {fit}")
    else:
        yield Check("cpu", "ok", f"{name}{many}, no quota{where}")
    total, limit = host.ram_bytes, host.memory_limit_bytes
    if total is not None:
        whole = " ".join(memory(total))
        if limit is not None and limit < total:
            yield Check("memory", "limited", f"{' '.join(memory(limit))} of the machine's {whole}, by the cgroup")
        else:
            yield Check("memory", "ok", whole)


def devices_of(session: Session, cursor: int = LIVE) -> list[ev.Device]:
    """The devices that were described, in the order of their ids; 0 is the host."""
    return [found for _, versions in sorted(session.devices.items()) if (found := versions.at(cursor)) is not None]


def gpu_names(gpus: list[ev.Device]) -> list[str]:
    """The checks' ids of GPUs: by their index where each has one of its own, else by their place."""
    indexes = [gpu.index for gpu in gpus]
    own = None not in indexes and len(set(indexes)) == len(indexes)
    return [f"gpu-{index if own else i}" for i, index in enumerate(indexes)]


def _gpu(session: Session, name: str, device: ev.Device, cursor: int) -> Check:
    """A GPU: its name, memory and driver, whether its bandwidth is counted, and what is not told."""
    parts = [device.name or "a GPU without a name"]
    if device.mem_bytes:
        parts.append(" ".join(memory(device.mem_bytes)))
    if device.driver:
        parts.append(f"driver {device.driver}")
    told = {info.name: info for info in _series_of(session, device.d, cursor)}
    dram = told.get("dram_percent")
    if dram is None:
        how = "not read yet" if not told else "its bandwidth is not counted"
    elif dram.off is None:
        how = "GPM: SM and DRAM are counted"
    else:
        how = f"DRAM bandwidth is not counted ({dram.off})"
    parts.append(how)
    if (device.uuid or "").startswith("MIG-"):
        parts.append("a MIG slice")
    off = [each for each in told.values() if each.off is not None and each.name not in ("dram_percent", *_RARE)]
    denied = [each.name for each in told.values() if "permission" in (each.off or "")]
    if off:
        parts.append(f"not told: {', '.join(each.name for each in off)}")
    held = _held(session, device.d, cursor)
    if held:
        parts.append(f"held back now: {', '.join(held)}")
    limited = dram is None or dram.off is not None or bool(off) or bool(held)
    todo = None
    if denied:
        todo = "the driver refuses some counters to this user: run as the user that may read /dev/nvidia*, or ask the admin"
    elif device.peak_bytes_per_s is not None and bandwidth_of(device, None).value is None:
        todo = bandwidth_of(device, None).source
    return Check(name, "limited" if limited else "ok", ", ".join(parts), todo)


_RARE: Final = ("nvlink_rx_bytes", "nvlink_tx_bytes", "pcie_rx_bytes", "pcie_tx_bytes")
"""Most GPUs have no NVLink, and many drivers no PCIe counters: that limits nothing that is shown."""
_HEAT_BITS: Final = ("8", "32", "64", "128")


def _held(session: Session, d: int, cursor: int) -> list[str]:
    """What holds a GPU's clocks back at its newest reading; a power cap alone is how GPUs work."""
    samples = session.series("throttle", d=d, cursor=cursor)
    info = samples.info.at(cursor) if samples is not None else None
    known = bisect_right(samples.t, cursor) if samples is not None else 0
    if samples is None or info is None or not info.flags or not known:
        return []
    value = samples.value[known - 1]
    bits = 0 if value != value else int(value)
    return [word for bit, word in info.flags.items() if bit in _HEAT_BITS and bits & int(bit)]


def _series_of(session: Session, d: int, cursor: int) -> Iterator[ev.Series]:
    for samples in session.samples.values():
        info = samples.info.at(cursor)
        if info is not None and info.d == d and info.part is None:
            yield info


# ---- what is measured by what

BY_SERVER: Final[dict[str, tuple[Metric, ...]]] = {
    "llamacpp": (
        Metric("prefill_progress", "server: progress in the stream, each batch"),
        Metric("cached_tokens", "server"),
        Metric("kv_tokens", "server: its slots, and the tokens that came"),
        Metric("kv_bytes", "estimate: llama.cpp's rules on the model's metadata", "no server tells how many bytes it took"),
    ),
    "ollama": (
        Metric("prefill_progress", "server: its runner's slots", "Ollama's own API tells none; not from another machine"),
        Metric("cached_tokens", "server: its runner's slots", "Ollama's own API does not report it"),
        Metric("kv_tokens", "server: its runner's slots"),
        Metric("kv_bytes", "estimate: llama.cpp's rules on the model's metadata", "no server tells how many bytes it took"),
    ),
    "openai": (
        Metric("prefill_progress", None, "this API tells none"),
        Metric("cached_tokens", "server: usage, where it has it"),
        Metric("kv_tokens", "server: usage"),
        Metric("kv_bytes", None, "the model's architecture is not told"),
    ),
}
BY_SERVER["embedded"] = BY_SERVER["llamacpp"]
_GPU_BETTER: Final = {
    "sm_percent": "GPM counts busy SMs: Hopper and later, GeForce from Blackwell on",
    "memory_busy_percent": "it is a share of time, an upper bound: dram_percent is the bandwidth, where there is GPM",
}


def metrics_of(session: Session, cursor: int = LIVE) -> tuple[Metric, ...]:
    """Each figure with its source, and why from nothing better."""
    return tuple(_metrics(session, cursor))


def _metrics(session: Session, cursor: int) -> Iterator[Metric]:
    hello, away = session.hello, is_away(session, cursor)
    if hello is not None:
        kernel = hello.stamps == "kernel"
        why = None if kernel else "this system's sockets have no receive stamps: when the bytes were read stands for it"
        why = "; ".join(part for part in (why, LINKED if away else None) if part) or None
        yield Metric("token_stamps", "client: kernel" if kernel else "client: read", why)
    backends = dict.fromkeys(
        server.backend for versions in session.servers.values() if (server := versions.at(cursor)) and server.backend
    )
    alone = hello is not None and hello.kind == "observe" and target_of(session, cursor) is not None  # of one server alone
    for finding in session.findings.until(cursor):
        if finding.name == "embedded" and finding.state == "ok" and not alone:
            backends.setdefault("embedded")
    silent = any(notice.code == "no-progress" for notice in session.notices.until(cursor))
    for backend in backends:
        for metric in BY_SERVER.get(backend or "", ()):
            source, why = metric.source, metric.why_not_better
            if silent and metric.name == "prefill_progress":
                source, why = None, "this build of the server does not tell it"
            if metric.name == "kv_bytes" and alone and lacks_architecture(session, cursor):
                source, why = None, "the model's architecture is not told, and its file not read"
            if away and backend == "ollama":
                source, why = OLLAMA_AWAY.get(metric.name, (source, why))
            yield Metric(f"{backend}.{metric.name}", source, why)
    devices = devices_of(session, cursor)
    gpus = [device for device in devices if not is_host(device)]
    named = {device.d: name for name, device in zip(gpu_names(gpus), gpus, strict=True)}
    for device in devices:
        name = named.get(device.d, "host" if device.d == 0 else FAR)
        for what, found in (("peak_bytes_per_s", bandwidth_of(device, None)), ("peak_flops", flops_of(device, None))):
            known = found.value is not None
            why = HERE_ALONE if known and away else None
            yield Metric(f"{name}.{what}", found.source if known else None, why if known else found.source, found.value)
    for device in devices:
        for info in _series_of(session, device.d, cursor):
            found_metric = _series_metric(info, named.get(device.d, None if device.d == 0 else FAR))
            here_alone = away and found_metric.source is not None
            yield replace(found_metric, why_not_better=HERE_ALONE) if here_alone else found_metric
    if away:
        yield from (Metric(name, None, why) for name, why in {"server_cpu_cores": AWAY, **PEAKS_AWAY}.items())
    elif devices and session.series("server_cpu_cores", cursor=cursor) is None:
        yield Metric("server_cpu_cores", "psutil", "sampled once a request has named the server's process, on this machine")
    if any(device.d == 0 for device in devices):
        yield Metric("host.dram_percent", None, NO_HOST_BANDWIDTH)


NO_HOST_BANDWIDTH: Final = "the CPU's memory counters need rights that a profiler should not ask for, and most VMs have none"


def _series_metric(info: ev.Series, gpu: str | None) -> Metric:
    name = f"{gpu}.{info.name}" if gpu is not None else info.name
    if info.off is not None:
        return Metric(name, None, info.off)
    source = info.source or "client"
    if gpu is None:
        return Metric(name, source)
    counted = source.startswith("GPM")
    return Metric(name, source, None if counted else _GPU_BETTER.get(info.name))


# ---- eight GPUs of one kind in one line


def folded_checks(checks: Sequence[Check]) -> list[Check]:
    """Neighbours among the GPUs that differ in nothing but their number as one: ``gpu-0…7``."""
    found: list[Check] = []
    first = ""
    for check in checks:
        last = found[-1] if found else None
        alike = last is not None and _NUMBERED.fullmatch(check.id) and _NUMBERED.match(last.id)
        if alike and last is not None and (last.state, last.text, last.todo) == (check.state, check.text, check.todo):
            found[-1] = Check(f"{first}…{check.id.removeprefix('gpu-')}", *(last.state, last.text, last.todo))
        else:
            first = check.id
            found.append(check)
    return found


_NUMBERED: Final = re.compile(r"gpu-(\d+)")


def folded_metrics(metrics: Sequence[Metric]) -> list[Metric]:
    """The figures of GPUs that all have them from the same source, for the same reason, as one: ``gpu-*.power_w``."""
    gpus = {match[0] for metric in metrics if (match := _NUMBERED.match(metric.name))}
    same: dict[tuple[str, str | None, str | None], set[str]] = {}
    for metric in metrics:
        gpu, _, rest = metric.name.partition(".")
        same.setdefault((rest, metric.source, metric.why_not_better), set()).add(gpu)
    found: dict[str, Metric] = {}
    for metric in metrics:
        gpu, _, rest = metric.name.partition(".")
        whole = len(gpus) > 1 and same[rest, metric.source, metric.why_not_better] == gpus
        name = f"gpu-*.{rest}" if whole else metric.name
        found.setdefault(name, Metric(name, metric.source, metric.why_not_better, metric.value))
    return list(found.values())
