"""The machine that a request's server runs on, as far as it is sampled: this one, or one that is reached over ssh.

Of a server elsewhere that is reached plainly nothing is known of its machine, and the figures of the host are this one's.
Over ssh they are the far machine's, or unknown; never this one's.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from typing import Final

from msgspec import Struct

from phasetop import events as ev
from phasetop.columns import LIVE
from phasetop.session import Run, Session

HOST: Final = "host"
"""The vendor of a device that is a machine itself: its CPU and its memory."""
SAMPLE_NS: Final = 1_000_000_000
"""How long a far machine's samples are."""
TOO_SHORT: Final = "the phase is shorter than two samples of the far machine, which come once a second"
NOT_SAMPLED: Final = "nothing samples the far machine: no shell answers there"


class Machine(Struct, frozen=True):
    """A machine.

    Attributes:
        d: its device; None: nothing is known of it.
        host: what it is.
        far: it is another one than the collector's, and is reached over ssh.

    """

    d: int | None
    host: ev.Host
    far: bool = False

    def samples_well(self, length_ns: int) -> bool:
        """Whether a phase of this length can be told from what lies around it."""
        return not self.far or length_ns >= 2 * SAMPLE_NS


def machine_of(session: Session, server: ev.Server | None, cursor: int = LIVE) -> Machine:
    """The machine whose samples stand for ``server``'s, as far as it is known at the cursor."""
    if server is None or server.over is None:
        return Machine(0, session.hello.host if session.hello is not None else ev.Host())
    found = next((device.d for device in _devices(session, cursor) if device.vendor == HOST and device.v == server.v), None)
    return Machine(found, server.host or ev.Host(), far=True)


def gpus_of(session: Session, machine: Machine, v: int | None, cursor: int = LIVE) -> list[ev.Device]:
    """The GPUs of a machine, in the order of their ids."""
    wanted = v if machine.far else None
    return [device for device in _devices(session, cursor) if not is_host(device) and device.v == wanted]


def is_host(device: ev.Device) -> bool:
    """Whether a device is a machine itself."""
    return device.d == 0 or device.vendor == HOST


def is_gpu(device: ev.Device | None) -> bool:
    """Whether it is known, and no machine."""
    return device is not None and not is_host(device)


def _devices(session: Session, cursor: int) -> Iterator[ev.Device]:
    for _, versions in sorted(session.devices.items()):
        if (device := versions.at(cursor)) is not None:
            yield device


def link_ms(session: Session, server: ev.Server | None, cursor: int = LIVE) -> float | None:
    """The least round trip to a server's machine that was measured until the cursor, ms; None where none was."""
    d = machine_of(session, server, cursor).d if server is not None and server.over is not None else None
    samples = session.series("link_rtt_ms", d=d, cursor=cursor) if d is not None else None
    if samples is None:
        return None
    known = [value for t, value in zip(samples.t, samples.value, strict=True) if t <= cursor and not isnan(value)]
    return min(known, default=None)


def link_words(session: Session, run: Run, cursor: int = LIVE) -> str | None:
    """``over ssh, round trip 23.4 ms``, where a request's times include such a link."""
    server = session.server_of(run, cursor)
    if server is None or server.over is None:
        return None
    took = link_ms(session, server, cursor)
    return f"over {server.over}" + ("" if took is None else f", round trip {took:.3g} ms")
