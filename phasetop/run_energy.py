"""What a request's phases cost in energy: of the GPUs that its server uses, else of the CPU where that can be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum

from msgspec import Struct

from phasetop.counts import Reasons, TokenCounts
from phasetop.gpuphases import Gpu
from phasetop.hostphases import HOST_PHASES, HostPhase, HostPhaseName
from phasetop.run_devices import Ran


class Energy(Struct, frozen=True):
    """Joules of the devices that worked, by phase, and of decode a generated token."""

    prefill_j: float | None = None
    decode_j: float | None = None
    j_per_output_token: float | None = None

    def group(self) -> dict[str, float | None]:
        """The group `energy` of ``run --json``."""
        digits = {"prefill_j": 3, "decode_j": 3, "j_per_output_token": 4}
        values = {name: getattr(self, name) for name in digits}
        return {name: None if value is None else round(value, digits[name]) for name, value in values.items()}


def run_energy(
    ran: Ran,
    gpus: Sequence[Gpu],
    host: Mapping[HostPhaseName, HostPhase],
    tokens: TokenCounts,
    unknown: Reasons,
    sources: Reasons,
) -> Energy:
    """The energy of a request: the sum over its GPUs, which is unknown where one of them does not tell."""
    found: dict[HostPhaseName, float | None] = {}
    used = {gpu.d for gpu in ran.gpus}
    for phase in HOST_PHASES:
        path = f"energy.{phase}_j"
        if ran.why is not None:
            found[phase], why = None, ran.why
        elif not ran.gpus:
            found[phase] = host[phase].energy_j
            own = f"host.phases.{phase}"
            why = unknown.get(f"{own}.energy_j") or unknown.get(own, "the CPU's energy was not measured")
            source = sources.get(f"{own}.energy_j", "RAPL")
        else:
            each = [gpu.phases[phase].energy_j for gpu in gpus if gpu.d in used and phase in gpu.phases]
            known = [joules for joules in each if joules is not None]
            found[phase] = fsum(known) if known and len(known) == len(used) else None
            own = f"gpus.phases.{phase}"
            why = unknown.get(f"{own}.energy_j") or unknown.get(own, "a GPU does not count its energy")
            source = sources.get(f"{own}.energy_j", "NVML")
        if found[phase] is None:
            unknown[path] = why
        else:
            sources[path] = source
    decode, output = found["decode"], tokens.output
    a_token = decode / output if decode is not None and output else None
    if a_token is None:
        unknown["energy.j_per_output_token"] = unknown.get("energy.decode_j") or unknown.get(
            "tokens.output", "no token came"
        )
    return Energy(found["prefill"], decode, a_token)
