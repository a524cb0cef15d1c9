"""Where Ollama listens, as its own clients read OLLAMA_HOST, made an address that can be connected to.

The rules are those of `envconfig.Host` and `envconfig.ConnectableHost` in Ollama's source (0.32.5): quotes and spaces go,
the port is 11434 unless a scheme was given (then that scheme's), an impossible port becomes the default one, a path stays.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

_PORT: Final = re.compile(r"[+-]?\d{1,9}")


def ollama_url(value: str | None) -> str:
    """The URL for a value of OLLAMA_HOST; userinfo stays where it was given (it is a key: never show it).

    ``""`` → http://127.0.0.1:11434; ``0.0.0.0`` → http://127.0.0.1:11434; ``https://host/ollama`` → https://host:443/ollama.
    A scheme that is no HTTP stays as it is: whoever connects says that it cannot be used.
    """
    text = (value or "").strip().strip("\"'").strip()
    scheme, found, rest = text.partition("://")
    default_port = "11434"
    if not found:
        scheme, rest = "http", text
        if text == "ollama.com":
            scheme, rest = "https", "ollama.com:443"
    elif scheme.lower() in ("http", "https"):
        scheme = scheme.lower()
        default_port = {"http": "80", "https": "443"}[scheme]
    authority, slash, path = rest.partition("/")
    userinfo, at, hostport = authority.rpartition("@")
    split = _split(hostport)
    if split is None:
        host, port = _bare_host(hostport) or "127.0.0.1", default_port
    else:
        host, port = split
    if _PORT.fullmatch(port) is None or not 0 <= int(port) <= 65535:
        port = default_port
    host = _connectable(host)
    netloc = f"[{host}]" if ":" in host else host
    return f"{scheme}://{userinfo}{at}{netloc}:{int(port)}{slash}{path.split('?')[0].split('#')[0]}".rstrip("/")


def _split(hostport: str) -> tuple[str, str] | None:
    """Host and port of ``host:port`` or ``[v6]:port``; None where there is no port (or too many colons)."""
    if hostport.startswith("["):
        found = re.fullmatch(r"\[([^\[\]]*)\]:([^:\[\]]*)", hostport)
        return (found[1], found[2]) if found else None
    if hostport.count(":") != 1:
        return None
    host, _, port = hostport.partition(":")
    return host, port


def _bare_host(hostport: str) -> str:
    """A host without a port: an address in its usual form, else as it stands."""
    bare = hostport.strip("[]")
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        return hostport


def _connectable(host: str) -> str:
    """An address that only a server can listen on, made the loopback one of its family."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host or "127.0.0.1"
    if address.is_unspecified:
        return "127.0.0.1" if address.version == 4 else "::1"
    return host
