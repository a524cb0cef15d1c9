"""A session's server on another machine: the connection there, what is dialled through it, and what is known of its end."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import urlsplit

from phasetop import events as ev
from phasetop.backends.endpoint import Endpoint
from phasetop.backends.far_sampler import FarSampler
from phasetop.backends.identified import Refused
from phasetop.backends.recorder import Recorder
from phasetop.backends.tunnel import Tunnel, TunnelError
from phasetop.checks import printable_url
from phasetop.ssh import Address, Failure
from phasetop.ssh_model import shown_at

USUAL: Final = (("ollama", "http://127.0.0.1:11434"), ("llamacpp", "http://127.0.0.1:8080"))
"""(kind, URL) where servers listen, as their own machine sees it."""
_PROCESS: Final = {"ollama": "ollama", "llamacpp": "llama-server"}
_NOT_ALLOWED: Final = "administratively prohibited"
_LOST_S: Final = 1.0
_MEASURED_S: Final = 1.0


class OverSsh:
    """The connection to the machine of server ``v``; it may be made anew."""

    def __init__(self, recorder: Recorder, v: int, address: Address) -> None:
        self.address = address
        self.shown = str(Address(address.host, None, address.port))
        self._recorder = recorder
        self._v = v
        self._sampler = FarSampler(recorder, v, self.shown)
        self._tunnel: Tunnel | None = None
        self._closed = False
        self._announced = False

    @property
    def gone(self) -> bool:
        """Whether it stood and ended."""
        return self._tunnel is not None and self._tunnel.gone.is_set()

    def usual(self, backend: str | None) -> list[tuple[str, str]]:
        """(kind, URL) of where a server of this kind (None: of any) may listen."""
        return [(kind, url) for kind, url in USUAL if backend in (None, kind)]

    def connect(self, urls: Sequence[str], given_up: Callable[[], bool]) -> None:
        """Have it stand. Raises `Refused`."""
        if self._tunnel is not None and not self._tunnel.gone.is_set():
            return
        if self._tunnel is not None:
            self._tunnel.close()
        self._sampler.reset()
        url = shown_at(Address(self.address.host, None, self.address.port), "")
        self._recorder.emit(ev.Server(t=self._recorder.now(), v=self._v, url=url, local=False, over="ssh"))
        try:
            tunnel = self._tunnel = Tunnel.open(self.address, urls, self._sampler.heard, given_up)
        except TunnelError as error:
            raise Refused(ev.Fault(code="ssh-failed", text=str(error))) from None
        if self._closed:
            tunnel.close()
            return
        tunnel.when_gone(self._gone)
        self._sampler.connected(tunnel.order)

    def announce(self) -> None:
        """Say, once, that times include the link, and what its round trip is; waits for the measurement for a second."""
        if self._announced or self._tunnel is None:
            return
        self._announced = True
        if self._tunnel.has_shell:
            took_ms = self._sampler.link_ms(_MEASURED_S)
            what = f", whose round trip is {took_ms:.3g} ms" if took_ms is not None else ""
        else:
            took_ms, what = None, "; no shell answers there, so nothing is sampled"
        self._recorder.notice("over-ssh", f"over ssh to {self.shown}: TTFT and gaps include the link{what}", rtt_ms=took_ms)

    def dial(self, endpoint: Endpoint, url: str) -> Endpoint:
        """An endpoint of a URL as the far machine sees it, led through the connection. ``url`` is one of `connect`'s."""
        assert self._tunnel is not None
        far = shown_at(Address(self.address.host, None, self.address.port), printable_url(endpoint.base))
        return dataclasses.replace(endpoint, uds=self._tunnel.mouth(url), far=far)

    def watch(self, endpoint: Endpoint, kind: str) -> None:
        """Sample the process of the server that was found there."""
        parts = urlsplit(endpoint.base)
        if parts.hostname in ("127.0.0.1", "::1", "localhost"):
            self._sampler.watch(parts.port or (443 if parts.scheme == "https" else 80), _PROCESS.get(kind, "-"))

    def lost(self) -> tuple[str, str] | None:
        """(detail, text) where a broken connection is this one's end."""
        tunnel = self._tunnel
        if self._closed or tunnel is None or not tunnel.wait_gone(_LOST_S):
            return None
        return "server-lost", f"{tunnel.why().text}; asking again connects again"

    def explained(self, fault: ev.Fault, endpoint: Endpoint) -> ev.Fault:
        """A failed connection through it: ssh knows why nothing came."""
        if fault.status is not None or fault.code not in ("connection-closed", "connection-reset"):
            return fault
        if (lost := self.lost()) is not None:
            return ev.Fault(code="ssh-failed", text=lost[1])
        why = self._tunnel.refused() if self._tunnel is not None else None
        if why is None:
            return fault
        if _NOT_ALLOWED in why:
            text = f"sshd on {self.shown} allows no forwarding to {endpoint.base} (AllowTcpForwarding, PermitOpen)"
            return ev.Fault(code="not-allowed", text=text)
        text = f"nothing listens at {endpoint.base} on {self.shown} ({why}): is the server running, and is the port right?"
        return ev.Fault(code="connection-refused", text=text)

    def close(self) -> None:
        """End it."""
        self._closed = True
        if self._tunnel is not None:
            self._tunnel.close()

    def _gone(self, failure: Failure) -> None:
        recorder = self._recorder
        if not self._closed:
            recorder.emit(ev.State(t=recorder.now(), v=self._v, s="gone", why=failure.text))
            recorder.notice("server-lost", failure.text, level="warn")
