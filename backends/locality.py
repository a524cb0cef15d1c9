"""Which servers run on this machine, and as which process."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

import psutil

_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


def is_local(base: str) -> bool:
    """Whether an address is this machine's: its loopback, or one of its own in the network."""
    host = (urlsplit(base).hostname or "").lower()
    if host in _LOCAL or host.startswith("127."):
        return True
    try:
        own = psutil.net_if_addrs()
    except (psutil.Error, OSError):
        return False
    return any(address.address.lower().partition("%")[0] == host for addresses in own.values() for address in addresses)


def listening_pid(base: str) -> int | None:
    """The process that listens on a local address's port; None for another machine's, or where nobody may look."""
    if not is_local(base):
        return None
    parts = urlsplit(base)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port:
                return int(connection.pid) if connection.pid else None
    except (psutil.Error, OSError):
        return None
    return None
