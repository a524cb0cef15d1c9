"""What a request ran on, and what that can do at most: its GPUs or the CPU, peaks with their sources, split layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from phasetop import events as ev
from phasetop import peaks
from phasetop.counts import Reasons, Seen
from phasetop.machine import NOT_SAMPLED, gpus_of, is_host, machine_of
from phasetop.roofline import Offload

BANDWIDTH: Final = "roofline.peak_bandwidth_bytes_per_s"
FLOPS: Final = "roofline.peak_flops"
GIVEN: Final = "given"
_NO_TEST: Final = (
    "the CPU's bandwidth was not measured: `phasetop doctor --measure-bandwidth` does, or --peak-bandwidth sets it"
)
_NO_FAR_TEST: Final = "the far CPU's bandwidth is not measured over ssh: --peak-bandwidth sets it"
_NO_CARD: Final = "no peak for this device: --peak-bandwidth sets it"
_NO_FLOPS: Final = "the peak FLOP/s of this device are not known: --peak-flops sets them"
_UNSEEN: Final = "layers are said to be on a GPU, and no driver sees a process of the server on one"
_DTYPES: Final = ("fp16", "bf16", "fp32")


class Ceiling(Struct, frozen=True):
    """A peak and its source; value None: not known, and the source says why."""

    value: float | None
    source: str

    @property
    def measured(self) -> bool:
        """It was measured here, so that it is what can be reached at least, not at most."""
        return self.source.startswith("estimate")


class Ran(Struct, frozen=True):
    """What a request ran on.

    Attributes:
        gpus: the GPUs that its server uses; empty: the CPU alone.
        host: the machine's own device; None: the server runs elsewhere, or nobody described it.
        offload: how many layers are on the GPUs, where that is told.
        by_rows: each of several GPUs reads its part of every layer at once; else they take turns.
        why: why it is not known what it ran on; None: it is.

    """

    gpus: tuple[ev.Device, ...]
    host: ev.Device | None
    offload: Offload | None
    by_rows: bool
    why: str | None

    @property
    def on_cpu(self) -> bool:
        """On the CPU alone."""
        return self.why is None and not self.gpus

    @property
    def name(self) -> str | None:
        """The device for people: ``2 × H100``; None: not known."""
        if self.why is not None:
            return None
        if not self.gpus:
            return self.host.name if self.host is not None else None
        names = [gpu.name or "GPU" for gpu in self.gpus]
        return names[0] if len(names) == 1 else f"{len(names)} × {names[0]}" if len(set(names)) == 1 else ", ".join(names)


def ran_on(seen: Seen, sources: Reasons) -> Ran:
    """The devices of a request as of its cursor."""
    session, cursor = seen.session, seen.cursor
    server = session.server_of(seen.run, cursor)
    machine = machine_of(session, server, cursor)
    here, there = (session.devices[d].at(cursor) if d in session.devices else None for d in (0, machine.d))
    host = _with_given(there, here) if machine.far and there is not None else here
    all_gpus = gpus_of(session, machine, server.v if server is not None else None, cursor)
    offload = offload_of(seen)
    options = (server.options or {}) if server is not None else {}
    rows = options.get("split_mode")
    by_rows = rows is not None and rows.value in ("row", "tensor")
    if server is None or server.local is None:
        return Ran((), host, offload, by_rows, "it is not known where the server runs")
    if machine.far and machine.d is None:
        return Ran((), host, offload, by_rows, NOT_SAMPLED)
    if not server.local and not machine.far:
        return Ran((), host, offload, by_rows, "the server runs on another machine")
    no_layer = offload is not None and offload.on_gpu == 0
    if not all_gpus:
        placed = _placed_on_gpu(seen)
        if placed and _apple(host) is None:
            return Ran((), host, offload, by_rows, "layers are on a GPU that nothing here can see")
        return Ran((), host, offload, by_rows, None)
    told = [device for device in all_gpus if device.used_by is not None]
    used = tuple(device for device in told if server.v in (device.used_by or ()))
    if used:
        return Ran(used, host, offload, by_rows, None)
    all_told = len(told) == len(all_gpus)
    if no_layer or (all_told and not _placed_on_gpu(seen)):
        return Ran((), host, offload, by_rows, None)
    if all_told:
        return Ran((), host, offload, by_rows, _UNSEEN)
    if len(all_gpus) == 1:
        sources.setdefault("roofline", f"assumed: the server uses the only GPU, {all_gpus[0].name or 'unnamed'}")
        return Ran((all_gpus[0],), host, offload, by_rows, None)
    return Ran((), host, offload, by_rows, "which of the GPUs the server uses is not known")


def _with_given(far: ev.Device, here: ev.Device | None) -> ev.Device:
    """A far machine with the peaks that a person set, which stand for whatever ran the request."""
    peak = here.peak_bytes_per_s if here is not None else None
    flops = {name: each for name, each in ((here.peak_flops if here is not None else None) or {}).items() if _is_given(each)}
    return replace(
        far,
        peak_bytes_per_s=peak if peak is not None and _is_given(peak) else far.peak_bytes_per_s,
        peak_flops=flops or far.peak_flops,
    )


def _is_given(peak: ev.Sourced) -> bool:
    return peak.source.partition(":")[0] == GIVEN


def offload_of(seen: Seen) -> Offload | None:
    """How many layers are on GPUs; None where the model's layers or their number there is not told."""
    model = seen.session.model_of(seen.run, seen.cursor)
    server = seen.session.server_of(seen.run, seen.cursor)
    blocks = (model.hparams or {}).get(f"{model.arch}.block_count") if model is not None else None
    if not isinstance(blocks, int) or isinstance(blocks, bool) or blocks <= 0 or model is None:
        return None
    if model.placed:
        return Offload(layers_on_gpu(model.placed), blocks)
    option = (server.options or {}).get("gpu_layers") if server is not None else None
    told = option.value if option is not None else None
    if told is None:
        told = seen.run.settings(seen.cursor).get("gpu_layers")
    if isinstance(told, int) and not isinstance(told, bool):
        return Offload(blocks + 1 if told < 0 else told, blocks)
    return Offload(blocks + 1, blocks) if told == "all" else None


