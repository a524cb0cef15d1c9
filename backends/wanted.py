"""Whom a session is to talk to, as its `start` command says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from phasetop.ssh import Address, parse_address


@dataclass(frozen=True)
class Wanted:
    """The target of a `start` command: what is None is to be found."""

    backend: str | None
    url: str | None
    model: str | None
    engine: Mapping[str, Any] | None
    api_key: str | None
    cacert: str | None
    insecure: bool
    proxy: str | None = None
    pull: bool = False  # fetch a model that the server lacks
    ssh: Address | None = None  # the machine that the server is on


def wanted_from(command: Mapping[str, Any]) -> Wanted | None:
    """The target of a `start` command; None where nothing but discovery is wanted."""
    target = command.get("target")
    engine = command.get("engine")
    if target is None and engine is None:
        return None
    target = target or {}
    tls = command.get("tls") or {}
    return Wanted(
        backend=target.get("backend"),
        url=target.get("url"),
        model=target.get("model"),
        engine=engine,
        api_key=command.get("api_key"),
        cacert=tls.get("cacert"),
        insecure=bool(tls.get("insecure")),
        proxy=command.get("proxy"),
        pull=bool(command.get("pull")),
        ssh=parse_address(str(target["ssh"])) if target.get("ssh") else None,
    )