def _placed_on_gpu(seen: Seen) -> bool:
    model = seen.session.model_of(seen.run, seen.cursor)
    return model is not None and layers_on_gpu(model.placed or {}) > 0


def layers_on_gpu(placed: Mapping[str, int]) -> int:
    """How many of a model's layers lie on GPUs, by the device that its server says of each (`model`: ``placed``)."""
    return sum(layers for device, layers in placed.items() if device.lower() not in ("cpu", "host", "0"))


def _apple(host: ev.Device | None) -> peaks.Peak | None:
    """Apple's chip, whose CPU and GPU share one memory; None on any other machine."""
    found = peaks.find(host.name) if host is not None and host.name else None
    return found if found is not None and found.kind == "apple" else None


def bandwidth_of(device: ev.Device | None, given: ev.Device | None) -> Ceiling:
    """Peak bandwidth of a device: given, told by its driver or measured, else by the table of chips.

    Args:
        device: a GPU, or the host; None: nobody described it.
        given: the host, whose ``given`` peak stands for whatever ran the request.
    """
    for each in (given, device):
        told = each.peak_bytes_per_s if each is not None else None
        if told is None or not isinstance(told.value, int | float) or told.value <= 0:
            continue
        if each is device or told.source.partition(":")[0] == GIVEN:
            return Ceiling(float(told.value), told.source)
    if device is None:
        return Ceiling(None, _NO_CARD)
    table = peaks.of_device(device.name, None if is_host(device) else device.mem_bytes)
    found = table.peak
    if not is_host(device) or (found is not None and found.kind == "apple"):
        if "bandwidth" in table.why:
            return Ceiling(None, f"{table.why['bandwidth']}: --peak-bandwidth sets it")
        if found is not None:
            return Ceiling(found.bytes_per_s, f"assumed: {found.name} table")
    told = device.peak_bytes_per_s
    if told is not None and told.value is None:  # its driver's own word on why
        return Ceiling(
            None, told.source if "--peak-bandwidth" in told.source else f"{told.source}: --peak-bandwidth sets it"
        )
    return Ceiling(None, _NO_TEST if device.d == 0 else _NO_FAR_TEST if is_host(device) else _NO_CARD)


def flops_of(device: ev.Device | None, given: ev.Device | None) -> Ceiling:
    """Peak FLOP/s of a device, likewise; of 16-bit products where there are any."""
    for each in (given, device):
        told = (each.peak_flops or {}) if each is not None else {}
        best = next((told[dtype] for dtype in _DTYPES if dtype in told), None)
        if best is None or not isinstance(best.value, int | float) or best.value <= 0:
            continue
        if each is device or best.source.partition(":")[0] == GIVEN:
            return Ceiling(float(best.value), best.source)
    table = peaks.of_device(device.name, None if is_host(device) else device.mem_bytes) if device is not None else None
    found = table.peak if table is not None else None
    if table is not None and device is not None and (not is_host(device) or (found is not None and found.kind == "apple")):
        if "flops" in table.why:
            return Ceiling(None, f"{table.why['flops']}: --peak-flops sets them")
        rate = found.flops_of_weights if found is not None else None
        if found is not None and rate is not None:
            return Ceiling(rate[1], f"assumed: {found.name} table, {rate[0]}")
    return Ceiling(None, _NO_FLOPS)
